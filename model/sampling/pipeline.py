"""From a distribution to a token: warps that reshape logits, in any order, with every stage stored; and one draw.

A warp is a pure function of one position's logits. `shape` runs several and stores each result. `uniform` and `draw`
select a token by inverting the cumulative distribution, so that two strategies with the same random number differ
because of their methods, not by chance.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_number, check_token, shown
from model.errors import InputError, say
from model.public import array, public, unit, whole
from model.sampling.rules.matching import compiled
from model.sampling.rules.rule import Rule

MOST_STEPS = 24  # maximum number of steps in a pipeline
MOST_BIAS = 100  # maximum absolute bias of a token's logit
MOST_PHRASES = 1 << 16  # maximum number of phrases of a step: a breaker can match many tokens of a vocabulary
MOST_PHRASE = 40  # maximum number of tokens of a phrase
SECOND = 2**32  # the row of a step's second random number is the row of its first plus this
LARGEST = 2**63 - 1  # largest seed, step or row: a word of Philox
FIRST = 1024  # a draw first considers only tokens with a probability of at least 1 / FIRST


@dataclass(frozen=True)
class Parameter:
    """A numeric setting of a warp."""

    name: str
    low: float
    high: float
    default: float
    step: float  # step size of the slider
    whole: bool = False
    quiet: bool = False  # left out of a step's name while it has its default


@dataclass(frozen=True)
class Step:
    """One warp with its settings; missing ones take their defaults."""

    warp: str  # a key of model.sampling.warps.WARPS
    values: tuple[tuple[str, float], ...] = ()
    tokens: tuple[tuple[int, float], ...] = ()  # (token id, number) pairs, for a warp that takes tokens
    phrases: tuple[tuple[int, ...], ...] = ()  # token sequences, for a warp that takes phrases
    text: str = field(default="", compare=False)  # what a user typed for the tokens or the phrases
    rule: Rule | None = None  # for a warp that takes a rule; None allows every text

    def get(self, parameter: Parameter) -> float:
        """Return the step's value of a parameter, or the default."""
        return dict(self.values).get(parameter.name, parameter.default)


@dataclass(frozen=True)
class Context:
    """Inputs of a warp besides the logits: the tokens so far, the warp's memory if it has one, and a random number."""

    ids: tuple[int, ...] = ()  # the prompt and its continuation
    prompt: int = 0  # length of the prompt in tokens
    memory: float | None = None  # the memory of a warp that has one (Mirostat's mu); None before the first token
    chance: float | None = None  # the step's second random number, in [0, 1); a warp that acts by chance needs it

    def after(self, token: int) -> "Context":
        """Return the context after another token, for a rule: a warp's memory remains that of before."""
        return replace(self, ids=(*self.ids, token))


@dataclass(frozen=True)
class Warp:
    """An entry of model.sampling.warps.WARPS. Its label and help are the words "warp.<key>" and "warp_help.<key>"."""

    apply: Callable[[Tensor, Mapping[str, float], Context, Step], Tensor]  # logits [V] -> logits [V], a new tensor
    kind: str  # "penalty" changes single logits, "scale" all of them, "cut" sets some to -inf
    source: str  # the paper, with the section or equation
    parameters: tuple[Parameter, ...] = ()
    takes_tokens: bool = False
    chance: str = ""  # for a warp that acts by chance: the parameter that is its probability
    takes_phrases: str = ""  # the function of model.sampling.phrases that reads its words: "banned" or "breakers"
    takes_rule: bool = False
    # for a warp with a memory: (values, memory before or None, the drawn token's probability after all steps) -> memory
    remember: Callable[[Mapping[str, float], float | None, float], float] | None = None


@dataclass(frozen=True)
class StageReport:
    """Statistics of a stage of a pipeline."""

    kept: int  # number of remaining tokens
    removed: float  # total probability, in the previous stage, of the tokens that this stage excludes
    entropy: float  # entropy of the stage's probabilities, nats
    effective: float  # exp(entropy): the number of equally likely tokens with the same entropy


