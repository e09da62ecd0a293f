"""The mathematics by numbers worked out by hand."""

import math

import pytest
import torch

from model.design.kernels import reference
from model.gpt import layers
from model.gpt.norm import Norm
from model.gpt.passes import Pass, attend_fused
from tests.support.models.helpers import assert_close, randn, tiny_config
from tests.support.models.rounding import products, rounded, shares_within, sums

LN2, LN3, LN4 = math.log(2), math.log(3), math.log(4)


# --- softmax and norms ---


def test_softmax_by_hand():
    expected = [1 / 6, 1 / 3, 1 / 2]
    assert_close(layers.attention_pattern(torch.tensor([0.0, LN2, LN3])), expected, sums(3, expected))


def test_a_masked_score_gets_exactly_zero():
    pattern = layers.attention_pattern(torch.tensor([1.0, 1.0, -math.inf]))
    assert pattern.tolist() == [0.5, 0.5, 0.0]


def test_layernorm_of_1_and_3():
    """Mean 2, variance 1: (-1, 1); with eps 3 the divisor is sqrt(1 + 3) = 2."""
    x = torch.tensor([1.0, 3.0])
    centered, scale = layers.NORMS["layernorm"](x, 0.0)
    assert (centered / scale).tolist() == [-1.0, 1.0]
    centered, scale = layers.NORMS["layernorm"](x, 3.0)
    assert (centered / scale).tolist() == [-0.5, 0.5]


def test_rmsnorm_of_3_and_4():
    """Mean square (9 + 16) / 2 = 12.5; with eps 12.5 the divisor is 5."""
    x = torch.tensor([3.0, 4.0])
    same, scale = layers.NORMS["rmsnorm"](x, 0.0)
    expected = [3 / math.sqrt(12.5), 4 / math.sqrt(12.5)]
    assert_close(same / scale, expected, rounded(expected, 5))  # two squares, their mean, a root, a quotient
    same, scale = layers.NORMS["rmsnorm"](x, 12.5)
    assert_close(same / scale, [0.6, 0.8], rounded([0.6, 0.8], 6))


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
def test_the_fused_norm_is_its_parts_times_gain_plus_bias(kind: str):
    norm = Norm(tiny_config({"norm": kind, "norm_eps": 0.1}), 7)
    norm.weight.data = randn(7, seed=1)
    x = 3 * randn(2, 5, 7) + 1
    numerator, scale = layers.NORMS[kind](x, 0.1)
    expected = numerator / scale * norm.weight
    if kind == "layernorm":
        norm.bias.data = randn(7, seed=2)
        expected = expected + norm.bias
    size = norm.weight.abs() * (1 + x.abs() / scale) + (0 if norm.bias is None else norm.bias.abs())
    assert_close(norm(x), expected, sums(7, size))
    seen = {}
    tap = lambda site, layer, y: seen.setdefault(site, y)  # noqa: E731
    assert_close(norm.tapped(x, "norm1", 0, Pass(None, attend_fused, None, tap)), expected, sums(7, size))
    assert_close(seen["norm1_scale"], scale, 0, "scale")


# --- positions ---


def test_sinusoids_by_formula():
    table = layers.sinusoidal_positions(3, 4, 5)
    for row, position in enumerate(range(3, 7)):
        angles = [position / 10_000 ** (2 * i / 5) for i in range(3)]
        expected = [f(angle) for angle in angles for f in (math.sin, math.cos)][:5]
        # A frequency f = exp(-x) is off by (x f + f) u, at most 1.4 u, an angle by `position` times that and once more.
        assert_close(table[row], expected, rounded(1, 3 * position + 1), f"position {position}")


def test_rope_at_position_1_turns_by_one_radian():
    config = tiny_config({"d_head": 2, "positions": "rope"})
    cos, sin = layers.rope_table(config, 1, 1)
    turned = layers.rotate(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]), cos, sin)
    assert_close(turned[0, 0], [math.cos(1), math.sin(1)], rounded(1, 2))
    assert_close(turned[1, 0], [-math.sin(1), math.cos(1)], rounded(1, 2))


