"""The numbers of MLP neurons: those of a layer, one of them, its activation function, and all layers in short."""

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

LISTED, MAPPED, TOKENS = 12, 24, 8  # neurons in the list, in the map; tokens pushed either way
_BINS = 81  # of the pre-activations of a layer
_REST = 0.1  # percent of the pre-activations that may lie beyond either end of the axis
Chosen = tuple[str, int]  # what the neuron is of, and its number


@dataclass(frozen=True, eq=False)
class Top:
    """The first neurons of an order on every token."""

    layer: int
    neurons: tuple[int, ...]  # at most MAPPED
    post: np.ndarray  # their activations, float32 [T, n]
    toward: np.ndarray  # the token that each of the listed ones pushes most, as its activation is signed. [LISTED]
    rows: tuple[dict, ...]  # of the listed ones, see `ordered_rows`


@dataclass(frozen=True, eq=False)
class Neuron:
    """One neuron on the prompt. float32 [T] each"""

    layer: int
    neuron: int
    pre: np.ndarray
    up: np.ndarray | None  # of SwiGLU
    post: np.ndarray
    rank: int | None  # by size at the position, from 1; None for other orders
    pushes: Promoted  # of this neuron alone, [1, TOKENS] each


@dataclass(frozen=True, eq=False)
class Curve:
    """The activation function of a layer and its inputs; y are its values, before any product."""

    x: np.ndarray  # float32 [n]
    y: np.ndarray  # float32 [n]
    edges: np.ndarray  # of the bins of the layer's pre-activations, [bins + 1]
    shares: np.ndarray  # of all pre-activations of the layer, [bins]
    outside: float  # share of them beyond the ends of the axis
    neuron_x: np.ndarray  # pre-activations of the neuron, float32 [T]
    neuron_y: np.ndarray  # float32 [T]


# --- the question ---


def of_layer(model_id: str, layer: int) -> str:
    """Return the scope of a neuron's number: with another model or layer the same number is another neuron."""
    return f"{model_id} {layer}"


def read_neuron(value: object, scene: Scene) -> Chosen | None:
    """Return the neuron that a page sent, if it is one; whether it is of the layer that is shown, is not known here."""
    sent = value if isinstance(value, Mapping) else {}
    of, number = sent.get("of"), sent.get("neuron")
    whole = isinstance(number, int) and not isinstance(number, bool)
    return (of, number) if isinstance(of, str) and whole and 0 <= number < scene.model.config.d_mlp else None


def layer_question(scene: Scene, settings: Settings) -> Settings:
    """Return the layer that is chosen, else that of the main head."""
    return Settings((("layer", int(settings.layer) if settings.layer else scene.head[0]),))


def top_question(scene: Scene, settings: Settings) -> Settings:
    """Return the layer and the order."""
    return Settings((*layer_question(scene, settings).items(), ("order", settings.order)))


def one_question(scene: Scene, settings: Settings) -> Settings:
    """Return the layer, the order, and the neuron that was chosen of this layer; None: the first of the order."""
    question = top_question(scene, settings)
    of, neuron = settings.top or ("", None)
    mine = of == of_layer(scene.model.id, question.layer)
    return Settings((*question.items(), ("neuron", neuron if mine else None)))


# --- the layer and one neuron ---


def measure_layer(scene: Scene, settings: Settings) -> Activations:
    """Pre-activations and activations of all neurons of the layer."""
    return layer_activations(scene.trace, settings.layer)


def _order(scene: Scene, settings: Settings, read: Activations) -> list[int]:
    """Return all neurons of the layer in the order that is chosen."""
    lengths = write_lengths(scene.model.model, settings.layer)
    return ranked(read.post, lengths, settings.order, scene.position).tolist()


def _pushed(scene: Scene, layer: int, neurons: list[int], limit: int) -> Promoted:
    """Return the tokens that neurons write towards, of those that the vocabulary has."""
    return promoted(scene.model.model, layer, neurons, limit, scene.model.tokenizer.vocab_size)


def measure_top(scene: Scene, settings: Settings, results: Mapping[str, Activations]) -> Top:
    """Return the first neurons of the order, and what each pushes up."""
    read = results["layer"]
    order = _order(scene, settings, read)
    rows = ordered_rows(read.post, order[:LISTED], None if settings.order == "prompt" else scene.position)
    pushed = _pushed(scene, settings.layer, order[:LISTED], 1)
    below = np.array([row["value"] < 0 for row in rows])
    mapped = order[:MAPPED]
    toward = np.where(below, pushed.down[:, 0], pushed.up[:, 0])
    return Top(settings.layer, tuple(mapped), read.post[:, mapped], toward, tuple(rows))


def ordered_rows(post: np.ndarray, order: list[int], position: int | None) -> list[dict]:
    """Number, activation at the position, its largest in size, and where that is, of some neurons. post [T, M]

    `position` None: the activation is the largest one over the prompt.
    """
    rows = []
    for neuron in order:
        peak = int(np.abs(post[:, neuron]).argmax())
        value, peak_value = float(post[peak if position is None else position, neuron]), float(post[peak, neuron])
        rows.append({"neuron": int(neuron), "value": value, "peak": peak_value, "at": peak})
    return rows


def measure_one(scene: Scene, settings: Settings, results: Mapping[str, Activations]) -> Neuron:
    """Return the chosen neuron, else the first of the order."""
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
        _pushed(scene, settings.layer, [neuron], TOKENS),
    )


# --- the activation function ---


def measure_curve(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Curve:
    """Return the activation function over the pre-activations of the layer, with the neuron's own."""
    pre, of_neuron, config = results["layer"].pre, results["one"].pre, scene.model.config
    x = spread(*span(pre, of_neuron))
    counts, edges = np.histogram(pre, _BINS, (float(x[0]), float(x[-1])))
    return Curve(
        x, activation(config, x), edges, counts / pre.size, outside(pre, x), of_neuron, activation(config, of_neuron)
    )


def span(pre: np.ndarray, of_neuron: np.ndarray) -> tuple[float, float]:
    """Ends of the axis: nearly all pre-activations of the layer [T, M], all of the neuron's own [T], and -4 to 4."""
    low, high = np.percentile(pre, [_REST, 100 - _REST])
    low, high = min(low, of_neuron.min(), -4.0), max(high, of_neuron.max(), 4.0)
    return float(low - 0.02 * (high - low)), float(high + 0.02 * (high - low))


def spread(low: float, high: float, points: int = 241) -> np.ndarray:
    """Evenly spaced numbers from low to high, 0 among them where it lies between. float32"""
    x = np.linspace(low, high, points)
    if low < 0 < high:
        x[np.abs(x).argmin()] = 0
    return x.astype(np.float32)


def outside(pre: np.ndarray, x: np.ndarray) -> float:
    """Return the share of the pre-activations beyond the ends of the axis."""
    return float(((pre < x[0]) | (pre > x[-1])).mean())


# --- all layers ---


def measure_quick(scene: Scene, settings: Settings) -> Survey | None:
    """Return every layer in a few numbers; None where reading them takes a while."""
    return survey(scene.trace) if is_quick(scene.model.n_params, len(scene.tokens)) else None


def measure_survey(scene: Scene, settings: Settings, progress: Progress) -> Survey:
    """Every layer in a few numbers, however long it takes."""
    return survey(scene.trace, progress)
