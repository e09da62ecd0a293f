"""Rounding to few bits against plain numpy, the gguf package and the 8-bit layers; bounds, bytes and idempotence."""

import itertools
import math

import numpy as np
import pytest
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import InputError
from model.quantization import int8
from model.quantization.formats import (
    FORMATS,
    USUAL,
    Scheme,
    WeightError,
    levels,
    rounded,
    scheme_bytes,
    stored,
    stored_bytes,
    weight_error,
)
from tests.support.models.helpers import assert_close

SCHEMES = [
    Scheme(f"{bits}-{symmetric}-{per}-{group}", bits, symmetric, per, group)
    for bits, symmetric, (per, group) in itertools.product(
        (2, 3, 4, 8), (True, False), (("tensor", 0), ("channel", 0), ("group", 32), ("group", 7))
    )
]


def noise(out=6, width=50, seed=0):
    return torch.randn(out, width, generator=torch.Generator().manual_seed(seed))


def by_hand(weight, scheme):
    """The same in numpy, number by number."""
    w = weight.numpy()
    out, width = w.shape
    size = {"tensor": None, "channel": width, "group": scheme.group}[scheme.per]
    places = [[(i, j) for i in range(out) for j in range(width)]]
    if size:
        places = [[(i, j) for j in range(a, min(a + size, width))] for i in range(out) for a in range(0, width, size)]
    values = np.zeros_like(w)
    for place in places:
        part = np.array([w[at] for at in place])
        m = 2 ** (scheme.bits - 1) - 1 if scheme.symmetric else 2**scheme.bits - 1
        low, high = (
            (-np.abs(part).max(), np.abs(part).max()) if scheme.symmetric else (min(part.min(), 0), max(part.max(), 0))
        )
        scale = np.float32(high / m) if scheme.symmetric else np.float32((high - low) / m)
        if scheme.per == "group":
            half = np.float16(scale)
            scale = np.float32(half if half >= scale else np.nextafter(half, np.float16(np.inf)))
        zero = 0 if scheme.symmetric else np.round(-low / scale)
        for at in place:
            whole = np.clip(np.round(w[at] / scale) + zero, -m if scheme.symmetric else 0, m)
            values[at] = np.float32(whole - zero) * scale
    return values


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.key)
def test_against_plain_numpy(scheme):
    assert_close(rounded(noise(), scheme)[0], by_hand(noise(), scheme), 0.0)


def test_symmetric_by_hand():
    weight = torch.tensor([[7.0, -3.4, 0.4, -7.0], [1.4, 0.2, -0.1, 0.0]])
    found = levels(weight, Scheme("x", 4, True, "channel"))
    assert found.whole[:, 0].tolist() == [[7, -3, 0, -7], [7, 1, 0, 0]]  # -0.1 / 0.2 is -0.5: to the even number
    assert found.scale[:, 0].tolist() == pytest.approx([1.0, 0.2])
    assert not found.zero.any()


def test_affine_by_hand():
    weight = torch.tensor([[-1.0, 0.0, 0.5, 2.0]])  # 2 bits: scale 1, zero point 1
    found = levels(weight, Scheme("x", 2, False, "channel"))
    assert found.whole.tolist() == [[[0, 1, 1, 3]]] and found.zero.tolist() == [[1]] and found.scale.tolist() == [[1.0]]
    assert found.values.tolist() == [[-1.0, 0.0, 0.0, 2.0]]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.key)
def test_bytes_are_those_of_the_packed_parts(scheme):
    found = levels(noise(), scheme)
    groups = found.scale.numel()
    scales = groups * (2 if scheme.per == "group" else 4)
    zeros = 0 if scheme.symmetric else math.ceil(groups * scheme.bits / 8)
    assert rounded(noise(), scheme)[1] == math.ceil(6 * 50 * scheme.bits / 8) + scales + zeros
    assert scheme_bytes((6, 50), scheme) == rounded(noise(), scheme)[1]


