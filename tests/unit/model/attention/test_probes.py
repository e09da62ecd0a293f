"""Heads on repeated random tokens: the sequences, the means over them, and heads built by hand."""

import types

import numpy as np
import pytest
import torch

from model.attention.probes import SHORTEST, probe_heads, repeated_ids
from model.gpt.layers import fused_attention
from model.tracing import trace
from model.tracing.head_metrics import HEAD_METRICS
from tests.support.models.helpers import N_CTX, H, L, V, tiny_config, tiny_model, tokens_of

# --- the sequences ---


def test_the_second_half_repeats_the_first_and_the_baseline_shuffles_it():
    twice, shuffled = repeated_ids(50, 24, 6)
    assert twice.shape == shuffled.shape == (6, 24)
    assert twice.dtype == shuffled.dtype == torch.int64
    assert torch.equal(twice[:, :12], twice[:, 12:])
    assert torch.equal(shuffled[:, :12], twice[:, :12])
    assert torch.equal(shuffled[:, 12:].sort(1).values, twice[:, 12:].sort(1).values)
    assert (shuffled[:, 12:] != twice[:, 12:]).float().mean() > 0.8
    assert len({tuple(row.tolist()) for row in twice}) == 6


@pytest.mark.parametrize("pool", [12, 13, 400])
def test_ids_differ_within_a_half_as_long_as_the_pool_allows(pool):
    twice, _ = repeated_ids(pool, 24, 20)
    assert all(len(set(row.tolist())) == 12 for row in twice)
    assert twice.min() >= 0 and twice.max() < pool


def test_a_small_pool_is_used_more_than_once():
    twice, shuffled = repeated_ids(5, 24, 20)
    assert set(twice.flatten().tolist()) == set(range(5))
    assert torch.equal(twice[:, :12], twice[:, 12:])
    assert torch.equal(shuffled.sort(1).values, twice.sort(1).values)


def test_each_row_is_shuffled_on_its_own():
    twice, shuffled = repeated_ids(100, 40, 8)
    moved = [[twice[row, :20].tolist().index(i) for i in shuffled[row, 20:].tolist()] for row in range(8)]
    assert len({tuple(order) for order in moved}) == 8


def test_an_odd_length_loses_a_token():
    assert repeated_ids(50, 25, 2)[0].shape == (2, 24)


def test_the_same_seed_gives_the_same_ids():
    first, again, other = repeated_ids(50, 24, 4, 7), repeated_ids(50, 24, 4, 7), repeated_ids(50, 24, 4, 8)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0]) and not torch.equal(first[1], other[1])


# --- the means ---


def test_scores_are_the_means_of_traces_and_the_baseline_is_the_shuffled_patterns_at_the_same_places():
    model, half = tiny_model(), 12
    found = probe_heads(model, pool=V - 3, length=2 * half, sequences=3, seed=4)
    twice, shuffled = repeated_ids(V - 3, 2 * half, 3, 4)
    runs = [trace.run(model, tokens_of(ids)) for ids in twice]
    wanted = sum(run.head_metrics() for run in runs) / 3
    assert list(found.columns) == [*HEAD_METRICS, "induction_baseline"]
    assert found.index.equals(wanted.index) and found.index.names == ["layer", "head"]
    np.testing.assert_allclose(found[list(HEAD_METRICS)], wanted, atol=2e-6)

    def stripe(run, layer, head):
        """Mean weight on the token after the place half a sequence back, in the second half."""
        pattern = run.pattern(layer, head)
        return np.mean([pattern[i, i - half + 1] for i in range(half, 2 * half)])

    others = [trace.run(model, tokens_of(ids)) for ids in shuffled]
    for layer in range(L):
        for head in range(H):
            at = found.loc[layer, head]
            assert at["induction"] == pytest.approx(np.mean([stripe(run, layer, head) for run in runs]), abs=2e-6)
            assert at["induction_baseline"] == pytest.approx(
                np.mean([stripe(run, layer, head) for run in others]), abs=2e-6
            )


def test_sixteen_sequences_of_seed_0_unless_said_otherwise():
    model = tiny_model()
    plain = probe_heads(model, pool=V, length=16)
    assert plain.equals(probe_heads(model, pool=V, length=16, sequences=16, seed=0))
    assert not plain.equals(probe_heads(model, pool=V, length=16, sequences=15, seed=0))


# --- heads built by hand ---

POOL, HALF = 60, 20


