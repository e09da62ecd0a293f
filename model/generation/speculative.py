"""Speculative decoding: a draft proposes several tokens, and the model verifies all of them in one forward pass.

Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2. The text has exactly the distribution of the model
alone, whatever the draft proposes: a poor draft only costs time.

    text so far      proposed by the draft       verified by the model         written
    The cat    ->    sat  on  a  big       ->    yes  yes  no  (unread)   ->   sat on the
                                                          └ drawn from the residual distribution
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from model.errors import DeadEnd
from model.generation.decoder import check_finite
from model.generation.lookup import lookup
from model.generation.requests import MOST_DRAFTED, Draft, Request, check_request
from model.gpt.cache import KVCache
from model.gpt.config import of_layers
from model.gpt.transformer import Transformer, share_ends
from model.public import listed, public
from model.sampling.fits import ended_by_rule
from model.sampling.pipeline import Context, draw, second, softmax, uniform, usable
from model.sampling.warps import probabilities_of, remembered, run_steps

# Random streams of a step by use. Plain sampling draws its tokens from stream 0, so a draft that equals
# the model generates, token by token, the text of plain sampling.
_DRAW, _ACCEPT, _AGAIN = 0, 1, 2


@dataclass(frozen=True)
class Proposal:
    """A proposed token and the result of its verification."""

    id: int
    p: float  # the model's probability, after the warps
    q: float  # the draft's probability, after the warps
    expected: float  # sum of min(p, q) over the vocabulary: the acceptance probability at this position
    uniform: float  # random number: the proposal is accepted if it is below p / q; NaN if it was not verified
    fate: str  # "accepted", "rejected", or "unread" after a rejected one


@dataclass(frozen=True)
class Round:
    """One forward pass of the model: the proposals, and the token drawn from the model itself."""

    proposals: tuple[Proposal, ...]
    token: int | None  # None if an accepted proposal ended the text
    kind: str  # "corrected" after a rejection, "bonus" if all were accepted, "" if there is no token
    chance: float  # probability with which the token was drawn; NaN if there is no token
    uniform: float  # random number of the draw; NaN if there is no token
    draft_seconds: float
    target_seconds: float
    ended: str = ""  # "end", "length", "context", "rule", "stuck"; "" while the text continues

    @property
    def accepted(self) -> int:
        """Number of accepted proposals."""
        return sum(each.fate == "accepted" for each in self.proposals)

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens generated in this round."""
        accepted = tuple(each.id for each in self.proposals if each.fate == "accepted")
        return accepted if self.token is None else (*accepted, self.token)


# --- the rule ---


