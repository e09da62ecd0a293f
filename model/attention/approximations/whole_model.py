"""Loss of the complete model when the softmax of all heads is approximated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.attention.approximations.ways import Way, matrix
from model.gpt.mixers.needs import need_attention
from model.gpt.transformer import Attend, Transformer
from model.progress import Progress, silent
from model.tracing.divergence import PredictionDivergence, read, sample

SIZES = {"performer": (16, 64, 256, 1024), "linear": (0,), "linformer": (8, 32, 128), "nystrom": (4, 8, 16, 32)}
SEEDS = 3  # number of draws of a random method


@dataclass(frozen=True)
class Replaced:
    """Predictions of the model with one method in all of its layers."""

    way: Way
    reading: PredictionDivergence  # compared with the model with softmax


@dataclass(frozen=True)
class Experiment:
    """One kind of approximation over its sizes and draws, with uniform attention as the baseline."""

    rows: tuple[Replaced, ...]  # sorted by size, then by seed
    uniform: PredictionDivergence

    @property
    def before(self) -> float | None:
        """The loss with softmax attention, in nats per token; None for a single token."""
        return self.uniform.before

    def of(self, size: int) -> list[PredictionDivergence]:
        """Return the results for one size, one per draw."""
        return [each.reading for each in self.rows if each.way.size == size]


def ways_of(method: str, *, orthogonal: bool = False, projection: str = "random") -> tuple[Way, ...]:
    """Return the variants of a method in an experiment: each size, with SEEDS draws if it is random."""
    draws = SEEDS if Way(method, 1, 0, orthogonal, projection).drawn else 1
    return tuple(Way(method, size, seed, orthogonal, projection) for size in SIZES[method] for seed in range(draws))


def attend_by(way: Way, report: Callable[[], None] = lambda: None) -> Attend:
    """Return an attention kernel that mixes values by the method's matrix, in float64, and calls `report` after each
    layer.
    """

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows, group = torch.arange(q.shape[2]), q.shape[1] // k.shape[1]
        k, v = (x.double().repeat_interleave(group, 1) for x in (k, v))
        z = matrix(way, q.double(), k, rows, layer) @ v
        report()
        return z.to(q.dtype)

    return attend


def attend_alike(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute uniform attention over all visible keys: each output is the mean of the values so far."""
    counts = torch.arange(1, v.shape[2] + 1, dtype=v.dtype)[:, None]
    return (v.cumsum(2) / counts).repeat_interleave(q.shape[1] // v.shape[1], 1)


@torch.inference_mode()
def measure(model: Transformer, ids: Sequence[int], ways: Sequence[Way], progress: Progress = silent) -> Experiment:
    """Measure loss, KL and top-1 agreement on a text with each method in all layers; the model is unchanged."""
    need_attention(model.config)
    total, done = len(ways) * len(model.blocks), 0

    def report() -> None:
        nonlocal done
        done += 1
        progress(done, total, "")

    progress(0, total, "")
    text = sample(model, ids, keep=False)

    def reading(attend: Attend) -> PredictionDivergence:
        return read(model, text, model, model.trunk(text.ids, attend=attend))[0]

    uniform = reading(attend_alike)
    rows = tuple(Replaced(way, reading(attend_by(way, report))) for way in ways)
    return Experiment(rows, uniform)
