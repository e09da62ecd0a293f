"""Head circuits from the weights alone, without a prompt: copying and composition (Elhage et al. 2021).

Convention: vectors are columns, and weights are [out, in] as stored in linear layers. A head reads x through W_Q, W_K,
W_V, all [E, D], and writes with W_O [D, E]:

    W_OV = W_O W_V       [D, D]   maps an input vector to the output vector
    W_QK = W_Q^T W_K     [D, D]   score = x_query^T W_QK x_key

The token-independent part of the preceding norm is folded into W_Q, W_K, W_V: the gain and, for LayerNorm, the
subtraction of the mean. That of a norm of the attention's output is folded into W_O, and that of a norm of the
embeddings into W_E. The gains of a q/k norm are folded into W_Q and W_K. Nothing is folded into W_Q, W_K and W_V in
models whose heads read the stream itself.

Token-dependent parts (the divisors of norms), biases, clamps and caps, the MLPs and post-norms between two heads, the
rotation of RoPE and ALiBi are ignored: with these, W_QK is that of a key at distance 0.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_head
from model.gpt.mixers.needs import need_alone, need_directions, need_scores
from model.gpt.norm import Norm
from model.gpt.transformer import Transformer, output_matrix
from model.public import MOST_SEED, public, whole

KINDS = ("q", "k", "v")
_DRAWS = 64  # number of random pairs of heads for the baseline
_ROWS = 4096  # maximum vocabulary rows converted to float64 at once


@dataclass(frozen=True, eq=False)
class Composition:
    """Composition scores, from 0 to 1, of one head with all other heads. The dicts have the keys `q`, `k` and `v`."""

    layer: int
    head: int
    reads: dict[str, np.ndarray]  # this head's query, key or value reading each head's output; float32 [L, H]
    feeds: dict[str, np.ndarray]  # each head's query, key or value reading this head's output; float32 [L, H]
    baseline: float  # mean score of random heads of the same shapes
    baseline_sd: float  # standard deviation of that score over pairs


@dataclass(frozen=True)
class FoldedHeads:
    """Folded factors of all heads of a layer, in float64, with KV heads repeated for each query head."""

    q: Tensor  # [H, E, D]
    k: Tensor  # [H, E, D]
    v: Tensor  # [H, E, D]
    o: Tensor  # [H, D, E]


@public()
@torch.inference_mode()
def copying(model: Transformer) -> np.ndarray:
    """Compute the copying score: whether a head makes the tokens that it attends to more likely (+1) or less likely
    (-1). float32 [L, H]

    The score is the sum of the real parts of the eigenvalues of W_U W_OV W_E [V, V], divided by the sum of their
    absolute values; the gain and centering of the final norm are folded into W_U. The nonzero eigenvalues are those of
    the [E, E] matrix W_V (W_E W_U) W_O. NaN for a head that writes nothing, and in layers without attention. Elhage et
    al. 2021, "Summarizing OV/QK matrices". It assumes token embeddings as input; where MLPs and earlier heads have
    transformed them, a copying head may have a low score.
    """
    need_directions(model.config)
    need_alone(model.config)
    both = _embed_unembed(model)
    return _by_layer(model, lambda heads: heads.v @ both @ heads.o)


@public()
@torch.inference_mode()
def matching(model: Transformer) -> np.ndarray:
    """Compute the matching score: whether the queries of a head score keys of the same token high (+1) or low (-1).
    float32 [L, H]

    The score is that of `copying` for W_E^T W_QK W_E [V, V], with the token embeddings W_E as input of both sides; the
    nonzero eigenvalues are those of W_K (W_E W_E^T) W_Q^T [E, E]. RoPE is that of distance 0. NaN in layers without
    attention. Elhage et al. 2021, "Summarizing OV/QK matrices".
    """
    need_alone(model.config)
    both = _embed_twice(model)
    return _by_layer(model, lambda heads: heads.k @ both @ heads.q.mT)


@public(draws=whole(1, 4096), seed=whole(0, MOST_SEED))
@torch.inference_mode()
def random_scores(model: Transformer, circuit: Literal["ov", "qk"], draws: int = 64, seed: int = 0) -> np.ndarray:
    """Compute `copying` ("ov") or `matching` ("qk") for random heads: both matrices of a head are independent Gaussian
    ones of the model's shape. float64 [draws]

    The scores do not depend on the matrices' norms. The same seed gives the same heads.
    """
    config = model.config
    if circuit == "ov":
        need_directions(config)
    need_alone(config)
    both = _embed_unembed(model) if circuit == "ov" else _embed_twice(model)
    generator = torch.Generator().manual_seed(seed)
    shape = (draws, config.d_head, config.d_model)
    first, second = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return _eigenvalue_score(first @ both @ second.mT).numpy()


def _by_layer(model: Transformer, small: Callable[[FoldedHeads], Tensor]) -> np.ndarray:
    """Compute the score of every head from its [E, E] matrix. float32 [L, H]"""
    scores = np.full((model.config.n_layer, model.config.n_head), np.nan, np.float32)
    for layer in filter(model.config.is_attention, range(model.config.n_layer)):
        scores[layer] = _eigenvalue_score(small(folded_heads(model, layer))).numpy()
    return scores


def _eigenvalue_score(small: Tensor) -> Tensor:
    """Divide the sum of the real parts of the eigenvalues by that of their absolute values. [..., E, E] -> [...]"""
    values = torch.linalg.eigvals(small)
    return values.real.sum(-1) / values.abs().sum(-1)


@public()
@torch.inference_mode()
def composition(model: Transformer, layer: int, head: int) -> Composition:
    """Compute the composition of the head with earlier heads (`reads`) and with later heads (`feeds`).

    score = ||M W_OV||_F / (||M||_F ||W_OV||_F), with W_OV of the earlier head and, for the later head, M = W_QK^T for
    its query, W_QK for its key, and W_OV for its value. It is 0 if the later head reads nothing that the earlier one
    writes. It is 1 only for rank-one matrices that match exactly; if n directions are transmitted equally and nothing
    else is read or written, it is 1 / sqrt(n), so compare it with the baseline and with 1 / sqrt(d_head). NaN in the
    head's own layer, in later layers for `reads` and earlier ones for `feeds`, in layers without attention, and for
    heads of zeros. Raises InputError for a layer or head out of range or without attention. Elhage et al. 2021, "The
    mechanics of head composition".
    """
    config = model.config
    need_scores(config, layer)
    need_alone(config)
    check_head(head, config.n_head)
    reads, feeds = (
        {kind: np.full((config.n_layer, config.n_head), np.nan, np.float32) for kind in KINDS} for _ in range(2)
    )
    one = _one_head(model, layer, head)
    for other in filter(config.is_attention, range(config.n_layer)):
        if other == layer:
            continue
        heads = folded_heads(model, other)
        table, scores = (reads, _scores(one, heads)) if other < layer else (feeds, _scores(heads, one))
        for kind in KINDS:
            table[kind][other] = scores[kind].numpy()
    return Composition(layer, head, reads, feeds, *_baseline(config.d_model, config.d_head))


def _scores(later: FoldedHeads, earlier: FoldedHeads) -> dict[str, Tensor]:
    """Compute the composition scores of later with earlier heads; one of the two may be a single head. Returns [H] per
    kind.

    No [D, D] product is computed. M = A B with A [D, E] and B [E, D]; with X = B W_O, G_A = A^T A and G_V = W_V W_V^T,
    all [E, E], ||A B W_O W_V||^2 = tr(X^T G_A X G_V) and ||A B||^2 = tr(G_A B B^T).
    """
    right, written = earlier.v @ earlier.v.mT, earlier.o.mT @ earlier.o
    read = {kind: getattr(later, kind) for kind in KINDS}
    own = {kind: part @ part.mT for kind, part in read.items()}
    left = {"q": own["k"], "k": own["q"], "v": later.o.mT @ later.o}
    ov = _dot(written, right)
    scores = {}
    for kind in KINDS:
        x = read[kind] @ earlier.o  # [H, E, E]
        square = _dot(left[kind] @ x, x @ right) / (_dot(left[kind], own[kind]) * ov)
        scores[kind] = square.clamp(min=0).sqrt()  # rounding can make a zero slightly negative
    return scores


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Compute the sum of the elementwise products, tr(A^T B). [H, E, E] -> [H]"""
    return (a * b).sum((-1, -2))


