"""The cost of a conversation under a replaceable price table, and the fraction of each context that it fills."""

from dataclasses import dataclass
from typing import Annotated

from model.anatomy.prices import (
    MOST_CHARACTERS,
    ConversationCost,
    Price,
    Talk,
    bundled,
    cost,
    most_turns,
    read_prices,
    talk,
)
from viz.numbers import NONE, money, number, percent, whole
from viz.seam.programs.arguments import Long, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Settings, Text
from viz.seam.view import Figure, Measure, Payload, Seen, Table, View
from viz.views.anatomy.prices.figures import PARTS, CostBar, price_figure
from viz.work.playground import Playground

MOST, TURNS = 1_000_000, 200  # maximum number of tokens of a question or an answer, and of turns
_SETTINGS = (
    Choice("of", ("prompt", "number")),
    Number("question", 1, MOST, 1000, when={"of": ("number",)}),
    Number("answer", 1, MOST, 300),
    Number("turns", 1, TURNS, 10),
    Number("times", 1, MOST, 1000),
    Choice("table", ("bundled", "own")),
    # One character over the limit, so that a longer table is rejected instead of truncated.
    Text("csv", bundled().strip(), max_length=MOST_CHARACTERS + 1, lines=8, when={"table": ("own",)}),
)


@dataclass(frozen=True)
class PriceLine:
    """One row of the price table, with the cost of one conversation and the number of turns that fit the context."""

    price: Price
    cost: ConversationCost
    most_turns: int


@dataclass(frozen=True)
class Priced:
    """A conversation of `turns` turns, and its cost under each price in increasing order."""

    question: int  # tokens
    answer: int  # tokens
    turns: int
    table: str  # the visitor's own table; "" for the bundled one
    talk: Talk
    lines: tuple[PriceLine, ...]


def priced(question: int, answer: int, turns: int, table: str) -> Priced:
    """Compute the cost under every row of a price table. Raises InputError if the table cannot be read."""
    tokens = talk(question, answer, turns)
    lines = [
        PriceLine(price, cost(price, tokens), most_turns(price, question, answer))
        for price in read_prices(table or bundled())
    ]
    return Priced(question, answer, turns, table, tokens, tuple(sorted(lines, key=lambda line: line.cost.total)))


def measure(scene: Scene, settings: Settings) -> Priced:
    """Compute the cost of the form's conversation. Its questions have the length of the prompt or that of the form."""
    question = settings.question if settings.of == "number" else len(scene.tokens)
    return priced(question, settings.answer, settings.turns, settings.csv if settings.table == "own" else "")


# --- drawing ---


def _python(seen: Seen) -> str:
    """Build Python code that reproduces the costs."""
    result, times = seen.result, seen.settings.times
    text = repr(result.table) if result.table else "bundled()"
    return "\n".join(
        [
            "from model.anatomy.prices import bundled, cost, read_prices, talk",
            "",
            f"tokens = talk(question={result.question}, answer={result.answer}, turns={result.turns})",
            f"costs = {{price.model: {times} * cost(price, tokens).total for price in read_prices({text})}}",
        ]
    )


def _source(seen: Seen) -> str:
    """Describe the origin and dates of the prices, and whose tokenizer determined the length of the prompt."""
    days = [line.price.as_of for line in seen.result.lines]
    text = seen.words["source_own" if seen.result.table else "source_bundled"].format(first=min(days), last=max(days))
    if seen.settings.of == "number":
        return text
    return f"{text} · {seen.words['counted'].format(model=seen.facts.label)}"


def figure(seen: Seen) -> Payload:
    """Draw the cost of the conversations as bars, one per model."""
    words, result, times = seen.here, seen.result, seen.settings.times
    bars = [
        CostBar(
            line.price.model,
            {name: times * getattr(line.cost, name) for name in PARTS},
            line.price.as_of,
            line.cost.fits,
        )
        for line in result.lines
    ]
    values = {"question": result.question, "answer": result.answer, "turns": result.turns}
    values |= {name: getattr(result.talk, name) for name in PARTS}
    note = words["note"].format(**{name: whole(value) for name, value in values.items()})
    return {
        "figure": price_figure(bars, result.lines[0].price.currency, words.plain() | {"seen": seen.words["seen"]}),
        "title": words["title"].format(times=whole(times), turns=result.turns),
        "note": note if all(bar.fits for bar in bars) else f"{note} {words['star']}",
        "source": _source(seen),
        "file": "price-of-conversations",
        "columns": [words["part"], words["cost"], seen.words["model"]],
        "python": _python(seen),
    }


def table(seen: Seen) -> Payload:
    """Build the table of prices and costs, with the fraction of each context that the conversation fills."""
    words, result = seen.here, seen.result
    currency, rows, lines = result.lines[0].price.currency, [], []
    for line in result.lines:
        price, used = line.price, result.talk.context / line.price.context
        share = percent(used) if line.cost.fits else words["over"].format(turns=whole(line.most_turns))
        rows.append(
            [
                {"text": price.model, "help": f"{seen.words['seen']} {price.as_of}: {price.source}"},
                price.as_of,
                number(price.input),
                NONE if price.cached_input is None else number(price.cached_input),
                number(price.output),
                money(line.cost.total, currency),
                {"text": share, "bar": used},
            ]
        )
        lines.append([price.model, price.as_of, price.input, price.cached_input, price.output, line.cost.total, used])
    names = ("as_of", "per_input", "per_cached", "per_output", "one", "used")
    return {
        "title": words["title"],
        "about": words["about"].format(context=whole(result.talk.context)),
        "columns": [seen.words["model"], *(words[name].format(currency=currency) for name in names)],
        "rows": rows,
        "lines": lines,
        "source": _source(seen),
        "file": "prices",
        "python": _python(seen),
    }


# --- for programs ---

Tokens = Annotated[int, Within(1, MOST)]


def prices(
    playground: Playground,
    question: Tokens = 1000,
    answer: Tokens = 300,
    turns: Annotated[int, Within(1, TURNS)] = 10,
    table: Annotated[str, Long()] = "",
) -> dict:
    """Compute the cost of a conversation from a dated price table. Every turn resends all earlier turns.

    Args:
        question: Tokens per question.
        answer: Tokens per answer.
        turns: Number of question-answer pairs.
        table: CSV with the columns model, context, input, output, currency, as_of, source and, optionally,
            cached_input; prices are per million tokens. If empty, the bundled table is used, whose prices are those of
            the listed dates, not of today.

    Returns:
        tokens: fresh (input tokens sent for the first time), again (resent input tokens), written (output tokens) and
        context (context length of the last answer). prices, by increasing cost: each row of the table with the cost of
        the conversation, fits (whether it fits the context) and most_turns (maximum number of turns that fit).
    """
    result = priced(question, answer, turns, table)
    rows = [
        vars(line.price) | vars(line.cost) | {"total": line.cost.total, "most_turns": line.most_turns}
        for line in result.lines
    ]
    return {"tokens": vars(result.talk), "prices": rows}


VIEW = View(
    "prices",
    needs=(),
    settings=_SETTINGS,
    measures=(
        Measure("main", measure, ("plain",), ("of", "question", "answer", "turns", "table", "csv"), locks=False),
    ),
    layout=("form", ("figure", "table")),
    parts={"figure": Figure(figure), "table": Table(table)},
    api=(Endpoint(prices, reads="server", kind="computed"),),
)
