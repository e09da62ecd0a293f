"""The sheets of the page, each with its tables, calculation and examples."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from model.arguments import check_whole, shown
from model.by_hand.calculations.attention import AttentionOptions, attention
from model.by_hand.calculations.block import NORMS as BLOCK_NORMS
from model.by_hand.calculations.block import PLACEMENTS, BlockOptions, block
from model.by_hand.calculations.cache import cache
from model.by_hand.calculations.logits import logits
from model.by_hand.calculations.mlp import ACTIVATIONS, mlp
from model.by_hand.calculations.norms import KINDS, norm
from model.by_hand.calculations.positions import positions
from model.by_hand.calculations.rounding import SCHEMES, rounding
from model.by_hand.calculations.softmax import KINDS as SOFTMAX_KINDS
from model.by_hand.calculations.softmax import Softmax
from model.by_hand.steps import MatrixStep
from model.by_hand.tables import MOST, Table, Typed, steps_of
from model.errors import InputError, say
from model.public import check_kind, one_of, public, unchecked

ANIMALS = "cat, sat, on"


@dataclass(frozen=True)
class SheetExample:
    """Contents of the tables by name, with rows separated by semicolons, and the names of the tokens."""

    tables: Mapping[str, str]
    names: str = ""


@dataclass(frozen=True)
class Sheet:
    """One kind of calculation on tables entered by the user.

    `compute(inputs, options)` returns its steps; `options` has the keys of `defaults`. `named` is the dimension whose
    entries have names.
    """

    tables: Mapping[str, Table]
    examples: Mapping[str, SheetExample]
    compute: Callable[[Mapping[str, MatrixStep], Mapping[str, Any]], tuple[MatrixStep, ...]]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    named: str = ""


def _softmax(options: Mapping[str, Any]) -> Softmax:
    return Softmax(options["stable"], options["kind"])


def _attention(inputs: Mapping[str, MatrixStep], options: Mapping[str, Any]) -> tuple[MatrixStep, ...]:
    return attention(
        inputs, AttentionOptions(int(options["heads"]), options["causal"], options["scaled"], _softmax(options))
    )


def _norms(inputs: Mapping[str, MatrixStep], options: Mapping[str, Any]) -> tuple[MatrixStep, ...]:
    kinds = KINDS if options["norm"] == "all" else (options["norm"],)
    return tuple(each for kind in kinds for each in norm(inputs, kind))


_ATTENTION = {
    "X": Table("X", "T", "D"),
    "W_Q": Table("W_Q", "D", "E"),
    "W_K": Table("W_K", "D", "E"),
    "W_V": Table("W_V", "D", "F"),
    "Q": Table("Q", "T", "E"),
    "K": Table("K", "T", "E"),
    "V": Table("V", "T", "F"),
    "W_O": Table("W_O", "F", "G"),
}
_CAT_SAT_ON = {
    "Q": "0.8 0.6 0.4 0.2; 0.3 0.9 0.5 0.3; 0.4 0.3 0.8 0.6",
    "K": "0.9 0.7 0.5 0.3; 0.4 0.8 0.6 0.2; 0.5 0.4 0.9 0.7",
    "V": "1.2 0.8 0.6 0.4; 0.5 1.3 0.7 0.3; 0.6 0.5 1.4 0.9",
}
_IDENTITY = "1 0; 0 1"
ATTENTION = Sheet(
    _ATTENTION,
    {
        "cat_sat_on": SheetExample(_CAT_SAT_ON, ANIMALS),
        "projected": SheetExample(
            {"X": "1 0; 0 1; 1 1", "W_Q": "1 0; 1 1", "W_K": "1 1; 0 1", "W_V": "2 0; 0 3"}, "I, love, AI"
        ),
        "two_heads": SheetExample(
            {
                "X": "1 0.5 0.3 0.2; 0.2 1 0.4 0.1; 0.3 0.2 1 0.5",
                "W_Q": "1 0 0 0; 0 1 0 0; 0 0 1 0; 0 0 0 1",
                "W_K": "1 0 0 0; 0 1 0 0; 0 0 1 0; 0 0 0 1",
                "W_V": "1 0 0 0; 0 1 0 0; 0 0 1 0; 0 0 0 1",
                "W_O": "1 0 1 0; 0 1 0 1; 1 0 -1 0; 0 1 0 -1",
            },
            ANIMALS,
        ),
        "six_tokens": SheetExample(
            {
                "Q": "1.8 0.2; 0.4 2.2; 1.4 1.2; 0.2 0.6; 1.6 0.4; 0.8 2",
                "K": "1.8 0.2; 0.4 2.2; 1.4 1.2; 0.2 0.6; 1.6 0.4; 0.8 2",
                "V": "1 0; 0 1; 1 1; 0.5 0; 0 0.5; 1 -1",
            },
            "The, cat, sat, on, the, mat",
        ),
        "overflow": SheetExample({"Q": "30 0; 0 30; 30 30", "K": "30 0; 0 30; 30 30", "V": "1 0; 0 1; 1 1"}, "a, b, c"),
        "dictionary": SheetExample(
            {"Q": "100 0; 0 100; 100 0", "K": "1 0; 0 1; -1 0", "V": "1; 2; 3"}, "one, two, three"
        ),
    },
    _attention,
    {"heads": 1, "causal": True, "scaled": True, "stable": True, "kind": "exact"},
    "T",
)
NORMS = Sheet(
    {
        "X": Table("X", "T", "D"),
        "gamma": Table("γ", "1", "D"),
        "beta": Table("β", "1", "D"),
        "eps": Table("ε", "1", "1", low=0),
    },
    {
        "six_numbers": SheetExample(
            {"X": "0.1 0.3 98.5 123.7 0.2 201.3", "gamma": "1 1 1 1 1 1", "beta": "0 0 0 0 0 0", "eps": "0.00001"}
        ),
        "one_to_four": SheetExample({"X": "1 2 3 4", "gamma": "1 1 1 1", "beta": "0 0 0 0", "eps": "0"}),
        "three_tokens": SheetExample(
            {"X": "1 2 3 4; 2 4 6 8; 10 10 11 11", "gamma": "1 1 1 1", "beta": "0 0 0 0", "eps": "0.00001"}
        ),
        "undone": SheetExample({"X": "1 1 5 5", "gamma": "2 2 2 2", "beta": "3 3 3 3", "eps": "0"}),
    },
    _norms,
    {"norm": "layer"},
    "T",
)
MLP = Sheet(
    {
        "x": Table("x", "T", "D"),
        "W": Table("W", "D", "M"),
        "b": Table("b", "1", "M"),
        "W_G": Table("W_G", "D", "M"),
        "W_1": Table("W_1", "D", "M"),
        "b_1": Table("b_1", "1", "M"),
        "W_2": Table("W_2", "M", "D"),
        "b_2": Table("b_2", "1", "D"),
    },
    {
        "linear": SheetExample({"x": "1 2 3 4", "W": "1 0 2; 0 1 1; 1 1 0; 2 0 1", "b": "0.5 0 -1"}),
        "mlp": SheetExample(
            {
                "x": "0.5 0.3",
                "W_1": "0.7 0.2 0.9 0.1; 0.5 -0.8 0.3 -0.6",
                "b_1": "0 0 0 0",
                "W_2": "0.7 0.2; 0.5 0.8; -0.4 0.9; 0.8 0.3",
                "b_2": "0 0",
            }
        ),
        "wide": SheetExample(
            {
                "x": "0.5 0.3 0.8 0.2",
                "W_1": (
                    "0.8 0 0 0.8 0 0 0 0 0 2.4 0 0 1 0 0 0.8; "
                    "1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1 1 -1; "
                    "0 0.625 0 0 0.25 0 0 1.125 0 0 -0.125 0 0 0.75 0 0; "
                    "0 0 3 0 0 5.5 0 0 0.5 0 0 5 0 0 1 0"
                ),
                "b_1": "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
                "W_2": (
                    "0.1 -0.2 0.3 0.2; 0.3 0.2 0.1 0; 0.1 0 -0.1 0.1; -0.1 0.1 -0.2 0.3; "
                    "-0.2 0.3 0.2 0.1; 0.2 0.1 0 -0.1; 0 -0.1 0.1 -0.2; 0.1 -0.2 0.3 0.2; "
                    "0.3 0.2 0.1 0; 0.1 0 -0.1 0.1; -0.1 0.1 -0.2 0.3; -0.2 0.3 0.2 0.1; "
                    "0.2 0.1 0 -0.1; 0 -0.1 0.1 -0.2; 0.1 -0.2 0.3 0.2; 0.3 0.2 0.1 0"
                ),
                "b_2": "0 0 0 0",
            }
        ),
        "swiglu": SheetExample(
            {
                "x": "0.5 0.3",
                "W_G": "1 -1 2; 0.5 1 -2",
                "W_1": "0.7 0.2 0.9; 0.5 -0.8 0.3",
                "W_2": "0.7 0.2; 0.5 0.8; -0.4 0.9",
            }
        ),
        "curve": SheetExample({"x": "1", "W_1": "-2 -1 0 1 2", "b_1": "0 0 0 0 0", "W_2": "1; 1; 1; 1; 1", "b_2": "0"}),
    },
    lambda inputs, options: mlp(inputs, options["activation"], options["residual"]),
    {"activation": "gelu", "residual": True},
)
_BLOCK_NORMS = {"gamma_1": "1 1 1 1", "beta_1": "0 0 0 0", "gamma_2": "1 1 1 1", "beta_2": "0 0 0 0", "eps": "0.00001"}
_BLOCK_WEIGHTS = {
    "W_Q": "1 0; 0 1; 0.5 0; 0 0.5",
    "W_K": "0 1; 1 0; 0 0.5; 0.5 0",
    "W_V": "0.2 0.1; 0.1 -0.1; -0.1 0.2; 0.2 0.1",
    "W_O": "0.5 0 0.2 0.1; 0.1 0.4 0 0.3",
    "W_1": "0.5 0 -0.2 0.1 0.3 -0.4; 0.1 0.4 0 -0.3 0.2 0.1; -0.2 0.1 0.5 0 -0.1 0.3; 0.3 -0.1 0.2 0.4 0 0.1",
    "b_1": "0 0 0 0 0 0",
    "W_2": "0.2 0 0.1 -0.1; 0 0.3 -0.1 0.1; 0.1 0.1 0.2 0; -0.1 0 0.1 0.3; 0.2 -0.1 0 0.1; 0 0.2 0.1 -0.2",
    "b_2": "0 0 0 0",
}
BLOCK = Sheet(
    {
        "X": Table("X", "T", "D"),
        "from_layer": Table("f", "T", "D"),
        "from_attention": Table("a", "T", "D"),
        "from_mlp": Table("f", "T", "D"),
        **{f"gamma_{n}": Table(f"γ_{n}", "1", "D") for n in (1, 2)},
        **{f"beta_{n}": Table(f"β_{n}", "1", "D") for n in (1, 2)},
        "eps": Table("ε", "1", "1", low=0),
        **{name: _ATTENTION[name] for name in ("W_Q", "W_K", "W_V")},
        "W_O": Table("W_O", "F", "D"),
        **{name: MLP.tables[name] for name in ("W_1", "b_1", "W_2", "b_2")},
    },
    {
        "typed": SheetExample(
            {"X": "1 2 3 4", "from_attention": "0.1 0.2 0.15 0.25", "from_mlp": "0.08 0.15 0.12 0.2", **_BLOCK_NORMS},
            "cat",
        ),
        "one_token": SheetExample({"X": "1 2 3 4", **_BLOCK_NORMS, **_BLOCK_WEIGHTS}, "cat"),
        "three_tokens": SheetExample(
            {"X": "1 2 3 4; 0.5 -1 0 2; 2 0.5 -0.5 1", **_BLOCK_NORMS, **_BLOCK_WEIGHTS}, ANIMALS
        ),
        "sum": SheetExample({"X": "1 2 3", "from_layer": "0.1 0.2 0.15"}, "cat"),
    },
    lambda inputs, options: block(inputs, BlockOptions(options["placement"], options["norms"], options["activation"])),
    {"placement": "pre", "norms": "layer", "activation": "gelu"},
    "T",
)
_CUTS = {"T": "1", "k": "8", "p": "1", "target": "1"}
LOGITS = Sheet(
    {
        "z": Table("z", "1", "V"),
        "T": Table("T", "1", "1", low=0, above=True),
        "k": Table("k", "1", "1", low=1, high=MOST, whole=True),
        "p": Table("p", "1", "1", low=0, high=1, above=True),
        "target": Table("t", "1", "1", low=1, high=MOST, whole=True),
        "P": Table("P", "1", "V", low=0, high=1, above=True),
        "shares": Table("w", "1", "V", low=0, above=True),
    },
    {
        "one_to_five": SheetExample({"z": "1 2 3 4 5", **_CUTS, "T": "2"}, "a, b, c, d, e"),
        "three_candidates": SheetExample({"z": "2 1 0.5", **_CUTS, "T": "0.5"}, "mat, floor, roof"),
        "two_one_zero": SheetExample({"z": "2 1 0", **_CUTS, "T": "0.5"}, "a, b, c"),
        "four_scores": SheetExample({"z": "2.1 -0.5 1.3 0.8", **_CUTS}, "a, b, c, d"),
        "thousand": SheetExample({"z": "1000 1000.1 1000.2", **_CUTS}, "a, b, c"),
        "cuts": SheetExample(
            {"z": "3 2.4 1.9 1.3 0.8 -0.8 -0.9", "T": "0.8", "k": "5", "p": "0.8", "target": "1"},
            "the, mat, floor, carpet, ground, roof, sky",
        ),
        "probabilities": SheetExample(
            {"shares": "0.45 0.25 0.15 0.08 0.05 0.01 0.01", "k": "5", "p": "0.8"},
            "the, mat, floor, carpet, ground, roof, sky",
        ),
        "text": SheetExample({"P": "0.2 0.1 0.5 0.8"}, "The, cat, sat, down"),
    },
    lambda inputs, options: logits(inputs, _softmax(options)),
    {"stable": True, "kind": "exact"},
    "V",
)
POSITIONS = Sheet(
    {
        "N": Table("N", "1", "1", low=1, high=MOST, whole=True),
        "d": Table("d", "1", "1", low=2, high=MOST, whole=True),
        "base": Table("base", "1", "1", low=1),
        "p": Table("p", "1", "1", low=0, high=4096, whole=True),
        "k": Table("k", "1", "1", low=0, high=4096, whole=True),
        "x": Table("x", "1", "D"),
        "m": Table("m", "1", "1", low=0, high=4096, whole=True),
        "heads": Table("H", "1", "1", low=1, high=MOST, whole=True),
        "head": Table("h", "1", "1", low=1, high=MOST, whole=True),
        "learned": Table("β", "1", "B"),
        "far": Table("far", "1", "1", low=1, high=4096, whole=True),
    },
    {
        "sinusoids": SheetExample({"N": "4", "d": "4", "base": "10000", "p": "1", "k": "2"}),
        "eight_wide": SheetExample({"N": "4", "d": "8", "base": "10000", "p": "0", "k": "1"}),
        "rope": SheetExample({"x": "1 2 3 4", "m": "2", "base": "10000"}),
        "rope_million": SheetExample({"x": "1 0 1 0 1 0 1 0", "m": "5", "base": "1000000"}),
        "alibi": SheetExample({"N": "6", "heads": "8", "head": "1"}),
        "t5": SheetExample({"N": "12", "learned": "2 1.2 0.5 0.1 -0.3 -0.8 -1.5 -2", "far": "32"}),
    },
    lambda inputs, options: positions(inputs),
)
ROUNDING = Sheet(
    {"x": Table("x", "1", "D"), "bits": Table("b", "1", "1", low=2, high=16, whole=True)},
    {
        "int8": SheetExample({"x": "-1.5 -0.2 0 0.31 0.9 2.54", "bits": "8"}),
        "int4": SheetExample({"x": "-0.7 0.1 0.24 0.36", "bits": "4"}),
        "one_number": SheetExample({"x": "0.123456789", "bits": "8"}),
        "bytes": SheetExample({"x": "0 100 127 128 200 255", "bits": "8"}),
        "outlier": SheetExample({"x": "0.1 -0.2 0.3 60", "bits": "4"}),
    },
    lambda inputs, options: rounding(inputs, options["scheme"]),
    {"scheme": "symmetric"},
)
CACHE = Sheet(
    {
        **{name: _ATTENTION[name] for name in "QKV"},
        "s": Table("s", "1", "N"),
        "v": Table("v", "1", "N"),
        "block": Table("B", "1", "1", low=1, high=MOST, whole=True),
    },
    {
        "cat_sat_on": SheetExample(_CAT_SAT_ON, ANIMALS),
        "online": SheetExample({"s": "1 3 2 5 0 4", "v": "1 2 3 4 5 6", "block": "2"}),
    },
    lambda inputs, options: cache(inputs),
    {},
    "T",
)
# {option: allowed values}
CHOICES: dict[str, tuple[str, ...]] = {
    "kind": SOFTMAX_KINDS,
    "norm": (*KINDS, "all"),
    "activation": ACTIVATIONS,
    "scheme": SCHEMES,
    "placement": PLACEMENTS,
    "norms": BLOCK_NORMS,
}
SHEETS: dict[str, Sheet] = {
    "attention": ATTENTION,
    "norms": NORMS,
    "mlp": MLP,
    "block": BLOCK,
    "logits": LOGITS,
    "positions": POSITIONS,
    "rounding": ROUNDING,
    "cache": CACHE,
}


@public(name=unchecked)
def example(sheet: Sheet, name: str) -> Typed:
    """Return an example as the tables that a user would enter. Raises InputError for an unknown name."""
    if not isinstance(name, str) or name not in sheet.examples:
        hint = say("Choose one of: {}.", ", ".join(sheet.examples))
        raise InputError("This example does not exist.", shown(name), hint)
    chosen = sheet.examples[name]
    tables = tuple((key, rows_of(text)) for key, text in chosen.tables.items())
    return Typed(name, tables, tuple(chosen.names.split(", ")) if chosen.names else ())


def rows_of(text: str) -> tuple[tuple[str, ...], ...]:
    """Split a table in one-line notation into its cells."""
    return tuple(tuple(row.split()) for row in text.split(";"))


@public()
def worked(
    sheet: Sheet, typed: Typed, options: Mapping[str, Any] | None = None
) -> tuple[dict[str, MatrixStep], tuple[MatrixStep, ...]]:
    """Compute a sheet and return its inputs and all steps; missing options take their defaults.

    Raises InputError for unknown or missing tables, invalid options, cells that are not numbers, and numbers outside
    the domain of the calculation.
    """
    _check_tables(sheet, typed)
    _check_options(sheet, options or {})
    inputs = steps_of(typed, sheet.tables, sheet.named)
    return inputs, sheet.compute(inputs, {**sheet.defaults, **(options or {})})


def _check_tables(sheet: Sheet, typed: Typed) -> None:
    """Raise InputError unless all tables belong to the sheet and include all tables of at least one of its examples."""
    names = {name for name, _ in typed.tables}
    if unknown := names - set(sheet.tables):
        hint = say("Choose one of: {}.", ", ".join(sheet.tables))
        raise InputError("No table of this sheet has this name.", f"typed: {shown(min(unknown))}", hint)
    if not any(names >= set(each.tables) for each in sheet.examples.values()):
        hint = say("Its tables are: {}.", ", ".join(sheet.tables))
        raise InputError("A table of this sheet is missing.", f"typed: {', '.join(sorted(names))}", hint)


def _check_options(sheet: Sheet, options: Mapping[str, Any]) -> None:
    """Raise InputError for an unknown option or an invalid value."""
    for name, value in options.items():
        if name not in sheet.defaults:
            hint = say("Choose one of: {}.", ", ".join(sheet.defaults)) if sheet.defaults else "Remove it."
            raise InputError("No option has this name.", f"options, {shown(name)}: {shown(value)}", hint)
        if isinstance(sheet.defaults[name], bool):
            check_kind(f"options, {name}", value, bool)
        elif name == "heads":
            check_whole(f"options, {name}", int(value) if str(value).isdecimal() else value, 1, MOST)
        else:
            one_of(CHOICES[name])(f"options, {name}", value)