def test_rope_pairs_dimension_i_with_i_plus_half():
    """Of four dimensions the pairs are (0, 2) turning by 1 and (1, 3) turning by theta^(-1/2) = 0.1 a step."""
    config = tiny_config({"d_head": 4, "positions": "rope", "rope_theta": 100.0})
    cos, sin = layers.rope_table(config, 3, 1)
    turned = layers.rotate(torch.tensor([[1.0, 2.0, 0.0, 0.0]]), cos, sin)
    assert_close(turned, [[math.cos(3), 2 * math.cos(0.3), math.sin(3), 2 * math.sin(0.3)]], rounded(2, 8))


def test_rope_scores_depend_on_the_difference_only():
    config = tiny_config({"positions": "rope"})
    q, k = randn(1, 1, 1, 12), randn(1, 1, 1, 12, seed=1)

    def score(i: int, j: int) -> torch.Tensor:
        turned = (layers.rotate(x, *layers.rope_table(config, at, 1)) for x, at in ((q, i), (k, j)))
        return math.prod(turned).sum()

    def off(i: int, j: int) -> torch.Tensor:
        """A sum of 12 terms, and angles of up to so many radians; |q| |k| is at least the terms' size."""
        return sums(12, q.norm() * k.norm()) + rounded(q.norm() * k.norm(), 2 * (i + j + 20))

    for i, j in ((5, 2), (9, 9), (2, 7)):
        assert_close(score(i, j), score(i + 20, j + 20), off(i, j), f"{i}, {j}")
    assert abs(score(5, 2) - score(6, 2)) > 0.01


def test_partial_rotary_leaves_the_rest():
    config = tiny_config({"positions": "rope", "rotary_fraction": 0.5})
    x = randn(1, 4, 6, 12)
    turned = layers.rotate(x, *layers.rope_table(config, 0, 6))
    assert torch.equal(turned[..., 6:], x[..., 6:])
    assert torch.equal(turned[:, :, 0], x[:, :, 0])
    assert (turned[:, :, 1:, :6] - x[:, :, 1:, :6]).abs().amin((0, 1, 2)).max() > 0
    assert_close(turned.norm(dim=-1), x.norm(dim=-1), sums(12, x.norm(dim=-1)), "length")


# --- attention ---


def test_attention_of_three_tokens_by_hand():
    """d_head 4, so scores are halved. Scores (0, ln 3) give 1/4, 3/4; (0, ln 3, ln 4) give 1/8, 3/8, 4/8."""
    q = torch.tensor([1.0, 0, 0, 0]).expand(1, 1, 3, 4)
    k = torch.zeros(1, 1, 3, 4)
    k[0, 0, :, 0] = torch.tensor([0.0, 2 * LN3, 2 * LN4])
    v = torch.tensor([[0.0, 1], [4, 1], [8, 1]])[None, None]
    scores = layers.attention_scores(q, k)
    assert_close(scores[0, 0, 2], [0, LN3, LN4], sums(4, LN4), "scores")
    pattern = layers.attention_pattern(scores)
    expected = torch.tensor([[1, 0, 0], [1 / 4, 3 / 4, 0], [1 / 8, 3 / 8, 1 / 2]])
    assert_close(pattern[0, 0], expected, shares_within(expected, sums(4, LN4)))
    z = [[0, 1], [3, 1], [5.5, 1]]
    off = sums(4, torch.tensor(z) * (1 + 2 * LN4))  # of scores, of weights, and of the weighted values
    assert_close(layers.mix(pattern, v)[0, 0], z, off, "explicit")
    assert_close(layers.fused_attention(q, k, torch.cat((v, v), -1))[0, 0, :, :2], z, off, "fused")


