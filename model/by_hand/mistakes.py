"""Find-the-mistake exercises: worked examples from tutorials with a wrong number, and the check of an answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from model.by_hand.calculations.exercises import EXERCISE_SHEETS
from model.by_hand.numbers import Value, decimal_of
from model.by_hand.sheets import SHEETS, example, rows_of, worked
from model.by_hand.steps import MatrixStep
from model.by_hand.tables import Typed
from model.errors import InputError, say


@dataclass(frozen=True)
class Mistake:
    """An example of a sheet that shows only some of the steps, with wrong numbers inserted.

    `rows`: the names of the steps that are shown; `wrong`: {(step, row, column): the wrong number shown there, as a
    string}.
    """

    sheet: str
    example: str
    rows: tuple[str, ...]
    wrong: Mapping[tuple[str, int, int], str]
    decimals: int = 2
    options: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, str] = field(
        default_factory=dict
    )  # {table: contents}, for tables that differ from the example's


def _row(step: str, *texts: str, row: int = 0) -> dict[tuple[str, int, int], str]:
    return {(step, row, column): text for column, text in enumerate(texts)}


MISTAKES: dict[str, Mistake] = {
    "layer_spread": Mistake(
        "norms", "six_numbers", ("X", "mean_layer", "spread_layer", "scaled_layer"), {("spread_layer", 0, 0): "78.23"}
    ),
    "scores": Mistake("attention", "cat_sat_on", ("Q", "K", "S"), {("S", 0, 0): "1.32"}, options={"scaled": False}),
    "tempered": Mistake("logits", "one_to_five", ("z", "S", "P"), {("P", 0, 0): "0.105"}, 3),
    "sums_to_more": Mistake("logits", "one_to_five", ("z", "P"), {("P", 0, 4): "0.643"}, 3, changes={"T": "1"}),
    "min_max": Mistake(
        "norms",
        "one_to_four",
        ("X", "centred_layer", "scaled_layer"),
        _row("scaled_layer", "0.00", "0.33", "0.67", "1.00"),
    ),
    "one_less": Mistake(
        "norms",
        "one_to_four",
        ("X", "mean_layer", "squares_layer", "variance_layer"),
        {("variance_layer", 0, 0): "1.67"},
    ),
    "warm": Mistake("logits", "three_candidates", ("z", "S", "P"), {("P", 0, 0): "0.52"}, changes={"T": "2"}),
    "cold": Mistake("logits", "two_one_zero", ("z", "S", "P"), {("P", 0, 2): "0.04"}),
    "thousand": Mistake("logits", "thousand", ("z", "P"), _row("P", "0.090", "0.245", "0.665"), 3),
    "four_scores": Mistake("logits", "four_scores", ("z", "P"), {("P", 0, 0): "0.42"}),
    "mask": Mistake(
        "attention",
        "cat_sat_on",
        ("S", "A"),
        _row("A", "0.50", "0.25", "0.25") | _row("A", "0.40", "0.39", "0.21", row=1),
    ),
    "mlp_width": Mistake(
        "mlp_sizes", "qwen3_8b", ("d_model", "ratio", "d_mlp", "matrix", "parameters"), {("d_mlp", 0, 0): "14336"}, 0
    ),
    "rejected": Mistake(
        "speculative",
        "four_tokens",
        ("large", "draft", "kept_share", "again", "out"),
        _row("again", "0.50", "0.30", "0.15", "0.05"),
    ),
    "law": Mistake(
        "law",
        "kaplan",
        ("n", "n_c", "d_tokens", "d_c", "alpha_n", "alpha_d", "by_size", "by_data", "loss_law"),
        {("loss_law", 0, 0): "4.40"},
    ),
    "gelu_row": Mistake(
        "mlp",
        "wide",
        ("h", "a"),
        _row(
            "a",
            *("0.68", "0.19", "0.89", "0.09", "0.48", "0.78", "0.28", "0.58"),
            *("0.38", "0.88", "0.18", "0.68", "0.78", "0.28", "0.48", "0.09"),
        ),
    ),
    "gelu_two": Mistake("mlp", "curve", ("h", "a"), {("a", 0, 4): "1.96"}),
    "six_by_six": Mistake(
        "attention", "six_tokens", ("A",), _row("A", "0.14", "0.20", "0.23", "0.04", "0.14", "0.25", row=2)
    ),
    "marks": Mistake(
        "norms",
        "one_to_four",
        ("X", "mean_layer", "spread_layer", "scaled_layer"),
        _row("scaled_layer", "-0.80", "0.50", "-0.30"),
        changes={"X": "30 40 35", "gamma": "1 1 1", "beta": "0 0 0"},
    ),
    "twelve_layers": Mistake("decay", "twelve", ("left",), {("left", 0, 11): "0.28"}),
    "almost_greedy": Mistake(
        "logits",
        "one_to_five",
        ("z", "S", "P"),
        {("P", 0, 3): "0.00100", ("P", 0, 4): "0.99900"},
        5,
        changes={"T": "0.1"},
    ),
    "third": Mistake("logits", "three_candidates", ("z", "S", "P"), {("P", 0, 2): "0.05"}),
    "whose_root": Mistake(
        "head", "gpt2", ("d_model", "heads", "head_width", "score", "root", "scaled"), {("root", 0, 0): "27.71"}
    ),
    "half_the_work": Mistake(
        "cost",
        "query",
        ("rows_in", "columns_out", "products", "sums", "flops"),
        {("flops", 0, 0): "16777216"},
        0,
    ),
    "seventy": Mistake(
        "chinchilla", "chinchilla", ("trained_on", "per_parameter", "size", "compute"), {("size", 0, 0): "80"}, 0
    ),
    "wraps_round": Mistake("cast", "six", ("byte", "cast"), {("cast", 0, 4): "200"}, 0),
    "three_parts": Mistake(
        "parts", "qwen3_8b", ("parts", "whole", "percent"), _row("percent", "7.0", "92.0", "1.0"), 1
    ),
    "tenfold": Mistake("tenfold", "kaplan", ("alpha_n", "alpha_d", "drop"), {("drop", 0, 0): "24.0"}, 1),
    "reordered": Mistake(
        "reordered",
        "cats",
        ("X", "O", "Y", "O_Y"),
        _row("O_Y", "0.50", "0.47", row=0) | _row("O_Y", "0.13", "0.53", row=2),
    ),
}


@dataclass(frozen=True)
class Shown:
    """A displayed row of an exercise: the step, the row index, and the strings in its cells."""

    step: str
    row: int
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Exercise:
    """An exercise with everything needed to check an answer."""

    rows: tuple[Shown, ...]
    given: tuple[MatrixStep, ...]
    steps: tuple[MatrixStep, ...]


@dataclass(frozen=True)
class ClickAnswer:
    """The result for a clicked cell: whether its number is wrong, the number shown, and the correct one."""

    step: str
    row: int
    column: int
    wrong: bool
    shown: str
    right: Value


def exercise(name: str) -> Exercise:
    """Build an exercise: the displayed rows with the mistake, and the correct steps. Raises InputError for an unknown
    name.
    """
    if name not in MISTAKES:
        raise InputError("This exercise does not exist.", name, say("Choose one of: {}.", ", ".join(MISTAKES)))
    mistake = MISTAKES[name]
    sheet = (SHEETS | EXERCISE_SHEETS)[mistake.sheet]
    usual = example(sheet, mistake.example)
    tables = tuple(
        (key, rows_of(mistake.changes[key]) if key in mistake.changes else rows) for key, rows in usual.tables
    )
    inputs, steps = worked(sheet, Typed(usual.example, tables, usual.names), mistake.options)
    by_name = inputs | {each.name: each for each in steps}
    rows = []
    for key in mistake.rows:
        for r, row in enumerate(by_name[key].cells):
            right = [typed_text(cell.value) if key in inputs else _text(cell.value, mistake.decimals) for cell in row]
            texts = tuple(mistake.wrong.get((key, r, c)) or text for c, text in enumerate(right))
            rows.append(Shown(key, r, texts))
    return Exercise(tuple(rows), tuple(inputs.values()), steps)


def answer(of: Exercise, line: int, column: int) -> ClickAnswer:
    """Check the number in a row and column: it is wrong if it differs from the correct one by more than rounding.

    Raises InputError if there is no such cell.
    """
    if not (0 <= line < len(of.rows) and 0 <= column < len(of.rows[line].texts)):
        raise InputError("This cell does not exist.", f"{line}, {column}", "Choose a number of the table.")
    shown = of.rows[line]
    step = next(each for each in (*of.given, *of.steps) if each.name == shown.step)
    right, stands = step.cells[shown.row][column].value, Decimal(shown.texts[column])
    unit = Decimal(1).scaleb(int(stands.as_tuple().exponent))
    wrong = abs(decimal_of(right) - stands) > unit * Decimal("0.501")
    return ClickAnswer(shown.step, shown.row, column, wrong, shown.texts[column], right)


def typed_text(value: Value) -> str:
    """Format an input number as a user would enter it: 98.5."""
    return f"{decimal_of(value).normalize():f}"


def _text(value: Value, decimals: int) -> str:
    return f"{decimal_of(value).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_EVEN):f}"
