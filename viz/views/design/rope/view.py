"""View of a query and a key as rotating pairs, whose contributions to the score depend only on the token distance."""

import math
from typing import Annotated

import numpy as np

from model.design.positions import (
    PRECISIONS,
    contributions,
    frequencies,
    pair_of,
    polar,
    shift_bound,
    shift_errors,
    wavelengths,
)
from viz.labels import quoted
from viz.numbers import number, plain, whole
from viz.seam.programs.arguments import Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, on, place, prompt_tokens
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.view import Custom, Figure, Measure, Payload, Seen, View
from viz.views.design.rope.figures import DistanceCurve, Shifted, bars_figure, distance_figure, shift_figure
from viz.views.design.rope.measure import (
    MOST_SHIFT,
    SHOWN,
    Errors,
    Turned,
    farthest,
    measure_head,
    measure_pair,
    strongest,
)
from viz.words import Words

NAMES = "contributions, head_qk, pair_of"


# --- texts ---


def _head_name(seen: Seen) -> str:
    """Format the head and the two tokens with their positions."""
    (layer, head), pieces, result = seen.facts.head, seen.facts.pieces, seen.result
    return seen.words["head"].format(
        layer=layer,
        head=head,
        query=result.query,
        key=result.key,
        query_text=quoted(pieces[result.query]),
        key_text=quoted(pieces[result.key]),
    )


def _source(seen: Seen) -> str:
    """Format the source of q and k, with a note if the layer has no RoPE and only this view rotates them."""
    return seen.facts.source if seen.result.own else f"{seen.facts.source} · {_derived(seen, seen.words, 'derived')}"


def _derived(seen: Seen, words: Words, key: str) -> str:
    """Format a text on rotation by this view alone: for a model without RoPE, or for one of its layers without it."""
    rope = seen.facts.config.positions == "rope"
    return words[f"{key}_layer" if rope else key].format(theta=number(seen.result.base), layer=seen.facts.head[0])


def _lines(seen: Seen, lines: list[str], names: str) -> str:
    (layer, head), result = seen.facts.head, seen.result
    first = f"pair = pair_of(lm.config, head_qk(run, {layer}, {head}), {result.query}, {result.key})"
    return script(seen.facts, [first, *lines], [f"from model.design.positions import {names}"])


def small(value: float) -> str:
    """Format an error with two significant digits."""
    return number(value, 2)


def most_of(values: np.ndarray) -> float:
    """Return the largest value; 0 for an empty array. [N]"""
    return float(values.max(initial=0.0))


def _digits(values: np.ndarray) -> list[float]:
    """Round to nine significant digits the values that the page computes with. [n]"""
    return [plain(value, 9) for value in values.tolist()]


# --- the circles ---


def pairs(seen: Seen) -> Payload:
    """Build the payload from which the page draws and rotates the pairs."""
    result, words = seen.result, seen.here
    note = words["note"]
    last = "contributions(pair, [pair.distance])  # by pair; last: dimensions without rotation"
    return {
        "title": words["title"].format(head=_head_name(seen)),
        "note": note if result.own else f"{note} {_derived(seen, words, 'derived_note')}",
        "derived": not result.own,
        "q": _digits(result.q),
        "k": _digits(result.k),
        "q_angle": _digits(result.q_angle),
        "k_angle": _digits(result.k_angle),
        "theta": result.theta.tolist(),
        "wavelength": _digits(result.wavelength),
        "rest": float(result.before[-1]),
        "root": math.sqrt(result.d_head),
        "query": result.query,
        "key": result.key,
        "first": strongest(result.q, result.k),
        "shown": SHOWN,
        "farthest": farthest(result, seen.facts.config.n_ctx),
        "most": MOST_SHIFT,
        "words": words.plain(),
        "source": _source(seen),
        "python": _lines(seen, [last], NAMES),
    }


# --- the score ---