def handmade() -> types.SimpleNamespace:
    """Two layers of three heads that put all their weight on one token: where q and k share a large entry.

    "match" reads the token after an earlier copy of its own, "back" looks HALF - 1 tokens back whatever stands there,
    "before" looks one back. The second layer has them in another order.
    """
    seen = []

    def trunk(ids, *, attend, see):
        T = ids.shape[1]
        seen.append(ids[0].tolist())
        token, place = torch.eye(POOL)[ids[0]], torch.eye(T)
        no_token, no_place = torch.zeros(T, POOL), torch.zeros(T, T)
        before = torch.cat((no_token[:1], token[:-1]))  # the token before each key
        match = torch.cat((token, no_place), 1), torch.cat((before, no_place), 1)

        def back(distance):
            asked = torch.zeros(T, T)
            asked[range(T), [max(i - distance, 0) for i in range(T)]] = 1
            return torch.cat((no_token, asked), 1), torch.cat((no_token, place), 1)

        heads = match, back(HALF - 1), back(1)
        for layer, order in enumerate([(0, 1, 2), (2, 0, 1)]):
            q, k = (torch.stack([heads[n][side] for n in order])[None] for side in (0, 1))
            z = attend(layer, 4000 * q, k, torch.zeros_like(k))
            assert z.shape == fused_attention(q, k, k).shape
        return torch.zeros(1, T, 1)

    config = tiny_config({"n_layer": 2, "n_head": 3, "n_kv_head": 3, "d_model": 48, "d_head": 16, "n_ctx": 1000})
    return types.SimpleNamespace(config=config, trunk=trunk, seen=seen)


def test_a_head_that_matches_scores_1_and_nearly_nothing_when_the_repetition_is_shuffled_away():
    found = probe_heads(handmade(), pool=POOL, length=2 * HALF, sequences=8)
    twice, shuffled = repeated_ids(POOL, 2 * HALF, 8)
    by_chance = (twice == shuffled)[:, HALF:].float().mean().item()  # tokens that shuffling left where they were
    for place in ((0, 0), (1, 1)):
        assert found.loc[place, "induction"] == pytest.approx(1, abs=1e-6)
        assert found.loc[place, "induction_baseline"] == pytest.approx(by_chance, abs=1e-6)
    assert by_chance < 0.1


def test_a_head_that_looks_a_fixed_way_back_scores_1_on_both():
    found = probe_heads(handmade(), pool=POOL, length=2 * HALF, sequences=8)
    for place in ((0, 1), (1, 2)):
        assert found.loc[place, "induction"] == pytest.approx(1, abs=1e-6)
        assert found.loc[place, "induction_baseline"] == pytest.approx(1, abs=1e-6)


def test_a_head_that_looks_one_back_is_no_induction_head():
    found = probe_heads(handmade(), pool=POOL, length=2 * HALF, sequences=8)
    for place in ((0, 2), (1, 0)):
        assert found.loc[place, "previous_token"] == pytest.approx(1, abs=1e-6)
        assert found.loc[place, "induction"] == found.loc[place, "induction_baseline"] == 0


# --- lengths ---


@pytest.mark.parametrize(("length", "n_ctx"), [(0, 40), (7, 40), (64, 7), (64, 4)])
def test_below_eight_tokens_nothing_is_scored(length, n_ctx):
    assert SHORTEST == 8
    model = handmade()
    model.config = tiny_config({"n_ctx": n_ctx})
    found = probe_heads(model, pool=POOL, length=length)
    assert found.shape == (L * H, len(HEAD_METRICS) + 1) and found.isna().all(axis=None)
    assert found.index.tolist() == [(layer, head) for layer in range(L) for head in range(H)]
    assert model.seen == []


@pytest.mark.parametrize(("length", "n_ctx", "ran"), [(8, 40, 8), (9, 40, 8), (64, 9, 8), (64, 31, 30), (30, 40, 30)])
def test_sequences_are_even_and_fit_into_the_context(length, n_ctx, ran):
    model = handmade()
    model.config = tiny_config({"n_ctx": n_ctx, "n_layer": 2, "n_head": 3, "n_kv_head": 3})
    found = probe_heads(model, pool=POOL, length=length, sequences=2)
    assert [len(ids) for ids in model.seen] == [ran] * 4  # repeated and shuffled
    assert not found.isna().any(axis=None)


def test_a_real_model_is_probed_up_to_its_context():
    model = tiny_model()
    assert probe_heads(model, pool=V, length=10_000, sequences=1).equals(
        probe_heads(model, pool=V, length=N_CTX, sequences=1)
    )


def test_nothing_of_the_model_changes_and_it_can_be_trained_afterwards():
    model = tiny_model()
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    probe_heads(model, pool=V, length=16, sequences=1)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    model(torch.arange(9)[None]).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
