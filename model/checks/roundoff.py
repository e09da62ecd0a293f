"""Measured sensitivity of a model to rounding: every intermediate number is perturbed, and the effect is observed.

Two computations of the same number in float32, in another order or by another kernel, are two draws of random errors;
their size at the end depends on the weights and the prompt. So the bound on their difference is measured for each run.
Errors like those of float32 at each step are injected through the tap, all enlarged by one factor, so that the rounding
of this forward pass itself is negligible beside them. The resulting difference is divided by that factor. Monte Carlo
arithmetic (Parker 1997, section 4); the size of a sum's error is that of Higham & Mary 2019: with random roundings, a
sum of n terms is off by about sqrt(n) u of their size; the worst case is n u (Higham 2002, 4.2). If products are of
16-bit numbers (model.loading.halves), their inputs and results are also off by u of that type; the effect is then
measured on the same weights with float32 products, whose rounding is much finer.
"""

import math
from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor

from model.gpt.config import ModelConfig
from model.gpt.tap import Tap, compose
from model.gpt.transformer import Transformer
from model.loading.halves import UNIT, in_float32, unit

STEP = 2.0**-14  # relative size of the perturbations: 1,024 roundings, yet small enough for a linear response
RESULTS = 2  # number of compared results: each may be off by the measured effect
SAMPLES = 64  # minimum perturbed rows of a head: the effect on a single row may be near 0 by chance
Site = tuple[str, int]  # (name, layer)

# Roundings behind one number of a site: the terms of its sum, by their name, or a count of single operations.
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
    "mixed": "T",
    "z": "T",
    "attn_out": "HE",
    "resid_mid": 1,
    "norm2_in": 1,
    "norm2_scale": "D",
    "norm2_out": 4,
    "router": "D",
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
# Inputs and results of products with weights, rounded to the type of the products.
_READ = ("norm1_out", "norm2_out", "final_out", "z", "mlp_post", "mixed")
_GIVEN = ("q", "k", "v", "attn_out", "router", "mlp_pre", "mlp_up", "mlp_out", "logits")


def terms(site: str, x: Tensor, config: ModelConfig) -> int:
    """Return the number of roundings in one number of a site with this tensor."""
    read_by_o = max(config.n_head * config.z_width(layer) for layer in range(config.n_layer))
    sizes = {"D": config.d_model, "E": config.d_head, "HE": read_by_o, "M": config.d_mlp}
    return (sizes | {"S": x.shape[-1], "T": x.shape[-2]}).get(_TERMS[site], _TERMS[site])


def moved(site: str, x: Tensor, config: ModelConfig, generator: torch.Generator, product_unit: float = UNIT) -> Tensor:
    """Perturb every number by +-STEP sqrt(terms) of its own size and its row's together. [B, ...] -> [B, ...]

    With a `product_unit` coarser than float32's, STEP represents a rounding to that type instead: only inputs and
    results of products are perturbed, once.

    A sum may be small although its terms are large: its error has the size of the numbers beside it, for scores those
    of the whole head. A weight of a pattern is a share of such a sum and moves by its own size. Zeros and scores of
    -inf are unchanged. The numbers of all B are perturbed in the same way.
    """
    beside = (-2, -1) if site == "scores" else -1
    coarse = product_unit > UNIT
    if coarse and site not in _rounded(config):
        return x
    hidden = x.isneginf()
    size = x.masked_fill(hidden, 0).abs()
    if site != "pattern":
        mean = size.square().sum(beside, keepdim=True) / (~hidden).sum(beside, keepdim=True).clamp(min=1)
        size = (size.square() + mean).sqrt()
    sign = torch.randint(0, 2, x.shape[1:], generator=generator, dtype=torch.int8) * 2 - 1
    return x + STEP * math.sqrt(1 if coarse else terms(site, x, config)) * sign * size


def _rounded(config: ModelConfig) -> tuple[str, ...]:
    """Return the sites that are rounded to the type of products; post-norm blocks multiply the stream itself."""
    return (*_READ, *_GIVEN, *(("resid_pre", "resid_mid") if config.norm_placement == "post" else ()))


def row_sizes(site: str, x: Tensor) -> Tensor:
    """Return the reference size for the rounding of each row. [..., T, n] -> [..., T]

    It is the row's largest number; for scores, that of the whole head. A pattern's weights move with the scores by dp_i
    = p_i (ds_i - sum_j p_j ds_j), so its size is the largest p_i (1 - p_i): 0 if one key has all the weight.
    """
    if site == "pattern":
        return (x * (1 - x)).abs().amax(-1)
    size = x.masked_fill(x.isneginf(), 0).abs().amax(-1)
    return size.amax(-1, keepdim=True).expand_as(size) if site == "scores" else size