@dataclass(frozen=True, eq=False)
class Shaped:
    """One position's logits at every stage of a pipeline. Stage 0 is the model's own, stage i the result of step i -
    1.
    """

    steps: tuple[Step, ...]
    stages: Tensor  # float32 [S + 1, V], -inf for an excluded token

    @property
    def logits(self) -> Tensor:
        """The result of the last step. [V]"""
        return self.stages[-1]

    def probabilities(self, stage: int = -1) -> np.ndarray:
        """Compute the softmax of a stage, 0 for excluded tokens. float64 [V], sums to 1"""
        return softmax(self.stages[stage].numpy())

    def kept(self, stage: int = -1) -> int:
        """Count the remaining tokens."""
        return int(torch.isfinite(self.stages[stage]).sum())

    def report(self) -> list[StageReport]:
        """Compute the statistics of every stage, starting with the model's own. [S + 1]"""
        reports: list[StageReport] = []
        before = np.zeros(self.stages.shape[-1])
        for stage in range(len(self.stages)):
            after = self.probabilities(stage)
            spread = float(entropy(after))
            removed = float(before[self.stages[stage].numpy() == -np.inf].sum())
            reports.append(StageReport(self.kept(stage), removed, spread, float(np.exp(spread))))
            before = after
        return reports


@public(logits=array(finite=False))
def softmax(logits: np.ndarray) -> np.ndarray:
    """Compute exp(x - max) / sum, in float64; -inf gives exactly 0. [..., V] -> [..., V]"""
    largest = logits.max(-1, keepdims=True)  # NaN if any value is NaN
    if not np.isfinite(largest).all():
        hint = "Each must be a number or -inf, and at least one must be finite."
        raise InputError("These logits do not define a distribution.", "logits", hint)
    shifted = np.exp(logits.astype(np.float64) - largest)
    return shifted / shifted.sum(-1, keepdims=True)


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Compute -sum p ln p over the last axis, in nats; 0 ln 0 is 0. Shannon 1948, section 6."""
    logs = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
    return -(probabilities * logs).sum(-1)


@public(seed=whole(0, LARGEST), step=whole(0, LARGEST), row=whole(0, LARGEST))
def uniform(seed: int, step: int, row: int = 0) -> float:
    """Compute the random number of a step, in [0, 1): it depends on the seed, step and row, but not on earlier draws.

    Philox 4x64 is counter-based and has no state (Salmon et al. 2011), so a branch that starts at step 7 gets the same
    number that step 7 had before. Rows differ only if strategies should not share random numbers. Raises InputError
    unless the arguments are integers from 0 to 2^63 - 1.
    """
    return float(np.random.Generator(np.random.Philox(key=[seed, row], counter=[0, 0, 0, step])).random())


@public(seed=whole(0, LARGEST), step=whole(0, LARGEST), row=whole(0, SECOND - 1))
def second(seed: int, step: int, row: int = 0) -> float:
    """Compute the second random number of a step, for warps that act by chance: `uniform` in a row of its own.

    It is independent of the number that draws the token, and strategies with the same row share it, too.
    """
    return uniform(seed, step, SECOND + row)


def order(probabilities: np.ndarray) -> np.ndarray:
    """Sort the tokens that can be drawn in decreasing order of probability, ties by the smaller id. [V] -> ids [n]"""
    ids = np.flatnonzero(probabilities)
    # several times faster than a stable sort, but the order of ties is arbitrary
    ranking = np.argsort(-probabilities[ids])
    sorted_values = probabilities[ids[ranking]]
    same = sorted_values[1:] == sorted_values[:-1]
    if same.any():
        run = np.concatenate(([0], np.cumsum(~same)))  # the index of each distinct value, counted from the largest
        tied = np.flatnonzero(np.concatenate((same, [False])) | np.concatenate(([False], same)))
        ranking[tied] = np.sort(run[tied] * len(ids) + ranking[tied]) % len(ids)
    return ids[ranking]


@public(probabilities=array("V", finite=False), u=unit)
def draw(probabilities: np.ndarray, u: float) -> int:
    """Draw the token whose interval of the bar contains `u`, where the bar starts with the most likely token.
    probabilities [V], u in [0, 1)

    Inversion of the cumulative distribution: P(draw = i) = p_i for a uniform u. Devroye 1986, section III.2. The bar
    is first built from the most likely tokens only, sorted by `order`: at most FIRST tokens can have a probability of
    1 / FIRST, and u rarely falls beyond them. Raises InputError if u is outside [0, 1) or the probabilities are
    invalid; their sum need not be 1.
    """
    mass = probabilities.sum()
    if not (0 < mass < np.inf and probabilities.min() >= 0):  # the sum is NaN if any probability is NaN
        raise InputError(
            "These are not probabilities.",
            f"probabilities: {shown(mass)}",
            "Give numbers of at least 0, one of them above 0.",
        )
    if len(probabilities) == 1:
        return 0
    target = u * mass
    for least in (mass / FIRST, mass / (32 * FIRST)):
        ids = np.flatnonzero(probabilities >= least)
        ids = ids[np.argsort(-probabilities[ids], kind="stable")]
        edges = np.cumsum(probabilities[ids])
        if len(ids) and edges[-1] > target:
            return int(ids[np.searchsorted(edges, target, side="right")])
    ids = order(probabilities)
    edges = np.cumsum(probabilities[ids])
    # rounding can place the target beyond the end
    return int(ids[min(np.searchsorted(edges, target, side="right"), len(ids) - 1)])


def usable(logits: Tensor, size: int) -> Tensor:
    """Set the logits [..., V] of rows beyond the vocabulary's `size` to -inf, so that they cannot be drawn."""
    if size >= logits.shape[-1]:
        return logits
    return torch.cat((logits[..., :size], logits.new_full((*logits.shape[:-1], logits.shape[-1] - size), -np.inf)), -1)


