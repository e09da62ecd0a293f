"""Contrastive search: selects likely tokens with hidden states unlike those of the text so far."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from model.errors import DeadEnd
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
from model.sampling.fits import ended_by_rule, fit_of
from model.sampling.pipeline import Context, Parameter
from model.sampling.warps import run_steps
from model.tracing.ranking import top_ids

PARAMETERS = (Parameter("candidates", 1, 16, 4, 1, whole=True), Parameter("alpha", 0, 1, 0.6, 0.05))


@dataclass(eq=False)
class Contrastive:
    """Decoder that selects, from the k most likely tokens v, the one that maximizes (1 - alpha) p(v) - alpha max_j
    cos(h_v, h_j).

    h are the final normalized states, and j ranges over all earlier tokens, including the prompt. Su et al. 2022, eq.
    5. The state of each candidate requires a forward pass over its own row. A token is therefore known one step later
    than in other methods, and it must fit in the context. With alpha = 0 it is greedy. Ties are resolved in favor of
    the more likely token.
    """

    strategy: Strategy
    setup: Setup
    row: int
    candidates: tuple[GeneratedToken, ...] = ()
    p: tuple[float, ...] = ()  # probabilities of the candidates after the warps
    states: Tensor | None = None  # normalized states of the text so far; the first `length` rows are filled [t, D]
    length: int = 0
    written: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        values = numbers(self.strategy, PARAMETERS)
        self.width, self.alpha = int(values["candidates"]), values["alpha"]

    def decide(self, rows: Rows, hidden: Callable[[], Tensor]) -> Decision:
        directions = F.normalize(hidden().float(), dim=-1)
        if self.states is None:
            self.keep(directions)
            return self.propose(rows, 0, Change())
        similar = (directions @ self.states[: self.length].T).amax(-1).double()  # [k]
        scores = (1 - self.alpha) * torch.tensor(self.p, dtype=torch.float64) - self.alpha * similar
        best = int(scores.argmax())
        self.keep(directions[best : best + 1])
        self.written.append(self.candidates[best].id)
        ended = self.setup.ended(self.written) or ended_by_rule(self.strategy.steps, self.context())
        return self.propose(rows, best, Change((self.candidates[best],), ended=ended))

    def row_texts(self) -> list[tuple[int, ...]]:
        """Return the text with each candidate; the empty text before the first."""
        ends = [(each.id,) for each in self.candidates] if self.states is not None else [()]
        return [(*self.written, *end) for end in ends]

    def keep(self, directions: Tensor) -> None:
        """Store the unit states of new tokens of the text. [t, D]"""
        end = self.length + len(directions)
        if self.states is None or end > len(self.states):
            grown = directions.new_empty(2 * end, directions.shape[-1])
            if self.states is not None:
                grown[: self.length] = self.states[: self.length]
            self.states = grown
        self.states[self.length : end] = directions
        self.length = end

    def propose(self, rows: Rows, row: int, change: Change) -> Decision:
        """Return a decision with the next candidates, which all continue one row; none if the text has ended."""
        if not change.ended and len(self.written) >= self.setup.room:
            change = Change(change.made, ended="context")
        if change.ended:
            return Decision((), (), change)
        try:
            after = self.warped(rows, row)
        except DeadEnd:
            return Decision((), (), Change(change.made, ended="stuck"))
        fit = None
        if any(step.rule for step in self.strategy.steps):
            fit = fit_of(self.strategy.steps, self.context(), rows.probabilities(row))
        likeliest = top_ids(torch.from_numpy(after.probabilities), self.width).tolist()
        ids = [id for id in likeliest if after.probabilities[id] > 0]
        self.candidates = tuple(generated_token(rows, row, after, id, fit=fit) for id in ids)
        self.p = tuple(after.probabilities[ids].tolist())
        return Decision(tuple(ids), (row,) * len(ids), change)

    def warped(self, rows: Rows, row: int) -> WarpedRow:
        """Return the distribution of a row after the warps."""
        if not self.strategy.steps:
            return warped_row(rows, row, None)
        return warped_row(rows, row, run_steps(rows.logits[row], self.strategy.steps, self.context()))

    def context(self) -> Context:
        """Return the context of the text so far."""
        return self.setup.context(self.strategy.steps, self.written, self.row)
