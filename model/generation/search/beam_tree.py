"""The record of a beam search: every continuation that it considered, and when and why it was dropped."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from model.arguments import shown
from model.errors import InputError
from model.generation.beams import Beams, Considered
from model.generation.decoder import DecodingPlan, Strategy
from model.generation.generate import course_of, ticks_of
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import listed, public, unchecked, whole

# Why a continuation was dropped. "outrun": it was kept, but none of its own continuations was.
REASONS = ("below", "late", "outrun", "displaced", "stopped")


@dataclass(frozen=True)
class Candidate:
    """A continuation that a step of a beam search considered, and its fate in the whole search."""

    step: int  # number of tokens of its text
    parent: int  # index of the candidate that it extends; -1 for the prompt
    id: int
    log_probability: float  # of its last token given the text before it, nats
    total: float  # sum of log-probabilities of its text, nats
    penalty: float  # sum of diversity penalties, nats
    score: float  # (total - penalty) / length^length_penalty
    group: int
    place: int  # rank within the step and the group; 0 is the best
    state: str  # "kept": continued up to a final text; "pruned"; "final": among the results
    ended: str = ""  # "end", "stop", "length" or "context" if its text ended
    reason: str = ""  # one of REASONS if it was pruned
    pruned: int = 0  # the step at which it, or its last continuation, was dropped; 0 if it was not


@dataclass(frozen=True)
class BeamTree:
    """A beam search: its candidates step by step, and its results."""

    candidates: tuple[Candidate, ...]
    results: tuple[int, ...]  # indexes of the final texts by decreasing score; the first one is the winner

    def ids(self, index: int) -> tuple[int, ...]:
        """Return the tokens of a candidate's text, without the prompt."""
        path = self.path(index)
        return tuple(self.candidates[each].id for each in path)

    def path(self, index: int) -> tuple[int, ...]:
        """Return the indexes of the candidates from the first token of a candidate's text to its last."""
        found: list[int] = []
        while index >= 0:
            found.append(index)
            index = self.candidates[index].parent
        return tuple(reversed(found))

    @property
    def steps(self) -> int:
        """The number of steps of the search."""
        return max((each.step for each in self.candidates), default=0)


@public(ids=listed, size=whole(1), progress=unchecked)
def beam_tree(
    model: Transformer,
    ids: Sequence[int],
    strategy: Strategy,
    plan: DecodingPlan,
    size: int,
    text: Callable[[Sequence[int]], str] | None = None,
    progress: Progress = silent,
) -> BeamTree:
    """Run a beam search from ids [T], and record every continuation that it considers. `size`: vocabulary size.

    `strategy` has the method "beam" or "diverse_beam". The texts and scores are those of `generate`, which runs the
    same search. Raises InputError as `generate` does, and for another method.
    """
    course = course_of(model, ids, [strategy], plan, size, text)
    beams = course.decoders[0]
    if not isinstance(beams, Beams):
        raise InputError("This is not a beam search.", shown(strategy.method), "Choose beam or diverse_beam.")
    beams.considered = []
    for step, _ in enumerate(ticks_of(model, course), 1):
        progress(step, plan.max_new_tokens, "")
    results = tuple(each.number for each in beams.results())
    return BeamTree(tuple(_candidates(beams.considered, beams.left, results)), results)


def _candidates(
    considered: Sequence[Considered], left: dict[int, tuple[str, int]], results: Sequence[int]
) -> list[Candidate]:
    """Build the candidates with their final states. Children follow their parents, so they are visited first."""
    alive, last = set(results), dict[int, int]()  # last: the step at which the last continuation was dropped
    found = []
    for index in range(len(considered) - 1, -1, -1):
        each = considered[index]
        state, reason, step = ("final" if index in results else "kept"), "", 0
        if index in alive:
            alive.add(each.parent)
        else:
            state, (reason, step) = "pruned", left.get(index, ("outrun", last.get(index, each.step + 1)))
            if each.fate in ("below", "late"):
                reason, step = each.fate, each.step
            last[each.parent] = max(last.get(each.parent, 0), step)
        values = {name: value for name, value in vars(each).items() if name != "fate"}
        found.append(Candidate(**values, state=state, reason=reason, pruned=step))
    return found[::-1]
