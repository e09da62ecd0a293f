"""The outcomes of steps that act by chance, and the distribution over all of them."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from torch import Tensor

from model.public import public, unchecked, whole
from model.sampling.draw_statistics import bar_of, uniforms
from model.sampling.pipeline import SECOND, Context, Step, checked, softmax
from model.sampling.warps import NOTHING, WARPS, final, probabilities_of


@dataclass(frozen=True)
class Outcome:
    """A range of a step's second random number in which the same steps act."""

    chance: float  # the smallest number in the range
    end: float  # the smallest number beyond it

    @property
    def probability(self) -> float:
        """The length of the range."""
        return self.end - self.chance


@public(steps=unchecked)
def outcomes(steps: tuple[Step, ...]) -> tuple[Outcome, ...]:
    """List the possible outcomes, from all steps that can act to none; one outcome if no step acts by chance."""
    checked(steps, WARPS, 1 << 62)
    edges = [0.0, *(each for each in probabilities_of(steps) if 0 < each < 1), 1.0]
    return tuple(Outcome(low, high) for low, high in pairwise(edges))


@public(steps=unchecked)
def expected(logits: Tensor, steps: tuple[Step, ...], context: Context = NOTHING) -> np.ndarray:
    """Compute the probabilities after all steps, averaged over the outcomes. [V] -> float64 [V], sums to 1

    These are the probabilities of a token drawn with new random numbers: with one step that acts by chance, p p_acts +
    (1 - p) p_rests. Without such a step it is the softmax of the last stage.
    """
    total = np.zeros(len(logits))
    for outcome in outcomes(steps):
        after = final(logits, steps, at_chance(context, outcome.chance))
        total += outcome.probability * softmax(after.numpy())
    return total


@public(steps=unchecked, n=whole(0))
def counts(logits: Tensor, steps: tuple[Step, ...], seed: int, n: int, context: Context = NOTHING) -> np.ndarray:
    """Draw n tokens with the two random numbers of the steps 0 .. n - 1, and count them. [V] -> int64 [V]"""
    u, chances = uniforms(seed, n), uniforms(seed, n, row=SECOND)
    total = np.zeros(len(logits), np.int64)
    for outcome in outcomes(steps):
        inside = (chances >= outcome.chance) & (chances < outcome.end)
        bar = bar_of(softmax(final(logits, steps, at_chance(context, outcome.chance)).numpy()))
        total[bar.ids] += bar.counts(u[inside])
    return total


def at_chance(context: Context, chance: float | None) -> Context:
    """Replace the second random number of a context."""
    return Context(context.ids, context.prompt, context.memory, chance)