def test_bytes_by_hand():
    assert scheme_bytes((10, 64), Scheme("x", 4, True, "group", 32)) == 320 + 20 * 2  # 4.5 bits a weight
    assert scheme_bytes((10, 64), Scheme("x", 4, False, "group", 32)) == 320 + 20 * 2 + 10
    assert scheme_bytes((10, 65), Scheme("x", 4, True, "group", 32)) == 325 + 30 * 2  # a short third group
    assert scheme_bytes((10, 64), Scheme("x", 8, True, "channel")) == 640 + 40
    assert scheme_bytes((10, 64), Scheme("x", 8, False, "tensor")) == 640 + 4 + 1
    assert stored_bytes((10, 64), FORMATS["Q4_1"]) == 20 * 20
    assert stored_bytes((10, 50), FORMATS["Q4_1"]) == 10 * 50 * 2  # no whole blocks: float16


WEIGHTS = st.lists(
    st.lists(st.floats(-100, 100, width=32).filter(lambda x: x == 0 or abs(x) > 1e-3), min_size=9, max_size=9),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(WEIGHTS, st.sampled_from([scheme for scheme in SCHEMES if scheme.group != 32]))
def test_no_weight_is_off_by_more_than_half_a_scale_and_zero_stays_zero(rows, scheme):
    weight = torch.tensor(rows)
    found = levels(weight, scheme)
    values = found.values.double()
    rounding = 2**-22 * weight.abs().max()  # of scale, quotient and product in float32
    assert ((values - weight).abs() <= found.scales.double() / 2 + rounding).all()
    assert (values[weight == 0] == 0).all()


@settings(max_examples=60, deadline=None)
@given(WEIGHTS, st.sampled_from([scheme for scheme in SCHEMES if scheme.symmetric and scheme.group != 32]))
def test_rounding_what_was_rounded_changes_nothing(rows, scheme):
    once = levels(torch.tensor(rows), scheme)
    again = levels(once.values, scheme)
    assert torch.equal(once.whole, again.whole)
    assert_close(again.values / once.scales.clamp(min=1e-30), once.values / once.scales.clamp(min=1e-30), 1e-4)


@pytest.mark.parametrize("scheme", [each for each in SCHEMES if not each.symmetric], ids=lambda scheme: scheme.key)
def test_affine_rounding_is_kept_where_all_whole_numbers_are_in_reach(scheme):
    once = levels(noise(), scheme)
    used = (once.whole == 0).any(-1) & (once.whole == 2**scheme.bits - 1).any(-1)
    assert used.float().mean() > 0.5
    again = levels(once.values, scheme)
    assert torch.equal(once.whole[used], again.whole[used]) and torch.equal(once.zero[used], again.zero[used])


def test_eight_bits_per_channel_is_what_the_8_bit_layers_run():
    weight = noise(20, 33)
    whole, scale = int8.rounded(weight)
    values, nbytes = stored(weight, FORMATS["int8-channel"])
    assert torch.equal(values, whole.float() * scale[:, None])
    assert nbytes == whole.nbytes + scale.nbytes


def test_zeros_stay_zeros():
    for kind in FORMATS.values():
        values, _ = stored(torch.zeros(3, 256), kind)
        assert not values.any() and values.dtype == torch.float32, kind.key


def test_tiny_and_huge_groups():
    weight = torch.tensor([[1e-7, -2e-7, 3e-8], [6e4, -1e5, 3e4]])
    found = levels(weight, Scheme("x", 4, True, "group", 3))
    assert ((found.values - weight).abs() <= found.scales * 0.500001).all() and found.values.isfinite().all()


def test_values_lie_side_by_side():
    """A cut of something wider would be multiplied a hundred times slower."""
    for kind in FORMATS.values():
        assert stored(noise(5, 576), kind)[0].is_contiguous(), kind.key


@pytest.mark.parametrize("name", [kind.gguf for kind in FORMATS.values() if kind.gguf])
def test_gguf_formats_are_those_of_the_package(name):
    made = GGMLQuantizationType[name]
    weight = noise(4, 512)
    packed = quantize(weight.numpy(), made)
    values, nbytes = stored(weight, FORMATS[name])
    assert_close(values, dequantize(packed, made), 0.0)
    block, size = GGML_QUANT_SIZES[made]
    assert nbytes == packed.nbytes == 4 * 512 // block * size == stored_bytes((4, 512), FORMATS[name])
    assert_close(stored(values, FORMATS[name])[0], values, 2e-3 * float(values.abs().max()))


def test_q8_0_by_hand():
    """Q8_0: a float16 scale a block of 32, d = max |w| / 127, whole numbers round(w / d)."""
    weight = noise(2, 64).numpy().reshape(4, 32)
    d = np.abs(weight).max(1, keepdims=True) / np.float32(127)
    expected = np.round(weight / d) * d.astype(np.float16).astype(np.float32)
    assert_close(stored(torch.from_numpy(weight.reshape(2, 64)), FORMATS["Q8_0"])[0], expected.reshape(2, 64), 1e-7)


def test_rows_that_do_not_fit_stay_float16():
    weight = noise(4, 50)
    values, nbytes = stored(weight, FORMATS["Q4_0"])
    assert torch.equal(values, weight.half().float()) and nbytes == 4 * 50 * 2
    assert not FORMATS["Q4_0"].fits(50) and FORMATS["Q4_0"].fits(64) and not FORMATS["TQ1_0"].fits(64)


@pytest.mark.parametrize("key", ["float32", "bf16", "fp16"])
def test_floats(key):
    kind, weight = FORMATS[key], noise()
    values, nbytes = stored(weight, kind)
    assert torch.equal(values, weight.to(kind.dtype).float()) and nbytes == weight.to(kind.dtype).nbytes


def test_every_format_counts_what_it_makes():
    for key, kind in FORMATS.items():
        for shape in ((4, 512), (3, 50)):
            assert stored(noise(*shape), kind)[1] == stored_bytes(shape, kind), key
        assert key == kind.key
    assert set(USUAL) <= set(FORMATS)


def test_errors_by_hand():
    found = weight_error(torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 3.5]]), 7)
    assert (found.weights, found.nbytes, found.largest) == (2, 7, 0.5)
    assert found.relative == pytest.approx(0.1) and found.snr == pytest.approx(20.0) and found.bits == 28
    twice = found + weight_error(torch.tensor([[12.0]]), torch.tensor([[12.0]]), 4)
    assert (twice.weights, twice.nbytes, twice.largest) == (3, 11, 0.5)
    assert twice.relative == pytest.approx(0.5 / 13)
    assert WeightError().relative == 0 and WeightError().snr is None and WeightError().bits == 0


