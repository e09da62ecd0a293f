"""Exhaustive search for the most probable continuation, by branch and bound."""

import heapq
import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from model.arguments import check_token
from model.errors import DeadEnd, InputError, say
from model.generation.decoder import DecodingPlan, Setup, Strategy
from model.generation.generate import MOST_TOKENS
from model.generation.search.beam_tree import beam_tree
from model.gpt.cache import KVCache
from model.gpt.mixers.needs import need_next
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import listed, public, unchecked, whole
from model.sampling.fits import ended_by_rule, nothing_fits
from model.sampling.pipeline import Step, usable
from model.sampling.warps import run_steps
from model.tracing.trace import check_length

BATCH = 32  # maximum number of texts per forward pass
MOST_RUN = 1 << 16  # maximum number of beginnings run through the model
_FIRST = Strategy((), "beam", (("beams", 4), ("length_penalty", 0)))


@dataclass(frozen=True)
class MostProbable:
    """The most probable text found, and what is known about all others."""

    ids: tuple[int, ...]
    total: float  # sum of log-probabilities, nats
    exact: bool  # whether no other text is more probable
    bound: float  # no text has a larger sum of log-probabilities; equal to `total` if exact
    runs: int  # number of beginnings run through the model, the prompt included
    passes: int  # number of batched forward passes


@dataclass(eq=False)
class _Expanded:
    """A beginning that the model has continued: its next tokens by decreasing probability."""

    ids: tuple[int, ...]
    tokens: Sequence[int]
    totals: Sequence[float]  # of the beginning with each token


@dataclass(eq=False)
class _Frontier:
    """The beginnings that have not been continued. Of each expanded beginning, only the best remaining token waits."""

    known: float  # sum of log-probabilities of the best complete text so far
    waiting: list[tuple[float, int, int]] = field(default_factory=list)  # (-total, index in `expanded`, rank)
    expanded: list[_Expanded] = field(default_factory=list)

    def add(self, ids: tuple[int, ...], logs: Tensor, total: float) -> None:
        """Add a beginning with the log-probabilities of its next tokens [V], float64."""
        totals = logs + total
        order = totals.argsort(descending=True, stable=True)
        order = order[: int((totals > self.known).sum())]  # the others cannot lead to a better text
        self.expanded.append(_Expanded(ids, order.tolist(), totals[order].tolist()))
        self._wait(len(self.expanded) - 1, 0)

    def pop(self) -> tuple[tuple[int, ...], float]:
        """Return the most probable waiting beginning and its sum of log-probabilities."""
        _, place, rank = heapq.heappop(self.waiting)
        each = self.expanded[place]
        self._wait(place, rank + 1)
        return (*each.ids, each.tokens[rank]), each.totals[rank]

    @property
    def best(self) -> float:
        """The largest sum of log-probabilities that a waiting beginning has, an upper bound of its continuations'."""
        return -self.waiting[0][0] if self.waiting else -math.inf

    def _wait(self, place: int, rank: int) -> None:
        each = self.expanded[place]
        if rank < len(each.totals):
            heapq.heappush(self.waiting, (-each.totals[rank], place, rank))


