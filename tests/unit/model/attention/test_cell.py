"""One cell explained: every line adds up to the next, and the last ones to what the model computed."""

import itertools
import math

import numpy as np
import pytest
import torch

from model.attention.cell import explain
from model.errors import InputError
from model.tracing.trace import Trace, run
from tests.support.models.helpers import (
    ALL_VARIANTS,
    MORE_VARIANTS,
    VARIANTS,
    D,
    E,
    H,
    L,
    assert_close,
    force,
    random_ids,
    steer,
    tiny_config,
    tiny_model,
    tokens_of,
)

T = 19
IDS = random_ids(1, T, seed=3, vocab_size=9)
CELLS = [(0, 0), (1, 0), (7, 3), (18, 0), (18, 17), (18, 18)]
HEADS = list(itertools.product(range(L), range(H)))
ROUNDED = {"positions": "alibi", "alibi_rounded": True, "n_head": 16, "n_kv_head": 16, "d_head": 4}
U = 2.0**-24  # unit roundoff of float32
ROPE = [name for name, changes in VARIANTS.items() if changes.get("positions") == "rope"]


def traced(name: str = "gpt2", edit=None, ids=IDS[0]) -> Trace:
    return run(tiny_model(ALL_VARIANTS[name]), tokens_of(ids), tap=edit)


def score_bound(trace: Trace, layer: int, head: int, query: int) -> np.ndarray:
    """What float32 may lose in the scores of a row: n + 2 roundings of a sum of n products, by its absolute terms."""
    qkv = trace.qkv(layer, head)
    terms = np.abs(qkv.q[query].astype(float) * qkv.k[: query + 1]).sum(1)
    width = qkv.q.shape[1]
    return (width + 2) * U * terms / math.sqrt(width)


# --- by hand ---


def test_numbers_worked_by_hand():
    """d_head 4: q = (2, 0, 0, 0), k = (3, ...) and (1, ...), so scores are 3 and 1; v = (5, ...) is written twice."""
    model = tiny_model({"norm_placement": "post", "positions": "none", "n_layer": 1, "d_head": 4})
    attn = model.blocks[0].attn
    with torch.no_grad():
        for linear in (attn.q, attn.k, attn.v, attn.o):
            linear.weight.zero_()
            linear.bias.zero_()
        model.embed.weight.zero_()
        model.embed.weight[5, :3] = torch.tensor([0.0, 3.0, 5.0])
        model.embed.weight[6, :3] = torch.tensor([2.0, 1.0, 7.0])
        attn.q.weight[4, 0] = 1  # head 1 of 4; KV head 0 of 2
        attn.k.weight[0, 1] = 1
        attn.v.weight[0, 2] = 1
        attn.o.weight[9, 4] = 2
    found = explain(run(model, tokens_of([5, 6])), 0, 1, 1, 0)
    assert (found.layer, found.head, found.query, found.key) == (0, 1, 1, 0)
    assert found.q_raw.tolist() == found.q.tolist() == [2, 0, 0, 0]
    assert found.k_raw.tolist() == found.k.tolist() == [3, 0, 0, 0]
    assert found.q_normed is found.k_normed is found.angles is None
    assert found.products.tolist() == [6, 0, 0, 0]
    assert (found.dot, found.scale, found.score, found.peak) == (6, 2, 3, 3)
    assert found.row_scores.tolist() == [3, 1]
    assert found.exponentials.tolist() == pytest.approx([1, math.exp(-2)])
    assert found.denominator == pytest.approx(1 + math.exp(-2))
    assert found.weight == pytest.approx(1 / (1 + math.exp(-2)))
    assert found.value.tolist() == [5, 0, 0, 0]
    assert found.weighted[0] == pytest.approx(5 * found.weight)
    assert found.output[9] == found.output_norm == pytest.approx(10 * found.weight)
    assert np.count_nonzero(found.output) == 1
    assert found.row_output_norm == pytest.approx(10 * found.weight + 14 * (1 - found.weight))
    assert found.model_score == 3
    assert found.model_weight == pytest.approx(found.weight, abs=1e-7)


# --- every line, every way a block can be wired ---


