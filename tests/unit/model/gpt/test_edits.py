"""An edited run is the run of an edited model, and everything a trace shows is the edited run."""

import copy
import math

import numpy as np
import pytest
import torch

from model.gpt.cache import KVCache
from model.gpt.edits import Edit, sites_edited, starting_at, tap_of
from model.gpt.tap import SITES, compose, record
from model.records import RunKey
from model.tracing import head_reducer as heads
from model.tracing.head_metrics import find_repeats, head_metrics, rows_from_pattern, thumbnails_from_pattern
from model.tracing.trace import run
from tests.support.models.edited import IDS, ONE, PILES, T, tap_on, traced
from tests.support.models.helpers import (
    FEW_VARIANTS,
    VARIANTS,
    E,
    H,
    L,
    assert_close,
    random_ids,
    tiny_model,
    tokens_of,
)
from tests.support.models.rounding import logits_within, products, shares_within, sums, within

# --- against the weights, and by hand ---


@pytest.mark.parametrize("factor", [0, -1.5])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_scaled_z_is_scaled_columns_of_the_output_projection(name: str, factor: float):
    trace = traced(name)
    edit = Edit("zero", 1, 2) if factor == 0 else Edit("scale", 1, 2, factor=factor)
    other, width = copy.deepcopy(trace.model), trace.config.d_head
    with torch.no_grad():
        other.blocks[1].attn.o.weight[:, 2 * width : 3 * width] *= factor
    assert_close(trace.edit(edit).logits, run(other, trace.tokens).logits, logits_within(other, IDS)[0], "logits")
    assert np.abs(trace.edit(edit).logits - trace.logits).max() > 1e-2


@pytest.mark.parametrize("name", VARIANTS)
def test_a_mean_is_the_unedited_runs(name: str):
    trace = traced(name)
    mean, off = trace.z(1, 2).mean(0), sums(T, np.abs(trace.z(1, 2)).mean(0))
    first = trace.edit(Edit("zero", 0, 1), Edit("scale", 1, 2, factor=3.0))  # moves what layer 1 would compute
    for edited in (trace.edit(Edit("mean", 1, 2)), first.edit(Edit("mean", 1, 2))):
        assert_close(edited.z(1, 2), np.broadcast_to(mean, edited.z(1, 2).shape), off)
    assert np.abs(first.z(1, 2).mean(0) - mean).max() > 1e-3


TEMPLATES = {
    "previous_token": [[1, 0, 0], [1, 0, 0], [0, 1, 0]],
    "first_token": [[1, 0, 0], [1, 0, 0], [1, 0, 0]],
    "uniform": [[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]],
}


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("name", VARIANTS)
def test_a_template_is_the_pattern(name: str, kind: str):
    trace = run(tiny_model(VARIANTS[name]), tokens_of(IDS[0, :3]), edits=[Edit(kind, 1, 2)])
    template = np.array(TEMPLATES[kind], dtype=np.float32)
    assert np.array_equal(trace.pattern(1, 2), template)
    assert_close(trace.z(1, 2), template @ trace.qkv(1, 2).v, products(template, trace.qkv(1, 2).v))
    if kind != "uniform":
        assert trace.head_metrics().loc[(1, 2), kind] == 1
        assert (trace.thumbnails[1, 2] == np.where(np.tri(3) == 1, template * 254, 255)).all()
    assert trace.head_metrics().loc[(1, 2), "entropy"] == pytest.approx(float(kind == "uniform"), abs=1e-6)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_row_without_an_edge_is_the_softmax_of_the_rest(name: str):
    trace = traced(name)
    edited = trace.edit(Edit("block_edge", 1, 2, query=7, key=3), Edit("block_edge", 1, 2, query=7, key=0))
    scores = trace.scores(1, 2).astype(np.float64)
    scores[7, [3, 0]] = -np.inf
    weights = np.exp(np.where(np.isnan(scores), -np.inf, scores))
    bound = within(trace.model, IDS, sites=["pattern", "scores"])
    kept, off = weights / weights.sum(1, keepdims=True), bound["scores", 1][0, 2]
    assert_close(edited.pattern(1, 2), kept, shares_within(kept, off))
    assert edited.pattern(1, 2)[7, [3, 0]].tolist() == [0, 0]
    blocked = np.isnan(edited.scores(1, 2)) & ~np.isnan(trace.scores(1, 2))
    assert np.argwhere(blocked).tolist() == [[7, 0], [7, 3]]
    for head in (0, 1, 3):
        assert_close(edited.pattern(1, head), trace.pattern(1, head), bound["pattern", 1][0, head], f"head {head}")


