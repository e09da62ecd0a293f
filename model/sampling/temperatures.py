"""A pipeline at many temperatures: one position's distribution as a function of temperature."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from model.public import between, nonempty, public, whole
from model.sampling.outcomes import at_chance, outcomes
from model.sampling.pipeline import Context, Step, entropy, softmax
from model.sampling.warps import NOTHING, final
from model.tracing.ranking import top_ids

LOWEST, HIGHEST, MANY = 0.05, 3.0, 40


@dataclass(frozen=True, eq=False)
class Heated:
    """The tokens that are among the most likely at any temperature, in decreasing order of the model's probability,
    and statistics of each distribution.
    """

    temperatures: np.ndarray  # [N]
    ids: np.ndarray  # [C]
    probabilities: np.ndarray  # float64 [C, N], 0 for an excluded token
    entropy: np.ndarray  # entropy over the whole vocabulary in nats [N]
    largest: np.ndarray  # probability of the most likely token [N]
    kept: np.ndarray  # number of remaining tokens [N]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(value.nbytes for value in vars(self).values())


@public()
def temperatures(logarithmic: bool = True) -> np.ndarray:
    """Return MANY temperatures from LOWEST to HIGHEST, equally spaced on a logarithmic or a linear scale."""
    return (np.geomspace if logarithmic else np.linspace)(LOWEST, HIGHEST, MANY)


def at_temperature(steps: tuple[Step, ...], value: float) -> tuple[Step, ...]:
    """Replace the temperature of the first temperature step, or put such a step first if the steps include none.

    A dynamic temperature keeps its range and exponent around the new center.
    """
    changed = Step("temperature", (("temperature", float(value)),))
    at = heated_step(steps)
    if at is None:
        return (changed, *steps)
    if steps[at].warp == "dynamic_temperature":
        changed = replace(steps[at], values=tuple((dict(steps[at].values) | {"dynamic": float(value)}).items()))
    return (*steps[:at], changed, *steps[at + 1 :])


def heated_step(steps: tuple[Step, ...]) -> int | None:
    """Return the index of the first temperature, or else of the first dynamic one; None if there is neither."""
    for warp in ("temperature", "dynamic_temperature"):
        for n, step in enumerate(steps):
            if step.warp == warp:
                return n
    return None


@public(values=between(0, 1e6), top=whole(1))
def heat(
    logits: Tensor,
    steps: tuple[Step, ...],
    context: Context = NOTHING,
    values: Sequence[float] | np.ndarray | None = None,
    top: int = 25,
) -> Heated:
    """Run the steps on one position's logits [V] at each temperature; steps before the temperature run only once.

    The probabilities are averaged over the outcomes of steps that act by chance.
    """
    if values is not None:
        nonempty("values", values)
    values = temperatures() if values is None else np.asarray(values, np.float64)
    every = [at_temperature(steps, value) for value in values]
    head = heated_step(every[0]) or 0
    distributions = [np.zeros(len(logits)) for _ in every]
    for outcome in outcomes(steps):
        context = at_chance(context, outcome.chance)
        before = final(logits, steps[:head], context)
        for changed, after in zip(every, distributions, strict=True):
            after += outcome.probability * softmax(final(before, changed[head:], context).numpy())
    most = torch.from_numpy(np.max(distributions, 0)).float()
    chosen = top_ids(most, top)
    chosen = chosen[most[chosen] > 0]
    chosen = chosen[logits[chosen].argsort(descending=True, stable=True)].numpy()
    return Heated(
        temperatures=values,
        ids=chosen,
        probabilities=np.stack([after[chosen] for after in distributions], 1),
        entropy=np.array([float(entropy(after)) for after in distributions]),
        largest=np.array([after.max() for after in distributions]),
        kept=np.array([np.count_nonzero(after) for after in distributions]),
    )
