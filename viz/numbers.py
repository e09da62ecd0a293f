"""Formats of all numbers on the page: the only file that converts numbers to text.

Percent for probabilities, two decimals for logits, three significant digits otherwise, a true minus sign, and "–" for
a missing number. Hover texts use `exact`; exports and payloads use `plain`, which rounds to save space.
"""

import decimal
import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TypeGuard

NONE = "–"
BIT = math.log(2)  # nats per bit: dividing an entropy in nats by this gives bits, the page's unit for entropies
_UNITS = ("", "k", "M", "B", "T", "Q")  # powers of 1000, for counts of parameters and tokens
_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")
_FLOPS = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP", "YFLOP")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with `digits` significant digits: 0.0123, −4.5, 1,234, 1.80 × 10⁻⁵."""
    if not _is_finite(value):
        return NONE
    size = abs(value)
    if size and (size < 10.0**-digits or size >= 1e6):
        return power(value, digits)
    rounded = float(f"{value:.{digits}g}")
    text = f"{value:,.0f}" if size >= 1000 else f"{rounded:.{digits}g}" if size < 10**digits else f"{rounded:,.0f}"
    return _minus(text)


def exact(value: float | None, digits: int = 6) -> str:
    """Format a number for a hover text, with six significant digits."""
    return NONE if not _is_finite(value) else _minus(f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e"))


def power(value: float, digits: int = 3) -> str:
    """Format a very large or very small number as a power of ten: 5.76 × 10²³."""
    if value == 0 or not _is_finite(value):
        return "0" if value == 0 else NONE
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{_minus(mantissa)} × 10{str(int(exponent)).translate(_RAISED)}"


def tens(exponents: Sequence[int]) -> list[str]:
    """Format powers of ten consistently: 0.01, 0.1, 1 if all are short, else 10⁻⁶, 10⁻³, 10⁰."""
    short = all(-3 <= each <= 5 for each in exponents)
    return [f"{10.0**each:,.{max(0, -each)}f}" if short else f"10{str(each).translate(_RAISED)}" for each in exponents]


def decimals(value: float | None, places: int = 2) -> str:
    """Format a number with a fixed number of decimals; 0.00 never has a sign."""
    if not _is_finite(value):
        return NONE
    text = f"{value:,.{places}f}"
    return _minus(text.removeprefix("-") if float(text.replace(",", "")) == 0 else text)


def logit(value: float | None) -> str:
    """Format a logit, or a difference of logits, with two decimals."""
    return decimals(value, 2)


def addends(values: Sequence[float], places: int = 2) -> list[str]:
    """Format the parts of a sum with signs, so that the printed parts add up to the sum rounded to `places` decimals.

    The parts whose rounding errors are largest are rounded in the other direction.
    """
    unit = 10**places
    rounded = [round(value * unit) for value in values]
    missing = round(sum(values) * unit) - sum(rounded)
    step = 1 if missing > 0 else -1
    order = sorted(range(len(values)), key=lambda n: step * (values[n] * unit - rounded[n]), reverse=True)
    for n in order[: abs(missing)]:
        rounded[n] += step
    return [difference(value / unit, places=places) for value in rounded]


def nats(value: float | None) -> str:
    """Format a divergence or a loss with three decimals, or three significant digits if it is small."""
    if not _is_finite(value):
        return NONE
    return decimals(value, 3) if value == 0 or abs(value) >= 0.1 else number(value)


def bits(value: float | None) -> str:
    """Format a surprisal or an entropy in bits, like `nats`; ∞ for a probability of 0."""
    return "∞" if value == math.inf else nats(value)


def signed(value: float | None, digits: int = 3) -> str:
    """Format a number with its sign, + or −; zero has no sign."""
    text = number(value, digits)
    return f"+{text}" if _is_finite(value) and value > 0 else text


def difference(value: float | None, error: float | None = None, places: int = 3) -> str:
    """Format a difference with its sign and, if known, its standard error: +0.123 ± 0.010."""
    text = decimals(value, places)
    if _is_finite(value) and value > 0 and float(text.replace(",", "")) > 0:
        text = f"+{text}"
    return f"{text} ± {decimals(error, places)}" if _is_finite(value) and _is_finite(error) else text


def percent(share: float | None) -> str:
    """Format a probability or another fraction: 34.2%, 1.23%, 0.20%, 0.012%, as static/parts/percent.js does."""
    if not _is_finite(share):
        return NONE
    points = 100 * share
    size = abs(points)
    if size < 1e-3:
        return f"{power(points, 2)}%"
    text = f"{points:.1f}" if size >= 10 else f"{points:.2f}" if size >= 0.1 else f"{points:#.2g}"
    return f"{_minus(text)}%"


def signed_percent(share: float | None) -> str:
    """Format a relative difference with its sign: +1.23%, −12.4%."""
    text = percent(share)
    return f"+{text}" if _is_finite(share) and share > 0 else text


def count(value: float | None) -> str:
    """Format a number of parameters or tokens with three significant digits: 8.55 M, 67.0 B, 1.43 T."""
    if not _is_finite(value):
        return NONE
    text, unit = _scaled(value, len(_UNITS))
    return f"{text} {_UNITS[unit]}" if unit else text


def whole(value: float) -> str:
    """Format an integer with thousands separators: 1,234,567."""
    return _minus(f"{value:,.0f}")


def size(nbytes: float | None) -> str:
    """Format a size in bytes with three significant digits and decimal prefixes: 17.1 MB."""
    if not _is_finite(nbytes):
        return NONE
    text, unit = _scaled(nbytes, len(_BYTES))
    return f"{text} {_BYTES[unit]}"


def size_unit(nbytes: float) -> tuple[float, str]:
    """Choose the unit of an axis that extends to `nbytes`; return (bytes per unit, its name)."""
    _, unit = _scaled(nbytes, len(_BYTES))
    return 1000.0**unit, _BYTES[unit]


def flops(n: float | None) -> str:
    """Format a number of operations with three significant digits: 1.23 GFLOP; large ones as a power of ten."""
    if not _is_finite(n):
        return NONE
    if n >= 1e27:
        return f"{power(n)} FLOP"
    text, unit = _scaled(n, len(_FLOPS))
    return f"{text} {_FLOPS[unit]}"


def flops_unit(n: float) -> tuple[float, str]:
    """Choose the unit of an axis that extends to `n` operations; return (operations per unit, its name)."""
    _, unit = _scaled(n, len(_FLOPS))
    return 1000.0**unit, _FLOPS[unit]


def milliseconds(seconds: float | None) -> str:
    """Format a time in milliseconds with three significant digits, without the unit."""
    if not _is_finite(seconds):
        return NONE
    ms = 1000 * seconds
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def duration(seconds: float | None) -> str:
    """Format a time with its unit: 4.1 ms, 3.2 s, 5 min."""
    if not _is_finite(seconds):
        return NONE
    if seconds < 1:
        return f"{milliseconds(seconds)} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def factor(value: float | None) -> str:
    """Format a ratio: 2.4 ×, 136 ×."""
    if not _is_finite(value):
        return NONE
    return f"{value:,.0f} ×" if value >= 100 else f"{number(value, 2 if value < 10 else 3)} ×"


def money(amount: float, currency: str) -> str:
    """Format an amount with its currency, with two decimals from 1 on and three significant digits below: 1,234.50
    USD, 0.0123 USD.
    """
    return f"{decimals(amount) if amount >= 1 else number(amount)} {currency}"


def interval(middle: float, low: float, high: float, places: int = 3) -> str:
    """Format an estimate with its confidence interval: 0.076 (0.071–0.081)."""
    return f"{decimals(middle, places)} ({decimals(low, places)}–{decimals(high, places)})"


def typed(value: Fraction | Decimal, digits: int, fraction: bool = False) -> str:
    """Format an exact number of a worked example with `digits` significant digits and its complete integer part: 0.5,
    22026, −∞.

    If `fraction`, a number without a short decimal form is written as a fraction, if that is short: 1/3.
    """
    if isinstance(value, Decimal) and not value.is_finite():
        return "NaN" if value.is_nan() else "∞" if value > 0 else "−∞"
    written = f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else ""
    if fraction and written[-2:] != "/1" and 0 < len(written) <= 15:
        return _minus(written)
    if value == 0:
        return "0"
    context = decimal.Context(prec=60)
    exact = context.divide(value.numerator, value.denominator) if isinstance(value, Fraction) else value
    size = exact.adjusted()
    rounded = decimal.Context(prec=max(digits, size + 1 if size < 15 else digits)).plus(exact)
    if isinstance(value, Fraction) and rounded == exact:
        rounded = rounded.normalize()  # without trailing zeros: 0.5, not 0.5000
    if not -5 <= rounded.adjusted() < 15:
        mantissa, exponent = f"{rounded:e}".split("e")
        return f"{_minus(mantissa)} × 10{str(int(exponent)).translate(_RAISED)}"
    return _minus(f"{rounded:f}")


def plain(value: float | None, digits: int = 6) -> float | None:
    """Round a number for a payload to six significant digits; None if it is not finite, which JSON cannot express."""
    return None if not _is_finite(value) else float(f"{value:.{digits}g}")


def _is_finite(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _scaled(value: float, units: int) -> tuple[str, int]:
    """Scale a number to the largest power of 1000 that it reaches after rounding; return its three significant digits
    and that power.
    """
    unit, scaled = 0, abs(value)
    while unit < units - 1 and float(f"{scaled:.3g}") >= 1000:
        unit, scaled = unit + 1, scaled / 1000
    if unit == 0:
        text = f"{scaled:,.0f}" if scaled >= 100 or scaled == int(scaled) else f"{scaled:.3g}"
    else:
        scaled = float(f"{scaled:.3g}")
        text = f"{scaled:,.{0 if scaled >= 100 else 1 if scaled >= 10 else 2}f}"
    return ("−" if value < 0 else "") + text, unit
