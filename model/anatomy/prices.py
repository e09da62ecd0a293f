"""Cost of a conversation by a price table, and whether it fits into the context.

The table is a replaceable CSV file. Each price has its source and the date of retrieval; prices are not kept up to
date.
"""

import csv
import datetime
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from model.errors import InputError, say
from model.public import public, whole

FILE = Path(__file__).with_name("prices.csv")
REQUIRED = ("model", "context", "input", "output", "currency", "as_of", "source")
OPTIONAL = ("cached_input",)
MOST_ROWS = 40
MOST_CHARACTERS = 20_000
MOST_COUNT = 10**12  # maximum number of tokens or turns
_MOST_NAME = 80
_HINT = say(
    "Give a line of names first: {}; then a line for each model, with prices per million tokens.", ",".join(REQUIRED)
)


@dataclass(frozen=True)
class Price:
    """One row of the table: prices in `currency` per million tokens."""

    model: str
    context: int  # context length: tokens of questions and answers in total
    input: float
    output: float
    currency: str
    as_of: str  # date, YYYY-MM-DD
    source: str
    cached_input: float | None = None  # price of repeated input tokens; None: the same as `input`


@dataclass(frozen=True)
class Talk:
    """The tokens of a conversation in which each question is sent with the complete conversation so far."""

    fresh: int  # new input tokens
    again: int  # input tokens repeated from earlier turns
    written: int  # output tokens
    context: int  # required context length, in tokens


@dataclass(frozen=True)
class ConversationCost:
    """Cost of a conversation by kind of token, in the price's currency."""

    fresh: float
    again: float
    written: float
    fits: bool

    @property
    def total(self) -> float:
        """The total cost."""
        return self.fresh + self.again + self.written


@public(question=whole(0, MOST_COUNT), answer=whole(0, MOST_COUNT), turns=whole(1, MOST_COUNT))
def talk(question: int, answer: int, turns: int) -> Talk:
    """Count the input and output tokens in `turns` rounds of one question and one answer.

    The input of turn i has i questions, one of them new, and i - 1 answers. The repeated tokens, turns (turns - 1) / 2
    (question + answer), grow with the square of the number of turns. Raises InputError unless all arguments are
    nonnegative integers.
    """
    reread = turns * (turns - 1) // 2 * (question + answer)
    return Talk(turns * question, reread, turns * answer, turns * (question + answer))


@public()
def cost(price: Price, tokens: Talk) -> ConversationCost:
    """Compute the cost of these tokens by one row of the table. Repeated tokens have the cached price
    if there is one.
    """
    reread = price.input if price.cached_input is None else price.cached_input
    return ConversationCost(
        fresh=tokens.fresh * price.input / 1e6,
        again=tokens.again * reread / 1e6,
        written=tokens.written * price.output / 1e6,
        fits=tokens.context <= price.context,
    )


def most_turns(price: Price, question: int, answer: int) -> int:
    """Return the maximum number of turns that fit into the context."""
    return price.context // max(1, question + answer)


@public()
def read_prices(text: str) -> tuple[Price, ...]:
    """Parse prices from CSV with the columns of REQUIRED and, optionally, `cached_input`.

    Raises InputError, which names line and column, for a missing or invalid value, and for more than one currency or a
    table that is empty or too long.
    """
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            "The price table is too long.", f"{len(text):,} characters", say("At most {} lines.", MOST_ROWS)
        )
    try:
        rows = [row for row in csv.reader(io.StringIO(text.strip()), strict=True) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise InputError("The price table is not a CSV file.", str(error), _HINT) from error
    if not rows:
        raise InputError("The price table is empty.", "", _HINT)
    names = [name.strip().lower() for name in rows[0]]
    if missing := [name for name in REQUIRED if name not in names]:
        raise InputError("The price table lacks a column.", ", ".join(missing), _HINT)
    if unknown := [name for name in names if name not in REQUIRED + OPTIONAL]:
        raise InputError("The price table has an unknown column.", unknown[0][:40], _HINT)
    if not 1 <= len(rows) - 1 <= MOST_ROWS:
        got = f"{len(rows) - 1} models"
        raise InputError("The price table has too few or too many lines.", got, say("From 1 to {} models.", MOST_ROWS))
    prices = tuple(_price(number, names, row) for number, row in enumerate(rows[1:], 2))
    models = [price.model for price in prices]
    if twice := [name for name in models if models.count(name) > 1]:
        raise InputError("The price table lists a model twice.", twice[0][:40], "Leave one of the lines out.")
    if len(currencies := dict.fromkeys(price.currency for price in prices)) > 1:
        hint = "Convert the prices to one currency."
        raise InputError("The price table has more than one currency.", ", ".join(currencies)[:40], hint)
    return prices


def _price(number: int, names: Sequence[str], row: Sequence[str]) -> Price:
    if len(row) != len(names):
        got = f"line {number}: {len(row)} of {len(names)}"
        raise InputError("A line of the price table has the wrong number of cells.", got, _HINT)
    cells = {name: cell.strip() for name, cell in zip(names, row, strict=True)}

    def refuse(name: str) -> InputError:
        got = f"line {number}, {name}: {cells[name][:40]}"
        return InputError("A cell of the price table cannot be read.", got, "Correct it, or leave the line out.")

    def amount(name: str) -> float:
        try:
            value = float(cells[name])
        except ValueError:
            raise refuse(name) from None
        if not (math.isfinite(value) and 0 <= value <= 1e9):
            raise refuse(name)
        return value

    for name in ("model", "currency", "source"):
        if not cells[name] or len(cells[name]) > (8 if name == "currency" else 2 * _MOST_NAME):
            raise refuse(name)
    context = amount("context")
    if context < 1 or context % 1:
        raise refuse("context")
    try:
        day = datetime.date.fromisoformat(cells["as_of"]).isoformat()
    except ValueError:
        raise refuse("as_of") from None
    cached = amount("cached_input") if cells.get("cached_input") else None
    return Price(
        cells["model"][:_MOST_NAME],
        int(context),
        amount("input"),
        amount("output"),
        cells["currency"],
        day,
        cells["source"],
        cached,
    )


def bundled() -> str:
    """Return the bundled table as CSV."""
    return FILE.read_text(encoding="utf-8")
