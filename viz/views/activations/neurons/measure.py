"""Measurements of MLP neurons: the top neurons of a layer, one neuron, the activation function, and all layers."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.activations.neurons import (
    Activations,
    Promoted,
    Survey,
    activation,
    layer_activations,
    promoted,
    ranked,
    survey,
    write_lengths,
)
from model.progress import Progress
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.views.activations.runs import is_quick

LISTED, MAPPED, TOKENS = 12, 24, 8  # numbers of neurons in the list and in the map, and of tokens per direction
_BINS = 81  # number of histogram bins for a layer's pre-activations
_REST = 0.1  # percentage of the pre-activations that may fall beyond each end of the axis
Chosen = tuple[str, int]  # scope (see `of_layer`) and index of the neuron


@dataclass(frozen=True, eq=False)
class Top:
    """The top neurons of a layer in one sort order, with their activations at every token."""

    layer: int
    neurons: tuple[int, ...]  # indices, at most MAPPED
    post: np.ndarray  # activations, float32 [T, n]
    toward: np.ndarray  # token that each listed neuron promotes most, given the sign of its activation, [LISTED]
    rows: tuple[dict, ...]  # one per listed neuron, see `ordered_rows`


@dataclass(frozen=True, eq=False)
class Neuron:
    """One neuron on the prompt. `pre`, `up` and `post` are float32 [T]."""

    layer: int
    neuron: int
    pre: np.ndarray
    up: np.ndarray | None  # up projection; None unless SwiGLU
    post: np.ndarray
    rank: int | None  # by |activation| at the position, from 1; None in other sort orders
    pushes: Promoted  # tokens promoted and suppressed by this neuron, [1, TOKENS] each


@dataclass(frozen=True, eq=False)
class ActivationCurve:
    """The activation function of a layer and the pre-activations that it receives.

    For SwiGLU, y is the value before the product with the up projection.
    """

    x: np.ndarray  # float32 [n]
    y: np.ndarray  # float32 [n]
    edges: np.ndarray  # histogram edges of the layer's pre-activations, [bins + 1]
    shares: np.ndarray  # fraction of the layer's pre-activations in each bin, [bins]
    outside: float  # fraction of the layer's pre-activations beyond the axis
    neuron_x: np.ndarray  # pre-activations of the neuron, float32 [T]
    neuron_y: np.ndarray  # float32 [T]


# --- the selection ---


def of_layer(model_id: str, layer: int) -> str:
    """Return the scope within which a neuron's index is unique: the model and the layer."""
    return f"{model_id} {layer}"


def read_neuron(value: object, scene: Scene) -> Chosen | None:
    """Parse the scope and index of a neuron from the page's value; None if malformed.

    The scope is not compared with the displayed layer.
    """
    fields, config = value if isinstance(value, Mapping) else {}, scene.model.config
    scope, number = fields.get("of"), fields.get("neuron")
    is_integer = isinstance(number, int) and not isinstance(number, bool)
    widest = max(config.d_mlp, config.d_mlp_shared or 0)
    return (scope, number) if isinstance(scope, str) and is_integer and 0 <= number < widest else None


def layer_question(scene: Scene, settings: Settings) -> Settings:
    """Return the selected layer, by default that of the main head."""
    return Settings((("layer", int(settings.layer) if settings.layer else scene.head[0]),))


def top_question(scene: Scene, settings: Settings) -> Settings:
    """Return the selected layer and sort order."""
    return Settings((*layer_question(scene, settings).items(), ("order", settings.order)))


def one_question(scene: Scene, settings: Settings) -> Settings:
    """Return the layer, the sort order, and the neuron selected in this layer; None stands for the first neuron."""
    question = top_question(scene, settings)
    scope, neuron = settings.top or ("", None)
    in_layer = scope == of_layer(scene.model.id, question.layer)
    return Settings((*question.items(), ("neuron", neuron if in_layer else None)))


# --- the layer and one neuron ---


def measure_layer(scene: Scene, settings: Settings) -> Activations:
    """Compute the pre-activations and activations of all neurons of the layer."""
    return layer_activations(scene.trace, settings.layer)


def _order(scene: Scene, settings: Settings, read: Activations) -> list[int]:
    """Return the indices of all neurons of the layer in the selected sort order."""
    lengths = write_lengths(scene.model.model, settings.layer)
    return ranked(read.post, lengths, settings.order, scene.position).tolist()


