"""View of the division of scores by sqrt(d_head), for a head of this model and for random vectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from model.design.score_scaling import (
    SIZES,
    Drawn,
    Lookup,
    Rows,
    Summary,
    drawn,
    lookup,
    products,
    rows_of,
    scaled,
    softmax,
    summary,
)
from viz.labels import quoted
from viz.numbers import BIT, bits, decimals, number, percent
from viz.seam.programs.arguments import Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, layer_or_first, measured, on
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Range, Settings
from viz.seam.view import Figure, Measure, Payload, Seen, Table, View
from viz.views.design.score_scaling.figures import (
    Both,
    lookup_figure,
    random_figure,
    row_figure,
    rows_figure,
    scores_figure,
)
from viz.words import Words

TRAINED = 0.5  # power of d_head with which all these models were trained
POWER = Range("power", 0.0, 1.0, step=0.05, default=0.0)


@dataclass(frozen=True, eq=False)
class Scaling:
    """The products q.k of one head, and softmax statistics as trained and under the selected scaling."""

    dots: np.ndarray  # float64 [T, T], NaN for masked keys
    d: int
    power: float
    trained: Rows
    chosen: Rows
    summaries: tuple[Summary, ...]  # at powers 0, 0.5, 1 and the selected one; empty for a single token

    def scores(self, power: float) -> np.ndarray:
        """Return q.k / d^power. [T, T]"""
        return scaled(self.dots, self.d, power)


def measure_products(scene: Scene, settings: Settings) -> np.ndarray:
    """Compute q.k of the main head, NaN for masked keys. float64 [T, T]"""
    return products(scene.trace.scores(*scene.head), scene.model.config.d_head)


def measure(scene: Scene, settings: Settings, results: Mapping[str, np.ndarray]) -> Scaling:
    """Compute the main head's softmax statistics as trained and under the selected scaling."""
    d, power, dots = scene.model.config.d_head, settings.power, results["products"]
    powers = sorted({0.0, TRAINED, 1.0, power})
    summaries = tuple(each for exponent in powers if (each := summary(dots, d, exponent)))
    return Scaling(dots, d, power, rows_of(scaled(dots, d, TRAINED)), rows_of(scaled(dots, d, power)), summaries)


def measure_random(scene: Scene, settings: Settings) -> tuple[Drawn, ...]:
    """Measure random queries and keys of increasing dimension, which are the same for every model."""
    return tuple(drawn())


def measure_lookup(scene: Scene, settings: Settings) -> Lookup:
    """Compute the selected token's row of weights at each temperature."""
    (layer, head), seen = scene.head, scene.position + 1
    return lookup(scene.trace.scores(layer, head)[scene.position, :seen], scene.trace.qkv(layer, head).v[:seen])


# --- parts ---


def name_of(words: Words, power: float) -> str:
    """Format the name of a scaling."""
    names = {0.0: "none", TRAINED: "root", 1.0: "whole"}
    return words[f"is_{names[power]}"] if power in names else words["is_power"].format(power=f"{power:g}")


def _words(seen: Seen) -> dict[str, str]:
    """Return the words of a figure, with the names of its two lines."""
    power = seen.result.power
    return seen.here.plain() | {"trained": name_of(seen.words, TRAINED), "chosen": name_of(seen.words, power)}


def _title(seen: Seen, **more: object) -> str:
    layer, head = seen.facts.head
    return seen.here["title"].format(layer=layer, head=head, d=seen.result.d, **more)


def _python(seen: Seen, line: str) -> str:
    layer, head = seen.facts.head
    used = [
        name for name in ("products", "rows_of", "scaled", "softmax", "summary") if f"{name}(" in f"products({line}"
    ]
    start = f"dots = products(run.scores({layer}, {head}), lm.config.d_head)  # [T, T]"
    return script(seen.facts, [start, line], [f"from model.design.score_scaling import {', '.join(used)}"])


def table(seen: Seen) -> Payload:
    """Build the table of the head's statistics without scaling and with sqrt(d), d and the selected power."""
    words, result = seen.here, seen.result.summaries
    if not result:
        return {"empty": {"text": _title(seen), "hint": words["one"]}}
    top = max(each.jacobian for each in result) or 1.0
    rows = [
        [
            name_of(seen.words, each.power),
            decimals(each.deviation, 3),
            bits(each.entropy / BIT),
            {"text": percent(each.evenness), "bar": each.evenness},
            {"text": decimals(each.largest, 3), "bar": each.largest},
            percent(each.saturated),
            {"text": decimals(each.jacobian, 4), "bar": each.jacobian / top},
        ]
        for each in result
    ]
    names = ("scaling", "deviation", "entropy", "evenness", "largest", "saturated", "jacobian")
    powers = [each.power for each in result]
    return {
        "title": _title(seen),
        "about": words["about"],
        "columns": [words[name] for name in names],
        "rows": rows,
        "python": _python(seen, f"[summary(dots, lm.config.d_head, power) for power in {powers}]  # entropy: in nats"),
    }


def scores(seen: Seen) -> Payload:
    """Draw the distribution of the scores under both scalings."""
    words, result = seen.here, seen.result
    powers = (TRAINED, result.power)
    return {
        "figure": scores_figure(Both(*map(result.scores, powers)), _words(seen)),
        "title": _title(seen),
        "note": words["note"],
        "columns": [words["series"], words["score"], words["share"]],
        "python": _python(seen, f"[scaled(dots, lm.config.d_head, power) for power in {powers}]"),
    }


