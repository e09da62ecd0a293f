"""The prompt in shuffled order: the effect on the last token with positions, without them, and without the mask."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from model.activations.norm_swap import divergence_at
from model.design.shuffled import LEAST, Shuffled, new_order, shuffled, ways_of
from viz.charts.distribution import likeliest
from viz.labels import quoted, visible
from viz.numbers import nats, number, percent
from viz.seam.programs.arguments import Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, named
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Settings
from viz.seam.view import Custom, Figure, Measure, Payload, Seen, Table, View
from viz.views.effects.shuffled.figures import distance_figure, weights_figure

MOST_SEED = 10_000
SEED = Number("seed", 0, MOST_SEED, 0)
WAY = Choice("way", lambda scene: ways_of(scene.model.config), default="no_positions")


@dataclass(frozen=True, eq=False)
class ShuffledOrders:
    """The prompt in two orders, with a `Shuffled` per way of using positions; no ways if the prompt is too short."""

    order: np.ndarray  # index of the original token at each position, int64 [T]
    first: int  # number of tokens at the beginning that keep their positions
    ways: tuple[Shuffled, ...]


def measure(scene: Scene, settings: Settings) -> ShuffledOrders:
    """Run both orders through the model without edits. The token that begins every text keeps its position."""
    lm, ids = scene.model, scene.tokens.ids.tolist()
    first = int(ids[0] == lm.tokenizer.begin_id)
    if len(ids) - first < LEAST:
        return ShuffledOrders(np.arange(len(ids)), first, ())
    order = new_order(len(ids), settings.seed, first)
    return ShuffledOrders(order, first, tuple(shuffled(lm.model, ids, order, way) for way in ways_of(lm.config)))


def chosen(seen: Seen) -> Shuffled:
    """Return the result for the way selected in the form."""
    return next(each for each in seen.result.ways if each.way == seen.settings.way)


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Compute the softmax over the last axis, in float64."""
    e = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# --- for the page ---


def _python(seen: Seen, last: str) -> str:
    """Write the Python lines that run the model on both orders, followed by `last`."""
    lines = [
        "ids = run.tokens.ids.tolist()",
        f"order = new_order(len(ids), {seen.settings.seed}, {seen.result.first})",
        f"ways = [shuffled(lm.model, ids, order, way) for way in {[each.way for each in seen.result.ways]}]",
        last,
    ]
    return script(seen.facts, lines, ["from model.design.shuffled import new_order, shuffled"])


def _empty(seen: Seen) -> Payload:
    return {"empty": {"text": seen.words["short"], "hint": seen.words["short_hint"]}}


def orders(seen: Seen) -> Payload:
    """Show the prompt in the original and in the shuffled order."""
    words, pieces, order = seen.here, seen.facts.pieces, seen.result.order
    if not seen.result.ways:
        return _empty(seen)
    about = words["about_edits" if seen.facts.edits else "about"]
    return {
        "title": words["title"],
        "about": about,
        "items": [
            [words["written"], "".join(map(visible, pieces))],
            [words["shuffled"], "".join(visible(pieces[at]) for at in order)],
        ],
    }


def table(seen: Seen) -> Payload:
    """Build the table of the changes caused by the order, with one row per way."""
    words, result = seen.here, seen.result
    if not result.ways:
        return _empty(seen)
    rows = []
    for each in result.ways:
        best = [
            f"{quoted(seen.facts.piece(at))} {percent(p[at])}"
            for p in probabilities(each.logits)
            for at in likeliest(p, 1)
        ]
        gaps = each.gaps
        numbers = [number(float(gaps[0]), 2), number(each.distance[1], 2), number(each.distance[-1], 2)]
        kl = divergence_at(*each.logits)
        rows.append([{"text": seen.words[f"ways.{each.way}"]}, *best, nats(kl), *numbers])
    names = ("way", "written", "shuffled", "apart", "weights", "first", "last")
    return {
        "title": words["title"],
        "about": words["about"],
        "columns": [words[name] for name in names],
        "rows": rows,
        "python": _python(seen, "[(way.way, way.gaps[0], way.distance[1], way.distance[-1]) for way in ways]"),
    }


