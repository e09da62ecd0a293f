"""Measured sensitivity of a model to rounding: every intermediate number is perturbed, and the effect is observed.

Two float32 computations of the same number, in another order or by another kernel, are two draws of random errors. The
size of these errors in the result depends on the weights and the prompt, so the bound on the difference is measured for
each run. Errors like those of float32 are injected at each step through the tap, all enlarged by one factor, so that
the rounding of this forward pass itself is negligible beside them. The resulting difference is divided by that factor.
The method is Monte Carlo arithmetic (Parker 1997, section 4). The size of a sum's error follows Higham & Mary 2019:
with random roundings, the error of a sum of n terms is about sqrt(n) u times their size, and n u in the worst case
(Higham 2002, 4.2). With 16-bit products (model.loading.halves), inputs and results also have a relative error of u of
that type; its effect is then measured on the same weights with float32 products, whose rounding is much finer.
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
RESULTS = 2  # number of compared results, each with an error up to the measured effect
SAMPLES = 64  # minimum number of perturbed rows of a head: the effect on a single row may be near 0 by chance
Site = tuple[str, int]  # (name, layer)

# Number of roundings behind one number of a site: an axis letter for the terms of its sum, or a count of operations.
_TERMS: dict[str, str | int] = {
    "embed": 1,
    "pos_embed": 1,
    "segment_embed": 1,
    "embed_norm_in": 2,
    "embed_norm_scale": "D",
    "embed_norm_out": 4,
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
    "ssm_out": "I",
    "attn_out": "HE",
    "after1_in": 1,
    "after1_scale": "D",
    "after1_out": 4,
    "resid_mid": 1,
    "norm2_in": 1,
    "norm2_scale": "D",
    "norm2_out": 4,
    "router": "D",
    "mlp_pre": "D",
    "mlp_up": "D",
    "mlp_post": 4,
    "mlp_out": "M",
    "after2_in": 1,
    "after2_scale": "D",
    "after2_out": 4,
    "entry_out": "D",
    "resid_post": 1,
    "final_in": 1,
    "final_scale": "D",
    "final_out": 4,
    "logits": "D",
}
# Inputs and results of products with weights, rounded to the type of the products.
_READ = ("norm1_out", "norm2_out", "final_out", "z", "mlp_post", "mixed")
_GIVEN = ("q", "k", "v", "ssm_out", "attn_out", "router", "mlp_pre", "mlp_up", "mlp_out", "entry_out", "logits")


def terms(site: str, x: Tensor, config: ModelConfig) -> int:
    """Return the number of roundings behind one number of a site; `x` is the site's tensor."""
    read_by_o = max(config.n_head * config.z_width(layer) for layer in range(config.n_layer))
    widest = max(
        config.d_mlp, config.d_mlp_shared or 0, config.d_expert if config.n_expert > 1 else 0, config.d_shared or 0
    )
    head = max(config.d_head, config.d_head_local or 0)
    sizes = {"D": config.d_model, "E": head, "HE": read_by_o, "M": widest, "I": config.d_ssm + x.shape[-2]}
    return (sizes | {"S": x.shape[-1], "T": x.shape[-2]}).get(_TERMS[site], _TERMS[site])