def row(seen: Seen) -> Payload:
    """Draw the selected token's row of weights under both scalings."""
    words, result, facts, i = seen.here, seen.result, seen.facts, seen.facts.position
    powers = (TRAINED, result.power)
    weights = [softmax(result.scores(power)[i : i + 1, : i + 1])[0] for power in powers]
    before, after = (number(float(each.max())) for each in weights)
    softmaxes = f"[softmax(scaled(dots, lm.config.d_head, power))[{i}, :{i + 1}] for power in {powers}]"
    return {
        "figure": row_figure(Both(*weights), facts.pieces, _words(seen)),
        "title": _title(seen, token=quoted(facts.pieces[i]), position=i),
        "note": words["note"].format(before=before, after=after),
        "columns": [words["series"], words["key"], words["position"], words["weight"]],
        "python": _python(seen, softmaxes),
    }


def rows(seen: Seen) -> Payload:
    """Draw the entropy, largest weight and Jacobian norm of every row under both scalings."""
    words, result = seen.here, seen.result
    powers = (TRAINED, result.power)
    return {
        "figure": rows_figure(result.trained, result.chosen, seen.facts.pieces, _words(seen)),
        "title": _title(seen),
        "note": words["note"],
        "columns": [words["series"], words["query"], words["position"], words["value"]],
        "python": _python(
            seen, f"[rows_of(scaled(dots, lm.config.d_head, power)) for power in {powers}]  # entropy: in nats"
        ),
    }


def lookup_row(seen: Seen) -> Payload:
    """Draw the selected token's row as a soft dictionary, by temperature."""
    words, result, facts = seen.here, seen.result, seen.facts
    (layer, head), i = facts.head, facts.position
    where = {"layer": layer, "head": head, "token": quoted(facts.pieces[i]), "position": i}
    key = f"{quoted(facts.pieces[result.best])} ({result.best})"
    trained = float(result.apart[len(result.apart) // 2])  # T = 1 is in the middle
    lines = [f"lookup(run.scores({layer}, {head})[{i}, :{i + 1}], run.qkv({layer}, {head}).v[:{i + 1}])"]
    return {
        "figure": lookup_figure(result, facts.pieces, words.plain()),
        "title": words["title"].format(**where),
        "note": words["note"].format(key=key, apart=number(trained)),
        "columns": [words["series"], words["temperature"], words["value"]],
        "python": script(facts, lines, ["from model.design.score_scaling import lookup"]),
    }


def random(seen: Seen) -> Payload:
    """Draw the statistics of random queries and keys of increasing dimension."""
    words, last = seen.here, seen.result[-1]
    before, after = (number(each) for each in reversed(last.jacobian))
    return {
        "figure": random_figure(SIZES, seen.result, words.plain()),
        "title": words["title"],
        "note": words["note"].format(size=SIZES[-1], variance=number(last.variance), before=before, after=after),
        "columns": [words["series"], words["size"], words["value"]],
        "python": "from model.design.score_scaling import drawn\n\ndrawn()  # entropy: in nats",
    }


# --- endpoint ---


def score_scaling(
    scene: Scene,
    layer: int | None = None,
    head: int = 0,
    power: Annotated[float, Within(0, 1)] = 0.0,
    position: int = -1,
) -> dict:
    """Compute a head's softmax statistics when q.k is divided by d_head to a power other than 1/2.

    Args:
        layer: Layer, counted from 0; by default, the first one with attention.
        power: The power of d_head: 0 is no scaling, 0.5 as trained, 1 divides by d_head.

    Returns:
        trained and chosen: means over the rows of deviation (standard deviation of the scores within a row), entropy
        (nats), evenness (entropy as a fraction of its maximum), largest weight, jacobian (Frobenius norm of the softmax
        Jacobian) and saturated (fraction of rows with a weight above 0.99); null for a prompt of one token. weights:
        the row of weights at the position, under both scalings. random: for random vectors of each dimension, the
        variance of q.k and the same statistics without and with scaling.
    """
    selected = at(on(scene, layer_or_first(scene.model, layer), head), position)
    i = selected.position
    result: Scaling = measured(VIEW, "main", selected, power=power)
    powers = {"trained": TRAINED, "chosen": power}
    weights = {name: softmax(result.dots[i : i + 1, : i + 1] / result.d**each)[0] for name, each in powers.items()}
    summaries = {name: summary(result.dots, result.d, each) for name, each in powers.items()}
    means = {name: None if each is None else vars(each) for name, each in summaries.items()}
    rows = [vars(each) for each in measured(VIEW, "random", selected)]
    return {"d_head": result.d, "position": i, **means, "weights": weights, "random": rows}


VIEW = View(
    "score_scaling",
    settings=(POWER,),
    measures=(
        Measure("products", measure_products, depends=("run", "head")),
        Measure("main", measure, depends=(), settings=("power",), locks=False, uses=("products",)),
        Measure("lookup", measure_lookup, depends=("run", "head", "token")),
        Measure("random", measure_random, depends=(), locks=False),
    ),
    layout=("form", "table", ("scores", "row"), ("rows", "random"), "lookup"),
    parts={
        "table": Table(table),
        "scores": Figure(scores),
        "row": Figure(row, depends=("token",)),
        "rows": Figure(rows),
        "lookup": Figure(lookup_row, of="lookup", settings=()),
        "random": Figure(random, of="random", settings=()),
    },
    api=(Endpoint(score_scaling),),
)
