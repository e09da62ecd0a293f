"""Numbers that record the formulas by which they were computed.

A value is an exact fraction as long as all operations are rational, otherwise a decimal of 50 digits. Each number also
stores its formula, so that "0.53 = (1 × 0.4 + 0 × 0.2) / √2" is the calculation itself rather than a separate string
that could disagree with it.
"""

import decimal
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np

Value = Fraction | Decimal
DIGITS = 50  # significant digits of a value that is not a fraction
# No operation raises: overflow gives infinity and an undefined result NaN, which the page shows as such.
_CONTEXT = decimal.Context(prec=DIGITS, traps=[])
_FLOATS: dict[str, type[np.floating]] = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
FLOATS = tuple(_FLOATS)


@dataclass(frozen=True)
class Ref:
    """A cell of an earlier step: the step's name, and row and column counted from 0."""

    name: str
    row: int
    column: int


@dataclass(frozen=True)
class Constant:
    """A number with its own symbol, such as √d."""

    symbol: str
    value: Value


Piece = str | Ref | Constant  # part of a formula: an operator or literal, a cell, or a constant
_SUM, _PRODUCT, _ATOM = 1, 2, 3  # precedence of a formula's outermost operator


@dataclass(frozen=True, order=False)
class Number:
    """A value and the formula that produced it."""

    value: Value
    made: tuple[Piece, ...]
    binds: int = _ATOM

    def __add__(self, other: "Number | int") -> "Number":
        other = number(other)
        return Number(_rational(self, other, "add"), (*self.made, " + ", *_inside(other, _SUM)), _SUM)

    def __sub__(self, other: "Number | int") -> "Number":
        other = number(other)
        return Number(_rational(self, other, "subtract"), (*self.made, " − ", *_inside(other, _PRODUCT)), _SUM)

    def __mul__(self, other: "Number | int") -> "Number":
        other = number(other)
        formula = (*_inside(self, _PRODUCT), " × ", *_inside(other, _PRODUCT))
        return Number(_rational(self, other, "multiply"), formula, _PRODUCT)

    def __truediv__(self, other: "Number | int") -> "Number":
        other = number(other)
        formula = (*_inside(self, _PRODUCT), " / ", *_inside(other, _ATOM))
        return Number(_rational(self, other, "divide"), formula, _PRODUCT)

    def __neg__(self) -> "Number":
        return Number(_negated(self.value), ("−", *_inside(self, _ATOM)), _SUM)

    def __lt__(self, other: "Number") -> bool:
        """Compare by value; NaN is neither smaller nor larger than any number, as in NumPy."""
        if is_nan(self) or is_nan(other):
            return False
        return bool(decimal_of(self.value) < decimal_of(other.value))

    def __float__(self) -> float:
        return float(self.value)


def number(value: "Number | int | Value") -> Number:
    """Convert a value to a Number whose formula is the literal itself; a Number is returned unchanged."""
    if isinstance(value, Number):
        return value
    exact = value if isinstance(value, Decimal) else Fraction(value)
    return Number(exact, (Constant("", exact),))


def constant(symbol: str, value: Number) -> Number:
    """Return a number that appears in formulas under a symbol."""
    return Number(value.value, (Constant(symbol, value.value),))


def at(ref: Ref, value: Value) -> Number:
    """Return the number in a cell; its formula is a reference to the cell."""
    return Number(value, (ref,))


def decimal_of(value: Value) -> Decimal:
    """Convert a value to a decimal with 50 digits."""
    return value if isinstance(value, Decimal) else _CONTEXT.divide(Decimal(value.numerator), value.denominator)


def is_nan(x: Number) -> bool:
    """Return whether a number is undefined, such as 0 / 0 or inf / inf."""
    return isinstance(x.value, Decimal) and x.value.is_nan()


def _negated(value: Value) -> Value:
    """Compute -value with all its digits; unary minus on Python's Decimal rounds to 28 digits."""
    return _CONTEXT.minus(value) if isinstance(value, Decimal) else -value


_FRACTIONS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
}


def _rational(a: Number, b: Number, operation: str) -> Value:
    """Apply one of the four operations, exactly for fractions."""
    if isinstance(a.value, Fraction) and isinstance(b.value, Fraction) and (operation != "divide" or b.value):
        return _FRACTIONS[operation](a.value, b.value)
    return getattr(_CONTEXT, operation)(decimal_of(a.value), decimal_of(b.value))


def _inside(each: Number, binds: int) -> tuple[Piece, ...]:
    """Return the formula as an operand of another formula, in parentheses if precedence requires them."""
    negative = (
        len(each.made) == 1 and isinstance(each.made[0], Constant) and each.made[0].symbol == "" and each.value < 0
    )
    return ("(", *each.made, ")") if each.binds < binds or negative else each.made


