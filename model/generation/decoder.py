"""The interface of decoders: their settings, inputs and decisions."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from model.errors import CheckpointError
from model.forgetting.policies import Policy
from model.gpt.edits import Edit
from model.kernels import ready
from model.public import public, unchecked
from model.sampling.fits import Fit
from model.sampling.pipeline import Context, Parameter, Step, draw, second, softmax
from model.sampling.warps import probabilities_of
from model.tracing.ranking import top_ids

TOP = 8  # number of alternatives stored with every token
_NOTHING = -1e4  # its exp is 0 in float64; unlike with -inf, the product with 0 is 0


@public(steps=unchecked, method=unchecked)
@dataclass(frozen=True)
class Strategy:
    """Settings of a decoder: a method with its options, and the warps applied before it."""

    steps: tuple[Step, ...] = ()
    method: str = "sample"  # a key of METHODS
    options: tuple[tuple[str, float], ...] = ()  # options of the method; missing ones take their defaults
    name: str = ""
    memory: Policy | None = None  # eviction policy of the cache; None: all keys stay


@dataclass(frozen=True)
class GeneratedToken:
    """One token of a generated text, and its alternatives."""

    id: int
    log_probability: float  # log-probability in the model itself, without warps, nats
    rank: int  # rank in the model itself; 1 is the most likely
    entropy: float  # entropy of the model's distribution, nats
    probability: float  # probability after the warps; NaN if the method does not draw
    kept: int  # number of tokens left by the warps
    uniform: float  # the random number; NaN if the method does not draw
    top: tuple[tuple[int, float, float], ...]  # most likely tokens: id, probability, probability after the warps
    fit: Fit | None = None  # what the rule said before this token; None without a rule


@dataclass(frozen=True)
class Change:
    """Effect of a step on a text: tokens removed from its end, then tokens appended. Only searches remove tokens."""

    made: tuple[GeneratedToken, ...] = ()
    drop: int = 0
    # "end", "stop", "length", "context", "rule" (complete) or "stuck" (no token fits); "" while the text continues
    ended: str = ""
    others: tuple[tuple[tuple[int, ...], float], ...] = ()  # after a search: the best texts and their scores
    passes: int = 1  # forward passes of this step; 0 if the token before it was forced, which an earlier pass has read


@dataclass(frozen=True)
class Decision:
    """Input of the next forward pass, one token per row with the decoder's row that it continues, and the change of the
    text.
    """

    ids: tuple[int, ...]
    source: tuple[int, ...]
    change: Change


@dataclass(frozen=True)
class DecodingPlan:
    """Settings shared by all strategies, besides the prompt."""

    max_new_tokens: int = 40
    seed: int = 0
    shared: bool = True  # whether all strategies get the same random numbers
    first_step: int = 0  # index of the first new token; a branch continues the count
    prompt: int | None = None  # length of the prompt if a strategy generated some of the ids
    ending: frozenset[int] = frozenset()  # tokens that end a text
    stop: tuple[str, ...] = ()  # stop texts
    numbers: tuple[int, ...] = ()  # random stream of each strategy if not `shared`; () for 0, 1, 2 ...
    edits: tuple[Edit, ...] = ()  # edits of the model for all strategies (model.generation.edited)
    skip_forced: bool = True  # whether forced tokens share a forward pass (model.generation.forced)


@dataclass(frozen=True, eq=False)
class Setup:
    """Shared inputs of all decoders of a run."""

    ids: tuple[int, ...]  # [T]
    plan: DecodingPlan
    size: int  # vocabulary size
    text: Callable[[Sequence[int]], str] | None
    room: int = 1 << 30  # number of new tokens that fit in the context; one more may be generated
    read: Callable[[Tensor], Tensor] | None = None  # final normalized states [n, D] -> logits [n, V]

    @property
    def prompt(self) -> int:
        """Length of the prompt in tokens."""
        return len(self.ids) if self.plan.prompt is None else self.plan.prompt

    def stream(self, row: int) -> int:
        """Return the row of a strategy's random numbers."""
        plan = self.plan
        return 0 if plan.shared else (plan.numbers[row] if plan.numbers else row)

    def context(
        self, steps: tuple[Step, ...], written: Sequence[int], row: int, memory: float | None = None
    ) -> Context:
        """Return the inputs of the warps for the token after these new tokens."""
        return self.context_of((*self.ids, *written), steps, row, memory)

    def context_of(self, ids: tuple[int, ...], steps: tuple[Step, ...], row: int, memory: float | None) -> Context:
        """Return the inputs of the warps for the token after these ids, which may end before those of the run."""
        chance = None
        if probabilities_of(steps):
            chance = second(self.plan.seed, self.plan.first_step + len(ids) - len(self.ids), self.stream(row))
        return Context(ids, self.prompt, memory, chance)

    def ended(self, written: Sequence[int]) -> str:
        """Return why a text ends after these new tokens, or "" if it does not. Must be called after every token."""
        if written and written[-1] in self.plan.ending:
            return "end"
        if written and self.plan.stop and self.text and self._has_stop_text(written):
            return "stop"
        if len(written) >= self.plan.max_new_tokens:
            return "length"
        return "context" if len(written) > self.room else ""

    def _has_stop_text(self, written: Sequence[int]) -> bool:
        """Return True if the text now contains a complete stop text.

        Only the last tokens are decoded: each token has at least one byte, so they contain any stop text that has just
        been completed. Tokens that a strategy wrote before this run count; the prompt does not.
        """
        longest = max(len(stop.encode("utf-8", "replace")) for stop in self.plan.stop)
        tail = [*written[-longest:]]
        if len(tail) < longest:
            before = self.ids[self.prompt :]
            tail = [*before[max(0, len(before) - longest + len(tail)) :], *tail]
        return any(stop in self.text(tail) for stop in self.plan.stop)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of logits after a forward pass, with the statistics that all decoders need."""

    logits: Tensor  # float32 [N, V], -inf for vocabulary rows without a token
    sums: np.ndarray  # max, mass = sum exp(x - max), and sum exp(x - max) (x - max). float64 [N, 3]
    top: Tensor  # the most likely tokens in decreasing order. int64 [N, TOP]

    def between(self, start: int, stop: int) -> Self:
        """Return rows `start` to `stop` (exclusive) as views."""
        return type(self)(*(getattr(self, field.name)[start:stop] for field in dataclasses.fields(self)))

    @property
    def total(self) -> np.ndarray:
        """The logarithm of the sum of exp(logit): max + ln mass. float64 [N]"""
        return self.sums[:, 0] + np.log(self.sums[:, 1])

    @property
    def entropy(self) -> np.ndarray:
        """The entropy of the softmax in nats: ln mass - sum exp(x - max) (x - max) / mass. float64 [N]"""
        return np.log(self.sums[:, 1]) - self.sums[:, 2] / self.sums[:, 1]

    def probabilities(self, row: int) -> np.ndarray:
        """Compute the softmax of a row. float64 [V]"""
        return self.logits[row].double().sub_(self.sums[row, 0]).exp_().div_(self.sums[row, 1]).numpy()

    def probabilities_of(self, row: int, ids: np.ndarray) -> np.ndarray:
        """Compute the softmax of a row at the given tokens. float64 [n]"""
        return np.exp(self.logits[row].numpy()[ids].astype(np.float64) - self.sums[row, 0]) / self.sums[row, 1]


def rows_of(logits: Tensor) -> Rows:
    """Compute the sums of the softmax in float64, and the TOP most likely tokens. logits [N, V]

    Raises CheckpointError if a logit is NaN or infinite, except for -inf.
    """
    loops = ready.soon()
    sums, top = _sums(logits) if loops is None else _compiled_sums(loops, logits)
    check_finite(float(sums[:, :2].sum()))
    return Rows(logits, sums, top)


def check_finite(number: float) -> None:
    """Raise CheckpointError if a number computed by the model is NaN or infinite."""
    if not math.isfinite(number):
        hint = "Its weights may be damaged, or its training diverged."
        raise CheckpointError("The model's outputs are not finite.", "", hint)


def _compiled_sums(loops: ModuleType, logits: Tensor) -> tuple[np.ndarray, Tensor]:
    """Compute `_sums` with a compiled loop."""
    n, size = logits.shape
    sums, top = np.empty((n, 3)), np.empty((n, min(TOP, size)), np.int64)
    loops.survey(logits.contiguous().numpy(), sums, top)
    return sums, torch.from_numpy(top)


def _sums(logits: Tensor) -> tuple[np.ndarray, Tensor]:
    """Compute `Rows.sums` and `Rows.top` of logits [N, V]."""
    sums = []
    for row in logits:  # a single row fits in the processor's cache
        wide = row.double()
        largest = float(wide.max())
        wide.sub_(largest).clamp_(min=_NOTHING)
        shares = wide.exp()
        sums.append((largest, float(shares.sum()), float(shares @ wide)))
    return np.array(sums), top_ids(logits, TOP)


@dataclass(frozen=True, eq=False)
class WarpedRow:
    """A row's distribution after the warps. If few tokens remain, only those are stored."""

    shares: np.ndarray  # probabilities, float64 [V], 0 for an excluded token; with `ids`, of those tokens [n]
    kept: int
    ids: np.ndarray | None = None  # in increasing order; None: all tokens
    size: int = 0  # V

    @functools.cached_property
    def probabilities(self) -> np.ndarray:
        """The probabilities of all tokens. float64 [V]"""
        if self.ids is None:
            return self.shares
        full = np.zeros(self.size)
        full[self.ids] = self.shares
        return full

    def of(self, tokens: np.ndarray) -> np.ndarray:
        """Return the probabilities of the given tokens, 0 for an excluded token."""
        if self.ids is None:
            return self.shares[tokens]
        at = np.minimum(np.searchsorted(self.ids, tokens), len(self.ids) - 1)
        return np.where(self.ids[at] == tokens, self.shares[at], 0.0)

    def draw(self, u: float) -> int:
        """Draw a token with the uniform random number u, as in `model.sampling.pipeline.draw`."""
        place = draw(self.shares, u)
        return place if self.ids is None else int(self.ids[place])


