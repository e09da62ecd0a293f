"""Measurements of two runs: the maps of one head, a number per head, and the next-token probabilities."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.attention import measures
from model.attention.measures import MEASURES as OF_ATTENTION
from model.attention.measures import attend_rows
from model.gpt.config import ModelConfig
from model.sampling.pipeline import softmax
from model.tracing.head_metrics import HEAD_METRICS
from model.tracing.trace import Trace
from viz.charts.distribution import likeliest
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Measure, Needs
from viz.views.compare import run_b
from viz.views.compare.alignment import Alignment, gaps, nearest
from viz.views.compare.run_b import NoRunB, Other, RunBRequest

OF_HEADS = tuple(name for name, entry in OF_ATTENTION.items() if entry.of == "head")
PATTERN = "pattern"
METRICS = (*HEAD_METRICS, PATTERN)
MOST_LIKELY = 10
MOST_CELLS = 80_000_000  # maximum number of cells in the patterns of all heads
# The names of the measures are shared by all views, so they are not among the words of this view.
MEASURE = Choice(
    "measure",
    OF_HEADS,
    label=lambda words, option: words.catalogue[f"measure.{option}"],
    help=lambda words, option: words.catalogue[f"measure_help.{option}"],
)


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of the main head of A and of its counterpart in B, for one measure of attention."""

    head: tuple[int, int]  # counterpart of the main head in B
    a: np.ndarray  # [T, T], T tokens of A
    b: np.ndarray  # [T, T], T tokens of B


@dataclass(frozen=True, eq=False)
class Heads:
    """A metric of every head in both runs and its difference, or only the distance between the patterns."""

    both: tuple[np.ndarray, np.ndarray] | None  # metric in A and in B, [L, H] each; None for patterns
    difference: np.ndarray  # [L, H], A minus B of the metric, or mean |A - B| of the patterns


@dataclass(frozen=True, eq=False)
class Next:
    """The next-token probabilities in both runs."""

    at: tuple[int, int]  # compared position in A and in B
    a: np.ndarray  # probabilities in A, float64 [V]
    b: np.ndarray  # probabilities in B, float64 [V]
    pieces_b: tuple[str, ...]  # texts of the MOST_LIKELY most likely tokens of B


def measure_maps(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Maps | None:
    """Compute the maps of the main head in both runs; return None if there is no run B."""
    if isinstance(results["other"], NoRunB):
        return None
    b, name = _trace_b(scene, settings), settings.measure
    head = _head_of(scene, b, settings.run_b, results["other"])
    return Maps(head, measures.measure(scene.trace, name, *scene.head), measures.measure(b, name, *head))


def _trace_b(scene: Scene, settings: Settings) -> Trace:
    return scene.beside(settings.run_b.model_id, settings.run_b.prompt)


def _head_of(scene: Scene, b: Trace, request: RunBRequest, other: Other) -> tuple[int, int]:
    """Return the counterpart of the main head in run B.

    In another model it is the requested head. If none is requested, it is the head with the same indices, or, if the
    models' shapes differ, the head with the nearest metrics.
    """
    if other.same_model:
        return scene.head
    shares = [n for n, entry in enumerate(HEAD_METRICS.values()) if entry.high == 1]
    usual = scene.head
    if not other.one_shape:
        usual = nearest(scene.trace.metrics[(*scene.head, shares)], b.metrics[..., shares])
    layer = usual[0] if request.layer is None else request.layer
    head = usual[1] if request.head is None else request.head
    return min(layer, b.config.n_layer - 1), min(head, b.config.n_head - 1)


def measure_heads(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Heads | None:
    """Compare a number per head between the runs; return None if heads or patterns are not comparable."""
    other: Other | NoRunB = results["other"]
    if isinstance(other, NoRunB) or not other.one_shape:
        return None
    b = _trace_b(scene, settings)
    if settings.metric != PATTERN:
        n = list(HEAD_METRICS).index(settings.metric)
        both = scene.trace.metrics[..., n], b.metrics[..., n]
        return Heads(both, both[0] - both[1])
    if not other.one_vocabulary or too_many(scene.model.config, len(scene.tokens), len(other.tokens)):
        return None
    return Heads(None, _pattern_gaps(scene.trace, b, other.alignment))


def too_many(config: ModelConfig, *lengths: int) -> bool:
    """Return whether the patterns of all heads are too large to compare."""
    return config.n_layer * config.n_head * max(lengths) ** 2 > MOST_CELLS


def _pattern_gaps(a: Trace, b: Trace, alignment: Alignment) -> np.ndarray:
    """Compute the mean |A - B| of the weights of each head over the aligned cells. float32 [L, H]"""

    def patterns(trace: Trace, layer: int) -> np.ndarray:
        return attend_rows(trace, layer, range(len(trace.tokens))).numpy()

    layers = range(a.config.n_layer)
    return np.stack([gaps(patterns(a, layer), patterns(b, layer), alignment.pairs) for layer in layers])


def measure_next(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Next | None:
    """Compute the next-token probabilities of both runs at the compared positions; return None if there is no run B."""
    other: Other | NoRunB = results["other"]
    if isinstance(other, NoRunB):
        return None
    trace, model = _trace_b(scene, settings), scene.playground.opened(other.request.model_id)
    places = position(scene.picked.tokens, other, len(scene.tokens))
    a = softmax(scene.trace.logits_at(places[0])[: scene.model.tokenizer.vocab_size])
    b = softmax(trace.logits_at(places[1])[: model.tokenizer.vocab_size])
    return Next(places, a, b, tuple(model.tokenizer.piece(i) for i in likeliest(b, MOST_LIKELY)))


def position(picked: tuple[int, ...], other: Other, n_tokens: int) -> tuple[int, int]:
    """Return the positions in A and in B whose next-token predictions are compared.

    They are those of the last selected token that has a counterpart. If there is no such token, they are the last
    positions of both runs.
    """
    counterparts = dict(other.alignment.pairs)
    common = [t for t in picked if t in counterparts]
    return (common[-1], counterparts[common[-1]]) if common else (n_tokens - 1, len(other.tokens) - 1)


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """Compute KL(p || q) in nats. Source: Kullback & Leibler 1951. [V] each"""
    possible = p > 0
    with np.errstate(divide="ignore"):
        return max(float((p[possible] * (np.log(p[possible]) - np.log(q[possible]))).sum()), 0.0)


def likely_of_both(a: np.ndarray, b: np.ndarray, limit: int) -> list[int]:
    """Return the union of both runs' top `limit` tokens, by decreasing larger probability. [V] each, one vocabulary"""
    return sorted({*likeliest(a, limit), *likeliest(b, limit)}, key=lambda i: -max(a[i], b[i]))


def _measure(
    name: str,
    function: Any,
    settings: tuple[str, ...] = (),
    depends: tuple[Any, ...] = ("run",),
    question: Any = run_b.without_head,
    needs: tuple[Needs, ...] | None = None,
) -> Measure:
    """Build a measure that reads both runs."""
    return Measure(
        name,
        function,
        depends,
        ("run_b", *settings),
        uses=("other",),
        beside=run_b.beside,
        needs=needs,
        question=question,
        keep=name != "maps",  # maps are large and quick to recompute
    )


MEASURES = (
    *run_b.MEASURES,
    _measure("maps", measure_maps, ("measure",), ("run", "head"), question=None),
    _measure("heads", measure_heads, ("metric",)),
    _measure("next", measure_next, (), ("run", "tokens"), needs=("next",)),
)
