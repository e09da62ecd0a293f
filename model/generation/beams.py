"""Beam search, which extends several texts in parallel and keeps the most likely ones, in one group or several."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from model.errors import DeadEnd, InputError, say
from model.generation.decoder import (
    Change,
    Decision,
    GeneratedToken,
    Rows,
    Setup,
    Strategy,
    WarpedRow,
    generated_token,
    numbers,
    warped_row,
)
from model.sampling.fits import Fit, ended_by_rule, fit_of
from model.sampling.pipeline import Context, Parameter
from model.sampling.warps import run_steps
from model.tracing.ranking import top_ids

PARAMETERS = (
    Parameter("beams", 1, 16, 4, 1, whole=True),
    Parameter("length_penalty", -2, 2, 1, 0.1),
    Parameter("texts", 1, 16, 3, 1, whole=True),
)
DIVERSE_PARAMETERS = (
    *PARAMETERS,
    Parameter("groups", 1, 16, 2, 1, whole=True),
    Parameter("diversity", 0, 10, 1, 0.1),
)


@dataclass(frozen=True)
class Hypothesis:
    """A text and the sum of its log-probabilities after the warps, less its diversity penalties, in nats."""

    ids: tuple[int, ...] = ()
    made: tuple[GeneratedToken, ...] = ()
    total: float = 0.0
    score: float = 0.0  # total / length^penalty
    ended: str = ""
    penalty: float = 0.0  # sum of the diversity penalties in `total`
    number: int = -1  # its index in `Beams.considered`; -1 for the prompt


@dataclass(eq=False)
class Group:
    """The texts of a group of beams. Its running ones are consecutive rows of the batch."""

    running: list[Hypothesis] = field(default_factory=lambda: [Hypothesis()])
    finished: list[Hypothesis] = field(default_factory=list)  # by decreasing score, at most one per beam
    start: int = 0  # first row


@dataclass(frozen=True)
class Considered:
    """A continuation that a step considered, and what became of it at this step."""

    step: int  # number of tokens of its text
    parent: int  # index of the text that it extends; -1 for the prompt
    id: int
    log_probability: float  # of its last token, after the warps, nats
    total: float  # sum of log-probabilities, nats
    penalty: float  # sum of diversity penalties, nats
    score: float  # (total - penalty) / length^penalty
    group: int
    place: int  # rank within the step and the group; 0 is the best
    fate: str  # "kept", "finished", "below" (worse than the kept ones) or "late" (ended, but not among the first)
    ended: str


@dataclass(frozen=True, eq=False)
class Warped:
    """The next token of each row after the warps."""

    logits: Tensor  # [n, V]
    norms: Sequence[float]  # logarithms of the sums of exp(logits); -inf where no token fits
    after: Sequence[WarpedRow | None]  # the distributions; None where no token fits
    fits: Sequence[Fit | None]  # what the rule says


@dataclass(eq=False)
class Beams:
    """Beam search by sum of log-probabilities / length^penalty, with the stopping rule of transformers
    (early_stopping=False).

    Each step considers the most likely continuations of all running texts. Their number is (1 + the number of ending
    tokens) times the number of beams, at least twice that number. Those that end a text are finished if they are among
    the first `beams`; the most likely others continue. The search ends when as many texts are finished as there are
    beams and the best running one, divided by its current length, is worse than all of them, or when no text is
    running. Ties are resolved in favor of the earlier beam, then of the smaller id. The shown text is the one with the
    highest score so far, finished or running.

    With `groups`, the beams are divided evenly, and each group searches on its own with its share of the beams. The
    groups take turns at each step: the score of a token is lowered by `diversity` for each text of an earlier group
    that has just been continued with it (diverse beam search with the Hamming diversity, Vijayakumar et al. 2018).
    """

    strategy: Strategy
    setup: Setup
    row: int
    shown: Hypothesis = Hypothesis()
    considered: list[Considered] | None = None  # set to a list to record the search
    # later fates of kept and finished texts: "displaced" by a better finished one, or "stopped" with the search
    left: dict[int, tuple[str, int]] = field(default_factory=dict)  # index: (fate, step)

    def __post_init__(self) -> None:
        divided = self.strategy.method == "diverse_beam"
        values = numbers(self.strategy, DIVERSE_PARAMETERS if divided else PARAMETERS)
        self.width, self.texts = int(values["beams"]), int(values["texts"])
        self.penalty, self.diversity = values["length_penalty"], values.get("diversity", 0.0)
        count = int(values.get("groups", 1))
        if self.width % count:
            divisors = ", ".join(str(each) for each in range(1, self.width + 1) if self.width % each == 0)
            got = f"beams: {self.width}, groups: {count}"
            raise InputError("The beams cannot be divided evenly.", got, say("Choose one of: {}.", divisors))
        self.share = self.width // count  # beams per group
        self.groups = [Group() for _ in range(count)]
        self.rows = [Hypothesis()]  # the text of each row

    def decide(self, rows: Rows, hidden: Callable[[], Tensor]) -> Decision:
        warped = self.warped(rows)
        chosen = torch.zeros(warped.logits.shape[-1], dtype=torch.float64)  # how often earlier groups chose each token
        self.rows = []
        source: list[int] = []
        for number, group in enumerate(self.groups):
            if group.running:
                first = len(self.rows)
                source += self.extend(number, rows, warped, chosen)
                group.start = first
                self.rows += group.running
        if not self.rows:
            return Decision((), (), self.finish() if self.results() else Change(ended="stuck"))
        heads = [each for group in self.groups for each in (*group.finished[:1], *group.running[:1])]
        best = max(heads, key=lambda each: each.score)
        return Decision(tuple(each.ids[-1] for each in self.rows), tuple(source), self.show(best))

    def row_texts(self) -> list[tuple[int, ...]]:
        """Return the running texts."""
        return [each.ids for each in self.rows]

    def extend(self, number: int, rows: Rows, warped: Warped, chosen: Tensor) -> list[int]:
        """Extend the texts of a group, and return the rows that its running texts continue; none if it has ended.

        `chosen` [V] counts the tokens chosen by earlier groups; those of this group are added.
        """
        group = self.groups[number]
        span = range(group.start, group.start + len(group.running))
        norms = [0.0 if warped.norms[row] == -math.inf else warped.norms[row] for row in span]
        so_far = [beam.total - norm for beam, norm in zip(group.running, norms, strict=True)]
        totals = warped.logits[span.start : span.stop] + torch.tensor(so_far, dtype=torch.float64)[:, None]
        fines = self.diversity * chosen if self.diversity else None
        running: list[Hypothesis] = []
        source: list[int] = []
        finished = [*group.finished]
        for place, (at, id, total) in enumerate(self.candidates(totals if fines is None else totals - fines)):
            parent, fine = group.running[at], 0.0 if fines is None else float(fines[id])
            ids = (*parent.ids, id)
            ended = self.setup.ended(ids) or ended_by_rule(self.strategy.steps, self.context(ids))
            full = len(running) == self.share
            fate = ("finished" if place < self.share else "late") if ended else "below" if full else "kept"
            score, penalty = total / len(ids) ** self.penalty, parent.penalty + fine
            index = -1
            if self.considered is not None:
                index, log = len(self.considered), total + fine - parent.total
                one = (len(ids), parent.number, id, log, total + penalty, penalty, score, number, place, fate, ended)
                self.considered.append(Considered(*one))
            if fate in ("late", "below"):
                continue
            row = span[at]
            tokens = (*parent.made, generated_token(rows, row, warped.after[row], id, fit=warped.fits[row]))
            extended = Hypothesis(ids, tokens, total, score, ended, penalty, index)
            if ended:
                finished.append(extended)
            else:
                running.append(extended)
                source.append(row)
        finished.sort(key=lambda each: -each.score)
        self.leave("displaced", finished[self.share :])
        group.running, group.finished = running, finished[: self.share]
        if running and len(group.finished) == self.share and running[0].score <= group.finished[-1].score:
            self.leave("stopped", running)
            group.running = []
        for each in group.running:
            chosen[each.ids[-1]] += 1
        return source if group.running else []

    def leave(self, fate: str, texts: Sequence[Hypothesis]) -> None:
        """Record that the search drops these texts at the current step, if it is recorded."""
        if self.considered:
            self.left.update({each.number: (fate, self.considered[-1].step) for each in texts})

    def warped(self, rows: Rows) -> Warped:
        """Return the next token of each running text after the warps."""
        steps, own = self.strategy.steps, not self.strategy.steps
        logits = rows.logits
        if steps:
            logits = torch.stack([self.warped_one(*each) for each in zip(rows.logits, self.rows, strict=True)])
        norms = rows.total if own else logits.double().logsumexp(-1).tolist()
        after = [
            None if norm == -math.inf else warped_row(rows, row, None if own else logits[row])
            for row, norm in enumerate(norms)
        ]
        fits: list[Fit | None] = [None] * len(self.rows)
        if any(step.rule for step in steps):
            fits = [
                fit_of(steps, self.context(each.ids), rows.probabilities(row)) for row, each in enumerate(self.rows)
            ]
        return Warped(logits, norms, after, fits)

    def warped_one(self, logits: Tensor, beam: Hypothesis) -> Tensor:
        """Return the logits of one running text after the warps; -inf for all tokens if none fits the rule. [V]"""
        try:
            return run_steps(logits, self.strategy.steps, self.context(beam.ids))
        except DeadEnd:
            return torch.full_like(logits.float(), -torch.inf)

    def context(self, ids: Sequence[int]) -> Context:
        """Return the context of a running text with these new tokens."""
        return self.setup.context(self.strategy.steps, ids, self.row)

    def candidates(self, totals: Tensor) -> Sequence[tuple[int, int, float]]:
        """Return the most likely continuations as (beam, token, new total). totals [n, V]"""
        count = max(2, 1 + len(self.setup.plan.ending)) * self.share
        flat = totals.flatten()
        places = top_ids(flat, count)
        V = totals.shape[-1]
        likeliest = zip(places.tolist(), flat[places].tolist(), strict=True)
        return [(*divmod(place, V), total) for place, total in likeliest if total != -torch.inf]

    def show(self, best: Hypothesis) -> Change:
        """Set the shown text to `best`, and return the change from the previous one."""
        old, new = self.shown.ids, best.ids
        same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        self.shown = best
        return Change(best.made[same:], len(old) - same)

    def finish(self) -> Change:
        """Show the best finished text, and return the change with the runners-up."""
        finished = self.results()
        best = finished[0]
        change = self.show(best)
        others = tuple((each.ids, each.score) for each in finished[: self.texts])
        return Change(change.made, change.drop, best.ended, others)

    def results(self) -> list[Hypothesis]:
        """Return the finished texts of all groups by decreasing score."""
        return sorted((each for group in self.groups for each in group.finished), key=lambda each: -each.score)
