"""Decoding methods by name, and predefined strategies."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from model.arguments import shown
from model.errors import DeadEnd, InputError, say
from model.forgetting.policies import check_memory
from model.generation.beams import DIVERSE_PARAMETERS, Beams
from model.generation.beams import PARAMETERS as BEAM_PARAMETERS
from model.generation.contrastive import PARAMETERS as CONTRASTIVE_PARAMETERS
from model.generation.contrastive import Contrastive
from model.generation.decoder import (
    Change,
    Decision,
    Decoder,
    DecodingPlan,
    GeneratedToken,
    Method,
    Rows,
    Setup,
    Strategy,
    WarpedRow,
    generated_token,
    measured,
    numbers,
    rows_of,
    warped_row,
)
from model.sampling.fits import ended_by_rule, fit_of
from model.sampling.pipeline import Step, check_numbers, checked, softmax, uniform
from model.sampling.warps import WARPS, remembered, run_steps

__all__ = [
    "METHODS",
    "STRATEGIES",
    "Change",
    "Decision",
    "Decoder",
    "DecodingPlan",
    "GeneratedToken",
    "Method",
    "Rows",
    "Sampler",
    "Setup",
    "Strategy",
    "WarpedRow",
    "check_strategy",
    "generated_token",
    "measured",
    "option",
    "rows_of",
    "warped_row",
]

_CHUNK = 32  # number of positions per chunk of logits


@dataclass(eq=False)
class Sampler:
    """A decoder that applies the warps and then draws: one row, one token per step."""

    strategy: Strategy
    setup: Setup
    row: int
    width: int = 1
    memory: float | None = None
    written: list[int] = dataclasses.field(default_factory=list)

    def decide(self, rows: Rows, hidden: Callable[[], Tensor]) -> Decision:
        setup, plan = self.setup, self.setup.plan
        if not self.written:
            self.recall(hidden)
        steps = self.strategy.steps
        context = setup.context(steps, self.written, self.row, self.memory)
        try:
            warped = run_steps(rows.logits[0], steps, context) if steps else None
        except DeadEnd:
            return Decision((), (), Change(ended="stuck"))
        after = warped_row(rows, 0, warped)
        u = uniform(plan.seed, plan.first_step + len(self.written), setup.stream(self.row))
        fit = fit_of(steps, context, rows.probabilities(0)) if any(step.rule for step in steps) else None
        token = generated_token(rows, 0, after, after.draw(u), u, fit)
        self.remember(token.probability)
        self.written.append(token.id)
        ended = setup.ended(self.written) or ended_by_rule(steps, context.after(token.id))
        return Decision((token.id,), (0,), Change((token,), ended=ended))

    def row_texts(self) -> list[tuple[int, ...]]:
        """Return the text of the only row."""
        return [tuple(self.written)]

    def recall(self, hidden: Callable[[], Tensor]) -> None:
        """Replay the tokens generated before this run, for warps with a memory; `hidden` returns [T, D]."""
        ids, prompt = self.setup.ids, self.setup.prompt
        if self.setup.read is None or all(WARPS[step.warp].remember is None for step in self.strategy.steps):
            return
        states = hidden()
        for start in range(prompt - 1, len(ids) - 1, _CHUNK):
            for at, logits in enumerate(self.setup.read(states[start : min(start + _CHUNK, len(ids) - 1)]), start + 1):
                context = self.setup.context_of(ids[:at], self.strategy.steps, self.row, self.memory)
                warped = run_steps(logits, self.strategy.steps, context)
                probability = float(softmax(warped.numpy())[ids[at]])
                if probability > 0:  # a token inserted by the user may be excluded by the warps
                    self.remember(probability)

    def remember(self, probability: float) -> None:
        """Update the memory of the warps with the probability of the drawn token."""
        self.memory = remembered(self.strategy.steps, self.memory, probability)


METHODS: dict[str, Method] = {
    "sample": Method(Sampler, (), "Devroye 1986, section III.2"),
    "beam": Method(Beams, BEAM_PARAMETERS, "Lowerre 1976; divided by length: Wu et al. 2016, section 7, simplified"),
    "diverse_beam": Method(Beams, DIVERSE_PARAMETERS, "Vijayakumar et al. 2018, algorithm 1, Hamming diversity"),
    "contrastive": Method(Contrastive, CONTRASTIVE_PARAMETERS, "Su et al. 2022, eq. 5"),
}


def option(strategy: Strategy, name: str) -> float:
    """Return an option of the strategy's method, or its default."""
    return numbers(strategy, METHODS[strategy.method].parameters)[name]


def check_strategy(strategy: Strategy, size: int) -> None:
    """Raise InputError unless the method, its options, its eviction policy and every warp are known and within their
    bounds.
    """
    if not isinstance(strategy, Strategy):
        raise InputError("This is not a strategy.", shown(strategy), say("Choose one of: {}.", ", ".join(STRATEGIES)))
    if not isinstance(strategy.method, str) or strategy.method not in METHODS:
        hint = say("Choose one of: {}.", ", ".join(METHODS))
        raise InputError("This method is unknown.", shown(strategy.method), hint)
    if strategy.memory is not None:
        check_memory(strategy.memory)
    check_numbers(strategy.method, strategy.options, METHODS[strategy.method].parameters)
    checked(strategy.steps, WARPS, size)


def _steps(*steps: tuple[str, Mapping[str, float]]) -> tuple[Step, ...]:
    return tuple(Step(warp, tuple(values.items())) for warp, values in steps)


# Predefined strategies by name, with common settings. The label of a strategy is the word "strategy.<key>".
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
        ("dynamic", ("dynamic_temperature", {"dynamic": 1, "spread": 0.5}), ("min_p", {"min_p": 0.05})),
        (
            "dry",
            ("dry", {"multiplier": 0.8, "base": 1.75, "allowed": 2}),
            ("temperature", {"temperature": 0.8}),
            ("min_p", {"min_p": 0.05}),
        ),
        ("xtc", ("min_p", {"min_p": 0.02}), ("xtc", {"threshold": 0.1, "xtc_probability": 0.5})),
    )
} | {
    "beam": Strategy(method="beam", options=(("beams", 4), ("length_penalty", 1)), name="beam"),
    "contrastive": Strategy(method="contrastive", options=(("candidates", 4), ("alpha", 0.6)), name="contrastive"),
}
