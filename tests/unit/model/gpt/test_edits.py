"""An edited run is the run of an edited model, and everything a trace shows is the edited run."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import InputError
from model.gpt import head_metrics as heads
from model.gpt.cache import KVCache
from model.gpt.edits import EDITS, FIELDS, MAX_FACTOR, Edit, check_edits, edit_of, sites_edited, tap_of
from model.gpt.head_metrics import find_repeats, head_metrics, rows_from_pattern, thumbnails_from_pattern
from model.gpt.tap import SITES, compose, record
from model.gpt.trace import Trace, run
from model.records import RunKey
from tests.support.helpers import (
    VARIANTS,
    E,
    H,
    L,
    V,
    assert_close,
    random_ids,
    tiny_config,
    tiny_model,
    tokens_of,
)
from tests.support.rounding import logits_within, products, shares_within, sums, within

T = 13
IDS = random_ids(1, T, seed=3, vocab_size=9)  # nine ids among 13 tokens: there are repeats
SETTINGS = settings(max_examples=200, deadline=None, derandomize=True, database=None)

# One of each kind, and a pile in which one layer is edited at every site.
ONE = {
    "zero": Edit("zero", 1, 2),
    "mean": Edit("mean", 1, 2),
    "scale": Edit("scale", 1, 2, factor=-1.5),
    "previous_token": Edit("previous_token", 1, 2),
    "first_token": Edit("first_token", 1, 2),
    "uniform": Edit("uniform", 1, 2),
    "block_edge": Edit("block_edge", 1, 2, query=7, key=3),
}
PILES = {kind: (edit,) for kind, edit in ONE.items()} | {
    "everywhere": (Edit("block_edge", query=7, key=3), Edit("block_edge", head=1, query=7, key=7)),
    "pile": (Edit("zero", 0, 1), *ONE.values(), Edit("mean", 1, 0), Edit("uniform", 1, 3)),
}


def traced(name: str = "gpt2", *edits: Edit) -> Trace:
    return run(tiny_model(VARIANTS[name]), tokens_of(IDS[0]), model_id="tiny", edits=edits)


@torch.no_grad()
def means_of(model) -> dict[tuple[int, int], torch.Tensor]:
    """Every head's mean output, by an explicit forward."""
    store: dict = {}
    model(IDS, tap=record(["z"], store))
    return {(layer, head): store["z", layer][0, head].mean(0) for layer in range(L) for head in range(H)}


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
@pytest.mark.parametrize("name", VARIANTS)
def test_everything_shown_is_the_edited_run(name: str, pile: str):
    edits = PILES[pile]
    trace, at = traced(name, *edits), {}
    with torch.no_grad():
        logits = trace.model(IDS, tap=compose(tap_of(edits, means_of(trace.model)), record(SITES, at)))[0]
    bound = within(trace.model, IDS, tap_of(edits, means_of(trace.model)), SITES)
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


@pytest.mark.parametrize("kind", ONE)
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
    tap, changed = tap_of(PILES[pile], means_of(model)), set()

    def watch(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
        before = x.clone()
        y = tap(site, layer, x)
        assert torch.equal(x, before)
        if y is not x:
            changed.add((site, layer))
        return y

    with torch.no_grad():
        model(IDS, tap=watch)
    assert changed == {(site, layer) for layer in range(L) for site in sites_edited(PILES[pile], layer)}


@pytest.mark.parametrize("pile", PILES)
def test_batches_and_caches_of_any_size(pile: str):
    model, ids = tiny_model(VARIANTS["llama"]), random_ids(3, T)
    tap, cache = tap_of(PILES[pile], means_of(model)), KVCache.empty(model.config, 3, T)
    with torch.no_grad():
        whole, bound = model(ids, tap=tap), logits_within(model, ids, tap)
        for row in range(3):
            assert_close(whole[row], model(ids[row : row + 1], tap=tap)[0], bound[row], f"row {row} alone")
        parts = [model(part, cache=cache, tap=tap) for part in ids.split([5, 1, 7], dim=1)]
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


# --- what is refused ---

HUGE = 10**5000
ZERO = {"kind": "zero", "layer": 1, "head": 2}
EDGE = {"kind": "block_edge", "query": 7, "key": 3}
SCALE = {**ZERO, "kind": "scale"}
BAD = {
    "nothing": (None, "must be named fields"),
    "text": ("zero", "must be named fields"),
    "a list": ([ZERO], "must be named fields"),
    "no kind": ({"layer": 1, "head": 2}, "no such kind of edit"),
    "unknown kind": ({**ZERO, "kind": "delete"}, "no such kind of edit.*delete"),
    "a long kind": ({**ZERO, "kind": "x" * 10**6}, "no such kind of edit"),
    "an unhashable kind": ({**ZERO, "kind": ["zero"]}, "no such kind of edit.*list"),
    "unknown field": ({**ZERO, "site": "z"}, "field that is not known.*site"),
    "a field that is no text": ({**ZERO, 3: 4}, "field that is not known.*3"),
    "no layer": ({"kind": "zero", "head": 2}, "lacks a field.*layer.*needs: layer, head"),
    "no head": ({**ZERO, "head": None}, "lacks a field.*head"),
    "no factor": (SCALE, "lacks a field.*factor"),
    "no key": ({"kind": "block_edge", "query": 7}, "lacks a field.*key"),
    "a factor too many": ({**ZERO, "factor": 2.0}, "kind does not use.*factor"),
    "a query too many": ({**ZERO, "query": 0}, "kind does not use.*query"),
    "a factor of an edge": ({**EDGE, "factor": 2.0}, "kind does not use.*factor"),
    "true": ({**ZERO, "layer": True}, "no such layer.*True"),
    "a float": ({**ZERO, "head": 2.0}, r"no such head.*2\.0"),
    "text for a number": ({**ZERO, "head": "2"}, "no such head"),
    "a list for a number": ({**ZERO, "head": [2]}, "no such head.*list"),
    "negative": ({**ZERO, "layer": -1}, "no such layer.*-1"),
    "one too many": ({**ZERO, "layer": L}, f"no such layer.*0 to {L - 1}"),
    "a huge number": ({**ZERO, "head": HUGE}, f"no such head.*0 to {H - 1}"),
    "no position": ({**EDGE, "query": T}, f"no such position.*0 to {T - 1}"),
    "a negative key": ({**EDGE, "key": -1}, "no such position"),
    "a float query": ({**EDGE, "query": 7.0}, "no such position"),
    "a later key": ({**EDGE, "key": 8}, "cannot look at a later one.*query 7, key 8"),
    "the only key": ({**EDGE, "query": 0, "key": 0}, "nothing left to read"),
    "not a number": ({**SCALE, "factor": math.nan}, "not a number that can be used"),
    "infinite": ({**SCALE, "factor": -math.inf}, "not a number that can be used"),
    "a huge factor": ({**SCALE, "factor": HUGE}, "not a number that can be used.*from -100 to 100"),
    "just too large": ({**SCALE, "factor": 100.1}, "not a number that can be used"),
    "true as a factor": ({**SCALE, "factor": True}, "not a number that can be used"),
    "a complex factor": ({**SCALE, "factor": 1j}, "not a number that can be used"),
}


@pytest.mark.parametrize(("value", "what"), BAD.values(), ids=BAD)
def test_edit_of_refuses(value, what: str):
    with pytest.raises(InputError, match=what) as caught:
        edit_of(value, tiny_config(), T)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("edit", [*ONE.values(), Edit("block_edge", query=7, key=7), Edit("scale", 0, 0, MAX_FACTOR)])
def test_edit_of_reads_what_asdict_wrote(edit: Edit):
    assert edit_of(dataclasses.asdict(edit), tiny_config(), T) == edit


def test_a_whole_factor_becomes_a_float():
    edit = edit_of({**SCALE, "factor": 2}, tiny_config(), T)
    assert edit == Edit("scale", 1, 2, factor=2.0) and type(edit.factor) is float


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, T + 1),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
)
FIELD = st.sampled_from([*FIELDS, "kind", "x", 0])