def moved(site: str, x: Tensor, config: ModelConfig, generator: torch.Generator, product_unit: float = UNIT) -> Tensor:
    """Perturb every number by +-STEP sqrt(terms), relative to its own size and its row's together. [B, ...] -> same
    shape

    With a `product_unit` coarser than that of float32, STEP represents a rounding to that type instead: only inputs and
    results of products are perturbed, once.

    A sum may be small although its terms are large: its error is proportional to the other numbers of its row, and for
    scores to those of the whole head. An attention weight is one such term divided by their sum, so its error is
    proportional to the weight itself. Zeros and scores of -inf are unchanged. All B rows receive the same perturbation.
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
    """Return the sites that are rounded to the type of the products; without a norm before the sublayers, the stream
    itself is such an input.
    """
    return (*_READ, *_GIVEN, *(("resid_pre", "resid_mid") if config.norm_placement in ("post", "output") else ()))


def row_sizes(site: str, x: Tensor) -> Tensor:
    """Return the reference size for the rounding of each row. [..., T, n] -> [..., T]

    It is the largest absolute value of the row; for scores, that of the whole head. A pattern's weights move with the
    scores by dp_i = p_i (ds_i - sum_j p_j ds_j), so its size is the largest p_i (1 - p_i): 0 if one key has all the
    weight.
    """
    if site == "pattern":
        return (x * (1 - x)).abs().amax(-1)
    size = x.masked_fill(x.isneginf(), 0).abs().amax(-1)
    return size.amax(-1, keepdim=True).expand_as(size) if site == "scores" else size


def enough(rows: int) -> int:
    """Return the number of perturbed copies of a run with this many tokens that gives each head SAMPLES perturbed rows.

    A perturbed row is one draw. The change of a pattern over two keys depends on a single random number, and a normal
    one lies within a tenth of its standard deviation with probability 0.08. Eight independent ones all do so with
    probability 2e-9.
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
    """Bound the difference of two computations of each row, by (site, layer). Each bound is float64 [B, (H,) T].

    `forward(n, tap)` computes n copies of a batch of B, concatenated along the batch axis; the first copy is not
    perturbed. A row's bound is RESULTS times the change of its most changed number. By chance a row may change
    unusually little. Its bound is therefore at least the root mean square of the changes of its head's rows (or of all
    the site's rows, for sites without heads), relative to their `row_sizes`, and at least the perturbation of the row's
    own largest number.
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
    """Compute the bounds of `watched` for the roundings of one number type."""
    generator, limits = torch.Generator().manual_seed(seed), {}

    def tap(site: str, layer: int, x: Tensor) -> Tensor:
        if site == "pos_embed":  # has no batch axis; its sum with the embedding is perturbed instead
            return x
        plain, *others = x.chunk(draws + 1)
        others = [moved(site, other, config, generator, product_unit) for other in others]
        if site in sites:
            limits[site, layer] = RESULTS * _moves(site, plain, others, config) * (product_unit / STEP)
        return torch.cat((plain, *others))

    forward(draws + 1, tap)
    return limits


def _moves(site: str, plain: Tensor, others: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Return the change of each row by perturbations of size STEP. [B, (H,) T]

    `plain` and each of `others` are [B, (H,) T, n].
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
    """Compute the bounds of `watched` for a forward pass. The given tap is applied before the perturbation. ids [B, T]

    `draws` is the number of perturbed copies; by default it is computed by `enough`.
    """
    exact = in_float32(model)

    def forward(n: int, moving: Tap) -> object:
        return exact(ids.repeat(n, 1), tap=moving if tap is None else compose(tap, moving))

    return watched(forward, model.config, sites, draws or enough(ids.numel()), product_unit=unit(model))


def summed(n: int) -> float:
    """Return the bound on the difference of two sums of n terms, relative to their size.

    It is 4 sqrt(n) spacings, so 8 sqrt(n) u. One sum is within lambda sqrt(n) u, except with a probability below 2
    exp(-lambda^2 / 2), which is less than 1e-13 at lambda = 8 (Higham & Mary 2019, theorem 2.4, for each of the n
    roundings of mean 0; the worst case is n u, Higham 2002, section 4.2).
    """
    return 8 * math.sqrt(max(n, 1)) * UNIT


def multiplied(n: int, product_unit: float) -> float:
    """Return the bound of `summed` for products with n weights, relative to the sum of the absolute terms.

    With 16-bit products, the input of each term has a relative error of at most u of that type, and so does the result.
    """
    return summed(n) + (2 * product_unit if product_unit > UNIT else 0)
