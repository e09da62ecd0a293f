"""Statistics of a generated text: its likelihood under the model, its diversity, and its repetition."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from model.generation.generate import Tick
from model.generation.strategies import GeneratedToken
from model.public import public, whole


@dataclass(frozen=True)
class TextStatistics:
    """Statistics of one text. NaN for statistics that require more tokens."""

    length: int  # number of tokens
    log_probability: float  # mean log-probability in the model itself, without warps, nats per token
    surprisal: float  # -log_probability in bits per token
    perplexity: float  # exp(-log_probability)
    entropy: float  # mean entropy of the model's distributions, nats
    probability: float  # mean probability of the drawn tokens after the warps; NaN if the method does not draw
    distinct_1: float  # distinct tokens / tokens
    distinct_2: float  # distinct pairs / pairs
    repeated_3: float  # fraction of the 3-grams that occurred before in the text
    repeated_4: float  # fraction of the 4-grams that occurred before in the text


@dataclass(frozen=True, eq=False)
class Written:
    """One generated text with the statistics of its tokens."""

    made: tuple[GeneratedToken, ...]
    ended: str  # "end", "stop", "length", "context", "rule", "stuck"; "" while the text continues
    passes: int = 0  # number of forward passes, shared with other texts of the batch or not
    saved: int = 0  # number of forward passes that forced tokens saved

    @property
    def forced(self) -> int:
        """The number of tokens that a rule forced, with only one token left."""
        return sum(each.fit is not None and each.fit.allowed == 1 for each in self.made)

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of the text's tokens."""
        return tuple(each.id for each in self.made)


@public()
def measure_text(tokens: Sequence[GeneratedToken]) -> TextStatistics:
    """Compute the statistics of a text.

    Distinct-n: Li et al. 2016, section 5. Repeated n-grams: seq-rep-n of Welleck et al. 2020, which is 1 - distinct-n.
    The perplexity of a text under the model that generated it measures confidence, not quality (Holtzman et al. 2020).
    """
    ids = [each.id for each in tokens]
    log_probability = mean([each.log_probability for each in tokens])
    return TextStatistics(
        length=len(ids),
        log_probability=log_probability,
        surprisal=-log_probability / math.log(2),
        perplexity=math.inf if log_probability < -700 else math.exp(-log_probability),  # exp overflows above 709
        entropy=mean([each.entropy for each in tokens]),
        probability=mean([each.probability for each in tokens]),
        distinct_1=distinct([ids], 1),
        distinct_2=distinct([ids], 2),
        repeated_3=1 - distinct([ids], 3),
        repeated_4=1 - distinct([ids], 4),
    )


def distinct(texts: Iterable[Sequence[int]], n: int) -> float:
    """Return the ratio of distinct n-grams to all n-grams of the texts; no n-gram spans two texts. NaN if there are no
    n-grams.
    """
    runs = [tuple(ids[at : at + n]) for ids in texts for at in range(len(ids) - n + 1)]
    return len(set(runs)) / len(runs) if runs else math.nan


def mean(values: Sequence[float]) -> float:
    """Return the mean, or NaN if there are no values."""
    return float(np.mean(values)) if len(values) else math.nan


@public(count=whole(0, 4096))
def written(ticks: Iterable[Tick], count: int) -> list[Written]:
    """Run all steps of `model.generation.generate.generate`, and return the texts of its `count` strategies."""
    tokens: list[list[GeneratedToken]] = [[] for _ in range(count)]
    ended = [""] * count
    passes, saved = [0] * count, [0] * count
    for tick in ticks:
        for at, change in enumerate(tick.changes):
            if change is not None:
                del tokens[at][len(tokens[at]) - change.drop :]
                tokens[at].extend(change.made)
                ended[at] = change.ended
                passes[at] += change.passes
                saved[at] += not change.passes
    return [Written(tuple(each), *more) for each, *more in zip(tokens, ended, passes, saved, strict=True)]
