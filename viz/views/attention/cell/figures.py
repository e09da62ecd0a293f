"""The computation of one attention cell, in displayed numbers that add up, for static/views/attention/cell.js.

`steps` is a model.attention.cell.Explanation or has its fields.
"""

import math
from collections.abc import Sequence

import numpy as np

from model.records import Tokens
from viz.labels import shorten, visible
from viz.theme import SIGNED_RAMPS

NAMED = 3  # number of products listed individually
LINES = 8  # maximum number of tokens listed in the row's table, in addition to the cell's
DECIMALS = 4  # decimals of exponentials and weights in the row's table; the largest exponential is 1
SHORT = 24  # maximum number of characters of a token


def adding_up(parts: Sequence[float], decimals: int, keep: int | None = None) -> list[float]:
    """Round the parts so that they add up to their rounded sum, each less than one unit in the last place off.

    The rounding error of the sum is distributed over the parts with the largest rounding errors. Part `keep` stays as
    it is.
    """
    unit = 10.0**decimals
    scaled = np.asarray(parts, dtype=float) * unit
    rounded = np.round(scaled)
    missing = int(np.round(scaled.sum()) - rounded.sum())
    errors = (scaled - rounded) * np.sign(missing)  # positive where the correction also reduces the part's own error
    if keep is not None:
        errors[keep] = -np.inf
    rounded[np.argsort(-errors, kind="stable")[: abs(missing)]] += np.sign(missing)
    return [round(float(value) / unit, decimals) + 0.0 for value in rounded]


def decimals_of(total: float, largest: float) -> int:
    """Compute the decimals, 0 to 8, that give a sum four significant digits and its largest part at most six."""
    places = [digits - 1 - math.floor(math.log10(abs(x))) for x, digits in ((total, 4), (largest, 6)) if x]
    return min(max(min(places, default=0), 0), 8)


def products_shown(products: np.ndarray) -> dict:
    """Build the displayed dot product: the largest of the products [E], the total of the others, and their sum."""
    order = np.argsort(-np.abs(products), kind="stable")[:NAMED]
    remainder = float(products.sum() - products[order].sum())
    exact = [*(float(products[d]) for d in order), remainder]
    decimals = decimals_of(sum(exact), max(map(abs, exact)))
    others = len(products) - len(order)
    shown = adding_up(exact if others else exact[:-1], decimals)
    return {
        "dimensions": [int(d) for d in order],
        "parts": shown[: len(order)],
        "rest": shown[len(order)] if others else 0.0,
        "others": others,
        "total": round(sum(shown), decimals),
        "decimals": decimals,
    }


def row_shown(
    scores: np.ndarray, exponentials: np.ndarray, key: int, first: int = 0, sink: tuple[float, float] | None = None
) -> dict:
    """Build the row's table: the largest tokens and the cell's, in decreasing order, then the total of all others, and
    the sink.

    scores, exponentials [n] of the tokens from `first` on, which include `key`; `sink` has a score and an exponential.
    Displayed exponentials add up to the displayed denominator, displayed weights to 1.
    """
    key -= first
    order = np.argsort(-exponentials, kind="stable")
    largest = order[:LINES]
    keys = largest if key in largest else np.append(largest, key)
    others = len(exponentials) - len(keys)
    total = float(exponentials.sum()) + (sink[1] if sink else 0)
    exact = [float(exponentials[k]) for k in keys]
    exact += [float(np.delete(exponentials, keys).sum())] if others else []
    exact += [sink[1]] if sink else []
    column = int(np.flatnonzero(keys == key)[0])
    shown = adding_up(exact, DECIMALS, column)
    weights = adding_up([part / total for part in exact], DECIMALS, column)
    peak = float(scores.max())
    lines = [
        {
            "key": int(k) + first,
            "score": float(scores[k]),
            "below": float(scores[k] - peak),
            "exponential": exact[n],
            "weight": exact[n] / total,
            "shown": [shown[n], weights[n]],
        }
        for n, k in enumerate(keys)
    ]
    more = [
        {"exponential": exact[n], "weight": exact[n] / total, "shown": [shown[n], weights[n]]}
        for n in range(len(keys), len(exact))
    ]
    return {
        "lines": lines,
        "others": more[0] | {"count": others} if others else None,
        "sink": more[-1] | {"score": sink[0], "below": sink[0] - peak} if sink else None,
        "peak": peak,
        "denominator": total,
        "shown": [round(sum(shown), DECIMALS), round(sum(weights), DECIMALS)],
        "decimals": DECIMALS,
    }


def stages_of(steps) -> list[dict]:
    """Return q and k [E] at each stage before the dot product; those of the last stage enter the product."""
    stages = [("raw", steps.q_raw, steps.k_raw)]
    if steps.q_normed is not None:
        stages.append(("normed", steps.q_normed, steps.k_normed))
    last = "turned" if steps.angles is not None else stages.pop()[0]
    stages.append((last, steps.q, steps.k))
    return [{"name": name, "q": _list(q), "k": _list(k)} for name, q, k in stages]


def steps_payload(steps, tokens: Tokens) -> dict:
    """Build the payload of the steps: every number unrounded, and rounded where displayed numbers must add up."""
    exponentials = np.asarray(steps.exponentials)
    sink = None if steps.sink is None else (steps.sink, steps.sink_exponential)
    length = steps.row_output_norm
    return {
        "head": [steps.layer, steps.head],
        "cell": [steps.query, steps.key],
        "tokens": [shorten(visible(piece), SHORT) for piece in tokens.pieces],
        "stages": stages_of(steps),
        "angles": None if steps.angles is None else _list(steps.angles),
        "adjacent": steps.adjacent,
        "limit": steps.limit,
        "factor": steps.factor,
        "products": _list(steps.products),
        "named": products_shown(np.asarray(steps.products)),
        "dot": finite(steps.dot),
        "scale": finite(steps.scale),
        "scaled": finite(steps.scaled),
        "cap": steps.cap,
        "slope": steps.slope,
        "penalty": steps.penalty,
        "score": finite(steps.score),
        "hidden": len(tokens) - 1 - max(steps.last, steps.query),
        "two_way": steps.two_way,
        "window": steps.window,
        "first": steps.first,
        "last": steps.last,
        "row": row_shown(np.asarray(steps.row_scores), exponentials, steps.key, steps.first, sink),
        "scores": _list(steps.row_scores),
        "exponentials": _list(exponentials),
        "weight": finite(steps.weight),
        "value": _list(steps.value),
        "weighted": _list(steps.weighted),
        "gate": None if steps.gate is None else _list(steps.gate),
        "value_length": finite(steps.output_norm / steps.weight) if steps.weight > 0 else None,
        "output_length": finite(steps.output_norm),
        "row_length": finite(length),
        "share": finite(steps.output_norm / length) if length > 0 else None,
        "ramps": {theme: list(stops) for theme, stops in SIGNED_RAMPS.items()},
    }


def finite(value: float) -> float | None:
    """Return a number unrounded; None if it is not finite."""
    return float(value) if math.isfinite(value) else None


def _list(values: np.ndarray) -> list[float]:
    return np.asarray(values, dtype=float).tolist()
