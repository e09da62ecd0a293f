"""What can be counted in a text that a model wrote: how likely it found it, how varied it is, how much it repeats."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from model.generation.generate import Tick
from model.generation.strategies import Made


@dataclass(frozen=True)
class Measured:
    """Numbers of one text; NaN where there are too few tokens for one to be defined."""

    length: int  # tokens
    log_probability: float  # mean of the model's own, nothing warped, nats a token
    surprisal: float  # the same with the other sign, bits a token
    perplexity: float  # exp(-log_probability)
    entropy: float  # mean of the model's own distributions, nats
    probability: float  # mean of the drawn tokens after the warps; NaN where the method does not draw
    distinct_1: float  # different tokens / tokens
    distinct_2: float  # different pairs / pairs
    repeated_3: float  # share of runs of three tokens that stood in the text before
    repeated_4: float  # the same of four


@dataclass(frozen=True, eq=False)
class Written:
    """One text with all that is known of its tokens."""

    made: tuple[Made, ...]
    ended: str  # "end", "stop", "length", "context"; "" while it goes on

    @property
    def ids(self) -> tuple[int, ...]:
        """Its tokens."""
        return tuple(each.id for each in self.made)


def measure_text(made: Sequence[Made]) -> Measured:
    """The numbers of a text.

    Distinct-n: Li et al. 2016, section 5. Repeated n-grams: seq-rep-n of Welleck et al. 2020, which is
    1 - distinct-n. Perplexity of the model's own choice measures confidence, not quality (Holtzman et al. 2020).
    """
    ids = [each.id for each in made]
    log_probability = mean([each.log_probability for each in made])
    return Measured(
        length=len(ids),
        log_probability=log_probability,
        surprisal=-log_probability / math.log(2),
        perplexity=math.inf if log_probability < -700 else math.exp(-log_probability),  # float64 ends at e^709
        entropy=mean([each.entropy for each in made]),
        probability=mean([each.probability for each in made]),
        distinct_1=distinct([ids], 1),
        distinct_2=distinct([ids], 2),
        repeated_3=1 - distinct([ids], 3),
        repeated_4=1 - distinct([ids], 4),
    )


def distinct(texts: Iterable[Sequence[int]], n: int) -> float:
    """Different runs of n tokens / runs of n tokens, over texts together; no run crosses two. NaN for no run at all."""
    runs = [tuple(ids[at : at + n]) for ids in texts for at in range(len(ids) - n + 1)]
    return len(set(runs)) / len(runs) if runs else math.nan


def mean(values: Sequence[float]) -> float:
    """The mean; NaN for no values."""
    return float(np.mean(values)) if len(values) else math.nan


def written(ticks: Iterable[Tick], count: int) -> list[Written]:
    """The texts of `count` strategies once all steps of `model.generation.generate.generate` are done."""
    made: list[list[Made]] = [[] for _ in range(count)]
    ended = [""] * count
    for tick in ticks:
        for at, change in enumerate(tick.changes):
            if change is not None:
                del made[at][len(made[at]) - change.drop :]
                made[at].extend(change.made)
                ended[at] = change.ended
    return [Written(tuple(each), why) for each, why in zip(made, ended, strict=True)]