@functools.lru_cache(maxsize=64)
def _baseline(d_model: int, d_head: int) -> tuple[float, float]:
    """Estimate the mean and standard deviation of the score for independent Gaussian factors; the mean is about 1 /
    sqrt(d_model).
    """
    generator = torch.Generator().manual_seed(0)
    scores = []
    for _ in range(_DRAWS):
        q, k, v, o = torch.randn(4, 1, d_head, d_model, generator=generator)
        scores.append(
            _scores(FoldedHeads(q, k, k, q.mT), FoldedHeads(v, v, v, o.mT))["k"]
        )  # with these factors, the scores "k" and "v" are equal
    samples = torch.cat(scores)
    return samples.mean().item(), samples.std().item()


def folded_heads(model: Transformer, layer: int) -> FoldedHeads:
    """Return the factors of a layer's heads with the norms folded in."""
    block, config = model.blocks[layer], model.config
    E, repeats = config.d_head, config.group_size
    attn, norm = block.attn, None if block.post_norm else block.norm1
    q, k, v = (
        _folded(linear.weight.double(), norm).unflatten(0, (-1, E)) for linear in (attn.q, attn.k, attn.v)
    )  # [H, E, D], [G, E, D], [G, E, D]
    if attn.q_norm is not None:
        if attn.q_norm.kind == "layernorm":  # subtracts the mean of a head
            q, k = q - q.mean(1, keepdim=True), k - k.mean(1, keepdim=True)
        q = q * attn.q_norm.weight.view(-1, E)[..., None]  # [1 or H, E, 1]
        k = k * attn.k_norm.weight.view(-1, E)[..., None]
    k, v = k.repeat_interleave(repeats, 0), v.repeat_interleave(repeats, 0)
    o = _after(output_matrix(model, layer).double(), block.after1).unflatten(1, (-1, E)).transpose(0, 1)  # [H, D, E]
    return FoldedHeads(q, k, v, o)


