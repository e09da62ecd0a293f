"""A calculation with its inputs, its steps, and the usual slips."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from model.by_hand.claims.arrays import Array

Inputs = Mapping[str, Array]


@dataclass(frozen=True)
class Field:
    """An input: "number", "list" or "matrix", and what stands there on arrival."""

    kind: str
    usual: str
    low: Decimal | None = None
    whole: bool = False


@dataclass(frozen=True)
class Step:
    """A line of the right calculation: its formula and its value."""

    formula: str
    value: Array


@dataclass(frozen=True)
class Slip:
    """A wrong way: its formula, and the value it gives."""

    formula: str
    value: Callable[[Inputs], Array]


@dataclass(frozen=True)
class Calculation:
    """A calculation: its inputs, the lines of the right way, the slips by name, and a result that one of them gives."""

    fields: Mapping[str, Field]
    steps: Callable[[Inputs], list[Step]]
    slips: Mapping[str, Slip]
    typed: str
