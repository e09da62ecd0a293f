"""Arithmetic on numbers, lists and matrices of 50 digits, with limits on their size and on the work."""

import decimal
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from model.by_hand.numbers import DIGITS, Number, decimal_of

Array = Any  # a Decimal, or a tuple of arrays of one shape
CONTEXT = decimal.Context(prec=DIGITS, traps=[])
NAN = Decimal("NaN")
_MOST_CELLS = 4096
_LARGEST = 120  # decimal exponent


class UnfitError(Exception):
    """An expression that has no value here: unknown names, shapes that do not match, or too much work."""


def is_list(x: Array) -> bool:
    """Return whether an array is a list of numbers."""
    return isinstance(x, tuple) and bool(x) and not isinstance(x[0], tuple)


def is_matrix(x: Array) -> bool:
    """Return whether an array is a matrix."""
    return isinstance(x, tuple) and bool(x) and is_list(x[0])


def shape(x: Array) -> tuple[int, ...]:
    """Return the shape of an array. Raises UnfitError for rows of different lengths and for large arrays."""
    if not isinstance(x, tuple):
        return ()
    shapes = {shape(each) for each in x}
    if len(shapes) != 1:
        raise UnfitError
    found = (len(x), *shapes.pop())
    if len(found) > 2 or len(x) > _MOST_CELLS:
        raise UnfitError
    return found


def cells(x: Array) -> Iterator[Decimal]:
    """Return the numbers of an array in reading order."""
    if isinstance(x, tuple):
        for each in x:
            yield from cells(each)
    else:
        yield x


def each(function: Callable[[Decimal], Decimal], x: Array) -> Array:
    """Apply a function to each number."""
    return tuple(each(function, one) for one in x) if isinstance(x, tuple) else function(x)


def both(function: Callable[[Decimal, Decimal], Decimal], a: Array, b: Array) -> Array:
    """Apply a function of two numbers cell by cell; a number meets every cell, a list every row."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        if is_matrix(a) and is_list(b):
            return tuple(both(function, row, b) for row in a)
        if len(a) != len(b):
            raise UnfitError
        return tuple(both(function, x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple):
        return tuple(both(function, x, b) for x in a)
    if isinstance(b, tuple):
        return tuple(both(function, a, y) for y in b)
    return function(a, b)


def add(a: Array, b: Array) -> Array:
    """Compute a + b."""
    return both(CONTEXT.add, a, b)


def subtract(a: Array, b: Array) -> Array:
    """Compute a − b."""
    return both(CONTEXT.subtract, a, b)


def multiply(a: Array, b: Array) -> Array:
    """Compute the product cell by cell."""
    return both(CONTEXT.multiply, a, b)


def divide(a: Array, b: Array) -> Array:
    """Compute the quotient cell by cell."""
    return both(CONTEXT.divide, a, b)


def power(a: Array, b: Array) -> Array:
    """Compute a to the power of b; NaN where the result is far out of range."""

    def one(x: Decimal, y: Decimal) -> Decimal:
        if x < 0 and y != y.to_integral_value():
            return NAN
        if x.is_finite() and x and abs(y) * (abs(x.adjusted()) + 1) > 10 * _LARGEST:
            return NAN
        return CONTEXT.power(x, y)

    return both(one, a, b)


def total(x: Array) -> Decimal:
    """Compute the sum of all numbers."""
    result = Decimal(0)
    for one in cells(x):
        result = CONTEXT.add(result, one)
    return result


def transpose(x: Array) -> Array:
    """Exchange rows and columns; a list stays a list."""
    return tuple(zip(*x, strict=True)) if is_matrix(x) else x


def matmul(a: Array, b: Array) -> Array:
    """Compute a product of lists and matrices as NumPy's @. Raises UnfitError where shapes do not match."""
    first, second = shape(a), shape(b)
    if not first or not second:
        return multiply(a, b)
    if first[-1] != second[0]:
        raise UnfitError
    if len(first) == 1 and len(second) == 1:
        return total(multiply(a, b))
    rows = a if len(first) == 2 else (a,)
    columns = transpose(b) if len(second) == 2 else (b,)
    if len(rows) * len(columns) * first[-1] > _MOST_CELLS:
        raise UnfitError
    product = tuple(tuple(total(multiply(row, column)) for column in columns) for row in rows)
    if len(first) == 1:
        return product[0]
    return tuple(row[0] for row in product) if len(second) == 1 else product


def exactly(function: Callable[[Number], Number]) -> Callable[[Decimal], Decimal]:
    """Turn a function of the sheets' numbers into one of decimals; NaN for numbers far out of range."""

    def apply(x: Decimal) -> Decimal:
        if x.is_finite() and x and abs(x.adjusted()) > _LARGEST // 10:
            return NAN
        return decimal_of(function(Number(x, ())).value)

    return apply
