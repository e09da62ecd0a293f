"""Expected and measured speed-up of speculative decoding: acceptance, tokens per call, and time.

Leviathan et al. 2023 predict both from two numbers: the acceptance rate (a), and the ratio of the draft's time per
token to the time of a forward pass of the model (c). Their theorem 3.8 assumes that a forward pass over several tokens
costs as much as one over a single token, which is nearly true on memory-bound accelerators; here, the ratio of the two
costs is `v`.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median

import torch

from model.generation.requests import PLAIN, Draft, Request, check_request
from model.generation.speculative import Reader, Round, reader, speculate
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import listed, public
from model.sampling.fits import nothing_fits

GAMMAS = tuple(range(1, 9))  # values of gamma for which the cost of a forward pass is measured
_TRIES = 3
_TELL = 0.1  # minimum seconds between two progress reports, during which other threads may use the model
_STALL = 3  # multiple of the median; longer runs were delayed by other work on the machine


@dataclass(frozen=True, eq=False)
class Compared:
    """A text generated with a draft, and as many tokens generated without one, alternately on one machine."""

    rounds: tuple[Round, ...]
    plain: tuple[Round, ...]  # one token per round
    forwards: tuple[tuple[int, float], ...]  # (number of tokens, seconds) of a forward pass, including the warps

    @property
    def tokens(self) -> tuple[int, ...]:
        """The text generated with the draft."""
        return tuple(token for each in self.rounds for token in each.tokens)

    @property
    def plain_tokens(self) -> tuple[int, ...]:
        """The text generated without a draft."""
        return tuple(token for each in self.plain for token in each.tokens)


@dataclass(frozen=True)
class Summary:
    """Statistics of a comparison. Seconds are means limited by `unstalled`; NaN if nothing was proposed."""

    calls: int
    written: int
    proposed: int
    tested: int  # number of verified proposals, up to the first rejected one of each round
    accepted: int
    acceptance: float  # accepted / tested
    expected: float  # mean of sum min(p, q) over the verified proposals. Leviathan et al. 2023, theorem 3.5
    spread: float  # standard deviation of the acceptance around `expected`
    per_call: float  # measured tokens per forward pass of the model
    predicted_per_call: float  # by eq. 1 of Leviathan et al. 2023
    plain: float  # seconds per token without a draft
    speculative: float  # seconds per token with the draft
    draft: float  # seconds per proposed token
    check: float  # seconds per call of the model
    c: float  # draft / plain
    v: float  # check / plain
    speed: float  # plain / speculative
    theorem: float  # speed-up predicted by theorem 3.8
    predicted: float  # speed-up predicted with the measured cost of verification
    covered: float  # of the calls with room for a proposal, the fraction that got one
    needed: float  # acceptance at which it is as fast as plain decoding; infinite if no acceptance suffices


@public(ids=listed)
@torch.inference_mode()
def compare(
    model: Transformer, ids: Sequence[int], draft: Draft, request: Request, progress: Progress = silent
) -> Compared:
    """Continue ids [T] alternately with and without the draft, so that a slowdown of the machine affects both.

    Raises the errors of `speculate`.
    """
    check_request(model, ids, draft, request)
    first = reader(model, ids, request)
    everyone = torch.tensor([0])
    fast = speculate(model, ids, draft, request, first.cache.rows(everyone))
    slow = speculate(model, ids, PLAIN, request, first.cache.rows(everyone))
    rounds, plain, total = [], [], request.max_new_tokens + 4
    reported = time.perf_counter()
    for drafted in fast:
        rounds.append(drafted)
        for step in islice(slow, len(drafted.tokens)):
            plain.append(step)
            if time.perf_counter() - reported > _TELL:  # the first forward pass after a pause is slower
                progress(min(len(plain), total), total, "")
                reported = time.perf_counter()
    return Compared(tuple(rounds), tuple(plain), tuple(_forwards(first, ids, progress)))


def _forwards(first: Reader, ids: Sequence[int], progress: Progress) -> Iterator[tuple[int, float]]:
    """Yield the minimum seconds of several forward passes over 1 .. 9 tokens after the prompt, as far as the context
    allows.
    """
    room = first.cache.capacity - first.cache.length
    widths = [width for width in (1, *(gamma + 1 for gamma in GAMMAS)) if width <= room]
    best = dict.fromkeys(widths, float("inf"))
    for _ in range(_TRIES):
        for width in widths:
            progress(1, 1, "")
            began = time.perf_counter()
            first.along(ids, [ids[-1]] * (width - 1), None)
            best[width] = min(best[width], time.perf_counter() - began)
            first.forget(len(ids) - 1)
    return iter(best.items())


def tokens_per_call(acceptance: float, gamma: float) -> float:
    """Compute the mean number of tokens per call, (1 - a^(g + 1)) / (1 - a), or g + 1 for a = 1. Leviathan et al. 2023,
    eq. 1.
    """
    return gamma + 1 if acceptance >= 1 else (1 - acceptance ** (gamma + 1)) / (1 - acceptance)


def speed_up(acceptance: float, gamma: float, c: float, v: float = 1.0) -> float:
    """Compute the tokens per call divided by the cost g c + v of a call, in units of a plain decode step.

    With v = 1 it is theorem 3.8 of Leviathan et al. 2023.
    """
    return tokens_per_call(acceptance, gamma) / (gamma * c + v)


def needed_acceptance(gamma: float, c: float, v: float) -> float:
    """Return the acceptance at which `speed_up` is 1: 0 if it is always at least 1,
    infinity if it is always below 1.
    """
    cost = gamma * c + v
    if cost <= 1 or cost > gamma + 1:
        return 0.0 if cost <= 1 else float("inf")
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tokens_per_call(middle, gamma) < cost else (low, middle)
    return high


def unstalled(seconds: Sequence[float]) -> list[float]:
    """Clip the seconds at three times their median, since one stall would otherwise outweigh tens of steps."""
    most = _STALL * median(seconds) if seconds else 0.0
    return [min(each, most) for each in seconds]


def summary(comparison: Compared) -> Summary:
    """Compute the measured and predicted statistics. The prediction uses the number of proposals in each round.

    Raises DeadEnd if no token could be written, since none fits a rule.
    """
    if not comparison.tokens:
        raise nothing_fits()
    rounds, plain, nothing = comparison.rounds, comparison.plain, float("nan")
    tested = [each for one in rounds for each in one.proposals if each.fate != "unread"]
    accepted = sum(each.fate == "accepted" for each in tested)
    n, calls, written = len(tested), len(rounds), len(comparison.tokens)
    proposed = sum(len(one.proposals) for one in rounds)
    expected = sum(each.expected for each in tested) / n if n else nothing
    variance = sum(each.expected * (1 - each.expected) for each in tested)
    a_step = sum(unstalled([one.target_seconds + one.draft_seconds for one in plain])) / len(plain)
    drafting = [one for one in rounds if one.proposals]
    each_draft = unstalled([one.draft_seconds / len(one.proposals) for one in drafting])
    weighted = zip(each_draft, drafting, strict=True)
    draft = sum(seconds * len(one.proposals) for seconds, one in weighted) / proposed if proposed else nothing
    check = sum(unstalled([one.target_seconds for one in rounds])) / calls
    per_token = ((draft * proposed if proposed else 0.0) + check * calls) / written
    c, v, gamma = (draft / a_step if proposed else 0.0), check / a_step, proposed / calls
    a = min(expected, 1.0) if n else 0.0
    per_call = sum(tokens_per_call(a, len(one.proposals)) for one in rounds) / calls
    covered = sum(bool(one.proposals) for one in rounds[:-1]) / max(calls - 1, 1) if calls > 1 else float(proposed > 0)
    return Summary(
        calls,
        written,
        proposed,
        n,
        accepted,
        accepted / n if n else nothing,
        expected,
        max(variance, 0.0) ** 0.5 / n if n else nothing,
        written / calls,
        per_call,
        a_step,
        per_token,
        draft,
        check,
        c,
        v,
        a_step / per_token,
        per_call / (gamma * c + 1),
        per_call / (gamma * c + v),
        covered,
        needed_acceptance(gamma, c, v),
    )


def swept(comparison: Compared) -> list[tuple[int, float, float]]:
    """Return (gamma, speed-up by theorem 3.8, speed-up with the measured cost of verification) for each gamma, from one
    run.

    Calls without a proposal, as with a lookup draft, are assumed to cost and yield the same as plain decoding.
    """
    measured, seconds = summary(comparison), dict(comparison.forwards)
    if not measured.tested:
        return []
    a, s, c = min(measured.expected, 1.0), measured.covered, measured.c
    rows = []
    for gamma in GAMMAS:
        gain = s * tokens_per_call(a, gamma) + 1 - s
        v = seconds[gamma + 1] / seconds[1] if gamma + 1 in seconds else float("nan")
        rows.append((gamma, gain / (s * (gamma * c + 1) + 1 - s), gain / (s * (gamma * c + v) + 1 - s)))
    return rows
