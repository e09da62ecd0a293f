"""Each compiled loop is the formula, on one thread and on all."""

import numpy as np
import pytest
import torch

from model.gpt.layers import MLPS, NORMS, attention_pattern, attention_scores, mix, rotate
from model.kernels import ready
from tests.support.models.helpers import assert_close, randn
from tests.support.models.rounding import of_linear, sums

NONE = np.empty(0, np.float32)
loops = ready.now()


@pytest.fixture(params=[False, True], ids=["alone", "threads"])
def threads(request):
    with ready.threads() as count:
        yield max(count, 2) if request.param else 1


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("with_bias", [True, False])
def test_a_product_is_the_linear_map(rows, with_bias, threads):
    x, weight, bias = randn(rows, 45), randn(101, 45, seed=1), randn(101, seed=2) if with_bias else None
    y = np.full((rows, 101), np.nan, np.float32)
    loops.product(x.numpy(), weight.numpy(), NONE, bias.numpy() if with_bias else NONE, y, threads)
    expected = x.double() @ weight.double().T + (bias.double() if with_bias else 0)
    assert_close(torch.from_numpy(y), expected, of_linear(x, weight, bias))


@pytest.mark.parametrize("rows", [1, 6])
def test_whole_numbers_are_multiplied_as_they_are(rows, threads):
    x, scale, bias = randn(rows, 70), randn(33, seed=3).abs() + 0.1, randn(33, seed=2)
    whole = torch.randint(-127, 128, (33, 70), generator=torch.Generator().manual_seed(0), dtype=torch.int8)
    y = np.full((rows, 33), np.nan, np.float32)
    loops.product(x.numpy(), whole.numpy(), scale.numpy(), bias.numpy(), y, threads)
    weight = whole.double() * scale.double()[:, None]
    bound = of_linear(x, weight, bias) + sums(2, x.double().abs() @ weight.abs().T)  # the scale comes after the sum
    assert_close(torch.from_numpy(y), x.double() @ weight.T + bias.double(), bound)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 40])
def test_every_output_has_one_part(parts):
    x, weight = randn(2, 8), randn(10, 8, seed=1)
    y = np.full((2, 10), np.nan, np.float32)
    loops.product(x.numpy(), weight.numpy(), NONE, NONE, y, parts)
    assert_close(torch.from_numpy(y), x.double() @ weight.double().T, of_linear(x, weight, None))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_the_numbers_are_the_same_for_any_number_of_threads(rows):
    x, weight = randn(rows, 70).numpy(), randn(67, 70, seed=1).numpy()
    several = [np.empty((rows, 67), np.float32) for _ in range(5)]
    for parts, y in enumerate(several, 1):
        loops.product(x, weight, NONE, NONE, y, parts)
    assert all(np.array_equal(y, several[0]) for y in several)


@pytest.mark.parametrize("kind", NORMS)
@pytest.mark.parametrize("with_bias", [True, False])
def test_a_norm_is_its_formula(kind, with_bias):
    x, gain, bias = 3 * randn(5, 37) + 2, randn(37, seed=1), randn(37, seed=2) if with_bias else None
    y = np.full((5, 37), np.nan, np.float32)
    given = bias.numpy() if with_bias else NONE
    loops.norm(x.numpy(), gain.numpy(), given, np.float32(0.1), kind == "layernorm", y)
    numerator, scale = NORMS[kind](x.double(), float(np.float32(0.1)))
    expected = numerator / scale * gain.double() + (bias.double() if with_bias else 0)
    sizes = (x.abs().amax(-1, keepdim=True) / scale).double() * gain.abs().double() + 3  # of what is added up
    assert_close(torch.from_numpy(y), expected, sums(37 + 4, sizes))


@pytest.mark.parametrize(("H", "G", "T", "start"), [(4, 4, 1, 0), (4, 2, 1, 9), (6, 1, 5, 3), (6, 2, 3, 0)])
@pytest.mark.parametrize("turned", [0, 3, 4])
@pytest.mark.parametrize("normed", [True, False])
def test_attention_is_its_steps_one_by_one(H, G, T, start, turned, normed, threads):
    B, E, S, eps = 2, 8, start + T + 2, np.float32(0.02)
    qkv, angle = randn(B, T, (H + 2 * G) * E), randn(T, turned, seed=7)
    gains = [randn(E, seed=seed) if normed else None for seed in (5, 6)]
    keys, values = randn(B, G, S, E, seed=1), randn(B, G, S, E, seed=2)
    before = keys.clone(), values.clone()
    z = np.full((B, T, H * E), np.nan, np.float32)
    given = [NONE if gain is None else gain.numpy() for gain in gains]
    cos, sin = angle.cos(), angle.sin()
    held = keys.numpy(), values.numpy(), start, cos.numpy(), sin.numpy()
    loops.attention(qkv.numpy(), *held, *given, eps, z, threads)

    heads = qkv.double().view(B, T, H + 2 * G, E).transpose(1, 2)
    q, k, v = heads.split([H, G, G], 1)
    if normed:
        q, k = (
            x / (x.square().mean(-1, keepdim=True) + float(eps)).sqrt() * gain
            for x, gain in zip((q, k), gains, strict=True)
        )
    if turned:
        q, k = (rotate(x, cos.double(), sin.double()) for x in (q, k))
    k = torch.cat((before[0][:, :, :start].double(), k), 2)
    v = torch.cat((before[1][:, :, :start].double(), v), 2)
    scores = attention_scores(q, k)
    expected = mix(attention_pattern(scores), v).transpose(1, 2).flatten(2)
    # Each number on the way is rounded some E + S times, a score's error is the exponential's.
    off = sums(2 * (E + S), float(v.abs().max()) * (1 + float(q.norm(dim=-1).max() * k.norm(dim=-1).max())))
    assert_close(torch.from_numpy(z), expected, off)
    assert_close(keys[:, :, : start + T], k, sums(2 * E, float(k.abs().max())))
    assert torch.equal(values[:, :, start : start + T].double(), v[:, :, start:])
    for part, old in zip((keys, values), before, strict=True):  # what was there, and what is free
        assert torch.equal(part[:, :, :start], old[:, :, :start])
        assert torch.equal(part[:, :, start + T :], old[:, :, start + T :])