@pytest.mark.parametrize("name", VARIANTS)
def test_every_line_follows_from_the_one_before(name: str):
    trace = traced(name)
    width = trace.config.d_head
    for (layer, head), (query, key) in itertools.product(HEADS, CELLS):
        f = explain(trace, layer, head, query, key)
        assert f.q.dtype == f.k.dtype == f.q_raw.dtype == f.value.dtype == np.float32
        assert f.products.dtype == f.row_scores.dtype == f.weighted.dtype == f.output.dtype == np.float64
        assert f.products.shape == f.q_raw.shape == f.k_raw.shape == f.weighted.shape == (width,)
        assert f.row_scores.shape == f.exponentials.shape == (query + 1,) and f.output.shape == (D,)
        assert np.array_equal(f.products, f.q.astype(float) * f.k)
        assert f.dot == pytest.approx(math.fsum(f.products), abs=1e-13)
        assert f.scale == math.sqrt(width) and f.score == f.dot / f.scale == f.row_scores[key]
        assert f.peak == f.row_scores.max() and f.exponentials.max() == 1
        assert f.exponentials == pytest.approx([math.exp(score - f.peak) for score in f.row_scores])
        assert f.denominator == pytest.approx(math.fsum(f.exponentials))
        assert f.weight == pytest.approx(f.exponentials[key] / f.denominator, rel=1e-14)
        assert np.array_equal(f.weighted, f.weight * f.value.astype(float))
        rows = trace.model.blocks[layer].attn.o.weight[:, head * width : (head + 1) * width]
        assert_close(f.output, rows.double() @ torch.from_numpy(f.weighted), 1e-13, "output")
        assert f.output_norm == pytest.approx(math.sqrt((f.output**2).sum()))


@pytest.mark.parametrize("name", VARIANTS)
def test_score_and_weight_are_the_models_to_float32_rounding(name: str):
    trace = traced(name)
    for (layer, head), (query, key) in itertools.product(HEADS, CELLS):
        found = explain(trace, layer, head, query, key)
        bound = score_bound(trace, layer, head, query)
        assert abs(found.score - found.model_score) <= bound[key]
        # A weight moves by at most twice the largest error of an exponent, and the rounding of a sum of n terms.
        exponent = bound.max() + U * np.abs(found.row_scores - found.peak).max()
        assert abs(found.weight - found.model_weight) <= found.weight * (2 * exponent + (query + 8) * U)


@pytest.mark.parametrize("name", VARIANTS)
def test_vectors_are_those_of_the_forward(name: str):
    trace = traced(name)
    attn_sites = ["q", "k", "v", *(["q_rot", "k_rot"] if name in ROPE else [])]
    for layer, head in HEADS:
        found = explain(trace, layer, head, 11, 4)
        at, kv = trace.sites(layer, attn_sites), head // trace.config.group_size
        qk_norm = trace.config.qk_norm
        assert (found.q_normed is None) == (found.k_normed is None) == (not qk_norm)
        assert_close(found.q_normed if qk_norm else found.q_raw, at["q"][0, head, 11], 2e-6, "q before rotation")
        assert_close(found.k_normed if qk_norm else found.k_raw, at["k"][0, kv, 4], 2e-6, "k before rotation")
        assert_close(found.q, at["q_rot" if name in ROPE else "q"][0, head, 11], 2e-6, "q")
        assert_close(found.k, at["k_rot" if name in ROPE else "k"][0, kv, 4], 2e-6, "k")
        assert_close(found.value, at["v"][0, kv, 4], 2e-6, "v")
        if qk_norm:
            attn = trace.model.blocks[layer].attn
            assert_close(attn.q_norm(torch.from_numpy(found.q_raw)), found.q_normed, 2e-6, "q-norm")
            assert_close(attn.k_norm(torch.from_numpy(found.k_raw)), found.k_normed, 2e-6, "k-norm")
            assert np.abs(found.q_raw - found.q_normed).max() > 1e-2


@pytest.mark.parametrize("name", VARIANTS)
def test_keys_sum_to_z_and_heads_to_the_output_of_the_layer(name: str):
    trace, query = traced(name), 11
    for layer in range(L):
        total = np.zeros(D)
        for head in range(H):
            cells = [explain(trace, layer, head, query, key) for key in range(query + 1)]
            assert sum(cell.weight for cell in cells) == pytest.approx(1, abs=1e-12)
            assert_close(sum(cell.weighted for cell in cells), trace.z(layer, head)[query], 5e-6, "z")
            row = sum(cell.output for cell in cells)
            assert {round(cell.row_output_norm, 9) for cell in cells} == {round(float(np.linalg.norm(row)), 9)}
            total += row
        bias = trace.model.blocks[layer].attn.o.bias
        total += 0 if bias is None else bias.detach().double().numpy()
        assert_close(total, trace.sites(layer, ["attn_out"])["attn_out"][0, query], 1e-5, "attn_out")


# --- the rules of later families ---