def warped_row(rows: Rows, row: int, warped: Tensor | None) -> WarpedRow:
    """Return a row's distribution after the warps, if any. warped [V] or None"""
    logits = (rows.logits[row] if warped is None else warped).numpy()
    inside = logits > -np.inf
    count = int(np.count_nonzero(inside))
    if warped is None:
        return WarpedRow(rows.probabilities(row), count)
    if count > len(logits) // 8:
        return WarpedRow(warped.double().softmax(-1).numpy(), count)
    ids = np.flatnonzero(inside)
    return WarpedRow(softmax(logits[ids]), count, ids, len(logits))


def generated_token(
    rows: Rows, row: int, after: WarpedRow, id: int, u: float | None = None, fit: Fit | None = None
) -> GeneratedToken:
    """Return a token with its statistics. `u` is the random number of the draw, or None if the token was not drawn."""
    logits = rows.logits[row].numpy()
    value = logits[id]
    rank = np.count_nonzero(logits[:id] >= value) + np.count_nonzero(logits[id:] > value) + 1
    ids = rows.top[row].numpy()
    top = tuple(zip(ids.tolist(), rows.probabilities_of(row, ids).tolist(), after.of(ids).tolist(), strict=True))
    log_probability, entropy = float(value - rows.total[row]), float(rows.entropy[row])
    chance = (float("nan"), float("nan")) if u is None else (float(after.of(np.array(id))), u)
    return GeneratedToken(id, log_probability, rank, entropy, chance[0], after.kept, chance[1], top, fit)


