"""Gradient attribution of a logit to tokens: gradient x activation and integrated gradients on the embeddings.

In contrast to model.predictions.attribution, a gradient follows every path through the model, not only the direct one,
but holds only for an infinitesimal change. Integrated gradients integrate it from a baseline to the prompt.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_position, check_token
from model.gpt.config import ModelConfig
from model.gpt.layers import capped
from model.gpt.mixers.needs import need_alone, need_causal
from model.gpt.passes import Pass, attend_fused
from model.gpt.tap import compose, record
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import public, unchecked, whole
from model.tracing.trace import Trace

MOST = 128  # default maximum number of gradients computed along a path
MOST_GIVEN = 1 << 16  # largest maximum that a caller may request
# maximum number of tokens in all passes along a path, which limits the number of gradients for long prompts
_BUDGET = 4096
_ENOUGH = 0.02  # tolerated sum of the steps' errors, as a fraction of |f(x) - f(b)|, or in logits if that is below 1
_TOKENS = 1024  # maximum number of tokens per batch: a short prompt runs at several points of the path at once
_HALVED = 4  # maximum number of steps halved before errors are compared again
_ROUGH = 0.1  # largest gap not called large, as a fraction of |f(x) - f(b)|, or in logits if that is below 1


@dataclass(frozen=True, eq=False)
class Gradients:
    """Attribution of the target to each token up to the position. In logits, float64."""

    gradient_x_activation: np.ndarray  # e_s . df/de_s, [position + 1]
    integrated: np.ndarray  # [position + 1]
    value: float  # f(x): the target in this run
    baseline: float  # f(b): the target with every token embedding replaced by the baseline
    taken: int  # gradients computed along the path

    @property
    def gap(self) -> float:
        """sum(integrated) - (value - baseline): the deviation from completeness."""
        return float(self.integrated.sum()) - self.moved

    @property
    def moved(self) -> float:
        """The expected sum of the integrated gradients: f(x) - f(baseline)."""
        return self.value - self.baseline

    @property
    def rough(self) -> bool:
        """True if the gap is too large for any single integrated gradient to be trusted."""
        return abs(self.gap) > _ROUGH * max(1.0, abs(self.moved))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.gradient_x_activation.nbytes + self.integrated.nbytes


@dataclass(frozen=True, eq=False)
class _Path:
    """The straight line from the baseline to the prompt's embeddings, and the target function on it."""

    run: Trace
    x: Tensor  # [t, D]
    base: Tensor  # [t, D]
    token: int
    distractor: int | None
    tell: Callable[[int], None]  # called with the number of points of the path for which another block is done

    def batches(self, shares: Sequence[float]) -> list[Tensor]:
        """Interpolate the embeddings at the given fractions of the path, in batches of limited size. Each [B, t, D]"""
        each = torch.tensor(shares, dtype=self.x.dtype)[:, None, None].split(max(1, _TOKENS // len(self.x)))
        return [self.base + share * (self.x - self.base) for share in each]


@dataclass(frozen=True, eq=False)
class _Step:
    """One step of the path, from fraction a to fraction b, with the gradient at its midpoint."""

    a: float
    b: float
    f_a: float
    f_b: float
    f_middle: float
    slope: Tensor  # (x_s - base) . df/dx_s at the midpoint, [t] float64

    @property
    def middle(self) -> float:
        return (self.a + self.b) / 2

    @property
    def miss(self) -> float:
        """Absolute difference between the midpoint estimate of the change of f over the step and the actual change."""
        return abs(float(self.slope.sum()) * (self.b - self.a) - (self.f_b - self.f_a))


@dataclass(eq=False)
class _Tried:
    """A step of the path and, once it is split, its halves. If the midpoint of a half falls on a spike of the
    gradient, the halves can have a larger error than the step.
    """

    step: _Step
    halves: "list[_Tried]" = field(default_factory=list)

    def best(self) -> tuple[float, "list[_Tried]"]:
        """Return the least total error of any partition computed so far, and that partition."""
        finer = [each.best() for each in self.halves]
        miss = sum(each for each, _ in finer)
        if not finer or self.step.miss <= miss:
            return self.step.miss, [self]
        return miss, [part for _, parts in finer for part in parts]

    def worst(self) -> "_Tried":
        """Return the step of the subtree with the largest error among those not halved yet."""
        return max((each.worst() for each in self.halves), key=lambda each: each.step.miss) if self.halves else self


def affordable(tokens: int) -> int:
    """Return the maximum number of gradients along the path for a prompt of this length; it is smaller for a long
    prompt, whose gradients take longer.
    """
    return min(MOST, max(16, _BUDGET // tokens))


def forwards(most: int) -> int:
    """Estimate the cost of at most `most` gradients in forward passes: a forward and backward pass costs as much as
    four.
    """
    return 4 * (most + 1) + most // 4 + 1


@public(distractor=unchecked, most=whole(4, MOST_GIVEN))
def gradients(
    run: Trace, position: int, token: int, distractor: int | None = None, most: int = MOST, progress: Progress = silent
) -> Gradients:
    """Compute gradient x activation and integrated gradients of a logit, or of a difference of two, on the token
    embeddings.

    With x_s the embedding of token s and b the baseline, integrated_s = (x_s - b) . (mean over `a` of df/dx_s at b +
    a (x
    - b)); summed over s, that is f(x) - f(b). The mean is approximated by the midpoint rule, first with a quarter of
    `most` equal steps. Then the steps with the largest errors are halved until the sum of errors is small or `most`
    gradients have been computed, because f can jump within a thousandth of the path. If a midpoint falls on such a
    jump,
    the halves can have a larger error than the whole step, so the result uses the partition with the least sum of
    errors
    of all that were computed. `gap` is the remaining error. Position embeddings are not interpolated, the edits of the
    run stay in force, and no gradient of the weights is computed.

    In a model that normalizes its embeddings, x_s is the normalized one: a norm undoes scaling, so gradient x
    activation before it would be 0. The baseline is the mean embedding of the vocabulary, not zero. The slope of an
    RMSNorm at 0 is 1 / sqrt(eps), and the slopes of stacked norms multiply: without position embeddings, slopes near
    zero exceed 10^7 in a model of 30 layers, and no affordable number of steps makes the sum converge.

    `progress(done, at most, "Computing gradients")`, called after every block, may raise to cancel. At most one
    block's graph is in memory. Raises InputError if a position or token is out of range, or if `most` is below 4 or
    above MOST_GIVEN. Source: Sundararajan et al. 2017, section 3; gradient x activation: Shrikumar et al. 2016.
    """
    run.require_key()
    need_causal(run.config)
    need_alone(run.config)
    at = _checked(run, position, token, distractor)
    first = most // 4
    with torch.inference_mode(False):
        total = len(run.model.blocks) * (2 * (most + 1) + first + 1)
        path = _Path(run, _embedded(run, at), _baseline(run, at), token, distractor, _counter(progress, total))
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
    """Return a placeholder step for the whole path, which is never selected because it has no gradient at its
    midpoint.
    """
    return _Step(0.0, 1.0, 0.0, 0.0, 0.0, torch.tensor([math.inf]))


def _first_steps(path: _Path, count: int) -> list[_Tried]:
    """Partition the path into equal steps."""
    ends = [n / count for n in range(count + 1)]
    f = _values(path, ends)
    middles, slopes = _slopes(path, [(n + 0.5) / count for n in range(count)], path.x - path.base)
    return [_Tried(_Step(ends[n], ends[n + 1], f[n], f[n + 1], middles[n], slopes[n])) for n in range(count)]


def _halve(path: _Path, tried: Sequence[_Tried]) -> None:
    """Split each step into two halves."""
    steps = [each.step for each in tried]
    halves = [half for s in steps for half in ((s.a, s.middle, s.f_a, s.f_middle), (s.middle, s.b, s.f_middle, s.f_b))]
    middles, slopes = _slopes(path, [(a + b) / 2 for a, b, _, _ in halves], path.x - path.base)
    refined = [_Tried(_Step(*half, middles[n], slopes[n])) for n, half in enumerate(halves)]
    for n, each in enumerate(tried):
        each.halves = refined[2 * n : 2 * n + 2]


# --- f and its gradient at points of the path -------------------------------------------------------


def _values(path: _Path, shares: Sequence[float]) -> list[float]:
    """Evaluate f at the given fractions of the path."""
    values: list[float] = []
    with torch.no_grad():
        for x in path.batches(shares):
            values += _target(path, _streams(path, x)[-1][:, -1]).tolist()
    return values


def _slopes(path: _Path, shares: Sequence[float], along: Tensor) -> tuple[list[float], Tensor]:
    """Compute f at the given fractions of the path, and along_s . df/dx_s of every token. along [t, D] -> [B], [B, t]
    float64

    Runs a forward pass without a graph, then backpropagates block by block and recomputes each, so that only one
    block's graph is in memory at a time.
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
    """Compute the stream entering each block and leaving the last one, from token embeddings [B, t, D]."""
    run = path.run
    streams = [_first(path, x)]
    for layer, block in enumerate(run.model.blocks):
        streams.append(block(streams[-1], layer, run.prepare(layer, x.shape[1])))
        path.tell(len(x))
    return streams


def _first(path: _Path, x: Tensor) -> Tensor:
    """Compute the stream entering the first block from token embeddings. [B, t, D] -> [B, t, D]"""
    place = embedded_site(path.run.config)
    replaced = Pass(None, attend_fused, None, lambda site, layer, old: x if site == place else old)
    return path.run.model.embed_tokens(_ids(path.run, x.shape[1] - 1), 0, replaced)


def _target(path: _Path, x: Tensor) -> Tensor:
    """Compute the target logit or difference from the last token's stream. [B, D] -> [B] float64"""
    model = path.run.model
    x = (x if model.final_norm is None else model.final_norm(x)).double()
    logit = _logit(model, x, path.token)
    return logit if path.distractor is None else logit - _logit(model, x, path.distractor)


def _logit(model: Transformer, x: Tensor, token: int) -> Tensor:
    """Compute one logit of normalized rows. [B, D] float64 -> [B]"""
    weight, bias, config = model.unembed.weight.detach(), model.unembed.bias, model.config
    logit = x @ weight[token].double()
    logit = logit if bias is None else logit + bias.detach()[token].double()
    return capped(logit * config.logit_multiplier, config.logit_cap)


def _counter(progress: Progress, total: int) -> Callable[[int], None]:
    """Return a function that adds to a counter and reports the sum as progress."""
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total, "Computing gradients")

    return tell


# --- ends of the path -------------------------------------------------------------------------------


def embedded_site(config: ModelConfig) -> str:
    """Return the site of the embeddings on which gradients are taken: after their norm, if the model has one, since a
    norm undoes any scaling.
    """
    return "embed_norm_out" if config.embed_norm else "embed"


def _embedded(run: Trace, at: int, row: Tensor | None = None) -> Tensor:
    """Return the token embeddings of the prompt up to a position, scaled and normalized where the config requires it.
    [t, D]

    `row` [D] replaces the scaled embedding of every token.
    """
    store: dict[tuple[str, int], Tensor] = {}

    def replace(site: str, layer: int, x: Tensor) -> Tensor:
        return row.expand_as(x) if site == "embed" and row is not None else x

    place = embedded_site(run.config)
    with torch.no_grad():
        tap = compose(replace, record({place}, store))
        own = run.embedding_pass(tap) if row is None else Pass(None, attend_fused, None, tap)
        run.model.embed_tokens(_ids(run, at), 0, own)
    return store[place, -1][0]


def _baseline(run: Trace, at: int) -> Tensor:
    """Compute the mean of all rows of the embedding matrix, scaled and normalized in the same way. [t, D]"""
    return _embedded(run, at, run.model.embed.weight.detach().mean(0) * run.config.embed_factor)


def _ids(run: Trace, at: int) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(run.tokens.ids[None, : at + 1], dtype=np.int64))


def _checked(run: Trace, position: int, token: int, distractor: int | None) -> int:
    """Return the position as a nonnegative index. Raises InputError for an invalid position or token."""
    T, vocab = len(run.tokens), run.config.vocab_size
    check_position(position, T, from_end=True)
    check_token(token, vocab)
    if distractor is not None:
        check_token(distractor, vocab)
    return position % T