def test_an_edge_is_blocked_in_every_layer_and_head_that_is_not_named():
    for layer, head in ((None, None), (1, None), (None, 2)):
        edited = traced("gqa", Edit("block_edge", layer, head, query=7, key=3))
        for place in ((n, m) for n in range(L) for m in range(H)):
            named = layer in (None, place[0]) and head in (None, place[1])
            assert (edited.pattern(*place)[7, 3] == 0) == named, place


# --- everything shown ---


@pytest.mark.parametrize("pile", PILES)
@pytest.mark.parametrize("name", FEW_VARIANTS)
def test_everything_shown_is_the_edited_run(name: str, pile: str):
    edits = PILES[pile]
    trace, at = traced(name, *edits), {}
    with torch.no_grad():
        logits = trace.model(IDS, tap=compose(tap_on(trace.model, edits), record(SITES, at)))[0]
    bound = within(trace.model, IDS, tap_on(trace.model, edits), SITES)
    assert_close(trace.logits, logits, bound["logits", L][0], "logits")
    assert_close(trace.logits_at(-1), logits[-1], bound["logits", L][0, -1], "logits of the last position")
    rotated = "_rot" if trace.config.positions == "rope" else ""
    repeats, table = find_repeats(IDS[0]), trace.head_metrics().to_numpy().reshape(L, H, -1)
    for layer in range(L):
        wrote = trace.sites(layer, ["attn_out"])["attn_out"][0]
        for site, values in (
            ("resid_pre", trace.hidden(layer)),
            ("mlp_post", trace.mlp_activations(layer)),
            ("attn_out", wrote),
        ):
            assert_close(values, at[site, layer][0], bound[site, layer][0], f"{site} of layer {layer}")
        whole = at["pattern", layer][0]
        assert_close(table[layer], head_metrics(rows_from_pattern(whole, repeats), repeats), 1e-4, f"metrics {layer}")
        codes = thumbnails_from_pattern(whole).int().numpy()
        assert np.abs(trace.thumbnails[layer].astype(int) - codes).max() <= 1
        for head in range(H):
            what, kv = f"layer {layer}, head {head}", head // trace.config.group_size
            scores, off = at["scores", layer][0, head], bound["scores", layer][0, head]
            assert_close(trace.scores(layer, head), scores.masked_fill(scores.isneginf(), math.nan), off, what)
            qkv = trace.qkv(layer, head)
            for site, n, values in (
                ("pattern", head, trace.pattern(layer, head)),
                ("z", head, trace.z(layer, head)),
                (f"q{rotated}", head, qkv.q),
                (f"k{rotated}", kv, qkv.k),
                ("v", kv, qkv.v),
            ):
                assert_close(values, at[site, layer][0, n], bound[site, layer][0, n], f"{site} of {what}")


@pytest.mark.parametrize("kind", [kind for kind in ONE if not kind.startswith("embed_")])
def test_layers_before_an_edit_are_the_unedited_ones(kind: str):
    trace = traced("llama")
    edited = trace.edit(ONE[kind])
    assert torch.equal(edited.residuals[:2], trace.residuals[:2])
    assert np.array_equal(edited.metrics[0], trace.metrics[0], equal_nan=True)
    assert (edited.residuals[2] - trace.residuals[2]).abs().max() > 1e-4


@pytest.mark.parametrize(("kind", "layers"), [("zero", []), ("mean", []), ("uniform", [1]), ("block_edge", [1])])
def test_only_layers_whose_attention_is_edited_compute_it_step_by_step(kind: str, layers: list[int], monkeypatch):
    explicit, seen = heads.attend_explicit, []

    def counted(tap):
        return lambda layer, q, k, v: seen.append(layer) or explicit(tap)(layer, q, k, v)

    monkeypatch.setattr(heads, "attend_explicit", counted)
    traced("gpt2", ONE[kind])
    assert seen == layers


# --- the tap ---


