"""View of a head's scores and weights by token distance, and of the effect of position alone."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from model.attention.distance import (
    Buckets,
    ByDistance,
    buckets,
    by_distance,
    first_layer_parts,
    layer_weights,
    near,
    over_buckets,
    position_score,
    share_of_distance,
    sink_scores,
    uniform_weight,
)
from viz.charts.layer_head_map import EffectWords, effect_figure
from viz.numbers import number, percent, plain
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, on
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Figure, Measure, Payload, Seen, Table, View
from viz.views.design.distance.figures import Curves, layer_figure, scores_figure, weights_figure

AXES, FIRST = ("log", "linear"), ("apart", "in")
AXIS, FIRST_TOKEN = Choice("axis", AXES), Choice("first", FIRST)
_IMPORT = "from model.attention.distance import"


@dataclass(frozen=True, eq=False)
class HeadRead:
    """Scores and weights of one head by distance. Each array is [K], one entry per bucket, NaN for an empty bucket."""

    layer: int
    head: int
    by_distance: ByDistance
    position_only: np.ndarray | None  # expected score from position alone
    sink: np.ndarray | None  # score of token 0; None if token 0 is included in the other arrays
    share: float  # fraction of the scores' variance explained by distance alone
    near: float  # weight on distances 0 to 4
    mean: float  # mean distance in tokens
    on_first: float  # weight on token 0


@dataclass(frozen=True, eq=False)
class HeadDistances:
    """Scores and weights of the selected heads by distance."""

    buckets: Buckets
    heads: tuple[HeadRead, ...]
    uniform: np.ndarray  # mean weight of uniform attention, [K]


@dataclass(frozen=True, eq=False)
class LayerRead:
    """Weights of all heads of a layer by distance."""

    layer: int
    buckets: Buckets
    weights: np.ndarray  # mean weight, NaN for an empty bucket, float32 [H, K]


def measure(scene: Scene, settings: Settings) -> HeadDistances:
    """Pool the scores and weights of each selected head by distance."""
    T, counted = len(scene.tokens), settings.first == "in"
    groups = buckets(T) if settings.axis == "log" else buckets(T, whole=T)
    heads = tuple(_read(scene, head, groups, counted) for head in scene.picked.heads)
    return HeadDistances(groups, heads, uniform_weight(T, groups, first=counted))


def _read(scene: Scene, head: tuple[int, int], groups: Buckets, counted: bool) -> HeadRead:
    """Pool the scores and weights of one head by distance. `counted`: whether token 0 is included among the keys."""
    trace, T = scene.trace, len(scene.tokens)
    scores, pattern = trace.scores(*head), trace.pattern(*head)
    position_only = position_score(trace, *head, first=counted)
    parts = first_layer_parts(trace, head[1]) if position_only is None and head[0] == 0 else None
    if parts is not None:
        position_only = by_distance(parts.position, pattern, buckets(T, whole=T), first=counted).mean
    metrics = trace.head_metrics().loc[head]
    return HeadRead(
        *head,
        by_distance(scores, pattern, groups, first=counted),
        None if position_only is None else over_buckets(position_only, groups),
        None if counted else over_buckets(sink_scores(scores), groups),
        share_of_distance(scores, first=counted),
        near(pattern),
        float(metrics["distance"]),
        float(metrics["first_token"]),
    )


def measure_all(scene: Scene, settings: Settings) -> np.ndarray:
    """Return the attention-weighted mean distance of every head. [L, H]"""
    config = scene.model.config
    return scene.trace.head_metrics()["distance"].to_numpy().reshape(config.n_layer, config.n_head)


def measure_layer(scene: Scene, settings: Settings) -> LayerRead:
    """Compute the mean weight by distance for every head of the main head's layer."""
    groups, layer = buckets(len(scene.tokens)), scene.head[0]
    return LayerRead(layer, groups, layer_weights(scene.trace, layer, groups, first=settings.first == "in"))


# --- parts ---


def _name(seen: Seen, each: HeadRead) -> str:
    return seen.words["head_name"].format(layer=each.layer, head=each.head)


def _curves(seen: Seen) -> list[Curves]:
    """Convert the measurements of the selected heads to the curves of the figures."""
    return [
        Curves(
            _name(seen, each),
            each.by_distance.pairs,
            each.by_distance.median,
            each.by_distance.low,
            each.by_distance.high,
            each.by_distance.weight,
            each.position_only,
            each.sink,
        )
        for each in seen.result.heads
    ]


def _lines(seen: Seen, lines: list[str], names: str) -> str:
    """Format the Python lines that read the main head, followed by `lines`. `names` lists the names to import."""
    layer, head = seen.facts.head
    linear = "" if seen.settings.axis == "log" else ", whole=len(run.tokens)"
    first = [
        f"scores, pattern = run.scores({layer}, {head}), run.pattern({layer}, {head})",
        f"groups = buckets(len(run.tokens){linear})",
    ]
    return script(seen.facts, [*first, *lines], [f"{_IMPORT} {names}"])


def scores(seen: Seen) -> Payload:
    """Draw the scores by distance, before the softmax."""
    words, settings, facts = seen.words, seen.settings, seen.facts
    counted, (layer, head) = settings.first == "in", facts.head
    lines, names = [f"by_distance(scores, pattern, groups, first={counted})"], "buckets, by_distance"
    if facts.config.positions in ("rope", "none"):
        lines.append(f"position_score(run, {layer}, {head}, first={counted})  # [T], the dashed line")
        names += ", position_score"
    elif layer == 0 and not facts.edits:
        lines.append(f"first_layer_parts(run, {head}).position  # [T, T]; the dashed line is its mean at each distance")
        names += ", first_layer_parts"
    return {
        "figure": scores_figure(_curves(seen), seen.result.buckets, words, log=settings.axis == "log"),
        "title": seen.here["title"],
        "note": f"{seen.here['note']} {_position_note(seen)}",
        "columns": [words["series"], words["bucket"], words["distance"], words["score"]],
        "python": _lines(seen, lines, names),
    }