def measured(
    logits: Tensor, warped: Tensor, id: int, u: float = float("nan"), fit: Fit | None = None
) -> GeneratedToken:
    """Compute a token's statistics from the logits of one position [V] and the logits after the warps [V].

    The probability is also given for a token that was not drawn.
    """
    rows = rows_of(logits[None])
    return dataclasses.replace(generated_token(rows, 0, warped_row(rows, 0, warped), id, 0.0, fit), uniform=u)


class Decoder(Protocol):
    """The decoder of one strategy during a run. `width` is its maximum number of rows."""

    strategy: Strategy
    width: int

    def decide(self, rows: Rows, hidden: Callable[[], Tensor]) -> Decision:
        """Decide on the next tokens from the logits of the decoder's rows.

        `hidden` returns their final normalized states [n, D]; in the first call, those of the prompt [T, D].
        """

    def row_texts(self) -> Sequence[tuple[int, ...]]:
        """Return the new tokens of each row, including the one that the last decision gave it."""


@dataclass(frozen=True)
class Method:
    """An entry of METHODS. Its label and help are the words "method.<key>" and "method_help.<key>"."""

    start: Callable[[Strategy, Setup, int], Decoder]  # (strategy, setup, index of the strategy)
    parameters: tuple[Parameter, ...]
    source: str


def numbers(strategy: Strategy, parameters: Sequence[Parameter]) -> Mapping[str, float]:
    """Return all options of a strategy's method, including the defaults of missing ones."""
    return {parameter.name: parameter.default for parameter in parameters} | dict(strategy.options)