@pytest.mark.parametrize("pile", PILES)
def test_a_tap_writes_into_nothing_it_was_handed_and_copies_only_what_it_edits(pile: str):
    model = tiny_model(VARIANTS["gqa"])
    tap, changed = tap_on(model, PILES[pile]), set()

    def watch(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
        before = x.clone()
        y = tap(site, layer, x)
        assert torch.equal(x, before)
        if y is not x:
            changed.add((site, layer))
        return y

    with torch.no_grad():
        model(IDS, tap=watch)
    assert changed == {(site, layer) for layer in range(-1, L) for site in sites_edited(PILES[pile], layer)}


@pytest.mark.parametrize("pile", PILES)
def test_batches_and_caches_of_any_size(pile: str):
    model, ids = tiny_model(VARIANTS["llama"]), random_ids(3, T)
    tap, cache = tap_on(model, PILES[pile]), KVCache.empty(model.config, 3, T)
    with torch.no_grad():
        whole, bound = model(ids, tap=tap), logits_within(model, ids, tap)
        for row in range(3):
            assert_close(whole[row], model(ids[row : row + 1], tap=tap)[0], bound[row], f"row {row} alone")
        parts = [model(part, cache=cache, tap=starting_at(tap, cache.length)) for part in ids.split([5, 1, 7], dim=1)]
    assert_close(torch.cat(parts, 1), whole, bound, "in three parts with a cache")


def test_edits_of_one_site_apply_in_order():
    mean, zero, double = Edit("mean", 1, 2), Edit("zero", 1, 2), Edit("scale", 1, 2, factor=2.0)
    trace = traced()
    average, off = np.broadcast_to(trace.z(1, 2).mean(0), (T, E)), sums(T, np.abs(trace.z(1, 2)).mean(0))
    assert (trace.edit(mean, zero).z(1, 2) == 0).all()
    assert_close(trace.edit(zero, mean).z(1, 2), average, off)
    assert_close(trace.edit(zero, mean, double).z(1, 2), 2 * average, 2 * off)
    off = within(trace.model, IDS, sites=["z"])["z", 1][0, 2]
    assert_close(trace.edit(double, double).z(1, 2), 4 * trace.z(1, 2), 4 * off)
    assert (trace.edit(Edit("uniform", 1, 2), Edit("first_token", 1, 2)).pattern(1, 2)[:, 0] == 1).all()


def test_a_mean_that_was_not_given_is_a_programmers_mistake():
    with pytest.raises(ValueError, match=r"no mean of \(layer, head\) \[\(1, 2\)\]"):
        tap_of([Edit("mean", 1, 2)], {})
    with pytest.raises(ValueError, match=r"no mean of \(layer, head\) \[\(1, None\)\]"):
        tap_of([Edit("mlp_mean", 1)], {(1, 0): torch.zeros(E)})
    with pytest.raises(ValueError, match=r"no direction of the tokens \[5\]"):
        tap_of([Edit("project_out", 1, token=5)], {})


# --- keys ---


@pytest.mark.parametrize("pile", PILES)
def test_same_key_same_numbers(pile: str):
    edits, plain = PILES[pile], traced()
    one, step = traced("gpt2", *edits), plain
    for edit in edits:
        step = step.edit(edit)
    for other in (plain.edit(*edits), step):
        assert other.key == one.key == RunKey("tiny", tuple(IDS[0].tolist()), edits) and hash(other.key) == hash(
            one.key
        )
        assert torch.equal(other.residuals, one.residuals)
        assert np.array_equal(other.thumbnails, one.thumbnails)
        assert np.array_equal(other.metrics, one.metrics, equal_nan=True)
    assert plain.key.edits == () and plain.tap is None and torch.equal(plain.residuals, traced().residuals)
    assert one.key != plain.key


def test_the_unedited_run():
    trace = traced()
    assert trace.unedited() is trace
    back = trace.edit(Edit("zero", 1, 2)).unedited()
    assert back.key == trace.key and torch.equal(back.residuals, trace.residuals)


def test_a_tap_of_ones_own_is_not_in_the_key():
    trace = run(tiny_model(), tokens_of(IDS[0]), tap=tap_of([Edit("zero", 1, 2)], {}))
    with pytest.raises(ValueError, match="which its key does not hold"):
        trace.edit(Edit("zero", 0, 0))
    with pytest.raises(ValueError, match="not both"):
        run(trace.model, trace.tokens, tap=trace.tap, edits=[Edit("zero", 0, 0)])