def _pushes(scene: Scene, layer: int, neurons: list[int], limit: int) -> Promoted:
    """Find the tokens that each given neuron promotes and suppresses most, within the tokenizer's vocabulary."""
    return promoted(scene.model.model, layer, neurons, limit, scene.model.tokenizer.vocab_size)


def measure_top(scene: Scene, settings: Settings, results: Mapping[str, Activations]) -> Top:
    """Rank the neurons of the layer, and find the token that each listed neuron promotes most."""
    read = results["layer"]
    order = _order(scene, settings, read)
    rows = ordered_rows(read.post, order[:LISTED], None if settings.order == "prompt" else scene.position)
    pushes = _pushes(scene, settings.layer, order[:LISTED], 1)
    negative = np.array([row["value"] < 0 for row in rows])
    mapped = order[:MAPPED]
    toward = np.where(negative, pushes.down[:, 0], pushes.up[:, 0])
    return Top(settings.layer, tuple(mapped), read.post[:, mapped], toward, tuple(rows))


def ordered_rows(post: np.ndarray, order: list[int], position: int | None) -> list[dict]:
    """Build one row per neuron: its index, its activation, and its largest |activation| (signed) with the position.

    post [T, M]. The activation is the one at `position`; if that is None, it is the largest one.
    """
    rows = []
    for neuron in order:
        peak = int(np.abs(post[:, neuron]).argmax())
        value, peak_value = float(post[peak if position is None else position, neuron]), float(post[peak, neuron])
        rows.append({"neuron": int(neuron), "value": value, "peak": peak_value, "at": peak})
    return rows


def measure_one(scene: Scene, settings: Settings, results: Mapping[str, Activations]) -> Neuron:
    """Measure the selected neuron, by default the first in the sort order."""
    read = results["layer"]
    order = _order(scene, settings, read)
    neuron = order[0] if settings.neuron is None else settings.neuron
    return Neuron(
        settings.layer,
        neuron,
        read.pre[:, neuron],
        None if read.up is None else read.up[:, neuron],
        read.post[:, neuron],
        order.index(neuron) + 1 if settings.order == "here" else None,
        _pushes(scene, settings.layer, [neuron], TOKENS),
    )


# --- the activation function ---


def measure_curve(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> ActivationCurve:
    """Compute the activation function over the range of the layer's pre-activations, and at those of the neuron."""
    pre, of_neuron = results["layer"].pre, results["one"].pre
    curve = functools.partial(activation, scene.model.model, results["layer"].layer)
    x = spread(*span(pre, of_neuron))
    counts, edges = np.histogram(pre, _BINS, (float(x[0]), float(x[-1])))
    return ActivationCurve(x, curve(x), edges, counts / pre.size, outside(pre, x), of_neuron, curve(of_neuron))


def span(pre: np.ndarray, of_neuron: np.ndarray) -> tuple[float, float]:
    """Compute the axis range that covers -4 to 4, nearly all pre-activations of the layer and all those of the neuron.

    pre [T, M], of_neuron [T]
    """
    low, high = np.percentile(pre, [_REST, 100 - _REST])
    low, high = min(low, of_neuron.min(), -4.0), max(high, of_neuron.max(), 4.0)
    return float(low - 0.02 * (high - low)), float(high + 0.02 * (high - low))


def spread(low: float, high: float, points: int = 241) -> np.ndarray:
    """Return evenly spaced float32 numbers from low to high, the one closest to 0 set to 0 if 0 lies in between."""
    x = np.linspace(low, high, points)
    if low < 0 < high:
        x[np.abs(x).argmin()] = 0
    return x.astype(np.float32)


def outside(pre: np.ndarray, x: np.ndarray) -> float:
    """Compute the fraction of the pre-activations beyond the ends of the axis."""
    return float(((pre < x[0]) | (pre > x[-1])).mean())


# --- all layers ---


def measure_quick(scene: Scene, settings: Settings) -> Survey | None:
    """Summarize every layer if that is quick, otherwise return None."""
    return survey(scene.trace) if is_quick(scene.model.n_params, len(scene.tokens)) else None


def measure_survey(scene: Scene, settings: Settings, progress: Progress) -> Survey:
    """Summarize every layer, however long it takes."""
    return survey(scene.trace, progress)