def residual(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return max(0, p - q), normalized: the distribution after a rejected proposal. [V], [V] -> [V]

    Leviathan et al. 2023, section 2.3. P(x accepted) + P(rejected) residual(x) = min(p, q) + (1 - sum min(p, q))
    residual(x) = p(x).
    """
    excess = np.maximum(p - q, 0)
    total = excess.sum()
    return excess / total if total > 0 else p  # p = q, which is never rejected


def verify(
    p: np.ndarray, q: np.ndarray, proposed: Sequence[int], accepting: Sequence[float], drawing: Sequence[float]
) -> tuple[int, int]:
    """Return the number of accepted proposals, and the token after them. Leviathan et al. 2023, algorithm 1.

    p [g + 1, V] and q [g, V] are the model's and the draft's probabilities at each position; the tokens `proposed` [g]
    have q > 0. `accepting` [g] and `drawing` [g + 1] are uniform random numbers: a proposal is accepted if its number
    in `accepting` is below p / q, and the token after the accepted proposals is drawn with the number in `drawing` at
    that position. Raises ValueError if the lengths do not match.
    """
    g = len(proposed)
    if len(p) != g + 1 or len(q) != g or len(accepting) != g or len(drawing) != g + 1:
        raise ValueError(f"{g} proposals need p {g + 1}, q {g}: got {p.shape}, {q.shape}")
    for place, (token, u) in enumerate(zip(proposed, accepting, strict=True)):
        if not u * q[place, token] < p[place, token]:
            return place, draw(residual(p[place], q[place]), drawing[place])
    return g, draw(p[g], drawing[g])


# --- probabilities along a text ---


@dataclass(eq=False)
class Reader:
    """A model with the cache of the tokens it has processed, and the warps for its logits."""

    model: Transformer
    cache: KVCache
    request: Request
    prompt: int  # length of the prompt, which penalties may treat separately

    def logits(self, text: Sequence[int], rows: int) -> Tensor:
        """Return the logits of the last `rows` positions of a text; only uncached tokens are processed. [rows, V]"""
        stream = self.model.trunk(torch.tensor([text[self.cache.length :]]), cache=self.cache)
        logits = usable(self.model.logits(stream[:, -rows:], cached=True)[0].float(), self.request.size)
        check_finite(float(logits.amax(-1).sum()))  # NaN if any logit is NaN
        return logits

    def probabilities(self, logits: Tensor, text: Sequence[int], memory: float | None) -> np.ndarray:
        """Return the next-token probabilities after the warps. logits [V] -> float64 [size]"""
        steps, chance = self.request.steps, None
        if probabilities_of(steps):
            chance = second(self.request.seed, len(text) - self.prompt)  # the draft and the model share it
        warped = run_steps(logits, steps, Context(tuple(text), self.prompt, memory, chance))
        return softmax(warped.numpy())[: self.request.size]

    def along(
        self, text: Sequence[int], proposed: Sequence[int], memory: float | None
    ) -> tuple[np.ndarray, list[float | None]]:
        """Compute, in one forward pass, the next-token probabilities at each proposed token and after the last one.

        Returns the probabilities [g + 1, size], and the state of the warps with a memory at each position; fewer rows
        if no token fits the rule after a proposal. Raises DeadEnd if none fits after the text.
        """
        both, rows, memories = [*text, *proposed], [], [memory]
        logits = self.logits(both, len(proposed) + 1)
        for place in range(len(proposed) + 1):
            try:
                rows.append(self.probabilities(logits[place], both[: len(text) + place], memories[-1]))
            except DeadEnd:
                if place == 0:
                    raise
                return np.stack(rows), memories  # the proposal before this place leads nowhere
            if place < len(proposed):
                chance = float(rows[-1][proposed[place]])  # if 0, it is rejected and ends the round
                memories.append(remembered(self.request.steps, memories[-1], chance) if chance else memories[-1])
        return np.stack(rows), memories

    def closed(self, text: Sequence[int]) -> str:
        """Return "rule" if a rule ends the text, otherwise ""."""
        return ended_by_rule(self.request.steps, Context(tuple(text), self.prompt))

    def until_closed(self, text: Sequence[int], proposed: list[int]) -> list[int]:
        """Return the proposals up to the one with which a rule ends the text."""
        if not any(step.rule for step in self.request.steps):
            return proposed
        ends = [place for place in range(1, len(proposed)) if self.closed([*text, *proposed[:place]])]
        return proposed[: ends[0]] if ends else proposed

    def forget(self, length: int) -> None:
        """Truncate the cache to at most this many positions."""
        self.cache.truncate(min(length, self.cache.length))


@torch.inference_mode()
def reader(model: Transformer, ids: Sequence[int], request: Request, cache: KVCache | None = None) -> Reader:
    """Return a reader that has processed all ids [T] but the last, with room for the request.

    `cache` may already contain these ids; it is modified.
    """
    if cache is None:
        room = min(model.config.n_ctx, len(ids) + request.max_new_tokens + MOST_DRAFTED)
        cache = KVCache.empty(model.config, 1, room)
        if len(ids) > 1:
            model.trunk(torch.tensor([ids[:-1]]), cache=cache)
    return Reader(model, cache, request, len(ids))


# --- drafts ---


class Proposer(Protocol):
    """Source of proposals during generation."""

    def propose(self, text: Sequence[int], most: int, memory: float | None) -> tuple[list[int], np.ndarray]:
        """Return at most `most` tokens to continue a text, and the probabilities q
        [g, size] from which each was drawn.
        """

    def forget(self, length: int) -> None:
        """Drop the state of rejected tokens after the first `length` tokens."""


@dataclass(eq=False)
class Drawn:
    """A proposer that draws from a smaller or other model."""

    reader: Reader

    def propose(self, text: Sequence[int], most: int, memory: float | None) -> tuple[list[int], np.ndarray]:
        request, proposed, q = self.reader.request, [], []
        most = min(most, self.reader.cache.capacity - len(text) + 1)  # a small model may have a short context
        while len(proposed) < most:
            extended = [*text, *proposed]
            if proposed and self.reader.closed(extended):
                break
            try:
                q.append(self.reader.probabilities(self.reader.logits(extended, 1)[0], extended, memory))
            except DeadEnd:
                break
            proposed.append(draw(q[-1], uniform(request.seed, len(extended) - self.reader.prompt, _DRAW)))
            memory = remembered(request.steps, memory, float(q[-1][proposed[-1]]))
            if proposed[-1] in request.ending:
                break
        return proposed, np.array(q).reshape(len(proposed), request.size)

    def forget(self, length: int) -> None:
        self.reader.forget(length)


@dataclass(eq=False)
class Lookup:
    """A proposer that repeats the tokens after an earlier occurrence of the last tokens, at negligible cost."""

    n: int
    request: Request

    def propose(self, text: Sequence[int], most: int, memory: float | None) -> tuple[list[int], np.ndarray]:
        proposed = lookup(text, self.n, most)
        ends = [place for place, token in enumerate(proposed) if token in self.request.ending]
        proposed = proposed[: ends[0] + 1] if ends else proposed
        q = np.zeros((len(proposed), self.request.size))
        q[np.arange(len(proposed)), proposed] = 1  # a lookup proposes with probability 1
        return proposed, q

    def forget(self, length: int) -> None:
        """Do nothing, since a lookup has no state."""


@torch.inference_mode()
def first_layers(model: Transformer, n: int) -> Transformer:
    """Return a model of the first n blocks with the same embeddings, final norm and output head.
    No weight is copied.
    """
    with torch.device("meta"):
        short = Transformer(of_layers(model.config, range(n)))
    share_ends(short, model)
    short.blocks = model.blocks[:n]
    return short.eval()


def _own_layers(model: Transformer, ids: Sequence[int], draft: Draft, request: Request) -> Proposer:
    return Drawn(reader(first_layers(model, draft.n), ids, request))


def _other_model(model: Transformer, ids: Sequence[int], draft: Draft, request: Request) -> Proposer:
    return Drawn(reader(draft.model, ids, request))


def _ngrams(model: Transformer, ids: Sequence[int], draft: Draft, request: Request) -> Proposer:
    return Lookup(draft.n, request)


_PROPOSERS: dict[str, Callable[[Transformer, Sequence[int], Draft, Request], Proposer]] = {
    "layers": _own_layers,
    "ngram": _ngrams,
    "model": _other_model,
}


# --- the loop ---


@public(ids=listed)
def speculate(
    model: Transformer, ids: Sequence[int], draft: Draft, request: Request, cache: KVCache | None = None
) -> Iterator[Round]:
    """Continue ids [T] with those of the draft's proposals that the model accepts, one round per forward pass of the
    model.

    `cache` may already hold all ids but the last; it is modified. The same seed gives the same text. With one possible
    token at each position (temperature 0), the text is that of plain decoding, unless the two largest logits differ by
    no more than float32 rounding: a forward pass over several tokens sums in another order than one over a single
    token. Raises InputError immediately for a prompt or a draft that does not fit the model. A round raises
    CheckpointError if logits are not finite.
    """
    check_request(model, ids, draft, request)
    return _rounds(model, list(ids), draft, request, cache)


@torch.inference_mode()
def _rounds(
    model: Transformer, ids: list[int], draft: Draft, request: Request, cache: KVCache | None
) -> Iterator[Round]:
    """Yield the rounds of a validated request."""
    target, proposer = reader(model, ids, request, cache), _PROPOSERS[draft.kind](model, ids, draft, request)
    room = model.config.n_ctx - len(ids) + 1  # the last token is never an input
    full = "length" if request.max_new_tokens <= room else "context"
    state = _Text(ids, min(request.max_new_tokens, room), full)
    while state.left > 0:
        yield _round(target, proposer, state)
        if state.ended:
            return


@dataclass(eq=False)
class _Text:
    """State of the text during generation."""

    ids: list[int]
    most: int  # maximum number of new tokens
    full: str  # why it ends after `most` tokens
    memory: float | None = None
    ended: str = ""
    prompt: int = field(init=False)

    def __post_init__(self) -> None:
        self.prompt = len(self.ids)

    @property
    def left(self) -> int:
        return self.most - (len(self.ids) - self.prompt)


def _round(target: Reader, proposer: Proposer, state: _Text) -> Round:
    request, length = target.request, len(state.ids)
    began = time.perf_counter()
    proposed, q = proposer.propose(state.ids, min(request.gamma, state.left - 1), state.memory)
    drafted = time.perf_counter()
    proposed = target.until_closed(state.ids, proposed)
    try:
        p, memories = target.along(state.ids, proposed, state.memory)
    except DeadEnd:
        return _last_round((), "stuck", drafted - began, time.perf_counter() - drafted, state)
    proposed, q = proposed[: len(p) - 1], q[: len(p) - 1]
    numbers = range(length - state.prompt, length - state.prompt + len(proposed) + 1)  # indices of the new tokens
    accepting = [uniform(request.seed, number, _ACCEPT) for number in numbers[:-1]]
    drawing = [uniform(request.seed, number, _AGAIN) for number in numbers[:-1]]
    drawing.append(uniform(request.seed, numbers[-1], _DRAW))
    accepted, token = verify(p, q, proposed, accepting, drawing)
    done = time.perf_counter()
    target.forget(length + accepted)
    proposer.forget(length + accepted)
    proposals = tuple(
        _proposal(p, q, place, proposed[place], accepting[place], accepted) for place in range(len(proposed))
    )
    state.ids += proposed[:accepted]
    if ended := "end" if accepted and proposed[accepted - 1] in request.ending else target.closed(state.ids):
        return _last_round(proposals, ended, drafted - began, done - drafted, state)
    state.ids.append(token)
    corrected = accepted < len(proposed)
    chance = float((residual(p[accepted], q[accepted]) if corrected else p[accepted])[token])
    state.memory = remembered(request.steps, memories[accepted], float(p[accepted, token]))
    state.ended = "end" if token in request.ending else target.closed(state.ids)
    state.ended = state.ended or ("" if state.left else state.full)
    return Round(
        proposals,
        token,
        "corrected" if corrected else "bonus",
        chance,
        drawing[accepted],
        drafted - began,
        done - drafted,
        state.ended,
    )


def _last_round(
    proposals: tuple[Proposal, ...], ended: str, draft_seconds: float, target_seconds: float, state: _Text
) -> Round:
    """Return a round without a token of the model's own, and end the text."""
    state.ended = ended
    return Round(proposals, None, "", math.nan, math.nan, draft_seconds, target_seconds, ended)


def _proposal(p: np.ndarray, q: np.ndarray, place: int, token: int, u: float, accepted: int) -> Proposal:
    fate = "accepted" if place < accepted else "rejected" if place == accepted else "unread"
    return Proposal(
        token,
        float(p[place, token]),
        float(q[place, token]),
        float(np.minimum(p[place], q[place]).sum()),
        u if fate != "unread" else math.nan,
        fate,
    )
