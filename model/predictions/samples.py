"""Repeated samples: many texts generated from the same prompt with each strategy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from model.api import LanguageModel
from model.generation.generate import MOST_STRATEGIES, MOST_TOKENS, Tick
from model.generation.strategies import Strategy
from model.generation.text_statistics import TextStatistics, Written, measure_text, written
from model.progress import Progress, silent
from model.public import MOST_SEED, nonempty, public, unchecked, whole
from model.sampling.warps import probabilities_of, values_of

# Settings that leave a single token.
_ALONE = {"temperature": (("temperature", 0),), "top_k": (("k", 1),), "top_p": (("p", 0),)}
MOST_SEEDS = 1000  # maximum number of batches per seed, so that no two seeds share random numbers


@public(count=whole(1, 4096), max_new_tokens=whole(1, MOST_TOKENS), seed=whole(0, MOST_SEED))
@dataclass(frozen=True)
class Many:
    """The number of texts per strategy, and the settings that all strategies share."""

    count: int = 16
    max_new_tokens: int = 40
    seed: int = 0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Sample:
    """One generated text and its statistics, without the alternative tokens."""

    ids: np.ndarray  # [n] int32
    text: str  # without the token that ended the generation
    entropies: np.ndarray  # [n] float32, entropy of the model's distribution before each token, in nats
    ended: str  # "end", "stop", "length", "context"
    measured: TextStatistics

    @property
    def nbytes(self) -> int:
        """Approximate bytes in memory."""
        return self.ids.nbytes + self.entropies.nbytes + 2 * len(self.text) + 1024


def certain(strategy: Strategy) -> bool:
    """Return whether the strategy is deterministic: a search, or sampling with only one token left at each step.

    A step that acts by chance makes it random, unless an earlier one leaves only one token.
    """
    for step in strategy.steps:
        values = values_of(step)
        if any(values[name] == value for name, value in _ALONE.get(step.warp, ())):
            return True
        if any(0 < each < 1 for each in probabilities_of((step,))):
            return False
    return strategy.method != "sample"


@public(prompt=unchecked, strategies=nonempty)
def take_samples(
    lm: LanguageModel,
    prompt: str | Sequence[int],
    strategies: Sequence[Strategy],
    many: Many,
    progress: Progress = silent,
) -> list[list[Sample]]:
    """Generate `many.count` texts with each strategy, or one if it is deterministic.

    Sample i of every strategy uses the same random numbers, and different samples use different ones. Raises
    InputError as LanguageModel.generate does. `progress` counts the steps of all batches, as if no text ended early.
    """
    batches = batches_of(strategies, many.count)
    steps = many.max_new_tokens
    samples: list[list[Sample]] = [[] for _ in strategies]
    for number, (at, start, end) in enumerate(batches):
        seed = many.seed * MOST_SEEDS + start // MOST_STRATEGIES
        ticks = lm.generate(prompt, [strategies[at]] * (end - start), steps, seed, shared=False, stop=many.stop)

        def reporting(ticks: Iterator[Tick] = ticks, before: int = number * steps) -> Iterator[Tick]:
            for done, tick in enumerate(ticks, 1):
                yield tick
                progress(before + min(done, steps), len(batches) * steps, "")

        samples[at] += [_sample(lm, each) for each in written(reporting(), end - start)]
    return samples


def batches_of(strategies: Sequence[Strategy], count: int) -> list[tuple[int, int, int]]:
    """Split the samples into batches: (index of the strategy, first sample, end)."""
    return [
        (at, start, min(start + MOST_STRATEGIES, total))
        for at, strategy in enumerate(strategies)
        for total in (1 if certain(strategy) else count,)
        for start in range(0, total, MOST_STRATEGIES)
    ]


def _sample(lm: LanguageModel, text: Written) -> Sample:
    ids = text.ids[:-1] if text.ended == "end" else text.ids
    entropies = np.array([each.entropy for each in text.made], np.float32)
    return Sample(np.array(text.ids, np.int32), lm.decode(ids), entropies, text.ended, measure_text(text.made))