def bars(seen: Seen) -> Payload:
    """Draw the contribution of each pair before and after rotation; each series sums to a score."""
    result, words = seen.result, seen.here
    n = len(result.theta)
    names = [words["pair"].format(i=i, length=number(length)) for i, length in enumerate(result.wavelength.tolist())]
    if 2 * n < result.d_head:
        names.append(words["not_turned"].format(first=2 * n, last=result.d_head - 1))
    note = words["note" if result.own else "note_derived"].format(
        before=number(float(result.before.sum())),
        after=number(float(result.after.sum())),
        d=result.distance,
        gap=small(result.gap),
    )
    lines = [
        "before, after = contributions(pair, [0, pair.distance])",
        "before, after, after.sum(), pair.score  # by pair; their sum, and the model's own score",
    ]
    return {
        "figure": bars_figure(result.before[: len(names)], result.after[: len(names)], names, words),
        "title": words["title"],
        "note": note,
        "source": _source(seen),
        "columns": [words["series"], words["pair_name"], words["pair_axis"], words["adds"]],
        "python": _lines(seen, lines, NAMES),
    }


def distance(seen: Seen) -> Payload:
    """Draw the score by distance when only the key moves."""
    result, words, n_ctx = seen.result, seen.here, seen.facts.config.n_ctx
    slow = int((result.wavelength > n_ctx).sum())
    name = words["slow"].format(slow=slow, n=len(result.theta), context=whole(n_ctx))
    line = f"contributions(pair, range({len(result.by_distance)})).sum(1)  # the score at each distance"
    return {
        "figure": distance_figure(DistanceCurve(result.by_distance, result.slow, result.distance), words, name),
        "title": words["title"],
        "note": words["note"],
        "source": _source(seen),
        "columns": [words["series"], words["distance"], words["score"]],
        "python": _lines(seen, [line], NAMES),
    }


# --- the shift ---


def shift(seen: Seen) -> Payload:
    """Draw the change of the score when both positions shift, which is 0 in exact arithmetic."""
    result, words, n_ctx = seen.result, seen.here, seen.facts.config.n_ctx
    single, double = result.shifted
    inside = [n for n, by in enumerate(result.shifts) if by < n_ctx] or [0]
    note = words["note"].format(
        single=small(most_of(single.errors[inside])),
        double=small(most_of(double.errors[inside])),
        bound=small(most_of(single.bound[inside])),
        n=len(inside),
        context=whole(n_ctx),
    )
    lines = ["shifts = [2**n for n in range(21)]"]
    lines += [f"{name}(pair, shifts, {each!r})" for each in PRECISIONS for name in ("shift_errors", "shift_bound")]
    drawn = [
        Shifted(each.name, words["bound"].format(name=each.name), each.errors, each.bound) for each in result.shifted
    ]
    return {
        "figure": shift_figure(result.shifts, drawn, n_ctx, words),
        "title": words["title"],
        "note": note,
        "source": _source(seen),
        "columns": [words["series"], words["shift"], words["error"]],
        "python": _lines(seen, lines, "head_qk, pair_of, shift_bound, shift_errors"),
    }


# --- facts ---


def facts(seen: Seen) -> Payload:
    """Summarize the score, the effect of shifts and the angles in numbers."""
    result, words = seen.result, seen.here
    turn, slow = result.distance * result.theta[0] / (2 * math.pi), result.distance * math.degrees(result.theta[-1])
    values = {
        "score": number(float(result.after.sum())),
        "content": number(float(result.before.sum())),
        "gap": small(result.gap),
        "d": result.distance,
        "model": number(result.model_score),
        "turn": number(float(turn)),
        "slow": number(slow),
    }
    items = [
        [words["sum"], words["sum_text" if result.own else "sum_derived"].format(**values)],
        [words["turned"], words["turned_text"].format(**values)],
        [words["angles"], words["angles_text"].format(**values)],
        *_shift_facts(seen),
    ]
    if not result.own:
        items.append([words["model_name"], _derived(seen, words, "no_rope")])
    return {"title": words["title"], "about": _source(seen), "items": items}