def enough(rows: int) -> int:
    """Return the number of perturbations of a run with this many tokens, so that a head has SAMPLES perturbed rows.

    A perturbed row is one draw: a pattern of two keys moves by a single random number, and a normal one lies within a
    tenth of its standard deviation with probability 0.08. All of eight independent ones do with probability 2e-9.
    """
    return max(1, math.ceil(SAMPLES / rows))


@torch.inference_mode()
def watched(
    forward: Callable[[int, Tap], object],
    config: ModelConfig,
    sites: Collection[str],
    draws: int = 1,
    seed: int = 0,
    product_unit: float = UNIT,
) -> dict[Site, Tensor]:
    """Bound the difference of two computations of a row, by (site, layer). float64 [B, (H,) T] each

    `forward(n, tap)` computes n copies of a batch of B, one after the other in one batch; the first copy is not
    perturbed. A row's bound is RESULTS times the change of its most changed number. By chance a row may change
    unusually little. Its bound is therefore at least the root mean square of the changes of its head's rows (of its
    site's without heads), relative to their `row_sizes`, and at least the perturbation of the row's own largest number.
    """
    limits = _effect(forward, config, sites, draws, seed, UNIT)
    if product_unit > UNIT:
        coarse = _effect(forward, config, sites, draws, seed, product_unit)
        limits = {site: limit + coarse[site] for site, limit in limits.items()}
    return limits


def _effect(
    forward: Callable[[int, Tap], object],
    config: ModelConfig,
    sites: Collection[str],
    draws: int,
    seed: int,
    product_unit: float,
) -> dict[Site, Tensor]:
    """Compute `watched` for the roundings of one type."""
    generator, limits = torch.Generator().manual_seed(seed), {}

    def tap(site: str, layer: int, x: Tensor) -> Tensor:
        if site == "pos_embed":  # has no axis of copies; its sum with the embedding is perturbed
            return x
        plain, *others = x.chunk(draws + 1)
        others = [moved(site, other, config, generator, product_unit) for other in others]
        if site in sites:
            limits[site, layer] = RESULTS * _moves(site, plain, others, config) * (product_unit / STEP)
        return torch.cat((plain, *others))

    forward(draws + 1, tap)
    return limits


def _moves(site: str, plain: Tensor, others: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Return the change of each row by perturbations of size STEP. plain and each of others [B, (H,) T, n] -> [B, (H,)
    T]
    """
    blocked, size = plain.isneginf(), row_sizes(site, plain).double()
    changes = torch.stack([(other - plain).masked_fill(blocked, 0).abs().amax(-1) for other in others]).double()
    change, alike = changes.amax(0), (0, -1) if plain.ndim == 4 else tuple(range(size.ndim))
    squares = torch.where(size > 0, change / size, 0.0).square().sum(alike, keepdim=True)
    typical = (squares / (size > 0).sum(alike, keepdim=True).clamp(min=1)).sqrt()
    own = STEP * math.sqrt(terms(site, plain, config)) * plain.masked_fill(blocked, 0).abs().amax(-1).double()
    return torch.maximum(torch.maximum(change, typical * size), own)


def bounds(
    model: Transformer,
    ids: Tensor,
    tap: Tap | None = None,
    sites: Collection[str] = ("logits",),
    draws: int | None = None,
) -> dict[Site, Tensor]:
    """Run `watched` on a forward pass, with a separate tap before the perturbation. ids [B, T]; draws: `enough`."""
    exact = in_float32(model)

    def forward(n: int, moving: Tap) -> object:
        return exact(ids.repeat(n, 1), tap=moving if tap is None else compose(tap, moving))

    return watched(forward, model.config, sites, draws or enough(ids.numel()), product_unit=unit(model))


def summed(n: int) -> float:
    """Bound the difference of two sums of n terms in units of u times their size: 4 sqrt(n) spacings, so 8 sqrt(n) u.

    One sum stays within lambda sqrt(n) u except with a probability below 2 exp(-lambda^2 / 2): 1e-13 at lambda = 8
    (Higham & Mary 2019, theorem 2.4, for each of the n roundings of mean 0; the worst case is n u, Higham 2002, section
    4.2).
    """
    return 8 * math.sqrt(max(n, 1)) * UNIT


def multiplied(n: int, product_unit: float) -> float:
    """Compute `summed` for a product of n terms with weights, relative to the sum of their sizes.

    If products are of 16 bits, each term's input is off by at most u of that type, and so is the result.
    """
    return summed(n) + (2 * product_unit if product_unit > UNIT else 0)
