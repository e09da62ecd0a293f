"""Gradient attribution of a logit to tokens: gradient x activation and integrated gradients on the embeddings.

For comparison with model.predictions.attribution: a gradient follows every path through the model, not just the direct
one, but for an infinitely small change; integrated gradients add it up from a baseline to the prompt.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_position, check_token
from model.gpt.passes import Pass, attend_fused
from model.gpt.tap import record
from model.progress import Progress, silent
from model.public import public, unchecked, whole
from model.tracing.trace import Trace

MOST = 128  # gradients taken along a path
MOST_GIVEN = 1 << 16  # that a caller may ask for
_BUDGET = 4096  # tokens run forward and back along a path, by which long prompts take fewer gradients
_ENOUGH = 0.02  # tolerated sum of the steps' errors, as a share of f(x) - f(b), or of a logit where that is more
_TOKENS = 1024  # tokens of a batch: several places of the path at once for a short prompt
_HALVED = 4  # steps halved before errors are compared again
_ROUGH = 0.1  # a gap above this share of what the logit moved, or of a logit where that is more, is large


@dataclass(frozen=True, eq=False)
class Gradients:
    """Contribution of each token up to the position to the target. In logits, float64."""

    gradient_x_activation: np.ndarray  # e_s . df/de_s, [position + 1]
    integrated: np.ndarray  # [position + 1]
    value: float  # f: the target in this run
    baseline: float  # f where every token embedding is the baseline
    taken: int  # gradients computed along the path

    @property
    def gap(self) -> float:
        """sum(integrated) - (value - baseline): the deviation from completeness."""
        return float(self.integrated.sum()) - self.moved

    @property
    def moved(self) -> float:
        """The sum of the integrated gradients without the gap: f(x) - f(baseline)."""
        return self.value - self.baseline

    @property
    def rough(self) -> bool:
        """True if the gap is too large to trust any single number of the integrated gradients."""
        return abs(self.gap) > _ROUGH * max(1.0, abs(self.moved))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.gradient_x_activation.nbytes + self.integrated.nbytes


@dataclass(frozen=True, eq=False)
class _Path:
    """The straight line from the baseline to the prompt's embeddings, and the target along it."""

    run: Trace
    x: Tensor  # [t, D]
    base: Tensor  # [D]
    u: Tensor  # direction of the target after the last norm, [D] float64
    tell: Callable[[int], None]  # reports the places of the path for which another block is done

    def batches(self, shares: Sequence[float]) -> list[Tensor]:
        """Return the embeddings at some fractions of the path, in batches of suitable size. Each [B, t, D]"""
        each = torch.tensor(shares, dtype=self.x.dtype)[:, None, None].split(max(1, _TOKENS // len(self.x)))
        return [self.base + share * (self.x - self.base) for share in each]


@dataclass(frozen=True, eq=False)
class _Step:
    """One step of the path, from share a to share b, with the gradient at its middle."""

    a: float
    b: float
    f_a: float
    f_b: float
    f_middle: float
    slope: Tensor  # (x_s - base) . df/dx_s at the middle, [t] float64

    @property
    def middle(self) -> float:
        return (self.a + self.b) / 2

    @property
    def miss(self) -> float:
        """Difference between the middle's slope and the change of f over the step."""
        return abs(float(self.slope.sum()) * (self.b - self.a) - (self.f_b - self.f_a))


@dataclass(eq=False)
class _Tried:
    """A step of the path and, once it is split, its halves. A midpoint on a spike can make the halves worse than the
    step.
    """

    step: _Step
    halves: "list[_Tried]" = field(default_factory=list)

    def best(self) -> tuple[float, "list[_Tried]"]:
        """Return the partition of the step with the least total miss among those that were computed, and that miss."""
        finer = [each.best() for each in self.halves]
        miss = sum(each for each, _ in finer)
        if not finer or self.step.miss <= miss:
            return self.step.miss, [self]
        return miss, [part for _, parts in finer for part in parts]

    def worst(self) -> "_Tried":
        """Return the step below that was not halved yet, with the largest miss."""
        return max((each.worst() for each in self.halves), key=lambda each: each.step.miss) if self.halves else self


def affordable(tokens: int) -> int:
    """Return the largest number of gradients along the path for a prompt of this length: fewer for a long prompt, whose
    gradients take longer.
    """
    return min(MOST, max(16, _BUDGET // tokens))


def forwards(most: int) -> int:
    """Estimate the work of at most `most` gradients in forward passes: one pass with its gradient takes as long as
    four.
    """
    return 4 * (most + 1) + most // 4 + 1


@public(distractor=unchecked, most=whole(4, MOST_GIVEN))
def gradients(
    run: Trace, position: int, token: int, distractor: int | None = None, most: int = MOST, progress: Progress = silent
) -> Gradients:
    """Return the gradient x activation and integrated gradients of a logit, or of a difference of two, on the token
    embeddings.

    With x_s the embedding of token s and b the baseline, integrated_s = (x_s - b) . (mean over a of df/dx_s at b + a (x
    - b)); summed over s that is f(x) - f(b). The mean is taken by the midpoint rule, first over a quarter of `most`
    equal steps; then the steps with the largest errors are halved, until the sum of errors is small or `most` gradients
    were computed: f can jump within a thousandth of the path. A middle on such a jump can make the halves worse than
    the whole step, so the steps with the least sum of errors count, of all that were computed. `gap` is the remaining
    error. Position embeddings stay, edits of the run stay in force, and the weights get no gradient.

    The baseline is the mean embedding of the vocabulary, not zero. The slope of an RMSNorm at 0 is 1 / sqrt(eps), and
    that of a stack of them multiplies: without position embeddings, slopes near zero exceed 10^7 in a model of 30
    layers, and no affordable number of steps adds up.

    `progress(done, at most, "Computing gradients")`, called after every block, may raise to cancel; at most one block's
    graph is in memory. Raises InputError for a position or token out of range, for fewer than 4 gradients and for more
    than MOST_GIVEN. Source: Sundararajan et al. 2017, section 3; gradient x activation: Shrikumar et al. 2016.
    """
    run.require_key()
    at = _checked(run, position, token, distractor)
    first = most // 4
    with torch.inference_mode(False):
        total = len(run.model.blocks) * (2 * (most + 1) + first + 1)
        path = _Path(
            run, _embedded(run, at), _baseline(run), _direction(run, token, distractor), _counter(progress, total)
        )
        _, last = _slopes(path, [1.0], path.x)
        root, taken = _Tried(_nothing(), _first_steps(path, first)), first
        value, baseline = root.halves[-1].step.f_b, root.halves[0].step.f_a
        miss, best = root.best()
        while taken + 2 <= most and miss > _ENOUGH * max(1.0, abs(value - baseline)):
            # halving a step takes two gradients
            count = min(_HALVED, (most - taken) // 2, max(1, _TOKENS // (2 * at + 2)), len(best))
            best.sort(key=lambda part: -part.step.miss)
            _halve(path, [part.worst() for part in best[:count]])
            miss, best = root.best()
            taken += 2 * count
        integrated = sum(part.step.slope * (part.step.b - part.step.a) for part in best)
    return Gradients(last[0].numpy(), integrated.numpy(), value, baseline, taken)


def _nothing() -> _Step:
    """Return the whole path as one step that is never chosen, because it has no gradient at its middle."""
    return _Step(0.0, 1.0, 0.0, 0.0, 0.0, torch.tensor([math.inf]))


def _first_steps(path: _Path, count: int) -> list[_Tried]:
    """Return the path in equal steps."""
    ends = [n / count for n in range(count + 1)]
    f = _values(path, ends)
    middles, slopes = _slopes(path, [(n + 0.5) / count for n in range(count)], path.x - path.base)
    return [_Tried(_Step(ends[n], ends[n + 1], f[n], f[n + 1], middles[n], slopes[n])) for n in range(count)]


def _halve(path: _Path, tried: Sequence[_Tried]) -> None:
    """Split each step in two."""
    steps = [each.step for each in tried]
    halves = [half for s in steps for half in ((s.a, s.middle, s.f_a, s.f_middle), (s.middle, s.b, s.f_middle, s.f_b))]
    middles, slopes = _slopes(path, [(a + b) / 2 for a, b, _, _ in halves], path.x - path.base)
    refined = [_Tried(_Step(*half, middles[n], slopes[n])) for n, half in enumerate(halves)]
    for n, each in enumerate(tried):
        each.halves = refined[2 * n : 2 * n + 2]


# --- f and its gradient at places of the path -------------------------------------------------------


def _values(path: _Path, shares: Sequence[float]) -> list[float]:
    """Return f at some fractions of the path."""
    values: list[float] = []
    with torch.no_grad():
        for x in path.batches(shares):
            values += _target(path, _streams(path, x)[-1][:, -1]).tolist()
    return values


def _slopes(path: _Path, shares: Sequence[float], along: Tensor) -> tuple[list[float], Tensor]:
    """Return f at some fractions of the path, and along_s . df/dx_s of every token. along [t, D] -> [B], [B, t] float64

    A forward without a graph, then backward block by block, each recomputed: one block's graph at a time.
    """
    run, values, slopes = path.run, [], []
    for x in path.batches(shares):
        with torch.no_grad():
            streams = _streams(path, x)
        with torch.enable_grad():
            last = streams.pop()[:, -1].clone().requires_grad_()
            value = _target(path, last)
            slope = torch.zeros_like(x)
            (slope[:, -1],) = torch.autograd.grad(value.sum(), last)
            for layer in reversed(range(len(run.model.blocks))):
                before = streams.pop().requires_grad_()
                after = run.model.blocks[layer](before, layer, run.prepare(layer, x.shape[1]))
                (slope,) = torch.autograd.grad(after, before, slope)
                path.tell(len(x))
        values += value.tolist()
        slopes.append((slope.double() * along).sum(-1))
    return values, torch.cat(slopes)


def _streams(path: _Path, x: Tensor) -> list[Tensor]:
    """Return the stream entering each block and leaving the last one, from token embeddings [B, t, D]."""
    run = path.run
    replaced = Pass(None, attend_fused, None, lambda site, layer, old: x if site == "embed" else old)
    streams = [run.model.embed_tokens(_ids(run, x.shape[1] - 1), 0, replaced)]
    for layer, block in enumerate(run.model.blocks):
        streams.append(block(streams[-1], layer, run.prepare(layer, x.shape[1])))
        path.tell(len(x))
    return streams


def _target(path: _Path, x: Tensor) -> Tensor:
    """Return the logit or difference, from the stream of the last token. [B, D] -> [B] float64"""
    norm = path.run.model.final_norm
    return (x if norm is None else norm(x)).double() @ path.u


def _counter(progress: Progress, total: int) -> Callable[[int], None]:
    """Return a counter that reports its sum."""
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total, "Computing gradients")

    return tell


# --- ends of the path -------------------------------------------------------------------------------


def _embedded(run: Trace, at: int) -> Tensor:
    """Return the token embeddings of the prompt up to a position, scaled where the config requires it. [t, D]"""
    store: dict[tuple[str, int], Tensor] = {}
    with torch.no_grad():
        run.model.embed_tokens(_ids(run, at), 0, Pass(None, attend_fused, None, record({"embed"}, store)))
    return store["embed", -1][0]


def _baseline(run: Trace) -> Tensor:
    """Return the mean of all rows of the embedding, scaled in the same way. [D]"""
    mean = run.model.embed.weight.detach().mean(0)
    return mean * math.sqrt(run.config.d_model) if run.config.embed_scale else mean


def _direction(run: Trace, token: int, distractor: int | None) -> Tensor:
    """Return the direction of the target after the last norm. [D] float64"""
    weight = run.model.unembed.weight.detach()
    return weight[token].double() - (0 if distractor is None else weight[distractor].double())


def _ids(run: Trace, at: int) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(run.tokens.ids[None, : at + 1], dtype=np.int64))


def _checked(run: Trace, position: int, token: int, distractor: int | None) -> int:
    """Return the position, not negative. Raises InputError for an invalid position or token."""
    T, vocab = len(run.tokens), run.config.vocab_size
    check_position(position, T, from_end=True)
    check_token(token, vocab)
    if distractor is not None:
        check_token(distractor, vocab)
    return position % T