def check_numbers(owner: str, numbers: tuple[tuple[str, float], ...], parameters: tuple[Parameter, ...]) -> None:
    """Raise InputError unless every number of the warp or method `owner` is a parameter within its bounds."""
    bounds = {parameter.name: parameter for parameter in parameters}
    for name, value in numbers:
        parameter = bounds.get(name) if isinstance(name, str) else None
        if parameter is None:
            hint = say("Choose one of: {}.", ", ".join(bounds)) if bounds else "Remove it."
            raise InputError("No setting has this name.", f"{owner}, {shown(name)[:20]}: {shown(value)}", hint)
        check_number(f"{owner}, {name}", value, parameter.low, parameter.high)
        if parameter.whole and value % 1:
            got = f"{owner}, {name}: {value:g}"
            raise InputError("A setting is not a whole number.", got, "Choose a whole number.")


def checked(steps: tuple[Step, ...], warps: Mapping[str, Warp], vocab_size: int) -> tuple[Step, ...]:
    """Return the steps if every number is a parameter of its warp and within its bounds; raise InputError otherwise."""
    if not isinstance(steps, tuple | list):
        raise InputError("The steps are not a list.", shown(steps), "Give a tuple of steps.")
    if len(steps) > MOST_STEPS:
        raise InputError("There are too many steps.", str(len(steps)), say("At most {} steps.", MOST_STEPS))
    for step in steps:
        warp = warps.get(step.warp) if isinstance(step, Step) and isinstance(step.warp, str) else None
        if warp is None:
            name = step.warp if isinstance(step, Step) else step
            raise InputError("This step is unknown.", shown(name), say("Choose one of: {}.", ", ".join(warps)))
        check_numbers(step.warp, step.values, warp.parameters)
        for token, number in step.tokens:
            check_token(token, vocab_size)
            check_number(step.warp, number, -MOST_BIAS, MOST_BIAS)
        check_phrases(step.phrases, vocab_size)
        if step.rule is not None:
            _check_rule(step, warp, vocab_size)
    return steps


def check_phrases(phrases: tuple[tuple[int, ...], ...], vocab_size: int) -> None:
    """Raise InputError unless the phrases are not too many or too long and consist of tokens."""
    if len(phrases) > MOST_PHRASES:
        raise InputError("There are too many phrases.", str(len(phrases)), say("At most {}.", MOST_PHRASES))
    for phrase in phrases:
        if not 0 < len(phrase) <= MOST_PHRASE:
            raise InputError(
                "A phrase is empty or too long.", str(len(phrase)), say("From 1 to {} tokens.", MOST_PHRASE)
            )
        for token in phrase:
            check_token(token, vocab_size)


def _check_rule(step: Step, warp: Warp, vocab_size: int) -> None:
    """Raise InputError unless the warp takes a rule, and the rule can be followed with this vocabulary."""
    if not (warp.takes_rule and isinstance(step.rule, Rule)):
        raise InputError("This step takes no such rule.", f"{step.warp}: {shown(step.rule)}", "Remove the rule.")
    if len(step.rule.vocabulary.raw) > vocab_size:
        what = "This rule was made for another vocabulary."
        raise InputError(what, f"{len(step.rule.vocabulary.raw)} tokens", "Make it with the tokenizer of this model.")
    compiled(step.rule)
