"""A checked number of a page, and the comparison of a stated number with the right one."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

Verdict = Literal["right", "loose", "wrong"]
_HALF = Decimal("0.501")  # of a unit of the last digit: a tie may be rounded either way
_NEAR = Decimal("0.05")  # relative error of a number that is only rounded carelessly
_ABOUT = Decimal("0.02")  # relative error of a number that the page calls approximate


@dataclass(frozen=True)
class Leaf:
    """A number as it stands in a text: its value, a unit of its last digit, and its place."""

    value: Decimal
    unit: Decimal
    start: int
    end: int
    binary: bool = False  # GB: 10⁹ or 2³⁰ bytes


@dataclass(frozen=True)
class Claim:
    """A number of the page that was recomputed.

    `formula` is the calculation with the inputs found on the page; `right` the value it gives; `note` names a remark.
    """

    start: int
    end: int
    kind: str
    verdict: Verdict
    stated: str
    right: Decimal
    formula: str
    note: str = ""


def verdict(leaf: Leaf, right: Decimal, about: bool = False) -> Verdict:
    """Compare a stated number with the right value.

    It is right within half a unit of its last digit. It is loose within one unit and 5%, if it had to be rounded at
    all, or within 2% if `about` says that the page calls it approximate. Otherwise it is wrong.
    """
    if not (right.is_finite() and leaf.value.is_finite()):
        return "right" if right == leaf.value else "wrong"
    off = abs(leaf.value - right)
    if off <= leaf.unit * _HALF:
        return "right"
    exact = leaf.unit > 0 and abs(right) < leaf.unit * 10**20 and right % leaf.unit == 0  # needs no rounding
    if off <= leaf.unit * Decimal("1.001") and off <= _NEAR * abs(right) and not exact:
        return "loose"
    return "loose" if about and off <= _ABOUT * abs(right) else "wrong"


def fits(leaf: Leaf, right: Decimal) -> bool:
    """Return whether a stated number equals the value to its digits."""
    return verdict(leaf, right) == "right"
