"""Ways to choose the next token, by name, and strategies with their usual numbers."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from model.errors import InputError
from model.generation.beams import PARAMETERS as BEAM_PARAMETERS
from model.generation.beams import Beams
from model.generation.contrastive import PARAMETERS as CONTRASTIVE_PARAMETERS
from model.generation.contrastive import Contrastive
from model.generation.decoder import (
    Change,
    Decision,
    Decoder,
    Given,
    Left,
    Made,
    Method,
    Plan,
    Rows,
    Strategy,
    left_of,
    made_of,
    measured,
    numbers,
    rows_of,
)
from model.sampling.pipeline import Context, Step, check_numbers, checked, draw, softmax, uniform
from model.sampling.warps import WARPS, final, remembered

__all__ = [
    "METHODS",
    "STRATEGIES",
    "Change",
    "Decision",
    "Decoder",
    "Given",
    "Left",
    "Made",
    "Method",
    "Plan",
    "Rows",
    "Sampler",
    "Strategy",
    "check_strategy",
    "left_of",
    "made_of",
    "measured",
    "option",
    "rows_of",
]

_CHUNK = 32  # positions whose logits are held at a time


@dataclass(eq=False)
class Sampler:
    """Warp, then draw: one row, one token a step."""

    strategy: Strategy
    given: Given
    row: int
    width: int = 1
    memory: float | None = None
    written: list[int] = dataclasses.field(default_factory=list)

    def decide(self, rows: Rows, hidden: Tensor) -> Decision:
        given, plan = self.given, self.given.plan
        if not self.written:
            self.recall(hidden)
        context = Context((*given.ids, *self.written), given.prompt, self.memory)
        warped = final(rows.logits[0], self.strategy.steps, context) if self.strategy.steps else None
        left = left_of(rows, 0, warped)
        number = 0 if plan.shared else (plan.numbers[self.row] if plan.numbers else self.row)
        u = uniform(plan.seed, plan.first_step + len(self.written), number)
        made = made_of(rows, 0, left, draw(left.probabilities, u), u)
        self.remember(made.probability)
        self.written.append(made.id)
        return Decision((made.id,), (0,), Change((made,), ended=given.ended(self.written)))

    def recall(self, hidden: Tensor) -> None:
        """Go through what was written before this run, where a warp has a memory of it. hidden [T, D]"""
        ids, prompt = self.given.ids, self.given.prompt
        if self.given.read is None or all(WARPS[step.warp].remember is None for step in self.strategy.steps):
            return
        for start in range(prompt - 1, len(ids) - 1, _CHUNK):
            for at, logits in enumerate(self.given.read(hidden[start : min(start + _CHUNK, len(ids) - 1)]), start + 1):
                warped = final(logits, self.strategy.steps, Context(ids[:at], prompt, self.memory))
                probability = float(softmax(warped.numpy())[ids[at]])
                if probability > 0:  # a token that somebody put there may be out
                    self.remember(probability)

    def remember(self, probability: float) -> None:
        """Let the warp with a memory see how likely the drawn token was."""
        self.memory = remembered(self.strategy.steps, self.memory, probability)


METHODS: dict[str, Method] = {
    "sample": Method(Sampler, (), "Devroye 1986, section III.2"),
    "beam": Method(Beams, BEAM_PARAMETERS, "Lowerre 1976; length penalty as in Wu et al. 2016, section 7"),
    "contrastive": Method(Contrastive, CONTRASTIVE_PARAMETERS, "Su et al. 2022, eq. 5"),
}


def option(strategy: Strategy, name: str) -> float:
    """A number of the strategy's method, its default where none is given."""
    return numbers(strategy, METHODS[strategy.method].parameters)[name]


def check_strategy(strategy: Strategy, size: int) -> None:
    """Raise InputError unless the method, its numbers and every step are known and within their bounds."""
    if strategy.method not in METHODS:
        raise InputError("This method is not known.", strategy.method[:40], "Choose one of the list.")
    check_numbers(strategy.method, strategy.options, METHODS[strategy.method].parameters)
    checked(strategy.steps, WARPS, size)


def _steps(*steps: tuple[str, Mapping[str, float]]) -> tuple[Step, ...]:
    return tuple(Step(warp, tuple(values.items())) for warp, values in steps)


# The strategies by name, each with its usual numbers. Its label is the word "strategy.<key>".
STRATEGIES: dict[str, Strategy] = {
    name: Strategy(_steps(*steps), name=name)
    for name, *steps in (
        ("greedy", ("temperature", {"temperature": 0})),
        ("temperature", ("temperature", {"temperature": 0.8})),
        ("top_k", ("temperature", {"temperature": 0.8}), ("top_k", {"k": 40})),
        ("top_p", ("temperature", {"temperature": 0.8}), ("top_p", {"p": 0.9})),
        ("min_p", ("temperature", {"temperature": 1.5}), ("min_p", {"min_p": 0.1})),
        ("typical", ("typical", {"mass": 0.95})),
        ("eta", ("eta", {"eta": 0.002})),
        ("epsilon", ("epsilon", {"epsilon": 0.0009})),
        ("top_n_sigma", ("temperature", {"temperature": 1.5}), ("top_n_sigma", {"n": 1})),
        (
            "penalties",
            ("repetition_penalty", {"penalty": 1.2}),
            ("temperature", {"temperature": 0.8}),
            ("top_p", {"p": 0.9}),
        ),
        ("no_repeat", ("no_repeat_ngram", {"ngram": 3}), ("temperature", {"temperature": 0})),
        ("mirostat", ("mirostat", {"tau": 5, "rate": 0.1})),
    )
} | {
    "beam": Strategy(method="beam", options=(("beams", 4), ("length_penalty", 1)), name="beam"),
    "contrastive": Strategy(method="contrastive", options=(("candidates", 4), ("alpha", 0.6)), name="contrastive"),
}