def _call(name: str, value: Value, *arguments: Number) -> Number:
    """Return a number with the given value and the formula "name(a, b)"."""
    formula: list[Piece] = [f"{name}("]
    for n, each in enumerate(arguments):
        formula += [", ", *each.made] if n else each.made
    return Number(value, (*formula, ")"))


# --- rational sums, comparisons and selections ---


def total(numbers: Iterable[Number]) -> Number:
    """Compute the sum; 0 if there are no numbers."""
    listed = list(numbers)
    return functools.reduce(lambda a, b: a + b, listed) if listed else number(0)


def product(numbers: Iterable[Number]) -> Number:
    """Compute the product; 1 if there are no numbers."""
    listed = list(numbers)
    return functools.reduce(lambda a, b: a * b, listed) if listed else number(1)


def dot(a: Sequence[Number], b: Sequence[Number]) -> Number:
    """Compute Σ_i a_i b_i."""
    return total(x * y for x, y in zip(a, b, strict=True))


def square(x: Number) -> Number:
    """Compute x²."""
    return Number(_rational(x, x, "multiply"), (*_inside(x, _ATOM), "²"))


def largest(numbers: Sequence[Number]) -> Number:
    """Return the maximum; NaN if any number is NaN, as in NumPy."""
    return _call("max", _extreme(numbers, lambda a, b: b if a < b else a), *numbers)


def smallest(numbers: Sequence[Number]) -> Number:
    """Return the minimum; NaN if any number is NaN, as in NumPy."""
    return _call("min", _extreme(numbers, lambda a, b: b if b < a else a), *numbers)


def _extreme(numbers: Sequence[Number], better: Callable[[Number, Number], Number]) -> Value:
    return next((each.value for each in numbers if is_nan(each)), functools.reduce(better, numbers).value)


def size(x: Number) -> Number:
    """Compute |x|."""
    return _call("abs", _negated(x.value) if x < number(0) else x.value, x)


def round_to_even(x: Number) -> Number:
    """Round to the nearest integer, ties to even, as in NumPy and PyTorch (IEEE 754)."""
    near: Value = Fraction(round(x.value)) if decimal_of(x.value).is_finite() else x.value
    return _call("round", near, x)


def holds(a: Number, sign: str, b: Number) -> Number:
    """Compute Iverson's bracket [a > b] or [a ≤ b]: 1 if the comparison holds, otherwise 0; 0 if either
    number is NaN.
    """
    true = (b < a) if sign == ">" else not (b < a or is_nan(a) or is_nan(b))
    return Number(Fraction(int(true)), ("[", *a.made, f" {sign} ", *b.made, "]"))


# --- irrational functions ---


def sqrt(x: Number) -> Number:
    """Compute √x, as an exact fraction if √x is rational."""
    if isinstance(x.value, Fraction) and x.value >= 0:
        root = Fraction(_root(x.value.numerator), _root(x.value.denominator))
        if root * root == x.value:
            return _call("√", root, x)
    return _call("√", _CONTEXT.sqrt(decimal_of(x.value)), x)


def _root(n: int) -> int:
    return int(decimal.Context(prec=2 * DIGITS + 40).sqrt(Decimal(n)).to_integral_value()) or 1


def exp(x: Number) -> Number:
    """Compute e^x; exactly 1 for x = 0 and 0 for x = −∞."""
    if x.value == 0:
        return _call("exp", Fraction(1), x)
    if x.value == Decimal("-Infinity"):
        return _call("exp", Fraction(0), x)
    return _call("exp", _exp(decimal_of(x.value)), x)


def _exp(x: Decimal) -> Decimal:
    return _CONTEXT.exp(x)


def ln(x: Number) -> Number:
    """Compute the natural logarithm; exactly 0 for x = 1."""
    return _call("ln", Fraction(0) if x.value == 1 else _CONTEXT.ln(decimal_of(x.value)), x)


def power(base: Number, exponent: Number) -> Number:
    """Compute base^exponent for a nonnegative base; an exact fraction for a rational base and a small
    integer exponent.
    """
    if (
        isinstance(base.value, Fraction)
        and isinstance(exponent.value, Fraction)
        and exponent.value.denominator == 1
        and abs(exponent.value) <= DIGITS  # the exact fraction of a larger power would have too many digits
        and (base.value or exponent.value >= 0)
    ):
        value: Value = base.value ** int(exponent.value)
    else:
        value = _CONTEXT.power(decimal_of(base.value), decimal_of(exponent.value))
    return Number(value, (*_inside(base, _ATOM), "^(", *exponent.made, ")"))


def sine(x: Number) -> Number:
    """Compute sin x, x in radians; exactly 0 for x = 0."""
    return _call("sin", Fraction(0) if x.value == 0 else _turn(decimal_of(x.value))[1], x)


def cosine(x: Number) -> Number:
    """Compute cos x, x in radians; exactly 1 for x = 0."""
    return _call("cos", Fraction(1) if x.value == 0 else _turn(decimal_of(x.value))[0], x)