def _position_note(seen: Seen) -> str:
    """Explain the dashed line of the score from position alone, or why it is missing."""
    words, positions = seen.here, seen.facts.config.positions
    if positions in ("rope", "none"):
        return words[f"alone_{positions}"]
    if any(layer == 0 for layer, _ in seen.facts.heads):
        return words["alone_edited" if seen.facts.edits else "alone_first"]
    return words["alone_deeper"]


def weights(seen: Seen) -> Payload:
    """Draw the mean attention weight by distance."""
    words, settings, read = seen.words, seen.settings, seen.result
    lines = [f"by_distance(scores, pattern, groups, first={settings.first == 'in'}).weight"]
    return {
        "figure": weights_figure(_curves(seen), read.uniform, read.buckets, words, log=settings.axis == "log"),
        "title": seen.here["title"],
        "note": seen.here[f"note_{settings.first}"],
        "columns": [words["series"], words["bucket"], words["distance"], words["weight"]],
        "python": _lines(seen, lines, "buckets, by_distance"),
    }


def table(seen: Seen) -> Payload:
    """Build the table of the selected heads: mean distance, weight on token 0 and nearby, and explained variance."""
    words = seen.here
    rows = [
        [
            _name(seen, each),
            number(each.mean),
            percent(each.on_first),
            percent(each.near),
            {"text": percent(each.share)} | ({} if plain(each.share) is None else {"bar": each.share}),
        ]
        for each in seen.result.heads
    ]
    lines = [
        "run.head_metrics()[['distance', 'first_token']]",
        "near(pattern)",
        f"share_of_distance(scores, first={seen.settings.first == 'in'})",
    ]
    return {
        "title": words["title"],
        "about": words["about"],
        "columns": [words[key] for key in ("head", "mean", "on_first", "near", "share")],
        "rows": rows,
        "python": _lines(seen, lines, "buckets, near, share_of_distance"),
    }


def all_heads(seen: Seen) -> Payload:
    """Draw the grid of mean distances, layers by heads."""
    words = seen.here
    names = EffectWords(words["layer"], words["head"], words["mean"], words["unit"])
    return {
        "figure": effect_figure(seen.result, names, signed=False),
        "title": words["title"],
        "note": words["note"],
        "columns": [words["layer"], words["head"], words["mean"]],
        "python": script(seen.facts, ["run.head_metrics()['distance']"]),
    }


def layer(seen: Seen) -> Payload:
    """Draw the weights by distance for every head of the main head's layer."""
    words, read, counted = seen.words, seen.result, seen.settings.first == "in"
    lines = [f"layer_weights(run, {read.layer}, buckets(len(run.tokens)), first={counted})  # [H, buckets]"]
    return {
        "figure": layer_figure(read.weights, read.layer, read.buckets, words),
        "title": seen.here["title"].format(layer=read.layer),
        "note": seen.here["note"],
        "columns": [words["head"], words["distance"], words["weight"]],
        "python": script(seen.facts, lines, [f"{_IMPORT} buckets, layer_weights"]),
    }


# --- endpoint ---


def score_by_distance(
    scene: Scene,
    layer: int,
    head: int,
    first: Annotated[str, OneOf(FIRST)] = "apart",
    axis: Annotated[str, OneOf(AXES)] = "log",
) -> dict:
    """Return a head's scores before the softmax and its weights, pooled by the distance from query token to key token.

    Args:
        first: apart: exclude token 0, which is a sink of many heads, from all means and report it as sink. in:
            include it.
        axis: log: pool distances from 16 on in buckets of increasing width. linear: one bucket per distance.

    Returns:
        rows: one per bucket of distances, with from and to (tokens), pairs, median, low (10% quantile), high (90%
        quantile) and mean of the scores, weight (mean attention weight), alone (expected score from position alone;
        null if it cannot be separated from content), sink (score of token 0). share: fraction of the variance of the
        scores that distance alone explains; near: weight on distances 0 to 4.
    """
    (read,) = measured(VIEW, "main", on(scene, layer, head), first=first, axis=axis).heads
    rows = []
    for n, (start, end) in enumerate(read.by_distance.buckets):
        numbers = {
            name: getattr(read.by_distance, name)[n] for name in ("pairs", "median", "low", "high", "mean", "weight")
        }
        position_only, sink = (None if each is None else each[n] for each in (read.position_only, read.sink))
        rows.append({"from": start, "to": end} | numbers | {"alone": position_only, "sink": sink})
    return {"layer": layer, "head": head, "rows": rows, "share": read.share, "near": read.near}


VIEW = View(
    "distance",
    needs=(),
    settings=(AXIS, FIRST_TOKEN),
    measures=(
        Measure("main", measure, depends=("run", "heads"), settings=("axis", "first"), needs=("weights",)),
        Measure("all", measure_all, locks=False),
        Measure("layer", measure_layer, depends=("run", "layer"), settings=("first",)),
    ),
    layout=("form", ("scores", "weights"), "table", ("map", "layer")),
    parts={
        "scores": Figure(scores),
        "weights": Figure(weights),
        "table": Table(table),
        "map": Figure(all_heads, of="all", settings=()),
        "layer": Figure(layer, of="layer", settings=("first",)),
    },
    api=(Endpoint(score_by_distance),),
)