def test_more_bits_and_smaller_groups_lose_less():
    weight = noise(64, 512)
    lost = {key: weight_error(weight, *stored(weight, kind)).relative for key, kind in FORMATS.items()}
    assert lost["int8-channel"] < lost["int4-32"] < lost["int3-32"] < lost["int2-32"]
    assert lost["int4-32"] < lost["int4-64"] < lost["int4-128"]
    assert all(lost[f"int4-{size}-affine"] < lost[f"int4-{size}"] for size in (32, 64, 128))
    assert lost["int8-channel"] < lost["int8-tensor"] and lost["float32"] == 0 < lost["fp16"] < lost["bf16"]


@pytest.mark.parametrize(
    "given", [(1, "tensor", 0), (9, "tensor", 0), (4, "group", 0), (4, "channel", 32), (4, "row", 0)]
)
def test_schemes_that_are_none(given):
    bits, per, group = given
    with pytest.raises((InputError, ValueError), match=r"bits|a scheme per group|per: |group: "):
        Scheme("x", bits, True, per, group)


def test_shapes_that_are_none():
    with pytest.raises(ValueError, match=r"\[out, in\], got \(3,\)"):
        levels(torch.ones(3), Scheme("x", 4, True, "tensor"))
    with pytest.raises(ValueError, match=r"\(1, 2\) and values \(2, 1\)"):
        weight_error(torch.ones(1, 2), torch.ones(2, 1), 0)