def _shift_facts(seen: Seen) -> list[list[str]]:
    result, words, n_ctx = seen.result, seen.here, seen.facts.config.n_ctx
    single, double = result.shifted
    within_bound = all((each.errors <= each.bound).all() for each in result.shifted)
    values = {
        "single": small(most_of(single.errors)),
        "double": small(most_of(double.errors)),
        "bound": small(most_of(single.bound)),
        "bound_double": small(most_of(double.bound)),
        "most": whole(MOST_SHIFT),
        "n": len(result.shifts),
    }
    near, far = (small(_up_to(result, single, limit)) for limit in (n_ctx, MOST_SHIFT))
    grows = words["grows_text"].format(near=near, far=far, context=whole(n_ctx), most=whole(MOST_SHIFT))
    shifted = words["shift_text" if within_bound else "shift_beyond"].format(**values)
    return [[words["shift"], shifted], [words["grows"], grows]]


def _up_to(result: Turned, shifted: Errors, limit: int) -> float:
    """Return the largest error over the shifts up to `limit`."""
    return most_of(shifted.errors[[n for n, by in enumerate(result.shifts) if by <= limit]])


# --- endpoint ---


def rope_pairs(
    scene: Scene,
    layer: int,
    head: int,
    query: int = -1,
    key: int = 0,
    shifts: Annotated[int, Within(0, 1 << 20)] = 4096,
) -> dict:
    """Return a query and a key of a head as the pairs of dimensions that RoPE rotates, with each pair's contribution.

    A model without RoPE, or a layer without it, does not rotate them. In that case theta is 10,000, or the base of the
    other layers, own is false, and model_score is the sum of
    the contributions before rotation.

    Args:
        query: Position of the query; negative counts from the end.
        key: Position of the key; negative counts from the end. The later of the two positions is used as the query.
        shifts: The largest shift of both positions to evaluate; the shifts are powers of two.

    Returns:
        pairs: wavelength, norms |q| and |k|, angles before rotation (radians), and the pair's contribution before
        rotation (before) and after it (adds); rest: the contribution of the unrotated dimensions. score: the sum after
        rotation; model_score: the model's own q.k / sqrt(d_head). shift: for each precision, the shifts, the change of
        the score (moved), and the bound on its rounding error.
    """
    selected = on(scene, layer, head)
    m, n = sorted((place(scene, query), place(scene, key)), reverse=True)
    pair = pair_of(scene.model.config, measured(VIEW, "head", selected).qk, m, n)
    theta = frequencies(pair.config, "rope")
    (q, q_angle), (k, k_angle) = polar(pair.q, len(theta)), polar(pair.k, len(theta))
    before, after = contributions(pair, [0, pair.distance])
    columns = {
        "wavelength": wavelengths(theta),
        "q": q,
        "k": k,
        "q_angle": q_angle,
        "k_angle": k_angle,
        "before": before[:-1],
        "adds": after[:-1],
    }
    by = [2**power for power in range(21) if 2**power <= shifts]
    moved = {
        name: {"shifts": by, "moved": shift_errors(pair, by, name), "bound": shift_bound(pair, by, name)}
        for name in PRECISIONS
    }
    tokens = prompt_tokens(scene)
    return {
        "layer": layer,
        "head": head,
        "own": pair.own,
        "theta": pair.config.rope_theta,
        "query": m,
        "key": n,
        "tokens": {"query": tokens[m], "key": tokens[n]},
        "pairs": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "rest": after[-1],
        "score": after.sum(),
        "model_score": pair.score,
        "shift": moved,
    }


VIEW = View(
    "rope",
    measures=(
        Measure("head", measure_head, depends=("run", "head")),
        Measure("pair", measure_pair, depends=("pair", "tokens"), uses=("head",), locks=False),
    ),
    layout=("pairs", ("bars", "distance"), ("shift", "facts")),
    parts={
        "pairs": Custom("ropepairs", pairs, of="pair"),
        "bars": Figure(bars, of="pair"),
        "distance": Figure(distance, of="pair"),
        "shift": Figure(shift, of="pair"),
        "facts": Custom("normfacts", facts, of="pair"),
    },
    api=(Endpoint(rope_pairs),),
)
