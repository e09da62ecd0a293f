"""Products with whole numbers in strips are the linear map of the float32 matrix that they say."""

import numpy as np
import pytest
import torch

from model.kernels import coded as kernels_coded
from model.kernels import ready
from model.kernels.coded import WIDTHS, Coded, below, digest, in_strips, shortened
from tests.support.models.helpers import assert_close, randn
from tests.support.models.rounding import products, sums

NONE = np.empty(0, np.float32)
loops = ready.now()


def coded(out: int, d_in: int, size: int = 32, seed: int = 0) -> Coded:
    """Random codes, each number of them different in size from those beside it; of size 0, those of bfloat16."""
    generator = np.random.default_rng(seed)
    if not size:
        return shortened(randn(out, d_in, seed=seed).bfloat16().float().numpy())
    scale, offset = (generator.standard_normal((out, d_in // size)).astype(np.float32) for _ in range(2))
    return Coded(generator.integers(-128, 128, (out, d_in)).astype(np.int8), scale, offset)


def test_a_matrix_by_hand():
    whole = np.arange(-4, 4, dtype=np.int8).reshape(1, 8)
    weight = Coded(whole, np.float32([[0.5, 2]]), np.float32([[10, -1]])).weight()
    assert weight.tolist() == [[8, 8.5, 9, 9.5, -1, 1, 3, 5]] and weight.dtype == np.float32


def test_numbers_of_bfloat16_are_known_and_halved():
    weight = torch.tensor([[1, -2.5, 0, 3e-39, -1e38, float("inf")]]).bfloat16().float().numpy()
    half = shortened(weight)
    assert half.code.dtype == np.uint16 and half.code.nbytes * 2 == weight.nbytes and half.size == 6
    assert np.array_equal(half.code.view(np.int16), torch.from_numpy(weight).bfloat16().view(torch.int16).numpy())
    far = np.zeros((9000, 2), np.float32)
    assert shortened(far) is not None
    for number in (0.1, 1 + 2**-8, 1 + 2**-23):
        far[-1, 1] = number
        assert shortened(far) is None, number


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize(("out", "size"), [(96, 32), (160, 16), (32, 4), (576, 32), (192, 0)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_a_product_is_the_linear_map(rows, out, size, with_bias):
    matrix, x, bias = coded(out, 64, size), randn(rows, 64), randn(out, seed=2).numpy() if with_bias else NONE
    found = [np.full((rows, out), np.nan, np.float32) for _ in range(4)]
    for threads, y in enumerate(found, 1):
        loops.product(x.numpy(), *in_strips(matrix), bias, y, threads)
    weight = torch.from_numpy(matrix.weight()).double()
    exact = x.double() @ weight.T + (torch.from_numpy(bias).double() if with_bias else 0)
    # A block's sum is of whole numbers and then times the scale, that of x times the offset.
    by_scale = Coded(matrix.code, matrix.scale, 0 * matrix.offset).weight()
    sizes = torch.from_numpy(abs(by_scale) + abs(matrix.offset).repeat(matrix.size, 1)).double()
    bound = products(x, sizes.T) + sums(3, x.double().abs() @ sizes.T + np.abs(bias).max(initial=0))
    assert_close(torch.from_numpy(found[0]), exact, bound)
    assert all(np.array_equal(y, found[0]) for y in found), "the same numbers for any number of threads"


@pytest.mark.parametrize("width", WIDTHS)
def test_every_number_has_its_place_in_a_strip(width):
    matrix = coded(2 * width, 32, 16)
    whole, scales = in_strips(matrix)
    R = whole.shape[2]
    assert whole.shape[:2] == (2 * width // R, 32) and scales.shape == (len(whole), 2, 2, R)
    for o, i in ((0, 0), (R - 1, 5), (2 * width - 1, 31), (width, 16)):
        assert whole[o // R, i, o % R] == matrix.code[o, i]
        assert scales[o // R, i // 16, :, o % R].tolist() == [matrix.scale[o, i // 16], matrix.offset[o, i // 16]]
    assert whole.flags.c_contiguous and scales.flags.c_contiguous


def test_strips_are_wide_and_divide_among_threads():
    widths = {768: 96, 576: 96, 3072: 96, 2048: 64, 320: 64, 32: 32}
    assert {out: in_strips(coded(out, 32))[0].shape[2] for out in widths} == widths


def test_what_makes_no_whole_strips_has_none():
    assert in_strips(coded(50, 32)) is None, "outputs"
    assert in_strips(coded(96, 6, 2)) is None, "blocks"


def test_matrices_below_each_other():
    one, other = coded(32, 64), coded(64, 64, seed=1)
    assert np.array_equal(below([one, other]).weight(), np.concatenate((one.weight(), other.weight())))
    assert below([one, coded(32, 64, 16)]) is None, "blocks of two sizes"


@pytest.mark.parametrize("d_in", [6, 7])
def test_a_digest_tells_any_change(d_in):
    weights = [randn(5, d_in, seed=seed).numpy() for seed in range(3)]
    before, seen = digest(weights), set()

    def changed(at: int, new: np.ndarray) -> None:
        seen.add(digest([new if each == at else weight for each, weight in enumerate(weights)]))

    one = weights[1].copy()
    one[4, 5] = np.nextafter(one[4, 5], np.float32(9))
    changed(1, one)
    changed(1, np.ascontiguousarray(weights[1][[1, 0, 2, 3, 4]]))
    changed(0, np.ascontiguousarray(weights[0][:, [2, 3, 0, 1, *range(4, d_in)]]))
    changed(2, weights[2] * 0)
    changed(2, -weights[2])
    seen.add(digest(weights[::-1]))
    assert len(seen) == 6 and before not in seen and digest([weight.copy() for weight in weights]) == before


@pytest.mark.parametrize("shape", [(3, 2048), (5, 2052), (7, 33), (1, 1)])
def test_a_digest_tells_every_bit_and_any_signs(shape, monkeypatch):
    """One bit of each column, and the signs of any columns; by the compiled loop and without it."""
    weight, draw = randn(*shape).numpy(), np.random.default_rng(0)
    bits, before, seen = weight.view(np.uint32), digest([weight]), set()
    for column in draw.permutation(shape[1])[:40]:
        row, bit = draw.integers(shape[0]), np.uint32(1 << int(draw.integers(32)))
        bits[row, column] ^= bit
        seen.add(digest([weight]))
        bits[row, column] ^= bit
    for _ in range(40 if shape[1] > 1 else 0):
        columns = draw.permutation(shape[1])[: draw.integers(1, shape[1])]
        for odd in (columns, columns[columns % 2 == 1]):
            if len(odd):
                weight[:, odd] *= -1
                seen.add(digest([weight]))
                weight[:, odd] *= -1
    assert before not in seen and digest([weight]) == before
    assert digest([weight.reshape(-1, 1)]) != before or shape[1] == 1, "another shape"
    assert ready.now() is not None
    monkeypatch.setattr(ready, "soon", ready.now)
    compiled = digest([weight])
    monkeypatch.setattr(ready, "soon", lambda: None)
    assert digest([weight]) == compiled == before


def test_codes_take_half_of_the_free_memory_at_most_and_no_more_than_pays(monkeypatch):
    asked = []
    monkeypatch.setattr(kernels_coded, "fits", lambda size: asked.append(size) or size < 1000)
    assert kernels_coded.have_room(499) and not kernels_coded.have_room(500)
    assert asked == [998, 1000] and not kernels_coded.have_room(kernels_coded.MOST + 1)
