"""Ways to choose the next token: a decoder a strategy, each with its own rows of the batch."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from model.ranking import top_ids
from model.sampling import Context, Parameter, Step, draw, entropy, softmax, uniform
from model.warps import WARPS, final, values_of

TOP = 8  # alternatives kept with every token


@dataclass(frozen=True)
class Strategy:
    """How to choose: a method with its numbers, and the warps that come before it."""

    steps: tuple[Step, ...] = ()
    method: str = "sample"  # a key of METHODS
    options: tuple[tuple[str, float], ...] = ()  # the method's numbers; what is not given has its default
    name: str = ""


@dataclass(frozen=True)
class Made:
    """One token of a text, and what else could have stood there."""

    id: int
    log_probability: float  # of the model itself, nothing warped, nats
    rank: int  # in the model itself, 1 is the likeliest
    entropy: float  # of the model's distribution, nats
    probability: float  # after the warps; NaN where the method does not draw
    kept: int  # tokens that the warps left
    uniform: float  # the random number; NaN where none was used
    top: tuple[tuple[int, float, float], ...]  # the model's first choices: id, probability, the same after the warps


@dataclass(frozen=True)
class Change:
    """What a step did to a text: tokens dropped from its end, then tokens added. Only searches ever drop."""

    made: tuple[Made, ...] = ()
    drop: int = 0
    ended: str = ""  # "end", "stop", "length", "context"; "" while it goes on
    others: tuple[tuple[tuple[int, ...], float], ...] = ()  # at the end of a search: further texts and their scores


@dataclass(frozen=True)
class Decision:
    """What goes into the next forward: a token a row, and which of the decoder's rows each continues."""

    ids: tuple[int, ...]
    source: tuple[int, ...]
    change: Change

    def cut(self, reason: str) -> Self:
        """The same, as the last one: no room is left."""
        return dataclasses.replace(self, change=dataclasses.replace(self.change, ended=reason))


@dataclass(frozen=True)
class Plan:
    """What is asked for besides the prompt and the strategies."""

    max_new_tokens: int = 40
    seed: int = 0
    shared: bool = True  # whether all strategies get the same random numbers
    first_step: int = 0  # the number of the first new token: a branch goes on counting where it left
    prompt: int | None = None  # how many of the ids are the prompt, where some were written by a strategy already
    ending: frozenset[int] = frozenset()  # tokens that end a text
    stop: tuple[str, ...] = ()  # texts that end a text


@dataclass(frozen=True, eq=False)
class Given:
    """What every decoder of a run is given."""

    ids: tuple[int, ...]  # [T]
    plan: Plan
    size: int  # tokens of the vocabulary
    text: Callable[[Sequence[int]], str] | None

    def ended(self, written: Sequence[int]) -> str:
        """Why a text ends after these new tokens, "" where it does not."""
        if written and written[-1] in self.plan.ending:
            return "end"
        if self.plan.stop and self.text and any(stop in self.text(written) for stop in self.plan.stop):
            return "stop"
        return "length" if len(written) >= self.plan.max_new_tokens else ""


class Decoder(Protocol):
    """One strategy at work. `width` is the most rows it ever asks for."""

    width: int

    def decide(self, logits: Tensor, hidden: Tensor) -> Decision:
        """From its rows' logits [n, V] and final normed states [n, D] (of the prompt, [T, D], at the first call)."""


@dataclass(frozen=True)
class Method:
    """An entry of METHODS. Its label and help are the words "method.<key>" and "method_help.<key>"."""

    start: Callable[[Strategy, Given, int], Decoder]  # the last one: the strategy's number
    parameters: tuple[Parameter, ...]
    source: str


def measured(logits: Tensor, warped: Tensor, id: int, u: float = float("nan")) -> Made:
    """A token and its surroundings. logits and warped [V]"""
    p, after = softmax(logits.numpy()), softmax(warped.numpy())
    value = logits[id]
    rank = int((logits > value).sum() + (logits[:id] == value).sum()) + 1
    top = tuple((at, float(p[at]), float(after[at])) for at in top_ids(logits, TOP).tolist())
    kept = int(torch.isfinite(warped).sum())
    log_probability = float(logits.log_softmax(-1)[id])
    return Made(id, log_probability, rank, float(entropy(p)), float(after[id]), kept, u, top)


@dataclass(eq=False)
class Sampler:
    """Warp, then draw: one row, one token a step."""

    strategy: Strategy
    given: Given
    row: int
    width: int = 1
    memory: float | None = None
    written: list[int] = dataclasses.field(default_factory=list)

    def decide(self, logits: Tensor, hidden: Tensor) -> Decision:
        plan, ids = self.given.plan, self.given.ids
        prompt = len(ids) if plan.prompt is None else plan.prompt
        warped = final(logits[0], self.strategy.steps, Context((*ids, *self.written), prompt, self.memory))
        u = uniform(plan.seed, plan.first_step + len(self.written), 0 if plan.shared else self.row)
        made = measured(logits[0], warped, draw(softmax(warped.numpy()), u), u)
        self.remember(made.probability)
        self.written.append(made.id)
        return Decision((made.id,), (0,), Change((made,), ended=self.given.ended(self.written)))

    def remember(self, probability: float) -> None:
        """Let the warp with a memory see how likely the drawn token was."""
        for step in self.strategy.steps:
            if (remember := WARPS[step.warp].remember) is not None:
                self.memory = remember(values_of(step), self.memory, probability)


METHODS: dict[str, Method] = {"sample": Method(Sampler, (), "Devroye 1986, section III.2")}


def option(strategy: Strategy, name: str) -> float:
    """A number of the strategy's method, its default where none is given."""
    default = next(p.default for p in METHODS[strategy.method].parameters if p.name == name)
    return dict(strategy.options).get(name, default)


def _steps(*steps: tuple[str, Mapping[str, float]]) -> tuple[Step, ...]:
    return tuple(Step(warp, tuple(values.items())) for warp, values in steps)


# The strategies by name, each with its usual numbers. Its label is the word "strategy.<key>".
STRATEGIES: dict[str, Strategy] = {
    "greedy": Strategy(_steps(("temperature", {"temperature": 0})), name="greedy"),
    "temperature": Strategy(_steps(("temperature", {"temperature": 0.8})), name="temperature"),
    "top_k": Strategy(_steps(("temperature", {"temperature": 0.8}), ("top_k", {"k": 40})), name="top_k"),
    "top_p": Strategy(_steps(("temperature", {"temperature": 0.8}), ("top_p", {"p": 0.9})), name="top_p"),
}
