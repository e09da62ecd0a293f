"""KV heads merged into fewer: by hand, against a whole run of the merged model, and identities of every wiring."""

import dataclasses

import numpy as np
import pytest
import torch

from model.anatomy.anatomy import n_params
from model.design.kv_sharing import MERGES, group_counts, pattern_at, pooled, readers, stops, survey
from model.errors import InputError
from model.generation.cache_costs import cache_bytes
from model.gpt.transformer import Transformer
from model.tracing.trace import run
from tests.support.models.helpers import VARIANTS, E, H, assert_close, random_ids, tiny_config, tiny_model, tokens_of

MHA = {"n_kv_head": H}


def logits(model, ids):
    with torch.inference_mode():
        return model(ids)


@pytest.mark.parametrize(("G", "counts"), [(1, (1,)), (2, (2, 1)), (4, (4, 2, 1)), (12, (12, 6, 4, 3, 2, 1))])
def test_a_number_of_heads_can_become_any_of_its_divisors(G, counts):
    assert group_counts(dataclasses.replace(tiny_config(MHA), n_head=12, n_kv_head=G)) == counts


def test_who_reads_what():
    config = dataclasses.replace(tiny_config(MHA), n_head=8, n_kv_head=4)
    assert readers(config, 2) == ((0, 0), (0, 0), (1, 0), (1, 0), (2, 1), (2, 1), (3, 1), (3, 1))
    assert [after for _, after in readers(config, 1)] == [0] * 8


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("merge", ["mean", "first"])
def test_its_own_number_of_heads_is_the_same_model(variant, merge):
    model, ids = tiny_model(VARIANTS[variant]), random_ids(1, 9)
    assert_close(logits(pooled(model, model.config.n_kv_head, merge), ids), logits(model, ids), 1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_merging_equal_heads_changes_nothing(variant):
    """Heads of a group that are copies of each other are their own mean and their own first, bias included."""
    model, ids = tiny_model(VARIANTS[variant]), random_ids(1, 9)
    with torch.no_grad():
        for block in model.blocks:
            for layer in (block.attn.k, block.attn.v):
                for part in (layer.weight, layer.bias):
                    if part is not None:
                        part.copy_(
                            part[: E if model.config.d_head == E else model.config.d_head].repeat(
                                model.config.n_kv_head, *[1] * (part.ndim - 1)
                            )
                        )
    for merge in ("mean", "first"):
        assert_close(logits(pooled(model, 1, merge), ids), logits(model, ids), 1e-5, merge)


def test_the_mean_by_hand():
    model = tiny_model(MHA)
    made = pooled(model, 2)
    for ours, theirs in zip(made.blocks, model.blocks, strict=True):
        for name in ("k", "v"):
            old, new = getattr(theirs.attn, name), getattr(ours.attn, name)
            assert new.weight.shape == (2 * E, model.config.d_model) and new.bias.shape == (2 * E,)
            assert_close(new.weight[:E], (old.weight[:E] + old.weight[E : 2 * E]) / 2, 1e-6)
            assert_close(new.weight[E:], (old.weight[2 * E : 3 * E] + old.weight[3 * E :]) / 2, 1e-6)
            assert_close(new.bias[E:], (old.bias[2 * E : 3 * E] + old.bias[3 * E :]) / 2, 1e-6)
    first = pooled(model, 2, "first").blocks[1].attn.v
    assert_close(first.weight[E:], model.blocks[1].attn.v.weight[2 * E : 3 * E], 0)


def test_merged_keys_are_the_mean_of_the_heads_keys_even_when_rotated():
    """A rotation is linear: what a merged head computes is the mean of what the heads computed."""
    model, ids = tiny_model(VARIANTS["neox"]), random_ids(1, 7)
    seen = {}

    def spy(name):
        def attend(layer, q, k, v):
            seen.setdefault(name, (k, v))
            return torch.zeros_like(q)

        return attend

    with torch.inference_mode():
        model.trunk(ids, attend=spy("before"))
        pooled(model, 1).trunk(ids, attend=spy("after"))
    for before, after in zip(seen["before"], seen["after"], strict=True):
        assert_close(after[:, 0], before.mean(1), 1e-5)


@torch.no_grad()
def test_random_heads_have_the_spread_of_the_heads_they_replace():
    model = tiny_model(MHA)
    old, made = model.blocks[0].attn.k, pooled(model, 1, "random", seed=3).blocks[0].attn.k
    assert float(made.weight.std()) == pytest.approx(float(old.weight.std()), rel=0.15)
    assert float(made.bias.std()) == pytest.approx(float(old.bias.std()), rel=0.5)  # of 12 numbers
    again = pooled(model, 1, "random", seed=3).blocks[0].attn.k
    other = pooled(model, 1, "random", seed=4).blocks[0].attn.k
    assert torch.equal(made.weight, again.weight) and not torch.equal(made.weight, other.weight)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_loaded_model_is_shared_and_stays_as_it_is(variant):
    model = tiny_model(VARIANTS[variant])
    before = {name: part.clone() for name, part in model.named_parameters()}
    made = pooled(model, 1, "random")
    assert all(torch.equal(part, before[name]) for name, part in model.named_parameters())
    shared = {part.data_ptr() for part in model.parameters()}
    own = {name for name, part in made.named_parameters() if part.data_ptr() not in shared}
    assert {name.split(".")[3] for name in own} == {"k", "v"}
    assert sum(part.numel() for part in made.parameters()) == n_params(made.config)
    assert not [name for name, part in made.named_parameters() if part.is_meta]


def test_a_model_with_joined_products_is_merged_alike():
    model, ids = tiny_model(MHA), random_ids(1, 9)
    plain = logits(pooled(model, 2), ids)
    model.join()
    assert_close(logits(pooled(model, 2), ids), plain, 1e-5)


def test_what_cannot_be_is_said():
    model = tiny_model(MHA)
    with pytest.raises(InputError, match=r"merged into this number[\s\S]*3[\s\S]*4, 2, 1"):
        pooled(model, 3)
    with pytest.raises(InputError, match=r"unknown value\. Got: merge: median"):
        pooled(model, 2, "median")


# --- what it does to a prompt ---


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_survey_is_what_whole_runs_say(variant):
    model, ids = tiny_model(VARIANTS[variant]), random_ids(1, 9)
    found, plain = survey(model, ids[0].tolist()), logits(model, ids)[0].double().log_softmax(-1)
    G = model.config.n_kv_head
    counts = group_counts(model.config)[1:]
    assert [(v.groups, v.merge) for v in found.variants] == [(G, "mean"), *((n, m) for n in counts for m in MERGES)]
    for each in found.variants:
        other = logits(pooled(model, each.groups, each.merge), ids)[0].double().log_softmax(-1)
        kl = (plain.exp() * (plain - other)).sum(-1)
        assert_close(each.divergences, kl, 1e-4)
        assert each.kl == pytest.approx(float(kl.mean()), abs=1e-5)
        assert each.agree == float((plain.argmax(-1) == other.argmax(-1)).double().mean())
        assert each.loss == pytest.approx(-float(other[range(8), ids[0, 1:]].mean()), abs=1e-5)
        assert each.cache == cache_bytes(model.config, 1, 1) * each.groups // G
        assert each.parameters == n_params(dataclasses.replace(model.config, n_kv_head=each.groups))
    assert found.variants[0].kl < 1e-9 and found.variants[0].agree == 1
    assert found.loss == pytest.approx(found.variants[0].loss, abs=1e-6)
    assert all(each.kl > 0.01 for each in found.variants[1:])


def test_one_token_has_no_loss():
    found = survey(tiny_model(MHA), [5])
    assert found.loss is None and all(each.loss is None and each.divergences.shape == (1,) for each in found.variants)


def test_a_survey_reports_and_can_be_ended():
    told = []
    survey(tiny_model(MHA), [1, 2, 3], lambda done, total, what: told.append((done, total)))
    assert told[0] == (0, 15) and told[-1][0] == 14 and told == sorted(told)

    def stop(done, total, what):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        survey(tiny_model(MHA), [1, 2, 3], stop)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("room", [1, 1 << 20])
def test_a_pattern_is_that_of_a_run_of_the_merged_model(variant, room, monkeypatch):
    """With every stream kept, and with the first one only."""
    monkeypatch.setattr("model.design.kv_sharing.STOPS_BYTES", room)
    model, ids = tiny_model(VARIANTS[variant]), random_ids(1, 9)
    kept = stops(model, ids[0].tolist(), 1, "mean")
    assert set(kept.streams) == ({0} if room == 1 else {0, 1, 2})
    trace = run(pooled(model, 1), tokens_of(ids[0]))
    for layer in range(3):
        for head in range(H):
            expected = np.where(np.tri(9, dtype=bool), trace.pattern(layer, head), np.nan)
            assert_close(pattern_at(model, kept, layer, head), expected, 1e-5)


def test_stops_take_as_much_room_as_they_say(monkeypatch):
    monkeypatch.setattr("model.design.kv_sharing.STOPS_BYTES", 2 * 4 * 9 * 48)
    kept = stops(tiny_model(MHA), random_ids(1, 9)[0].tolist(), 1, "mean")
    assert kept.nbytes == 2 * 4 * 9 * 48 and set(kept.streams) == {0, 2}


def test_no_parameter_of_the_merged_model_asks_for_a_gradient():
    made = pooled(tiny_model(MHA), 2)
    assert isinstance(made, Transformer) and not made.training
    assert not made.blocks[0].attn.k.weight.requires_grad