def _one_head(model: Transformer, layer: int, head: int) -> FoldedHeads:
    """Return the factors of a single head; their first axis has length 1."""
    return FoldedHeads(*(part[head : head + 1] for part in vars(folded_heads(model, layer)).values()))


def _folded(weight: Tensor, norm: Norm | None) -> Tensor:
    """Fold a weight's input norm into it: multiply by the gain and, for LayerNorm, center the rows. [out, D]"""
    if norm is None:
        return weight
    weight = weight * norm.weight
    return weight - weight.mean(-1, keepdim=True) if norm.kind == "layernorm" else weight


def _after(weight: Tensor, norm: Norm | None) -> Tensor:
    """Fold the norm of a weight's output into it: LayerNorm centers the columns; all multiply by the gain. [D, n]"""
    if norm is None:
        return weight
    weight = weight - weight.mean(0) if norm.kind == "layernorm" else weight
    return weight * norm.weight.double()[:, None]


def _embed_unembed(model: Transformer) -> Tensor:
    """Compute W_E W_U, a sum over the vocabulary. A common factor of the embeddings is omitted, since scores do not
    depend on it. float64 [D, D]
    """
    D = model.config.d_model
    both = torch.zeros(D, D, dtype=torch.float64)
    for embed, unembed in zip(model.embed.weight.split(_ROWS), model.unembed.weight.split(_ROWS), strict=True):
        both.addmm_(_after(embed.double().T, model.embed_norm), _folded(unembed.double(), model.final_norm))
    return both


def _embed_twice(model: Transformer) -> Tensor:
    """Compute W_E W_E^T, a sum over the vocabulary, like `_embed_unembed`. float64 [D, D]"""
    both = torch.zeros(model.config.d_model, model.config.d_model, dtype=torch.float64)
    for embed in model.embed.weight.split(_ROWS):
        columns = _after(embed.double().T, model.embed_norm)
        both.addmm_(columns, columns.T)
    return both


@public()
@torch.inference_mode()
def circuit_overlaps(model: Transformer, layer: int, head: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute the cosines of one head's W_OV and W_QK, as vectors of D^2 numbers, with those of every head.

    Returns the cosines of W_OV and of W_QK, each float32 [L, H], from -1 to 1, and 1 for the head itself; NaN in layers
    without attention and for heads of zeros. <A B, C D> = sum of (A^T C) * (B D^T), so no [D, D] matrix is computed. A
    head without relation has about 0. Raises InputError for a layer or head out of range or without attention.
    """
    config = model.config
    need_scores(config, layer)
    need_alone(config)
    check_head(head, config.n_head)
    one = _one_head(model, layer, head)
    ov, qk = np.full((2, config.n_layer, config.n_head), np.nan, np.float32)
    for other in filter(config.is_attention, range(config.n_layer)):
        heads = folded_heads(model, other)
        ov[other] = _cosine((one.o, one.v.mT), (heads.o, heads.v.mT))
        qk[other] = _cosine((one.q.mT, one.k.mT), (heads.q.mT, heads.k.mT))
    return ov, qk


def _cosine(one: tuple[Tensor, Tensor], others: tuple[Tensor, Tensor]) -> np.ndarray:
    """Compute the cosine of a product A B^T with others, given as (A, B), each [H, D, E]. float32 [H]"""

    def product(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> Tensor:
        return _dot(a[0].mT @ b[0], a[1].mT @ b[1])

    lengths = (product(one, one) * product(others, others)).sqrt()
    return (product(one, others) / lengths).float().numpy()