def weights(seen: Seen) -> Payload:
    """Draw the last token's weights in both orders for the main head, matched by token."""
    if not seen.result.ways:
        return _empty(seen)
    words, (layer, head), each = seen.here, seen.facts.head, chosen(seen)
    gap = float(np.abs(np.subtract(*each.weights[:, layer, head])).max())
    at = [way.way for way in seen.result.ways].index(each.way)
    return {
        "figure": weights_figure(each.weights[:, layer, head], seen.facts.pieces, words.plain()),
        "title": words["title"].format(
            layer=layer, head=head, token=quoted(seen.facts.pieces[-1]), way=seen.words[f"ways.{each.way}"]
        ),
        "note": words["note"].format(gap=number(gap, 2)),
        "columns": [words["order"], words["key"], words["position"], words["weight"]],
        "python": _python(seen, f"ways[{at}].weights[:, {layer}, {head}]  # as written, shuffled: [2, T]"),
    }


def distance(seen: Seen) -> Payload:
    """Draw the relative change of the last token's hidden state after each layer."""
    if not seen.result.ways:
        return _empty(seen)
    words, note = seen.here, "note" if seen.facts.config.n_layer > 1 else "note_one"
    distances = {each.way: each.distance[1:] for each in seen.result.ways}
    mask = distances.get("no_positions", distances["model"])
    return {
        "figure": distance_figure(distances, words.plain() | {way: seen.words[f"ways.{way}"] for way in distances}),
        "title": words["title"].format(token=quoted(seen.facts.pieces[-1])),
        "note": words[note].format(
            first=number(mask[0], 2), last=number(mask[-1], 2), free=number(float(distances["no_mask"].max()), 2)
        ),
        "columns": [words["way"], words["block"], words["distance"]],
        "python": _python(seen, "[way.distance[1:] for way in ways]  # after each layer"),
    }


# --- for programs ---


def shuffled_prompt(scene: Scene, seed: Annotated[int, Within(0, MOST_SEED)] = 0) -> dict:
    """Shuffle the prompt, and measure the effect on its last token with positions, without them, and without the mask.

    Args:
        seed: Seed of the shuffle; the last token keeps its position.

    Returns:
        order: the index of the original token at each position; ways: records of way (model, no_positions, no_mask),
        first_written and first_shuffled (the most likely next token with its id, text and probability), kl (from the
        original to the shuffled order, nats), gaps (the largest change of an attention weight of the last query, by
        layer) and distance (the change of its hidden state relative to its norm, after each layer). ways is empty if
        the prompt is too short.
    """
    result: ShuffledOrders = measured(VIEW, "main", scene, seed=seed)
    return {"order": result.order, "ways": [_record(scene, each) for each in result.ways]}


def _record(scene: Scene, each: Shuffled) -> dict:
    firsts = [
        named(scene.model, at) | {"probability": float(p[at])}
        for p in probabilities(each.logits)
        for at in likeliest(p, 1)
    ]
    next_tokens = dict(zip(("first_written", "first_shuffled"), firsts, strict=True))
    return {
        "way": each.way,
        **next_tokens,
        "kl": divergence_at(*each.logits),
        "gaps": each.gaps,
        "distance": each.distance[1:],
    }


VIEW = View(
    "shuffled",
    settings=(SEED, WAY),
    form_depends=("model",),
    measures=(Measure("main", measure, depends=("plain",), settings=("seed",)),),
    layout=("form", ("weights", "distance"), "table", "orders"),
    parts={
        "orders": Custom("normfacts", orders, depends=("edits",), settings=()),
        "table": Table(table, settings=()),
        "weights": Figure(weights, depends=("head",), settings=("way",)),
        "distance": Figure(distance, settings=()),
    },
    api=(Endpoint(shuffled_prompt),),
)
