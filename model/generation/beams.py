"""Beam search, which extends several texts in parallel and keeps the most likely ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from model.generation.decoder import (
    Change,
    Decision,
    GeneratedToken,
    Rows,
    Setup,
    Strategy,
    generated_token,
    numbers,
    warped_row,
)
from model.sampling.pipeline import Context, Parameter
from model.sampling.warps import run_steps
from model.tracing.ranking import top_ids

PARAMETERS = (
    Parameter("beams", 1, 16, 4, 1, whole=True),
    Parameter("length_penalty", -2, 2, 1, 0.1),
    Parameter("texts", 1, 16, 3, 1, whole=True),
)


@dataclass(frozen=True)
class Hypothesis:
    """A text and the sum of its log-probabilities after the warps, in nats."""

    ids: tuple[int, ...] = ()
    made: tuple[GeneratedToken, ...] = ()
    total: float = 0.0
    score: float = 0.0  # total / length^penalty
    ended: str = ""


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
    """

    strategy: Strategy
    setup: Setup
    row: int
    running: list[Hypothesis] = field(default_factory=lambda: [Hypothesis()])
    finished: list[Hypothesis] = field(default_factory=list)  # by decreasing score, at most one per beam
    shown: Hypothesis = Hypothesis()

    def __post_init__(self) -> None:
        values = numbers(self.strategy, PARAMETERS)
        self.width, self.texts = int(values["beams"]), int(values["texts"])
        self.penalty = values["length_penalty"]

    def decide(self, rows: Rows, hidden: Callable[[], Tensor]) -> Decision:
        warped = self.warped(rows)
        norms = rows.total if warped is None else warped.double().logsumexp(-1).tolist()
        so_far = [beam.total - norm for beam, norm in zip(self.running, norms, strict=True)]
        totals = (rows.logits if warped is None else warped) + torch.tensor(so_far, dtype=torch.float64)[:, None]
        after = [warped_row(rows, row, None if warped is None else warped[row]) for row in range(len(self.running))]
        running: list[Hypothesis] = []
        source: list[int] = []
        finished = [*self.finished]
        for place, (row, id, total) in enumerate(self.candidates(totals)):
            ids = (*self.running[row].ids, id)
            ended = self.setup.ended(ids)
            if (ended and place >= self.width) or (not ended and len(running) == self.width):
                continue
            tokens = (*self.running[row].made, generated_token(rows, row, after[row], id))
            extended = Hypothesis(ids, tokens, total, total / len(ids) ** self.penalty, ended)
            if ended:
                finished.append(extended)
            else:
                running.append(extended)
                source.append(row)
        self.running = running
        self.finished = sorted(finished, key=lambda each: -each.score)[: self.width]
        if not running or (len(self.finished) == self.width and running[0].score <= self.finished[-1].score):
            return Decision((), (), self.finish())
        best = max((*self.finished[:1], running[0]), key=lambda each: each.score)
        return Decision(tuple(each.ids[-1] for each in running), tuple(source), self.show(best))

    def warped(self, rows: Rows) -> Tensor | None:
        """Return the running texts' logits after the warps, or None if there are no warps. [n, V]"""
        if not self.strategy.steps:
            return None
        setup, steps = self.setup, self.strategy.steps
        contexts = [Context((*setup.ids, *beam.ids), setup.prompt) for beam in self.running]
        return torch.stack([run_steps(row, steps, context) for row, context in zip(rows.logits, contexts, strict=True)])

    def candidates(self, totals: Tensor) -> Sequence[tuple[int, int, float]]:
        """Return the most likely continuations as (beam, token, new sum of log-probabilities). totals [n, V]"""
        count = max(2, 1 + len(self.setup.plan.ending)) * self.width
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
        best = self.finished[0]
        change = self.show(best)
        others = tuple((each.ids, each.score) for each in self.finished[: self.texts])
        return Change(change.made, change.drop, best.ended, others)
