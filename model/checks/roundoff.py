"""How far rounding moves a model's numbers, measured: each number on the way is moved as rounding might, and watched.

Two computations of the same number in float32, in another order or by another kernel, are two draws of random errors;
how large those have become at the end depends on the weights and the prompt. So the bound on their difference is
measured where it is used: errors of the size that float32 makes at each step are put in through the tap, all larger by
one factor, so that the rounding of this forward itself is nothing beside them, and what comes out is divided by that
factor. Monte Carlo arithmetic (Parker 1997, section 4); the size of a sum's error is that of Higham & Mary 2019: with
random roundings, n terms are off by about sqrt(n) u of their size, where the worst case is n u (Higham 2002, 4.2).
"""

import math
from collections.abc import Callable, Collection

import torch
from torch import Tensor

from model.gpt.config import ModelConfig
from model.gpt.tap import Tap, compose
from model.gpt.transformer import Transformer

UNIT = 2.0**-24  # u: half the spacing of float32 numbers at 1, the most by which one rounding is off
STEP = 2.0**-14  # by which numbers are moved instead: 1,024 roundings, yet little enough to act in proportion
RESULTS = 2  # that are compared: each may be as far from the exact one as was measured
Site = tuple[str, int]  # (name, layer)

# Roundings that make one number of a site: the terms of its sum, by their name, or a count of single operations.
_TERMS: dict[str, str | int] = {
    "embed": 1,
    "pos_embed": 1,
    "resid_pre": 1,
    "norm1_in": 1,
    "norm1_scale": "D",
    "norm1_out": 4,
    "q": "D",
    "k": "D",
    "v": "D",
    "q_rot": 4,
    "k_rot": 4,
    "scores": "E",
    "pattern": "S",
    "z": "T",
    "attn_out": "HE",
    "resid_mid": 1,
    "norm2_in": 1,
    "norm2_scale": "D",
    "norm2_out": 4,
    "mlp_pre": "D",
    "mlp_up": "D",
    "mlp_post": 4,
    "mlp_out": "M",
    "resid_post": 1,
    "final_in": 1,
    "final_scale": "D",
    "final_out": 4,
    "logits": "D",
}


def terms(site: str, x: Tensor, config: ModelConfig) -> int:
    """How many roundings make a number of a site, which has this tensor."""
    sizes = {"D": config.d_model, "E": config.d_head, "HE": config.n_head * config.d_head, "M": config.d_mlp}
    return (sizes | {"S": x.shape[-1], "T": x.shape[-2]}).get(_TERMS[site], _TERMS[site])


def moved(site: str, x: Tensor, config: ModelConfig, generator: torch.Generator) -> Tensor:
    """Every number up or down by STEP sqrt(terms) of its own size and its row's together. [B, ...] -> [B, ...]

    A sum may come out small from large terms: its error is of the size of the numbers beside it, for scores those of
    the whole head. A weight of a pattern is a share of such a sum and moves by its own size. What is 0 there stays 0,
    and a score that is -inf stays. The numbers of all B are moved the same way.
    """
    beside = (-2, -1) if site == "scores" else -1
    hidden = x.isneginf()
    size = x.masked_fill(hidden, 0).abs()
    if site != "pattern":
        mean = size.square().sum(beside, keepdim=True) / (~hidden).sum(beside, keepdim=True).clamp(min=1)
        size = (size.square() + mean).sqrt()
    sign = torch.randint(0, 2, x.shape[1:], generator=generator, dtype=torch.int8) * 2 - 1
    return x + STEP * math.sqrt(terms(site, x, config)) * sign * size


def row_sizes(site: str, x: Tensor) -> Tensor:
    """The largest number of each row, of scores that of the whole head. [..., T, n] -> [..., T]"""
    size = x.masked_fill(x.isneginf(), 0).abs().amax(-1)
    return size.amax(-1, keepdim=True).expand_as(size) if site == "scores" else size


@torch.inference_mode()
def watched(
    forward: Callable[[int, Tap], object], config: ModelConfig, sites: Collection[str], draws: int = 1, seed: int = 0
) -> dict[Site, Tensor]:
    """The most that two float32 computations of a row may be apart, by (site, layer). float64 [B, (H,) T] each

    `forward(n, tap)` computes n copies of a batch of B, one after the other in one batch; the first copy is left as it
    is. A row's bound is RESULTS times what its largest number moved by; where chance moved it by less, what the rows
    of its site move by in the root mean square, measured by their size.
    """
    generator, found = torch.Generator().manual_seed(seed), {}

    def tap(site: str, layer: int, x: Tensor) -> Tensor:
        if site == "pos_embed":  # has no axis of copies; the sum that it goes into is moved
            return x
        plain, *others = x.chunk(draws + 1)
        others = [moved(site, other, config, generator) for other in others]
        if site in sites:
            hidden, size = plain.isneginf(), row_sizes(site, plain).double()
            apart = [(other - plain).masked_fill(hidden, 0).abs().amax(-1) for other in others]
            apart = torch.stack(apart).amax(0).double() * (UNIT / STEP)
            typical = torch.where(size > 0, apart / size, 0.0).square().mean().sqrt()
            found[site, layer] = RESULTS * torch.maximum(apart, typical * size)
        return torch.cat((plain, *others))

    forward(draws + 1, tap)
    return found


def bounds(
    model: Transformer, ids: Tensor, tap: Tap | None = None, sites: Collection[str] = ("logits",), draws: int = 1
) -> dict[Site, Tensor]:
    """`watched` of a whole forward, with a tap of its own before the numbers are moved. ids [B, T]"""

    def forward(n: int, moving: Tap) -> object:
        return model(ids.repeat(n, 1), tap=moving if tap is None else compose(tap, moving))

    return watched(forward, model.config, sites, draws)


def summed(n: int) -> float:
    """By how many u of their size two sums of n terms may be apart: 4 sqrt(n) spacings, so 8 sqrt(n) u.

    One sum stays within lambda sqrt(n) u but for a chance below 2 exp(-lambda^2 / 2): 1e-13 at lambda = 8 (Higham &
    Mary 2019, theorem 2.4, for each of the n roundings of mean 0; the worst case is n u, Higham 2002, section 4.2).
    """
    return 8 * math.sqrt(max(n, 1)) * UNIT
