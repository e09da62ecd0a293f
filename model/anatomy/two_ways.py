"""Two ways to do one thing, timed on this machine: LayerNorm or RMSNorm; q, k and v in three products or in one."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.nn.functional import layer_norm, linear, rms_norm

from model.generation.cache_costs import Times
from model.gpt.config import ModelConfig
from model.public import public

ROUNDS = 101  # maximum number of timed rounds
_FEWEST = 9
_BUDGET = 0.08  # seconds per pair


@dataclass(frozen=True)
class Pair:
    """One operation on one token in two ways, with the times of both."""

    key: str  # "norm" or "qkv"
    first: Times = field(compare=False)  # LayerNorm; three products
    second: Times = field(compare=False)  # RMSNorm; one product

    @property
    def best(self) -> tuple[float, float]:
        """The fastest round of each way in seconds: other programs can only make a round slower."""
        return min(self.first.seconds), min(self.second.seconds)

    @property
    def saved(self) -> float:
        """The fraction of the first way's best time that the second way saves; negative if it is slower."""
        first, second = self.best
        return 1 - second / first


@public()
@torch.inference_mode()
def two_ways(config: ModelConfig) -> tuple[Pair, ...]:
    """Time both pairs on random numbers of a model's widths, for one token, in float32; only the norms for a model
    without queries and keys.

    One token, as in a step of generation, keeps PyTorch on a single thread: with several, a busy machine would decide
    the result. The rounds of the two ways alternate. The norms have a gain and, for LayerNorm, a bias (Ba et al. 2016;
    Zhang & Sennrich 2019); the single product has the rows of all three weight matrices.
    """
    chance = torch.Generator().manual_seed(0)
    D, groups = config.d_model, config.n_kv_head or config.n_head
    width = config.d_head or D // config.n_head
    x, gain, bias = (torch.randn(*shape, generator=chance) for shape in ((1, D), (D,), (D,)))
    weights = [torch.randn(heads * width, D, generator=chance) for heads in (config.n_head, groups, groups)]
    fused = torch.cat(weights)

    def three(y: torch.Tensor) -> list[torch.Tensor]:
        return [linear(y, weight) for weight in weights]

    ways = {
        "norm": (lambda y: layer_norm(y, (D,), gain, bias), lambda y: rms_norm(y, (D,), gain)),
        "qkv": (three, lambda y: linear(y, fused).split([len(weight) for weight in weights], 1)),
    }
    if all(config.channels(layer) is not None for layer in range(config.n_layer)):
        del ways["qkv"]
    return tuple(Pair(key, *_alternating(first, second, x)) for key, (first, second) in ways.items())


def _alternating(first: Callable, second: Callable, x: torch.Tensor) -> tuple[Times, Times]:
    """Time two functions of x in turn, after one untimed round."""
    seconds: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + _BUDGET
    for round_number in range(ROUNDS + 1):
        for way, times in zip((first, second), seconds, strict=True):
            start = time.perf_counter()
            way(x)
            if round_number:
                times.append(time.perf_counter() - start)
        if round_number >= _FEWEST and time.perf_counter() > end:
            break
    return Times(tuple(seconds[0])), Times(tuple(seconds[1]))