@pytest.mark.parametrize("name", MORE_VARIANTS)
def test_every_rule_is_a_step(name: str):
    trace = traced(name)
    windowed = [layer for layer in range(L) if trace.config.mixer_of(layer) == "sliding_window"]
    for (layer, head), (query, key) in itertools.product(HEADS, CELLS):
        window = trace.config.window if layer in windowed else None
        if window is not None and query - key >= window:
            with pytest.raises(InputError, match=rf"hides the key.*query {query}, key {key}.*from position"):
                explain(trace, layer, head, query, key)
            continue
        f = explain(trace, layer, head, query, key)
        assert f.scaled == f.dot / f.scale and f.window == window
        assert f.first == (0 if window is None else max(query - window + 1, 0))
        capped = f.scaled if f.cap is None else f.cap * math.tanh(f.scaled / f.cap)
        assert f.score == pytest.approx(capped - (f.slope or 0) * (query - key), abs=1e-12)
        assert f.row_scores[key - f.first] == f.score and len(f.row_scores) == query + 1 - f.first
        assert f.denominator == pytest.approx(math.fsum(f.exponentials) + (f.sink_exponential or 0))
        assert f.weight == pytest.approx(f.exponentials[key - f.first] / f.denominator)
        assert abs(f.score - f.model_score) <= 2e-6 and abs(f.weight - f.model_weight) <= 2e-7
        taken = float(trace.pattern(layer, head)[query].sum(dtype=float))
        assert 1 - taken == pytest.approx(f.sink_weight or 0, abs=2e-6)
        if f.angles is not None:
            r = len(f.angles)
            i, j = (slice(0, 2 * r, 2), slice(1, 2 * r, 2)) if f.adjacent else (slice(0, r), slice(r, 2 * r))
            q, k = (f.q_raw * (f.factor or 1), f.k_raw) if f.q_normed is None else (f.q_normed, f.k_normed)
            a, b = (x[i].astype(float) + 1j * x[j] for x in (q, k))
            assert_close(f.products[i] + f.products[j], (a * b.conj() * np.exp(1j * f.angles)).real, 5e-6)
    given = {name: getattr(f, name) is not None for name in ("cap", "slope", "sink", "limit", "factor")}
    c = trace.config
    rules = (c.score_cap, c.positions == "alibi" or None, c.sinks or None, c.qkv_limit, c.score_multiplier)
    assert list(given.values()) == [rule is not None for rule in rules]
    assert [explain(trace, layer, 0, 1, 0).angles is not None for layer in range(L)] == [*map(c.rotates, range(L))]


def test_rounded_positions_of_alibi():
    """As Falcon RW was trained: the slope times a position has 8 significant bits."""
    trace = run(tiny_model(ROUNDED), tokens_of(IDS[0]))
    f = explain(trace, 1, 14, 18, 3)
    slope = torch.tensor(2**-7.5).bfloat16()
    fall = float(slope * 18) - float(slope * 3)
    assert f.penalty == pytest.approx(fall / 2) and f.penalty != pytest.approx(f.slope * 15 / 2, rel=1e-4)
    one = explain(trace, 1, 0, 18, 7)
    assert one.score == pytest.approx(one.scaled - one.penalty) and abs(one.score - one.model_score) <= 2e-6
    with pytest.raises(ValueError, match="full attention"):
        tiny_config(ROUNDED | {"mixer": "sliding_window", "window": 5})


# --- positions ---


@pytest.mark.parametrize("name", ROPE)
def test_a_rotated_pair_contributes_by_its_lengths_and_the_turned_angle(name: str):
    trace = traced(name)
    r = trace.config.d_rotary // 2
    for (layer, head), (query, key) in itertools.product(HEADS, CELLS):
        f = explain(trace, layer, head, query, key)
        q, k = (f.q_raw, f.k_raw) if f.q_normed is None else (f.q_normed, f.k_normed)
        a, b = (x[:r].astype(float) + 1j * x[r : 2 * r] for x in (q, k))
        wanted = np.abs(a) * np.abs(b) * np.cos(np.angle(a) - np.angle(b) + f.angles)
        # Cosines and sines are of float32 angles up to T, so they are off by T U, once for q and once for k.
        bound = (2 * T + 8) * U * (np.abs(a) * np.abs(b))
        assert (np.abs(f.products[:r] + f.products[r : 2 * r] - wanted) <= bound).all()
        assert_close(f.products[2 * r :], q[2 * r :].astype(float) * k[2 * r :], 1e-15, "what does not rotate")


