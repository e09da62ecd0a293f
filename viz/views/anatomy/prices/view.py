"""What a conversation costs by a table of prices that the visitor may replace, and how much of a context it fills."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import gradio as gr

from model.anatomy.prices import Cost, Price, Talk, bundled, cost, most_turns, read_prices, talk
from viz.page.old_view import View
from viz.page.parts import choice, number, part, plot_words
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.anatomy.prices.figures import PARTS as BARS
from viz.views.anatomy.prices.figures import Bar, money, price_figure
from viz.views.predictions.figures import percent
from viz.words import section

PARTS = ("prices_form", "prices_figure", "prices_table")
MOST = 1_000_000  # tokens of a question or an answer
TURNS = 200
_ANSWER = 300


@dataclass(frozen=True)
class Asked:
    """A conversation and the table it is priced by."""

    question: int
    answer: int
    turns: int
    times: int
    table: str  # "" for the one that comes with the app

    @property
    def talk(self) -> Talk:
        """Its tokens."""
        return talk(self.question, self.answer, self.turns)


def build() -> dict[str, gr.HTML]:
    """The conversation above; its cost left, every number right."""
    made = {"prices_form": part("prices_form", None, kind="controls", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["prices_figure"] = part("prices_figure", None, kind="figure")
        with gr.Column(min_width=320):
            made["prices_table"] = part("prices_table", None, kind="labtable")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """The conversation, and the table as text."""
    said = section(words, "prices")
    whole = {"kind": "number", "min": 1, "step": 1}
    return {
        "prices_form": {
            "controls": [
                {
                    "name": "of",
                    "kind": "choice",
                    "label": said["of"],
                    "value": "prompt",
                    "options": [["prompt", said["of_prompt"]], ["number", said["of_number"]]],
                },
                whole
                | {
                    "name": "question",
                    "label": said["question"],
                    "value": 1000,
                    "max": MOST,
                    "when": {"of": ["number"]},
                },
                whole | {"name": "answer", "label": said["answer"], "value": _ANSWER, "max": MOST},
                whole | {"name": "turns", "label": said["turns"], "value": 10, "max": TURNS},
                whole | {"name": "times", "label": said["times"], "value": 1000, "max": MOST},
                {
                    "name": "table",
                    "kind": "choice",
                    "label": said["which"],
                    "value": "bundled",
                    "options": [["bundled", said["bundled"]], ["own", said["own"]]],
                },
                {
                    "name": "csv",
                    "kind": "text",
                    "lines": 8,
                    "label": said["csv"],
                    "value": bundled().strip(),
                    "when": {"table": ["own"]},
                },
            ]
        }
    }


def asked_of(scene: Scene, values: Values) -> Asked:
    """What the page asks for, within bounds."""
    value = values.get("prices_form")
    length = len(scene.trace.tokens)
    own = choice(value, "of", ("prompt", "number")) == "number"
    table = ""
    if choice(value, "table", ("bundled", "own")) == "own" and isinstance(value.get("csv"), str):
        table = value["csv"]
    return Asked(
        question=int(number(value, "question", 1, MOST, 1000)) if own else length,
        answer=int(number(value, "answer", 1, MOST, _ANSWER)),
        turns=int(number(value, "turns", 1, TURNS, 10)),
        times=int(number(value, "times", 1, MOST, 1000)),
        table=table,
    )


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The cost by every line of the table, cheapest first."""
    asked = asked_of(scene, values)
    counted = "" if choice(values.get("prices_form"), "of", ("prompt", "number")) == "number" else scene.model.label
    key = (asked, counted)
    return {
        "prices_figure": Picture((key, "figure"), lambda: figure_payload(scene, asked, counted)),
        "prices_table": Picture((key, "table"), lambda: table_payload(scene, asked, counted)),
    }


