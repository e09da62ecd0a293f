"""Ways to stretch RoPE beyond the context length of pretraining: slower rotation of some or all pairs of dimensions."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

Kind = Literal["linear", "dynamic", "llama3", "yarn", "longrope", "proportional"]
_NEEDS: dict[str, tuple[str, ...]] = {
    "linear": (),
    "dynamic": ("original_n_ctx",),
    "llama3": ("low_freq_factor", "high_freq_factor", "original_n_ctx"),
    "yarn": ("beta_fast", "beta_slow", "original_n_ctx"),
    "longrope": ("short_factors", "long_factors", "original_n_ctx"),
    "proportional": ("rotated",),
}


@dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """A change of the frequencies of RoPE; `factor` is the ratio of the new context length to the original one.

    linear: all are divided by `factor` (Chen et al. 2023, 3.2). dynamic: the base grows with the length of the text,
    once it exceeds `original_n_ctx` (bloc97 and emozilla 2023). llama3: wavelengths above `original_n_ctx /
    low_freq_factor` are stretched by `factor`, those below `original_n_ctx / high_freq_factor` are not (Llama 3.1).
    yarn: pairs with fewer than `beta_slow` turns over `original_n_ctx` are stretched, those with more than `beta_fast`
    are not (Peng et al. 2023, 3.2). longrope: each has its own divisor, one for texts of up to `original_n_ctx` tokens
    and one for longer ones (Ding et al. 2024). proportional: only the fraction `rotated` of the pairs, the fastest, is
    rotated at all (Gemma 4). `amplitude` multiplies the rotated part of q and of k. Fields of other
    kinds are None.
    """

    kind: Kind = "llama3"
    factor: float
    original_n_ctx: int | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    whole_pairs: bool = True  # yarn: whether its limits are rounded to whole pairs
    short_factors: tuple[float, ...] | None = None
    long_factors: tuple[float, ...] | None = None
    rotated: float | None = None
    amplitude: float = 1.0


def check_scaling(scaling: RopeScaling) -> None:
    """Raise ValueError for a missing or superfluous field, or a number that is not positive and finite."""
    if scaling.kind not in _NEEDS:
        raise ValueError(f"rope_scaling must be one of {', '.join(get_args(Kind))}, got {scaling.kind!r}")
    optional = {name for names in _NEEDS.values() for name in names}
    values = dataclasses.asdict(scaling)
    given = {name for name in optional if values[name] is not None}
    if given != set(_NEEDS[scaling.kind]):
        got = ", ".join(sorted(given)) or "none"
        raise ValueError(f"rope_scaling of kind {scaling.kind} needs {', '.join(_NEEDS[scaling.kind])}, got {got}")
    numbers = [scaling.factor, scaling.amplitude]
    for name in sorted(given):
        numbers += values[name] if isinstance(values[name], (tuple, list)) else [values[name]]
    if not all(type(number) in (int, float) and 0 < number <= (1 << 31) - 1 for number in numbers):
        raise ValueError(f"rope_scaling must hold positive numbers, got {numbers}")
    for low, high in (("low_freq_factor", "high_freq_factor"), ("beta_slow", "beta_fast")):
        if low in given and values[low] >= values[high]:
            raise ValueError(f"rope_scaling needs {low} < {high}, got {numbers}")


def scaled(theta: float, width: int, scaling: RopeScaling, length: int) -> Tensor:
    """Return the angle in radians by which one position rotates each pair, for a text of `length` tokens. [width / 2]

    `theta` is the base, and `width` the number of rotated dimensions of a head. Raises ValueError for a number of
    factors other than width / 2.
    """
    exponent = torch.arange(0, width, 2, dtype=torch.float32) / width
    if scaling.kind == "dynamic":
        stretch = scaling.factor * max(length, scaling.original_n_ctx) / scaling.original_n_ctx - (scaling.factor - 1)
        return 1.0 / (theta * stretch ** (width / (width - 2))) ** exponent
    frequency = 1.0 / theta**exponent
    if scaling.kind == "linear":
        return frequency / scaling.factor
    if scaling.kind == "proportional":
        pairs = int(scaling.rotated * width // 2)
        return torch.where(torch.arange(width // 2) < pairs, frequency / scaling.factor, 0.0)
    if scaling.kind == "llama3":
        turns = scaling.original_n_ctx * frequency / (2 * math.pi)  # number of turns over the original context
        share = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
        return _between(frequency, share, scaling.factor)
    if scaling.kind == "yarn":
        return _between(frequency, _yarn_share(theta, width, scaling), scaling.factor)
    factors = scaling.long_factors if length > scaling.original_n_ctx else scaling.short_factors
    return frequency / _each(factors, width)


def _between(frequency: Tensor, share: Tensor, factor: float) -> Tensor:
    """Divide by `factor` where the share is 0 or less, keep where it is 1 or more, and interpolate in between."""
    share = share.clamp(0.0, 1.0)
    return share * frequency + (1 - share) * frequency / factor


def _yarn_share(theta: float, width: int, scaling: RopeScaling) -> Tensor:
    """Return a ramp over the pairs that is 1 up to the pair with `beta_fast` turns and 0 from that with `beta_slow`."""

    def pair(turns: float) -> float:
        return width * math.log(scaling.original_n_ctx / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first, last = pair(scaling.beta_fast), pair(scaling.beta_slow)
    if scaling.whole_pairs:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    return 1 - (torch.arange(width // 2, dtype=torch.float32) - first) / ((last - first) or 0.001)


def _each(factors: Sequence[float], width: int) -> Tensor:
    if len(factors) != width // 2:
        raise ValueError(f"rope_scaling needs a factor for each of {width // 2} pairs, got {len(factors)}")
    return torch.tensor(factors, dtype=torch.float32)