@st.composite
def nearly(draw) -> dict:
    """The fields a kind needs, mostly in range."""
    kind = draw(st.sampled_from(list(EDITS)))
    small = {"layer": L, "head": H, "query": T, "key": T}
    fields = {name: draw(st.integers(0, small[name])) for name in EDITS[kind].needs if name in small}
    return {"kind": kind, **fields} | ({"factor": draw(st.floats(-101, 101))} if kind == "scale" else {})


@SETTINGS
@given(st.one_of(nearly(), st.dictionaries(FIELD, ODD), ODD))
def test_edit_of_gives_an_edit_that_runs_or_says_why_not(value):
    try:
        edit = edit_of(value, tiny_config(), T)
    except InputError as error:
        assert error.what and error.hint
        return
    assert edit_of(dataclasses.asdict(edit), tiny_config(), T) == edit
    assert all(type(getattr(edit, name)) in (int, float, type(None)) for name in FIELDS)
    edited = traced("gqa", edit)
    assert edited.key.edits == (edit,) and np.isfinite(edited.logits).all()


def edges(query: int, keys, layer: int | None = None, head: int | None = None) -> list[Edit]:
    return [Edit("block_edge", layer, head, query=query, key=key) for key in keys]


def test_a_row_keeps_at_least_one_key():
    check_edits(edges(2, [0, 1, 1, 0]), tiny_config(), T)  # the same cell again takes no other away
    check_edits(edges(2, [0, 1], layer=1) + edges(2, [2], layer=2), tiny_config(), T)
    check_edits(edges(2, [0, 1], head=1) + edges(2, [2], layer=1, head=2), tiny_config(), T)
    for rest in (edges(2, [2]), edges(2, [2], layer=0), edges(2, [2], head=3), edges(2, [2], L - 1, H - 1)):
        with pytest.raises(InputError, match="nothing left to read"):
            check_edits(edges(2, [0, 1]) + rest, tiny_config(), T)
        with pytest.raises(InputError, match="nothing left to read"):
            traced("gpt2", *edges(2, [0, 1])).edit(*rest)


def test_a_run_refuses_edits_that_do_not_fit():
    trace = traced()
    for edit, what in (
        (Edit("zero", L, 0), "no such layer"),
        (Edit("scale", 0, 0), "lacks a field"),
        (Edit("block_edge", query=T, key=0), "no such position"),
    ):
        with pytest.raises(InputError, match=what):
            trace.edit(edit)
        with pytest.raises(InputError, match=what):
            run(trace.model, trace.tokens, edits=[edit])


@pytest.mark.parametrize("kind", [kind for kind in ONE if kind != "block_edge"])
def test_a_single_token(kind: str):
    trace = run(tiny_model(), tokens_of([5])).edit(ONE[kind])
    assert trace.pattern(1, 2).tolist() == [[1.0]]
    assert trace.logits.shape == (1, V) and np.isfinite(trace.logits).all()


@pytest.mark.parametrize("kind", EDITS)
def test_kinds_say_what_they_are(kind: str):
    known = EDITS[kind]
    assert known.label and known.doc.endswith(".") and known.site in SITES
    assert set(known.needs + known.optional) <= set(FIELDS)