@pytest.mark.parametrize("name", ROPE)
def test_with_equal_tokens_only_the_distance_counts(name: str):
    trace = traced(name, ids=[4] * T)
    r = trace.config.d_rotary // 2
    for head in range(H):
        one, other, further = (explain(trace, 0, head, *cell) for cell in ((6, 2), (17, 13), (17, 2)))
        pairs, same, apart = (f.products[:r] + f.products[r : 2 * r] for f in (one, other, further))
        assert_close(pairs, same, 1e-5, "the same distance")
        assert np.abs(pairs - apart).max() > 1e-2
        assert np.array_equal(one.angles, other.angles)
        assert one.angles[0] == 4 and further.angles[0] == 15  # the first pair turns by a radian a step
        assert one.angles.shape == (r,)


# --- runs with edits ---


def block_edge(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
    """Query 11 of head 2 in layer 1 does not see key 4."""
    if (site, layer) != ("scores", 1):
        return x
    x = x.clone()
    x[:, 2, 11, 4] = -torch.inf
    return x


def turn_q(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
    """All queries of layer 1 point the other way."""
    return -x if (site, layer) == ("q", 1) else x


@pytest.mark.parametrize("name", VARIANTS)
def test_a_forced_pattern_shows_beside_what_the_vectors_say(name: str):
    plain, edited = (explain(traced(name, edit), 1, 2, 11, 0) for edit in (None, force))
    assert edited.model_weight == 1
    assert edited.weight == pytest.approx(plain.weight, rel=1e-4) and edited.weight < 0.9
    assert edited.model_score == pytest.approx(edited.score, rel=1e-5)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_blocked_edge_shows_beside_what_the_vectors_say(name: str):
    found = explain(traced(name, block_edge), 1, 2, 11, 4)
    assert math.isnan(found.model_score) and found.model_weight == 0
    assert found.weight > 1e-4 and math.isfinite(found.score)


@pytest.mark.parametrize("edit", [turn_q, steer])
@pytest.mark.parametrize("name", VARIANTS)
def test_edited_vectors_are_what_is_explained(name: str, edit):
    trace, plain = traced(name, edit), traced(name)
    for head in range(H):
        found, before = explain(trace, 1, head, 11, 4), explain(plain, 1, head, 11, 4)
        assert abs(found.score - found.model_score) <= score_bound(trace, 1, head, 11)[4]
        assert found.weight == pytest.approx(found.model_weight, rel=1e-5)
        if edit is turn_q:
            assert found.score == pytest.approx(-before.score, rel=1e-5, abs=1e-6)
            assert_close(found.q_raw, before.q_raw, 5e-6, "the projection comes before the edit")
            if trace.config.qk_norm:
                assert_close(found.q_normed, -before.q_normed, 5e-6, "the edit comes after the norm")
        else:
            assert np.abs(found.q_raw - before.q_raw).max() > 1e-2
            if not trace.config.qk_norm:
                at = trace.sites(1, ["q", "k"])
                assert_close(found.q_raw, at["q"][0, head, 11], 2e-6, "the moved stream is projected")
                assert_close(found.k_raw, at["k"][0, head // trace.config.group_size, 4], 2e-6, "for keys too")


# --- what is refused ---


@pytest.mark.parametrize("edit", [None, force])
@pytest.mark.parametrize(
    ("cell", "what"),
    [
        ((L, 0, 3, 2), f"layer does not exist. Got: {L}. Layers run from 0 to {L - 1}"),
        ((-1, 0, 3, 2), "layer does not exist"),
        ((0, H, 3, 2), f"head does not exist. Got: {H}"),
        ((0, -1, 3, 2), "head does not exist"),
        ((0, 0, T, 2), f"position does not exist. Got: {T}. Positions run from 0 to {T - 1}"),
        ((0, 0, 3, -1), "position does not exist. Got: -1"),
        ((0, 0, -1, -1), "position does not exist"),
        ((0, 0, 3, 4), "cannot attend to a later token. Got: query 3, key 4. Choose a key at or before the query"),
        ((0, 0, 3, T), "position does not exist"),
    ],
)
def test_cells_that_are_not_there(cell, what: str, edit):
    with pytest.raises(InputError, match=what):
        explain(traced(edit=edit), *cell)


def test_a_single_token_reads_itself():
    found = explain(traced(ids=[5]), 2, 3, 0, 0)
    assert (found.weight, found.denominator, found.model_weight) == (1, 1, 1)
    assert found.output_norm == pytest.approx(found.row_output_norm)
    assert np.array_equal(found.weighted, found.value)
    assert found.q.shape == (E,)