def priced(asked: Asked) -> list[tuple[Price, Cost]]:
    """Every line with the cost of one conversation, cheapest first; raises InputError for a table that is none."""
    found = [(price, cost(price, asked.talk)) for price in read_prices(asked.table or bundled())]
    return sorted(found, key=lambda line: line[1].total)


def _lines(asked: Asked) -> str:
    """Python that makes the same numbers."""
    text = repr(asked.table) if asked.table else "bundled()"
    return "\n".join(
        [
            "from model.anatomy.prices import bundled, cost, read_prices, talk",
            "",
            f"told = talk(question={asked.question}, answer={asked.answer}, turns={asked.turns})",
            f"costs = {{price.model: {asked.times} * cost(price, told).total for price in read_prices({text})}}",
        ]
    )


def _run(scene: Scene, asked: Asked, counted: str) -> str:
    """A short name for what is shown."""
    return hashlib.sha256(repr((asked, counted, scene.language)).encode()).hexdigest()[:12]


def _source(scene: Scene, asked: Asked, counted: str, found: Sequence[tuple[Price, Cost]]) -> str:
    """Whose prices these are, and who counted the tokens."""
    said = section(scene.words, "prices")
    days = [price.as_of for price, _ in found]
    told = said["source_own" if asked.table else "source"].format(first=min(days), last=max(days))
    return f"{told} · {said['counted'].format(model=counted)}" if counted else told


def figure_payload(scene: Scene, asked: Asked, counted: str) -> dict:
    """What the conversations cost, as bars."""
    said, found = section(scene.words, "prices"), priced(asked)
    currency = found[0][0].currency
    bars = [
        Bar(price.model, {name: asked.times * getattr(each, name) for name in BARS}, price.as_of, each.fits)
        for price, each in found
    ]
    told = asked.talk
    note = said["note"].format(
        question=f"{asked.question:,}",
        answer=f"{asked.answer:,}",
        turns=asked.turns,
        fresh=f"{told.fresh:,}",
        again=f"{told.again:,}",
        written=f"{told.written:,}",
    )
    if not all(bar.fits for bar in bars):
        note = f"{note} {said['star']}"
    return {
        "figure": price_figure(bars, currency, said),
        "title": said["title"].format(times=f"{asked.times:,}", turns=asked.turns),
        "note": note,
        "source": _source(scene, asked, counted, found),
        "file": "price-of-conversations",
        "run": _run(scene, asked, counted),
        "columns": [said["part"], said["cost"], said["model"]],
        "python": _lines(asked),
        "words": plot_words(scene.words),
    }


def table_payload(scene: Scene, asked: Asked, counted: str) -> dict:
    """Every number, and how much of each context it fills."""
    said, found, told = section(scene.words, "prices"), priced(asked), asked.talk
    currency, rows, lines = found[0][0].currency, [], []
    for price, each in found:
        used = told.context / price.context
        turns = most_turns(price, asked.question, asked.answer)
        cached = "–" if price.cached_input is None else f"{price.cached_input:g}"
        rows.append(
            [
                {"text": price.model, "help": f"{said['seen']} {price.as_of}: {price.source}"},
                price.as_of,
                f"{price.input:g}",
                cached,
                f"{price.output:g}",
                money(each.total, currency),
                {"text": percent(used) if each.fits else said["over"].format(turns=f"{turns:,}"), "bar": used},
            ]
        )
        lines.append([price.model, price.as_of, price.input, price.cached_input, price.output, each.total, used])
    columns = [
        said[name].format(currency=currency)
        for name in ("model", "as_of", "per_input", "per_cached", "per_output", "one", "used")
    ]
    return {
        "title": said["table"],
        "about": said["table_about"].format(context=f"{told.context:,}"),
        "columns": columns,
        "rows": rows,
        "lines": lines,
        "source": _source(scene, asked, counted, found),
        "file": "prices",
        "python": _lines(asked),
        "run": _run(scene, asked, counted),
    }


VIEW = View("prices", build, draw, parts=PARTS, fixed=fixed, asks=("prices_form",))