def _turn(x: Decimal) -> tuple[Decimal, Decimal]:
    """Compute (cos x, sin x) by their Taylor series, after reducing x modulo 2π (documentation of
    `decimal`, Recipes).
    """
    with decimal.localcontext(decimal.Context(prec=DIGITS + 20, traps=[])):
        x = x % (2 * pi())
        power, n, sums = Decimal(1), 0, [Decimal(0), Decimal(0)]
        while n < 8 or abs(power) > Decimal(10) ** -(DIGITS + 10):
            sums[n % 2] += power * (-1 if n % 4 > 1 else 1)
            n += 1
            power *= x / n
        cos, sin = sums
    return _CONTEXT.plus(cos), _CONTEXT.plus(sin)


@functools.cache
def pi(digits: int = DIGITS + 20) -> Decimal:
    """Compute π to `digits` digits by Machin's formula: 16 arctan(1/5) − 4 arctan(1/239) (Machin 1706)."""

    def arctan_of_one_over(n: int) -> Decimal:
        term, k, result = Decimal(1) / n, 1, Decimal(0)
        while abs(term) > Decimal(10) ** -(digits + 5):
            result += term / k * (1 if k % 4 == 1 else -1)
            term, k = term / (n * n), k + 2
        return result

    with decimal.localcontext(decimal.Context(prec=digits + 10)):
        return 16 * arctan_of_one_over(5) - 4 * arctan_of_one_over(239)


def tanh(x: Number) -> Number:
    """Compute tanh x = 2 / (1 + e^(−2x)) − 1; exactly 0 for x = 0.

    For x far below 0, the precision is increased so that 1 + tanh x still has 50 significant digits.
    """
    if x.value == 0:
        return _call("tanh", Fraction(0), x)
    value = decimal_of(x.value)
    with decimal.localcontext(_CONTEXT) as context:
        context.prec = DIGITS + 20 + max(0, -value.adjusted())
        share = 2 / (1 + (-2 * value).exp())
        context.prec += max(0, -share.adjusted())
        return _call("tanh", share - 1, x)


def normal_below(x: Number) -> Number:
    """Compute Φ(x), the cumulative distribution function of the standard normal: (1 + erf(x / √2)) / 2; exactly 1/2 for
    x = 0.

    All 50 digits are correct for any magnitude of x: Abramowitz & Stegun 1964, 26.2.11 and, below −20, 26.2.12.
    """
    if x.value == 0:
        return _call("Φ", Fraction(1, 2), x)
    z = decimal_of(x.value)
    with decimal.localcontext(_CONTEXT) as context:
        context.prec = DIGITS + 20
        density = (-z * z / 2).exp() / (2 * pi()).sqrt()
        if z > 20:  # 1 − Φ(z) is below 10⁻⁸⁸
            value = Decimal(1)
        elif z < -20:
            value = density / -z * _tail(z * z)
        else:  # ½ + φ(z) Σ z^(2n+1) / (2n+1)!!; for z < 0, the cancellation against ½ loses digits
            context.prec += int(z * z / 4) if z < 0 else 0
            density = (-z * z / 2).exp() / (2 * pi(context.prec)).sqrt()
            value = Decimal("0.5") + density * _odd_terms(z, context.prec)
    return _call("Φ", _CONTEXT.plus(value), x)


def _odd_terms(z: Decimal, digits: int) -> Decimal:
    """Compute Σ z^(2n+1) / (2n+1)!! in the current context, to `digits` decimal places."""
    term, n, series = z, 1, Decimal(0)
    while abs(term) > Decimal(10) ** -digits or n < 3:
        series += term
        n += 2
        term *= z * z / n
    return series


def _tail(square: Decimal) -> Decimal:
    """Compute the asymptotic series 1 − 1/z² + 3/z⁴ − 15/z⁶ … up to its smallest term, which is below e^(−z²/2), here
    at most 10⁻⁸⁷.
    """
    term, n, series = Decimal(1), 1, Decimal(0)
    while abs(term) > Decimal(10) ** -(DIGITS + 20) and n < square:
        series += term
        term *= -n / square
        n += 2
    return series


def stored(x: Number, kind: str) -> Number:
    """Round x to a float type, one of FLOATS; values beyond its range become infinite.

    The value is first rounded to float64, as when NumPy casts a float64 to a smaller type.
    """
    try:
        nearest = float(x.value)
    except OverflowError:  # a fraction beyond the range of float64
        nearest = float("inf") if x.value > 0 else float("-inf")
    with np.errstate(over="ignore", under="ignore"):
        held = float(_FLOATS[kind](nearest))
    return _call(kind, Fraction(held) if np.isfinite(held) else Decimal(repr(held)), x)


MINUS_INFINITY = Number(Decimal("-Infinity"), ("−∞",))