def test_the_future_is_masked_with_minus_infinity():
    scores = layers.attention_scores(randn(2, 4, 5, 12), randn(2, 2, 5, 12, seed=1))
    above = torch.ones(5, 5).triu(1).bool()
    assert (scores[..., above] == -math.inf).all() and scores[..., ~above].isfinite().all()
    assert layers.future(2, 4).tolist() == [[False, False, False, True], [False, False, False, False]]


@pytest.mark.parametrize("G", [1, 2, 4])
def test_shared_kv_heads_equal_copied_ones(G: int):
    q, k, v = randn(2, 4, 6, 12), randn(2, G, 6, 12, seed=1), randn(2, G, 6, 12, seed=2)
    copied_k, copied_v = (x.repeat_interleave(4 // G, dim=1) for x in (k, v))
    scores = layers.attention_scores(q, k)
    off = scores.exp() * products(q, copied_k.mT)
    assert_close(scores.exp(), layers.attention_scores(q, copied_k).exp(), off, "scores")
    pattern, (_, bound) = layers.attention_pattern(scores), reference(q, k, v, torch.arange(6))
    assert_close(layers.mix(pattern, v), layers.mix(pattern, copied_v), products(pattern, copied_v), "mix")
    assert_close(layers.fused_attention(q, k, v), layers.fused_attention(q, copied_k, copied_v), 2 * bound, "fused")


@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 7), (3, 7), (7, 7)])
def test_fused_attention_equals_the_steps(T: int, S: int):
    q, k, v = randn(2, 4, T, 12), randn(2, 2, S, 12, seed=1), randn(2, 2, S, 12, seed=2)
    pattern = layers.attention_pattern(layers.attention_scores(q, k))
    queries = torch.cat((randn(2, 4, S - T, 12, seed=3), q), 2)
    bound = 2 * reference(queries, k, v, torch.arange(S - T, S))[1]
    assert_close(layers.fused_attention(q, k, v), layers.mix(pattern, v), bound)
    # Query t is position S - T + t: it sees what a full run would let it see.
    full = layers.attention_pattern(layers.attention_scores(queries, k))
    size = products(q, k.repeat_interleave(2, 1).mT).amax(-1, keepdim=True)
    assert_close(pattern, full[:, :, S - T :], shares_within(pattern, size))


def test_heads_are_consecutive_slices():
    x = torch.arange(24.0).view(1, 2, 12)
    heads = layers.split_heads(x, 4)
    assert heads.shape == (1, 3, 2, 4)
    assert heads[0, 1].tolist() == [[4, 5, 6, 7], [16, 17, 18, 19]]
    assert torch.equal(layers.merge_heads(heads), x)


# --- MLP ---


@pytest.mark.parametrize(
    ("name", "at_1", "at_minus_1"),
    [
        ("relu", 1.0, 0.0),
        ("gelu", 0.8413447, -0.1586553),  # the normal distribution function at 1 and -1
        ("gelu_tanh", 0.8411920, -0.1588080),
        ("swiglu", 0.7310586, -0.2689414),  # 1 / (1 + 1/e)
    ],
)
def test_activations_by_value(name: str, at_1: float, at_minus_1: float):
    assert_close(layers.MLPS[name](torch.tensor([1.0, -1.0, 0.0])), [at_1, at_minus_1, 0.0], rounded(1, 4))  # 7 digits


def test_xielu_by_value():
    """0.8 + 0.5; 0.8 / e - 0.5; and at 0, 0.8 (e^-1e-6 - 1), since it is no larger than the edge there."""
    assert_close(layers.xielu(torch.tensor([1.0, -1.0, 0.0])), [1.3, -0.2056964, -8e-7], rounded(1, 4))
    wide = layers.xielu(torch.tensor([2.0, -1.0]), 0.25, 2.0, 0.1, -3.0)  # 1 + 0.2; 2 e^-3 - 0.1
    assert_close(wide, [1.2, -0.0004259], rounded(1, 4))
