"""The parameters of each part of a model, and what fraction of all parameters they are, from the config alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from model.anatomy.anatomy import Weight, weights
from model.gpt.config import ModelConfig
from model.public import public


@dataclass(frozen=True)
class ParameterShare:
    """Parameters of a part: in one block (or in total, for a part outside the blocks), in all blocks that have it, and
    as a fraction of the model's.
    """

    tensors: tuple[Weight, ...]  # those in the first block that has the part, or those outside the blocks
    layers: int  # number of blocks that have the part; 1 for a part outside the blocks
    once: int
    whole: int
    share: float

    @property
    def alike(self) -> bool:
        """Return whether all blocks with these parts have the same number of their parameters."""
        return self.whole == self.layers * self.once


@public()
def shares(config: ModelConfig) -> dict[str, ParameterShare]:
    """Return the parameters of each part that has any, by key; a tied unembedding has no entry.

    The `whole` numbers sum to `model.anatomy.anatomy.n_params(config)` and the fractions to 1.
    """
    return shares_of(weights(config))


def shares_of(tensors: Iterable[Weight]) -> dict[str, ParameterShare]:
    """Compute `shares` for the given tensors."""
    by_part: dict[str, list[Weight]] = {}
    for weight in tensors:
        by_part.setdefault(weight.part, []).append(weight)
    total = sum(weight.size for listed in by_part.values() for weight in listed)
    return {part: _share(listed, total) for part, listed in by_part.items()}


def _share(tensors: list[Weight], total: int) -> ParameterShare:
    """Compute the parameters of one part. The first block that has the part represents the others."""
    shown = tuple(weight for weight in tensors if weight.layer == tensors[0].layer)
    count = sum(weight.size for weight in tensors)
    layers = len({weight.layer for weight in tensors})
    return ParameterShare(shown, layers, sum(weight.size for weight in shown), count, count / total)


def by_component(shares_by_part: Mapping[str, ParameterShare], parts: Mapping[str, str]) -> dict[str, int]:
    """Sum the parameters by component, {component: parameters}; `parts` is `model.anatomy.anatomy.PARTS`."""
    sums = dict.fromkeys(parts.values(), 0)
    for part, share in shares_by_part.items():
        sums[parts[part]] += share.whole
    return {component: n for component, n in sums.items() if n}
