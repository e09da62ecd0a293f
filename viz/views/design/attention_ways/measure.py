"""One row of the online softmax, how exact all ways to attend are, and what they cost."""

import math
from dataclasses import dataclass

import numpy as np

from model.design import kernel_costs
from model.design.kernel_costs import BUDGET, LENGTHS, Costs, lengths_of
from model.design.kernels import Exact, OnlineStep, blocks_for, exactness, layer_qkv, online_steps
from model.progress import Progress
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.words import Words

BLOCKS = ("1", "2", "4", "8", "16", "32", "128")
PUBLIC_LIMIT = 1024  # context on a server whose jobs end after a minute


def _name_of_block(words: Words, option: str) -> str:
    return words["block_one"] if option == "1" else words["block_keys"].format(n=option)


BLOCK = Choice("block", BLOCKS, default="2", label=_name_of_block)


# --- one row ---


@dataclass(frozen=True, eq=False)
class Row:
    """One query's row of attention, walked through by blocks of keys."""

    at: int  # the query
    block: int  # keys of a block
    requested: int  # keys of a block as the form asks for
    scores: np.ndarray  # float64 [n], -inf where a key is not seen
    steps: tuple[OnlineStep, ...]
    gap: float  # largest |difference| of the last step's weights from the softmax of the whole row at once
    output_gap: float  # and of its output from the weighted sum of the values
    model_gap: float  # of that softmax from the float32 row that the model itself used


def dot_scores(row: np.ndarray, n: int) -> np.ndarray:
    """Return the first n scores of a row, -inf where a key is not seen. float32 [T] -> float64 [n]"""
    return np.where(np.isnan(row[:n]), -np.inf, row[:n]).astype(np.float64)


def apart(values: np.ndarray, expected: np.ndarray) -> float:
    """Largest |difference|; 0 where both are NaN."""
    return float(np.nanmax(np.abs(values - expected), initial=0.0))


def weights_at_once(scores: np.ndarray) -> np.ndarray:
    """Return the softmax of a whole row at once, float64; 0 everywhere for a row that sees no key. [n] -> [n]"""
    top = scores.max()
    powers = np.exp(scores - (top if np.isfinite(top) else 0.0))
    return powers / (powers.sum() or 1.0)


def measure_row(scene: Scene, settings: Settings) -> Row:
    """Return the picked token's row of the main head, from the scores of the run on the page."""
    trace, at, width = scene.trace, scene.position, int(settings.block)
    n = at + 1
    scores = dot_scores(trace.scores(*scene.head)[at], n)
    values = trace.qkv(*scene.head).v[:n].astype(np.float64)
    block, softmax = blocks_for(n, width), weights_at_once(scores)
    steps = tuple(online_steps(scores, values, block))
    gap, output_gap = apart(steps[-1].weights, softmax), apart(steps[-1].output, (softmax[:, None] * values).sum(0))
    model_gap = apart(softmax, trace.pattern(*scene.head)[at, :n])
    return Row(at, block, width, scores, steps, gap, output_gap, model_gap)


# --- how exact ---


def measure_exact(scene: Scene, settings: Settings) -> tuple[Exact, ...]:
    """Return every way on the q, k, v of the picked layer, against float64."""
    return exactness(*layer_qkv(scene.trace, scene.head[0]))


# --- what it costs ---


@dataclass(frozen=True)
class Plan:
    """The plan of the measurement: on random numbers, so that of a model only the shape of its heads counts."""

    shape: tuple[int, int, int]  # query heads, KV heads, size of one
    limit: int  # the longest context
    lengths: tuple[int, ...]
    seconds: int  # about


def limit_of(scene: Scene) -> int:
    """Return the longest context that is measured on this server."""
    return PUBLIC_LIMIT if math.isfinite(scene.playground.options.allowed.job_seconds) else LENGTHS[-1]


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the shape of the model's heads, and the longest context."""
    config = scene.model.config
    return Settings((("shape", (config.n_head, config.n_kv_head, config.d_head)), ("limit", limit_of(scene))))


def plan(scene: Scene, settings: Settings) -> Plan:
    """Return the measurement that the button starts."""
    lengths = lengths_of(settings.limit)
    return Plan(settings.shape, settings.limit, lengths, round(BUDGET * sum(lengths) / sum(LENGTHS)) + 2)


def measure_costs(scene: Scene, settings: Settings, progress: Progress) -> Costs:
    """Time, memory and exactness at growing contexts."""
    return kernel_costs.measure(settings.shape, settings.limit, progress)
