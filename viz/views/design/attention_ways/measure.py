"""Measurements of attention: one row of the online softmax, and the accuracy and cost of each way to compute it."""

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
PUBLIC_LIMIT = 1024  # maximum context length on a server that limits the duration of a job


def _name_of_block(words: Words, option: str) -> str:
    return words["block_one"] if option == "1" else words["block_keys"].format(n=option)


BLOCK = Choice("block", BLOCKS, default="2", label=_name_of_block)


# --- one row ---


@dataclass(frozen=True, eq=False)
class QueryRow:
    """One query's row of attention weights, computed one block of keys at a time."""

    at: int  # position of the query
    block: int  # keys per block that were used
    requested: int  # keys per block requested in the form
    scores: np.ndarray  # float64 [n], -inf for masked keys
    steps: tuple[OnlineStep, ...]
    gap: float  # largest |difference| between the last step's weights and the softmax of the full row
    output_gap: float  # largest |difference| between the last step's output and the weighted sum of the values
    model_gap: float  # largest |difference| between the softmax of the full row and the model's float32 row


def dot_scores(row: np.ndarray, n: int) -> np.ndarray:
    """Return the first `n` scores of a row in float64, with -inf for masked keys. float32 [T] -> float64 [n]"""
    return np.where(np.isnan(row[:n]), -np.inf, row[:n]).astype(np.float64)


def apart(values: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest absolute difference, ignoring NaN; 0 if all differences are NaN."""
    return float(np.nanmax(np.abs(values - expected), initial=0.0))


def weights_at_once(scores: np.ndarray) -> np.ndarray:
    """Compute the softmax of a full row in one pass, in float64; all 0 if every key is masked. [n] -> [n]"""
    top = scores.max()
    powers = np.exp(scores - (top if np.isfinite(top) else 0.0))
    return powers / (powers.sum() or 1.0)


def measure_row(scene: Scene, settings: Settings) -> QueryRow:
    """Compute the selected token's row of the main head one block of keys at a time, from the run's scores."""
    trace, at, width = scene.trace, scene.position, int(settings.block)
    n = at + 1
    scores = dot_scores(trace.scores(*scene.head)[at], n)
    values = trace.qkv(*scene.head).v[:n].astype(np.float64)
    block, softmax = blocks_for(n, width), weights_at_once(scores)
    steps = tuple(online_steps(scores, values, block))
    gap, output_gap = apart(steps[-1].weights, softmax), apart(steps[-1].output, (softmax[:, None] * values).sum(0))
    model_gap = apart(softmax, trace.pattern(*scene.head)[at, :n])
    return QueryRow(at, block, width, scores, steps, gap, output_gap, model_gap)


# --- accuracy ---


def measure_exact(scene: Scene, settings: Settings) -> tuple[Exact, ...]:
    """Compare each way to compute attention with a float64 reference, on q, k and v of the selected layer."""
    return exactness(*layer_qkv(scene.trace, scene.head[0]))


# --- costs ---


@dataclass(frozen=True)
class TimingPlan:
    """The plan of the cost measurement. Its inputs are random, so it depends only on the shape of the model's heads."""

    shape: tuple[int, int, int]  # numbers of query heads and KV heads, d_head
    limit: int  # maximum context length
    lengths: tuple[int, ...]
    seconds: int  # approximate duration


def limit_of(scene: Scene) -> int:
    """Return the maximum context length to measure on this server."""
    return PUBLIC_LIMIT if math.isfinite(scene.playground.options.allowed.job_seconds) else LENGTHS[-1]


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the shape (H, G, E) of the model's heads and the maximum context length."""
    config = scene.model.config
    return Settings((("shape", (config.n_head, config.n_kv_head, config.d_head)), ("limit", limit_of(scene))))


def plan(scene: Scene, settings: Settings) -> TimingPlan:
    """Plan the measurement that the button starts."""
    lengths = lengths_of(settings.limit)
    return TimingPlan(settings.shape, settings.limit, lengths, round(BUDGET * sum(lengths) / sum(LENGTHS)) + 2)


def measure_costs(scene: Scene, settings: Settings, progress: Progress) -> Costs:
    """Measure time, memory and accuracy of each way at increasing context lengths."""
    return kernel_costs.measure(settings.shape, settings.limit, progress)
