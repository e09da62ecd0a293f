"""Finding the slips that give a typed result."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from model.by_hand.claims.arrays import Array, UnfitError, cells
from model.by_hand.claims.parser import parse
from model.by_hand.claims.records import Leaf, fits
from model.by_hand.claims.tokens import plain, tokens_of
from model.by_hand.slips.attention import ATTENTION
from model.by_hand.slips.lists import LAYER_NORM, RMS_NORM, SOFTMAX, STD
from model.by_hand.slips.numbers import CROSS_ENTROPY, ENTROPY, GELU, PERPLEXITY, POSITION
from model.by_hand.slips.records import Calculation, Field, Step
from model.by_hand.slips.sizes import ATTENTION_SIZE, CACHE_SIZE, FLOPS, LINEAR, MEMORY, MLP_SIZE, PRICE
from model.errors import InputError, say
from model.public import check_kind

CALCULATIONS: dict[str, Calculation] = {
    "softmax": SOFTMAX,
    "layer_norm": LAYER_NORM,
    "rms_norm": RMS_NORM,
    "std": STD,
    "attention": ATTENTION,
    "gelu": GELU,
    "entropy": ENTROPY,
    "cross_entropy": CROSS_ENTROPY,
    "perplexity": PERPLEXITY,
    "position": POSITION,
    "linear": LINEAR,
    "attention_size": ATTENTION_SIZE,
    "mlp_size": MLP_SIZE,
    "flops": FLOPS,
    "cache_size": CACHE_SIZE,
    "memory": MEMORY,
    "price": PRICE,
}
LONGEST = 400  # characters of an input
_MOST = 16  # numbers of a list, rows of a matrix
_LARGEST = Decimal(10) ** 15


@dataclass(frozen=True)
class Found:
    """A slip that gives the typed number: its name, its formula and its value."""

    name: str
    formula: str
    value: Array


@dataclass(frozen=True)
class Explained:
    """The lines of the right calculation, whether the typed result is right, and the slips that give it."""

    steps: tuple[Step, ...]
    right: bool
    found: tuple[Found, ...]
    tried: int


def explain_number(calculation: str, inputs: Mapping[str, str], typed: str) -> Explained:
    """Try the usual slips of a calculation on a result that somebody got.

    `inputs` are texts by name; missing ones take their usual value. `typed` is one number or a list. Raises InputError
    for an unknown calculation and for inputs that cannot be read.
    """
    if calculation not in CALCULATIONS:
        raise InputError(
            "This calculation does not exist.",
            str(calculation)[:40],
            say("Choose one of: {}.", ", ".join(CALCULATIONS)),
        )
    of = CALCULATIONS[calculation]
    values = {name: _input(name, field, inputs.get(name, field.usual)) for name, field in of.fields.items()}
    _check_together(calculation, values)
    leaves = _typed(typed)
    steps = of.steps(values)
    found = []
    for name, slip in of.slips.items():
        try:
            value = slip.value(values)
        except (UnfitError, ArithmeticError, ValueError):
            continue
        if _gives(value, leaves) and not _same(value, steps[-1].value):
            found.append(Found(name, slip.formula, value))
    return Explained(tuple(steps), _gives(steps[-1].value, leaves), tuple(found), len(of.slips))


def _gives(value: Array, leaves: list[Leaf]) -> bool:
    """Return whether a value gives the typed numbers: all of them in order, or a row of them, or one anywhere."""
    rows = [list(cells(row)) for row in value] if isinstance(value, tuple) and isinstance(value[0], tuple) else []
    for numbers in [list(cells(value)), *rows]:
        if len(numbers) == len(leaves) and all(fits(leaf, x) for leaf, x in zip(leaves, numbers, strict=True)):
            return True
    return len(leaves) == 1 and any(fits(leaves[0], x) for x in cells(value))


def _same(a: Array, b: Array) -> bool:
    near = Decimal("1e-30")
    pairs = list(zip(cells(a), cells(b), strict=False))
    return len(list(cells(a))) == len(list(cells(b))) and all(x == y or abs(x - y) < near for x, y in pairs)


def _numbers(text: str) -> list[Leaf]:
    """Return the numbers of a list in any notation. Raises UnfitError for anything else."""
    flat = plain(text).strip().strip("[]()").replace(",", " ").replace(";", " ")
    leaves = []
    for word in re.sub(r"\s+", " ", flat).split():
        read = parse(tokens_of(word), {})
        if not isinstance(read.leaves, Leaf) or not read.leaves.value.is_finite():
            raise UnfitError
        leaves.append(read.leaves)
    return leaves


def _typed(text: str) -> list[Leaf]:
    check_kind("typed", text, str)
    try:
        leaves = _numbers(_without_thousands(text)[:LONGEST])
    except UnfitError as error:
        raise InputError(
            "Your result is not a number or a list.", text[:40], "Type 0.505 or 0.505, 0.495, 0."
        ) from error
    if not leaves:
        raise InputError("Your result is missing.", "typed: nothing", "Type the number that you got.")
    if len(leaves) > _MOST * _MOST:
        raise InputError(
            "Your result has too many numbers.", str(len(leaves)), say("Type at most {}.", str(_MOST * _MOST))
        )
    return leaves


def _without_thousands(text: str) -> str:
    return (
        re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text) if re.fullmatch(r"\s*\d{1,3}(,\d{3})+(\.\d+)?\s*", text) else text
    )


def _input(name: str, field: Field, text: str) -> Array:
    """Read an input. Raises InputError for what is not a number, a list or a matrix."""
    check_kind(name, text, str)
    hint = (
        "Type one number, such as 0.5."
        if field.kind == "number"
        else "Type 2 to 16 numbers with commas, such as 2, 1, 0.5."
        if field.kind == "list"
        else "Type rows with semicolons, such as 1 0; 0 1; at most 16 by 16."
    )
    try:
        rows = [[leaf.value for leaf in _numbers(row)] for row in plain(_without_thousands(text))[:LONGEST].split(";")]
    except UnfitError as error:
        raise InputError("This input cannot be read.", f"{name}: {text[:40]}", hint) from error
    rows = [row for row in rows if row] if field.kind == "matrix" else rows
    flat = [x for row in rows for x in row]
    fitting = (field.kind != "number" or len(flat) == 1) and (field.kind == "matrix" or len(rows) == 1)
    if not flat or not fitting or len({len(row) for row in rows}) > 1:
        raise InputError("This input cannot be read.", f"{name}: {text[:40]}", hint)
    if len(rows) > _MOST or len(rows[0]) > _MOST or (field.kind == "list" and len(flat) < 2):
        raise InputError("This input has too many or too few numbers.", f"{name}: {len(flat)}", hint)
    if any(abs(x) > _LARGEST for x in flat) or (field.low is not None and min(flat) < field.low):
        low = float(-_LARGEST if field.low is None else field.low)
        raise InputError(
            "This number is out of range.",
            f"{name}: {text[:40]}",
            say("Choose a value from {} to {}.", f"{low:g}", f"{float(_LARGEST):g}"),
        )
    if field.whole and any(x != x.to_integral_value() for x in flat):
        raise InputError("This number must be whole.", f"{name}: {text[:40]}", "Type a whole number, such as 12.")
    return tuple(map(tuple, rows)) if field.kind == "matrix" else (tuple(flat) if field.kind == "list" else flat[0])


def _check_together(calculation: str, values: Mapping[str, Array]) -> None:
    """Raise InputError for inputs that do not fit together."""
    if calculation == "attention" and (
        len(values["Q"]) != len(values["K"]) or len(values["Q"][0]) != len(values["K"][0])
    ):
        raise InputError(
            "Q and K must have the same shape.", f"{len(values['Q'])}, {len(values['K'])}", "Give one row per token."
        )
    if calculation == "cross_entropy" and values["target"] > len(values["z"]):
        raise InputError("The target is not in the list.", f"target: {values['target']}", "Count from 1.")
    if calculation == "position" and values["d"] > _MOST:
        raise InputError("This width is too large here.", f"d: {values['d']}", say("Type at most {}.", str(_MOST)))
