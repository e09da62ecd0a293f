"""Weight quantization: integers times a scale, the formats of GGUF files, and shorter floating-point types.

All quantization here is weight-only: a matrix is quantized and dequantized to float32. A symmetric scheme has integers
from -m to m, m = 2^(bits - 1) - 1, and no zero point. An affine one has integers from 0 to 2^bits - 1 and an integer
zero point, so that a weight of 0 stays exactly 0. Jacob et al. 2018, "Quantization and Training of Neural Networks for
Efficient Integer-Arithmetic-Only Inference", section 2.1. Groups within a row: Dettmers & Zettlemoyer 2022, "The case
for 4-bit precision", section 2.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize
from torch import Tensor

from model.errors import InputError
from model.public import array, one_of, public, whole


@public(bits=whole(2, 8), per=one_of(("tensor", "channel", "group")), group=whole(0))
@dataclass(frozen=True)
class Scheme:
    """Integers of `bits` bits that share a scale per tensor, per row (an output channel), or per `group` of inputs of
    a row.
    """

    key: str
    bits: int  # 2 to 8
    symmetric: bool
    per: Literal["tensor", "channel", "group"]
    group: int = 0  # inputs per scale if `per` is "group"; the last group of a row may be shorter

    def __post_init__(self) -> None:
        if (self.per == "group") != (self.group > 0):
            raise ValueError(f"a scheme per group needs its length, others none, got {self.per!r} and {self.group}")


@dataclass(frozen=True, eq=False)
class Levels:
    """A quantized matrix before its integers are packed: value = (whole - zero) * scale.

    Each row has N groups of P numbers, padded with zeros, so N P >= in. A channel is one group; a tensor is one row of
    one group.
    """

    whole: Tensor  # [out, N, P] int16
    scale: Tensor  # [out, N] float32; for groups, rounded up to float16 as in files
    zero: Tensor  # [out, N] int16; 0 for a symmetric scheme
    shape: tuple[int, int]  # [out, in]

    @property
    def values(self) -> Tensor:
        """The dequantized matrix. float32 [out, in]"""
        padded = (self.whole - self.zero[..., None]).float() * self.scale[..., None]
        return self._cut(padded)

    @property
    def scales(self) -> Tensor:
        """The scale of every weight. float32 [out, in]"""
        return self._cut(self.scale[..., None].expand(self.whole.shape))

    def _cut(self, x: Tensor) -> Tensor:
        out, width = self.shape
        if x.shape[0] != out:  # a single scale for the whole matrix
            return x.reshape(out, width)
        return x.reshape(out, -1)[:, :width].contiguous()  # products of a strided view are a hundred times slower


def check_finite(weight: Tensor) -> None:
    """Raise InputError if a matrix contains NaN or an infinite value, because no scale fits it."""
    if weight.numel() and not all(each.isfinite() for each in weight.detach().aminmax()):  # aminmax propagates NaN
        hint = "Check the weights, or download the model again."
        raise InputError("A weight is not finite, so it cannot be rounded.", "", hint)


def levels(weight: Tensor, scheme: Scheme) -> Levels:
    """Quantize a matrix [out, in] to integers, scales and zero points, rounding half to even.

    Symmetric: scale = max |w| / m. Affine: the range from min to max is widened to include 0, scale = (max - min) /
    (2^bits - 1), zero = round(-min / scale). The error of every weight is at most scale / 2. Raises ValueError if the
    weight is not a matrix, InputError if it contains a nonfinite number.
    """
    if weight.ndim != 2:
        raise ValueError(f"weight must be [out, in], got {tuple(weight.shape)}")
    check_finite(weight)
    parts = _grouped(weight.detach().float(), scheme)  # [out, N, P]
    if scheme.symmetric:
        m = 2 ** (scheme.bits - 1) - 1
        scale = _stored_scale(parts.abs().amax(-1) / m, scheme)
        zero, low = torch.zeros_like(scale), -m
    else:
        m = 2**scheme.bits - 1
        least, most = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
        scale = _stored_scale((most - least) / m, scheme)
        zero, low = (-least / _safe(scale)).round().clamp(0, m), 0
    integers = ((parts / _safe(scale)[..., None]).round() + zero[..., None]).clamp(low, m)
    return Levels(integers.to(torch.int16), scale, zero.to(torch.int16), tuple(weight.shape))


def _grouped(weight: Tensor, scheme: Scheme) -> Tensor:
    """Return the weights grouped by scale. [out, in] -> [out, N, P]"""
    out, width = weight.shape
    if scheme.per == "tensor":
        return weight.reshape(1, 1, -1)
    size = width if scheme.per == "channel" else scheme.group
    return torch.nn.functional.pad(weight, (0, -width % size)).reshape(out, -1, size)


def _safe(scale: Tensor) -> Tensor:
    """Return the scale as a divisor: 1 for a group of zeros, whose weights remain zero."""
    return torch.where(scale > 0, scale, torch.ones_like(scale))


def _stored_scale(scale: Tensor, scheme: Scheme) -> Tensor:
    """Round the scale as it is stored: to float32 or, for groups, up to float16, so that nothing is clipped."""
    if scheme.per != "group":
        return scale
    half = scale.half()
    more = (half.view(torch.int16) + 1).view(torch.float16)  # the next larger float16
    return torch.where(half.float() < scale, more, half).float().clamp(max=65504)


def scheme_bytes(shape: tuple[int, int], scheme: Scheme) -> int:
    """Compute the size of a matrix in bytes: packed integers, scales (float16 per group; float32 per channel or
    tensor) and zero points.
    """
    out, width = shape
    groups = {"tensor": 1, "channel": out, "group": out * math.ceil(width / max(scheme.group, 1))}[scheme.per]
    packed = math.ceil(out * width * scheme.bits / 8)
    scales = groups * (2 if scheme.per == "group" else 4)
    return packed + scales + (0 if scheme.symmetric else math.ceil(groups * scheme.bits / 8))


def rounded(weight: Tensor, scheme: Scheme) -> tuple[Tensor, int]:
    """Quantize a matrix to an integer format and dequantize it; also return its size in bytes. [out, in] -> float32
    [out, in]

    The 8-bit symmetric per-channel scheme is the format of model.quantization.int8. For a symmetric scheme, quantizing
    twice equals quantizing once.
    """
    return levels(weight, scheme).values, scheme_bytes(tuple(weight.shape), scheme)


# --- formats ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """A storage format of a matrix: a floating-point type, an integer scheme, or a GGUF type."""

    key: str
    dtype: torch.dtype | None = None
    scheme: Scheme | None = None
    gguf: str = ""  # name of a GGMLQuantizationType

    @property
    def block(self) -> int:
        """The number of consecutive inputs stored together; the row length must be a multiple of it."""
        return GGML_QUANT_SIZES[GGMLQuantizationType[self.gguf]][0] if self.gguf else 1

    def fits(self, width: int) -> bool:
        """Return whether rows of length `width` can be stored; others stay float16, as in llama.cpp."""
        return width % self.block == 0


def _group(bits: int, size: int, symmetric: bool = True) -> Format:
    key = f"int{bits}-{size}" + ("" if symmetric else "-affine")
    return Format(key, scheme=Scheme(key, bits, symmetric, "group", size))


def _per(bits: int, per: Literal["tensor", "channel"], symmetric: bool = True) -> Format:
    key = f"int{bits}-{per}" + ("" if symmetric else "-affine")
    return Format(key, scheme=Scheme(key, bits, symmetric, per))


# In decreasing order of bits. The K-quants of GGUF are missing, because the gguf package can read but not write them.
FORMATS: dict[str, Format] = {
    each.key: each
    for each in (
        Format("float32", torch.float32),
        Format("bf16", torch.bfloat16),
        Format("fp16", torch.float16),
        _per(8, "tensor"),
        _per(8, "tensor", False),
        _per(8, "channel"),
        _per(8, "channel", False),
        Format("Q8_0", gguf="Q8_0"),
        Format("Q5_1", gguf="Q5_1"),
        Format("Q5_0", gguf="Q5_0"),
        _group(4, 128),
        _group(4, 128, False),
        _group(4, 64),
        _group(4, 64, False),
        _group(4, 32),
        _group(4, 32, False),
        Format("Q4_1", gguf="Q4_1"),
        Format("Q4_0", gguf="Q4_0"),
        Format("MXFP4", gguf="MXFP4"),
        _group(3, 32),
        _group(3, 32, False),
        _group(2, 32),
        _group(2, 32, False),
        Format("TQ2_0", gguf="TQ2_0"),
        Format("TQ1_0", gguf="TQ1_0"),
    )
}
# The default selection: floating-point types, 8 bits, 4 bits with larger and smaller groups, and GGUF types.
USUAL = (
    "float32",
    "bf16",
    "int8-tensor",
    "int8-channel",
    "Q8_0",
    "int4-128",
    "int4-32",
    "int4-32-affine",
    "Q4_1",
    "Q4_0",
)


@public(weight=array("out in", finite=False))
def stored(weight: Tensor, kind: Format) -> tuple[Tensor, int]:
    """Quantize a matrix to a format and dequantize it; also return its size in bytes. [out, in] -> float32 [out, in]

    A matrix whose row length is not a multiple of the format's block stays float16. Raises InputError if a weight is
    not finite.
    """
    check_finite(weight)
    weight = weight.detach().float()
    if kind.scheme is not None:
        return rounded(weight, kind.scheme)
    if kind.gguf and kind.fits(weight.shape[1]):
        gguf_type = GGMLQuantizationType[kind.gguf]
        packed = quantize(np.ascontiguousarray(weight.numpy()), gguf_type)
        return torch.from_numpy(dequantize(packed, gguf_type)), packed.nbytes
    halved = weight.to(kind.dtype or torch.float16)
    if not bool(torch.isfinite(halved).all()):
        got = f"weight: {float(weight.abs().max()):g}, format: {kind.dtype or torch.float16}"
        raise InputError("A weight is beyond the range of this format.", got, "Choose a format with a wider range.")
    return halved.float(), halved.nbytes


def stored_bytes(shape: tuple[int, int], kind: Format) -> int:
    """Compute the size of a matrix in a format in bytes, without quantizing; equal to that returned by `stored`."""
    out, width = shape
    if kind.scheme is not None:
        return scheme_bytes(shape, kind.scheme)
    if kind.gguf and kind.fits(width):
        block, nbytes = GGML_QUANT_SIZES[GGMLQuantizationType[kind.gguf]]
        return out * width // block * nbytes
    return out * width * (kind.dtype or torch.float16).itemsize


# --- errors ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightError:
    """Error of dequantized matrices, and their size in bytes. All fields are sums, so the errors of matrices can be
    added.
    """

    weights: int = 0
    nbytes: int = 0
    squares: float = 0.0  # sum of w^2
    missed: float = 0.0  # sum of (w - w')^2
    largest: float = 0.0  # maximum |w - w'|

    @property
    def relative(self) -> float:
        """Relative Frobenius error, |W - W'| / |W|; 0 if all weights are 0."""
        return math.sqrt(self.missed / self.squares) if self.squares else 0.0

    @property
    def snr(self) -> float | None:
        """Signal-to-noise ratio in decibels, 10 log10(sum w^2 / sum (w - w')^2); None if there is no error."""
        return -20 * math.log10(self.relative) if self.relative else None

    @property
    def bits(self) -> float:
        """Bits per weight, scales and zero points included."""
        return 8 * self.nbytes / self.weights if self.weights else 0.0

    def __add__(self, other: "WeightError") -> "WeightError":
        return WeightError(
            self.weights + other.weights,
            self.nbytes + other.nbytes,
            self.squares + other.squares,
            self.missed + other.missed,
            max(self.largest, other.largest),
        )


@public(weight=array("out in"), values=array("out in"), nbytes=whole(0, 1 << 50))
def weight_error(weight: Tensor, values: Tensor, nbytes: int) -> WeightError:
    """Compute the error of one matrix. weight and values [out, in]; sums in float64. Raises ValueError if the shapes
    differ.
    """
    if weight.shape != values.shape:
        raise ValueError(f"weight {tuple(weight.shape)} and values {tuple(values.shape)} must have one shape")
    weight = weight.detach().float()
    gap = (weight - values).abs()
    return WeightError(
        weight.numel(),
        nbytes,
        float(weight.square().sum(dtype=torch.float64)),
        float(gap.square().sum(dtype=torch.float64)),
        float(gap.max()) if gap.numel() else 0.0,
    )
