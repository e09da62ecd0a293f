"""Attention computed in four ways is one function; the online softmax ends as the softmax; costs are what they say."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from model.design import kernel_costs
from model.design.kernel_costs import (
    KernelCost,
    growth,
    lengths_of,
    matrix_bytes,
    measure,
    peak_bytes,
    random_qkv,
    ways_at,
)
from model.design.kernels import (
    WAYS,
    blocks_for,
    by_rows,
    chunked,
    exactness,
    layer_qkv,
    naive,
    online_steps,
    reference,
    rows_of,
)
from model.errors import InputError
from model.generation.cache_costs import Times
from model.tracing.trace import run
from tests.support.models.helpers import VARIANTS, assert_close, random_ids, steer, tiny_model, tokens_of
from tests.support.models.rounding import rounded, within


@st.composite
def shapes(draw):
    """(B, H, G, T, S, E) with H a multiple of G and T <= S."""
    G, size = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    T = draw(st.integers(1, 20))
    return draw(st.integers(1, 2)), G * size, G, T, T + draw(st.integers(0, 9)), draw(st.integers(1, 9))


def qkv(shape, large, seed):
    """Random q, k, v whose scores reach about `large`."""
    B, heads, kv, T, S, E = shape
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(B, n, t, E, generator=generator) for n, t in ((heads, T), (kv, S), (kv, S)))
    return q * math.sqrt(large), k * math.sqrt(large), v


# --- the same function ---


@given(shapes(), st.integers(1, 25), st.integers(1, 25), st.sampled_from([1e-3, 1.0, 100.0, 1e4]), st.integers(0, 9))
@settings(max_examples=150, deadline=None)
def test_blocks_are_the_same_function_as_all_scores_at_once(shape, queries, keys, large, seed):
    q, k, v = (part.double() for part in qkv(shape, large, seed))
    z = naive(q, k, v)
    assert z.isfinite().all()
    assert_close(chunked(q, k, v, queries=queries, keys=keys), z, 1e-9)
    assert_close(by_rows(q, k, v, rows=queries), z, 1e-9)
    repeated = (part.repeat_interleave(shape[1] // shape[2], 1) for part in (k, v))
    visible = torch.ones(shape[3], shape[4], dtype=torch.bool).tril(shape[4] - shape[3])
    assert_close(F.scaled_dot_product_attention(q, *repeated, attn_mask=visible), z, 1e-9)


@given(shapes(), st.integers(1, 25), st.integers(1, 25), st.sampled_from([1.0, 1e4]), st.integers(0, 9), st.data())
@settings(max_examples=100, deadline=None)
def test_any_keys_may_be_hidden_and_a_row_without_any_is_zero(shape, queries, keys, large, seed, data):
    q, k, v = (part.double() for part in qkv(shape, large, seed))
    T, S = shape[3], shape[4]
    bits = data.draw(st.lists(st.booleans(), min_size=T * S, max_size=T * S))
    bias = torch.zeros(T, S, dtype=torch.float64).masked_fill(torch.tensor(bits).view(T, S), -math.inf)
    z = naive(q, k, v, bias)
    assert z.isfinite().all()
    lost = (bias == -math.inf).all(1)
    assert (z[:, :, lost] == 0).all() and (z[:, :, ~lost] != 0).any(-1).all()
    assert_close(chunked(q, k, v, bias, queries, keys), z, 1e-9)
    assert_close(by_rows(q, k, v, bias, queries), z, 1e-9)


def test_a_bias_is_added_to_the_scores():
    q, k, v = qkv((1, 2, 1, 3, 4, 5), 1.0, 0)
    bias = torch.randn(3, 4)
    expected = F.scaled_dot_product_attention(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1), attn_mask=bias)
    # The bound of `reference`, with the biases among the scores' sizes and every key seen.
    sizes = (q.abs() @ k.abs().repeat(1, 2, 1, 1).mT / math.sqrt(5) + bias.abs()).amax(-1, keepdim=True)
    bound = 2.0**-24 * (2 * (5 + 4) * sizes + 2 * 4 + 32) * v.abs().amax(2, keepdim=True)
    for way in (naive, by_rows, chunked):
        assert_close(way(q, k, v, bias), expected, 2 * bound)


@pytest.mark.parametrize("way", WAYS)
def test_two_keys_by_hand(way):
    """Scores 0 and ln 3 / 1 give weights 1/4 and 3/4."""
    q, k = torch.tensor([[[[0.0], [math.log(3)]]]]), torch.tensor([[[[0.0], [1.0]]]])
    v = torch.tensor([[[[8.0], [16.0]]]])
    assert_close(WAYS[way](q, k, v)[0, 0, :, 0], [8.0, 14.0], reference(q, k, v, torch.arange(2))[1][0, 0, :, 0])


@pytest.mark.parametrize("way", WAYS)
def test_scores_beyond_the_exponential_do_not_overflow(way):
    q, k, v = qkv((1, 4, 2, 40, 40, 8), 1e4, 1)
    assert float((q[0, 0] @ k[0, 0].mT).abs().max()) > 1e4  # exp(100) is beyond float32 already
    z = WAYS[way](q, k, v)
    assert z.isfinite().all()
    itself = v[:, :, 0].repeat_interleave(2, 1)
    assert_close(z[:, :, 0], itself, rounded(itself, 2))  # the first token reads itself


# --- against float64 ---


@given(shapes(), st.sampled_from([0.01, 1.0, 30.0]), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_every_way_stays_within_the_bound(shape, large, seed):
    B, heads, kv, T, _, E = shape
    for each in exactness(*qkv((B, heads, kv, T, T, E), large, seed)):
        assert each.share <= 1 and each.gap < 1e-2


def test_a_mistake_is_far_beyond_the_bound():
    q, k, v = qkv((1, 4, 2, 30, 30, 8), 1.0, 0)
    exact, bound = reference(q, k, v, rows_of(30))
    wrong = naive(q * (1 + 1e-3), k, v).double()
    assert float(((wrong - exact).abs() / bound).max()) > 2


def test_the_reference_is_the_formula():
    q, k, v = (part.double() for part in qkv((1, 4, 2, 30, 30, 8), 1.0, 0))
    exact, bound = reference(q, k, v, torch.tensor([0, 3, 29]))
    assert_close(exact, naive(q, k, v)[:, :, [0, 3, 29]], 1e-12)
    a = float((q[0, 3, 3].abs() * k[0, 1, :4].abs()).sum(-1).max() / math.sqrt(8))
    weights = (q[0, 3, 3] @ k[0, 1, :4].mT / math.sqrt(8)).softmax(-1)
    expected = 2.0**-24 * (2 * 12 * a + 2 * 30 + 32) * (weights @ v[0, 1, :4].abs())
    assert_close(bound[0, 3, 1], expected, 1e-15)


def test_rows_to_compare():
    assert rows_of(5).tolist() == [0, 1, 2, 3, 4]
    found = rows_of(1000).tolist()
    assert len(found) == 256 and found[0] == 0 and found[-1] == 999 and found == sorted(set(found))


@pytest.mark.parametrize("variant", VARIANTS)
def test_on_a_layer_of_a_run(variant):
    trace = run(tiny_model(VARIANTS[variant]), tokens_of(random_ids(1, 9)[0]))
    q, k, v = layer_qkv(trace, 1)
    bound = within(trace.model, random_ids(1, 9), sites=["z"])["z", 1][0, 2]
    for way in WAYS:
        assert_close(WAYS[way](q, k, v)[0, 2], trace.z(1, 2), bound, way)
    assert all(each.share <= 1 for each in exactness(q, k, v))
    with pytest.raises(InputError):
        layer_qkv(trace, 3)


def test_a_tapped_run_is_read_as_it_was():
    model, tokens = tiny_model(), tokens_of(random_ids(1, 9)[0])
    plain, tapped = run(model, tokens), run(model, tokens, tap=steer)
    bound = within(model, random_ids(1, 9), steer, ["z"])["z", 1][0, 2]
    assert_close(naive(*layer_qkv(tapped, 1))[0, 2], tapped.z(1, 2), bound)
    assert float((layer_qkv(tapped, 1)[0] - layer_qkv(plain, 1)[0]).abs().max()) > 0.1


# --- one row, block by block ---


def test_three_blocks_by_hand():
    """Scores 0, ln 2 | ln 4, 0 | ln 8: the maximum rises at every block."""
    scores, values = np.log([1.0, 2.0, 4.0, 1.0, 8.0]), np.array([[16.0], [0.0], [0.0], [0.0], [32.0]])
    one, two, three = online_steps(scores, values, 2)
    assert (one.start, one.end, two.start, two.end, three.start, three.end) == (0, 2, 2, 4, 4, 5)
    assert np.exp([one.maximum, two.maximum, three.maximum]).tolist() == pytest.approx([2, 4, 8])
    assert [one.scale, two.scale, three.scale] == pytest.approx([0, 0.5, 0.5])
    assert [one.total, two.total, three.total] == pytest.approx([3 / 2, 8 / 4, 16 / 8])
    assert [float(step.output[0]) for step in (one, two, three)] == pytest.approx([16 / 3, 2, 17])
    assert one.weights[:2].tolist() == pytest.approx([1 / 3, 2 / 3]) and np.isnan(one.weights[2:]).all()
    assert two.weights[:4].tolist() == pytest.approx([1 / 8, 2 / 8, 4 / 8, 1 / 8])
    assert three.weights.tolist() == pytest.approx([1 / 16, 2 / 16, 4 / 16, 1 / 16, 8 / 16])


@given(
    st.lists(st.one_of(st.floats(-1e4, 1e4), st.just(-math.inf), st.just(math.nan)), min_size=1, max_size=30),
    st.integers(1, 31),
)
@settings(max_examples=200, deadline=None)
def test_the_last_step_is_the_softmax(scores, block):
    scores = np.array(scores)
    values = np.arange(len(scores) * 2.0).reshape(-1, 2)
    steps = online_steps(scores, values, block)
    seen = torch.from_numpy(np.where(np.isnan(scores), -np.inf, scores))
    expected = seen.softmax(0).numpy() if seen.isfinite().any() else np.zeros(len(scores))
    assert_close(steps[-1].weights, expected, 1e-12)
    assert_close(steps[-1].output, expected @ values, 1e-9)
    assert len(steps) == -(-len(scores) // block) and steps[-1].end == len(scores)
    for before, after in itertools.pairwise(steps):
        assert after.maximum >= before.maximum and 0 <= after.scale <= 1


def test_steps_that_do_not_fit():
    with pytest.raises(InputError, match="block: 0"):
        online_steps(np.zeros(3), np.zeros((3, 1)), 0)
    with pytest.raises(ValueError, match="a row for each of the scores"):
        online_steps(np.zeros(3), np.zeros((2, 1)), 1)


@pytest.mark.parametrize(("n", "block", "expected"), [(10, 4, 4), (64, 4, 4), (65, 4, 5), (1024, 1, 64), (1, 1, 1)])
def test_blocks_are_large_enough(n, block, expected):
    assert blocks_for(n, block) == expected and -(-n // blocks_for(n, block)) <= 16


# --- what it costs ---


def test_bytes_of_scores_by_formula():
    assert matrix_bytes("naive", 8, 1024, 32) == 4 * 8 * 1024 * 1024
    assert matrix_bytes("rows", 8, 1024, 32) == 4 * 8 * 128 * 1024
    assert matrix_bytes("chunked", 8, 1024, 32) == 4 * 8 * 128 * 128 == matrix_bytes("chunked", 8, 4096, 32)
    assert matrix_bytes("fused", 8, 1024, 32) == 0
    assert matrix_bytes("rows", 8, 64, 32) == matrix_bytes("naive", 8, 64, 32) == 4 * 8 * 64 * 64


def test_the_peak_is_what_tensors_take():
    """Two tensors alive at once, then one: the peak is both, and what was there before does not count."""

    def way(q, k, v):
        first = q.exp()
        second = first.exp()
        del first
        return second.exp()

    q = torch.zeros(1, 1, 1000, 25)
    assert peak_bytes(way, q, q, q) == 2 * q.nbytes


def test_the_naive_peak_holds_at_least_its_matrix_and_blocks_hold_less():
    q, k, v = random_qkv(4, 4, 1024, 8)
    peaks = {way: peak_bytes(WAYS[way], q, k, v) for way in WAYS}
    matrix = matrix_bytes("naive", 4, 1024, 8)
    assert 2 * matrix <= peaks["naive"] < 3 * matrix  # scores and pattern
    assert peaks["rows"] < matrix and peaks["chunked"] < matrix / 4 and peaks["fused"] < matrix / 4


def test_a_torch_that_does_not_tell(monkeypatch):
    def refuse(**_):
        raise RuntimeError

    monkeypatch.setattr(kernel_costs, "profile", refuse)
    q = torch.zeros(1, 1, 3, 2)
    assert peak_bytes(naive, q, q, q) is None


def test_a_measurement(monkeypatch):
    monkeypatch.setattr(kernel_costs, "LENGTHS", (8, 16, 32))
    monkeypatch.setattr(kernel_costs, "MOST_MATRIX", matrix_bytes("naive", 4, 16, 8))
    told = []
    found = measure((4, 2, 8), 40, lambda done, total, what: told.append((done, total)), budget=0.2)
    assert [(cost.length, cost.way) for cost in found.costs] == [
        *((8, way) for way in WAYS),
        *((16, way) for way in WAYS),
        (32, "fused"),
    ]
    assert told[0] == (0, 56) and told == sorted(told)
    assert all(len(cost.seconds.seconds) >= 3 and cost.peak > 0 for cost in found.costs)
    assert [length for length, _ in found.exact] == [8, 16, 32]
    assert all(each.share <= 1 for _, row in found.exact for each in row)
    assert (found.heads, found.kv_heads, found.d_head) == (4, 2, 8)


def test_what_is_measured():
    assert lengths_of(1024) == (128, 256, 512, 1024) and lengths_of(100) == (100,)
    assert "naive" in ways_at(8, 2048, 32) and "naive" not in ways_at(8, 4096, 32)
    assert set(ways_at(8, 4096, 32)) == {"rows", "chunked", "fused"}
    q, k, _ = random_qkv(4, 2, 16, 8)
    assert q.shape == (1, 4, 16, 8) and k.shape == (1, 2, 16, 8)


def test_growth_is_the_power_of_the_length():
    costs = [KernelCost("naive", n, Times((s,)), 1, 1) for n, s in ((64, 9.0), (128, 1.0), (256, 4.0), (512, 16.0))]
    assert growth(costs, "naive") == pytest.approx(2) == growth(costs[1:3], "naive")
    assert growth(costs[:1], "naive") is None and growth(costs, "fused") is None