@pytest.mark.parametrize("name", [*MLPS][:4])
def test_the_functions_of_mlps_are_torch_s(name):
    x, gated = 4 * randn(3, 20), name == "swiglu"
    up = torch.cat((x, randn(3, 20, seed=1)), -1) if gated else x
    y = np.full((3, 20), np.nan, np.float32)
    loops.activate(up.numpy(), [*MLPS].index(name), y)
    expected = MLPS[name](x.double()) * (up[:, 20:].double() if gated else 1)
    assert_close(torch.from_numpy(y), expected, sums(8, expected) + sums(2, x))


@pytest.mark.parametrize("sign", [1, -1])
def test_large_scores_do_not_overflow(sign):
    """The largest score is the last, or the first."""
    keys, values = np.zeros((1, 1, 2, 4), np.float32), np.zeros((1, 1, 2, 4), np.float32)
    keys[0, 0, 0], values[0, 0, 0] = -200 * sign, 7
    none, z = np.empty((1, 0), np.float32), np.empty((1, 1, 4), np.float32)
    new = np.repeat([200, 200 * sign, 3], 4).astype(np.float32)[None, None]
    loops.attention(new, keys, values, 1, none, none, NONE, NONE, np.float32(0), z, 1)
    assert z.tolist() == [[[3.0 if sign == 1 else 7.0] * 4]]


def test_what_is_no_number_stays_so():
    keys, values = np.zeros((1, 1, 2, 4), np.float32), np.zeros((1, 1, 2, 4), np.float32)
    none, z, y = np.empty((1, 0), np.float32), np.empty((1, 1, 4), np.float32), np.empty((1, 3), np.float32)
    new = np.ones((1, 1, 12), np.float32)
    new[0, 0, 0] = np.nan
    loops.attention(new, keys, values, 1, none, none, NONE, NONE, np.float32(0), z, 1)
    assert np.isnan(z).all()
    loops.norm(np.array([[1, np.nan, 2]], np.float32), np.ones(3, np.float32), NONE, np.float32(0), True, y)
    assert np.isnan(y).all()


def surveyed(logits: np.ndarray, n: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """What the loop says of rows of logits."""
    sums, top = np.full((len(logits), 3), 7.0), np.full((len(logits), min(n, logits.shape[1])), -1)
    loops.survey(logits, sums, top)
    return sums, top


@pytest.mark.parametrize("size", [1, 5, 8, 64, 65, 1000, 49_152])
@pytest.mark.parametrize("kind", ["any", "ties", "excluded", "far apart"])
def test_a_survey_has_the_sums_of_the_softmax_and_the_largest(size, kind):
    logits = 4 * randn(3, size).numpy()
    if kind == "ties":
        logits = logits.round()
    elif kind == "excluded":
        logits[:, 1::2] = -np.inf
    elif kind == "far apart":
        logits *= 1000
    sums, top = surveyed(logits)
    below = logits.astype(np.float64) - logits.max(1, keepdims=True)
    shares = np.exp(below)
    spread = np.where(shares > 0, shares * np.maximum(below, -1e4), 0)
    # n numbers are added in any order, each of them an e^x and a product that are off by a few units in the last place
    bound = (size + 8) * 2.0**-53
    assert np.array_equal(sums[:, 0], logits.max(1))
    assert (np.abs(sums[:, 1] - shares.sum(1)) <= bound * shares.sum(1)).all()
    assert (np.abs(sums[:, 2] - spread.sum(1)) <= bound * np.abs(spread).sum(1) + 1e-300).all()
    order = np.argsort(-logits, axis=1, kind="stable")  # ties by the smaller id
    assert np.array_equal(top, order[:, : top.shape[1]])


def test_its_powers_of_e_are_good_to_the_last_place():
    x = np.linspace(0, 700, 100_001).astype(np.float32)[1:]
    sums, _ = surveyed(np.stack((np.zeros_like(x), -x), 1))
    found = sums[:, 2] / -x.astype(np.float64)  # e^-x, times x and divided by it again
    assert (np.abs(found / np.exp(-x.astype(np.float64)) - 1) < 5 * 2.0**-53).all()
    assert surveyed(np.array([[0, -800]], np.float32))[0].tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, 3, 99])
def test_a_survey_shows_a_number_that_is_none(number, at):
    logits = randn(2, 100).numpy()
    logits[1, at] = number
    sums, _ = surveyed(logits)
    assert np.isfinite(sums[0]).all() and not np.isfinite(sums[1, :2].sum())
    assert not np.isfinite(surveyed(np.full((1, 5), -np.inf, np.float32))[0][0, :2].sum())