@public(
    ids=listed,
    n=whole(1, MOST_TOKENS),
    size=whole(1),
    ending=unchecked,
    most_runs=whole(1, MOST_RUN),
    progress=unchecked,
)
@torch.inference_mode()
def most_probable(
    model: Transformer,
    ids: Sequence[int],
    n: int,
    size: int,
    ending: Set[int] = frozenset(),
    most_runs: int = 1024,
    progress: Progress = silent,
    steps: tuple[Step, ...] = (),
) -> MostProbable:
    """Find the most probable continuation of ids [T] among all texts of n tokens and all shorter ones that end with a
    token of `ending`.

    A longer text is never more probable than its beginning. So the search always continues the most probable
    beginnings (up to BATCH in one forward pass) and leaves out those that are less probable than a complete text: the
    result is exact once none is left. The first complete texts come from a beam search. It stops after `most_runs`
    beginnings; the result is then the best text found, and `bound` says how probable another could be at most. `size`
    is the vocabulary size. All probabilities are those after the `steps`, which may also end a text.

    Raises InputError for ids outside the vocabulary, and if the texts exceed the context; DeadEnd if the steps leave no
    text.
    Source: Land and Doig 1960; for language models: Stahlberg and Byrne 2019, algorithm 1.
    """
    need_next(model.config)
    check_length(len(ids), model.config.n_ctx)
    for token in ids:
        check_token(token, size)
    if len(ids) + n - 1 > model.config.n_ctx:
        hint = say("Shorten it to {} tokens or fewer.", model.config.n_ctx - n + 1)
        raise InputError("The prompt is too long for this many new tokens.", f"{len(ids)} + {n}", hint)
    plan = DecodingPlan(n, ending=frozenset(ending))
    tree = beam_tree(model, ids, replace(_FIRST, steps=tuple(steps)), plan, size)
    complete = ((tree.ids(at), tree.candidates[at].total) for at in tree.results)
    best, total = max(complete, key=lambda each: each[1], default=((), -math.inf))
    setup = Setup(tuple(ids), plan, size, None)
    after = _warped(_continuations(model, ids, n, size), setup, steps)
    frontier = _Frontier(total)
    frontier.add((), after([()])[0], 0.0)
    runs, passes = 1, 1
    while frontier.best > total and runs < most_runs:
        batch: list[tuple[tuple[int, ...], float]] = []
        while frontier.best > total and len(batch) < min(BATCH, most_runs - runs):
            text, sum_ = frontier.pop()
            if setup.ended(text) or ended_by_rule(steps, setup.context(steps, text, 0)):
                best, total = text, sum_
                frontier.known = total
            else:
                batch.append((text, sum_))
        if not batch:
            continue
        for (text, sum_), logs in zip(batch, after([text for text, _ in batch]), strict=True):
            frontier.add(text, logs, sum_)
        runs, passes = runs + len(batch), passes + 1
        progress(runs, most_runs, "")
    if not best:
        raise nothing_fits()
    return MostProbable(best, total, frontier.best <= total, max(frontier.best, total), runs, passes)


Texts = Sequence[tuple[int, ...]]


def _warped(after: Callable[[Texts], Tensor], setup: Setup, steps: tuple[Step, ...]) -> Callable[[Texts], Tensor]:
    """Return a function that computes the log-probabilities after the steps; -inf for all tokens if none is left.
    float64 [B, V]
    """

    def warped(logits: Tensor, text: tuple[int, ...]) -> Tensor:
        try:
            return run_steps(logits, steps, setup.context(steps, text, 0)).double().log_softmax(-1)
        except DeadEnd:
            return torch.full_like(logits, -torch.inf, dtype=torch.float64)

    def logs(texts: Texts) -> Tensor:
        logits = after(texts)
        if not steps:
            return logits.double().log_softmax(-1)
        return torch.stack([warped(*each) for each in zip(logits, texts, strict=True)])

    return logs


def _continuations(model: Transformer, ids: Sequence[int], n: int, size: int) -> Callable[[Texts], Tensor]:
    """Return a function that computes the logits of the token after each of several beginnings. float32 [B, V]

    The prompt is run once. Each forward pass continues copies of its cache with beginnings padded at their ends, which
    does not affect earlier positions.
    """
    cache = KVCache.empty(model.config, 1, len(ids) + n)
    first = model.trunk(torch.tensor([list(ids)]), cache=cache)[0, -1:]

    def after(texts: Sequence[tuple[int, ...]]) -> Tensor:
        states = first
        longest = max(map(len, texts))
        if longest:
            index = torch.zeros(len(texts), dtype=torch.int64)
            padded = torch.tensor([[*text, *[0] * (longest - len(text))] for text in texts])
            stream = model.trunk(padded, cache=cache.rows(index))
            states = stream[torch.arange(len(texts)), torch.tensor([len(text) - 1 for text in texts])]
        logits = model.logits(states[:, None])[:, 0].float()
        return usable(logits, size)

    return after
