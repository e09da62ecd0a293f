"""Position encodings: vectors added to embeddings, or angles that rotate queries and keys.

The schemes of `ModelConfig.positions`: a learned table, sinusoids (Vaswani et al. 2017, section 3.5), RoPE (Su et al.
2021, section 3.2), a penalty on scores by distance (ALiBi, Press et al. 2021), or none. The last two have no vectors.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_head, check_positions
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.layers import rope_frequencies, rotate
from model.gpt.mixers.needs import need_alone, need_qkv
from model.gpt.transformer import Transformer
from model.public import nonempty, public, unchecked
from model.tracing.trace import Trace

SCHEMES = ("learned", "sinusoidal", "rope", "none")
WITHOUT_VECTORS = ("alibi", "none")
THETA = 10_000.0  # RoPE base for a model without RoPE, Su et al. 2021, section 3.2.2
PRECISIONS = {"float32": torch.float32, "float64": torch.float64}
UNIT = {"float32": 2.0**-24, "float64": 2.0**-53}  # unit roundoff: half the distance from 1 to the next number


# --- frequencies -----------------------------------------------------------------------------------


@public()
def as_rope(config: ModelConfig) -> ModelConfig:
    """Return the config itself if it has RoPE, otherwise the config with RoPE: theta 10,000, every pair rotated, no
    scaling.

    Raises InputError for heads of a single dimension, which have no pairs.
    """
    if config.positions == "rope":
        return config
    if config.d_head < 2:
        raise InputError(
            "A head of one dimension has no pairs to rotate.", str(config.d_head), "Choose a model with larger heads."
        )
    even = config.d_head - config.d_head % 2
    share = even / config.d_head
    return dataclasses.replace(config, positions="rope", rope_theta=THETA, rotary_fraction=share, rope_scaling=None)


def rope_at(config: ModelConfig, layer: int, length: int) -> ModelConfig:
    """Return a config with the rotation of one layer in a text of `length` tokens, for all layers and lengths.

    Its base and divisors are those of the layer: its own base in a layer with a sliding window (Gemma 3), and those for
    this length where the scaling depends on it. Its pairs are halves, see `in_halves`. A layer or model without
    rotation gets the model's base, or that of `as_rope`.
    """
    c = as_rope(config)
    scaling = c.rope_scaling
    given: dict = {"rope_pairs": "halves", "rope_theta_local": None, "rope_scaling": scaling}
    if c.rope_theta_local is not None and c.mixer_of(layer) == "sliding_window":
        given |= {"rope_theta": c.rope_theta_local, "rope_scaling": None}
    elif scaling is not None and scaling.kind in ("dynamic", "longrope"):
        plain = rope_frequencies(dataclasses.replace(c, rope_scaling=None)).double()
        factors = tuple((plain / rope_frequencies(c, length).double()).tolist())
        both = {"kind": "longrope", "short_factors": factors, "long_factors": factors}
        given["rope_scaling"] = dataclasses.replace(scaling, **both)
    return dataclasses.replace(c, **given)


def in_halves(x: np.ndarray, config: ModelConfig) -> np.ndarray:
    """Reorder a query or key so that pair i is (i, i + d_rotary / 2), whatever the model's pairs are. [..., E]"""
    if config.positions != "rope" or config.rope_pairs == "halves":
        return x
    turned = x[..., : config.d_rotary]
    return np.concatenate((turned[..., 0::2], turned[..., 1::2], x[..., config.d_rotary :]), -1)


def sinusoidal_frequencies(d_model: int) -> np.ndarray:
    """Return the radians per position of each pair of dimensions, 10,000^(-2i / D). float64 [ceil(D / 2)]

    Vaswani et al. 2017, section 3.5.
    """
    return 10_000.0 ** (-np.arange(0, d_model, 2) / d_model)


def frequencies(config: ModelConfig, scheme: str, length: int = 1) -> np.ndarray:
    """Return the radians per position of each pair of dimensions, for the model's RoPE or for sinusoids. float64 [n]

    Some scalings of RoPE depend on the `length` of the text in tokens. Raises ValueError for a scheme without rotation.
    """
    if scheme == "rope":
        return rope_frequencies(as_rope(config), length).double().numpy()
    if scheme == "sinusoidal":
        return sinusoidal_frequencies(config.d_model)
    raise ValueError(f"the scheme must be rope or sinusoidal, got {scheme!r}")


def wavelengths(frequency: np.ndarray) -> np.ndarray:
    """Return the number of positions per full turn of each pair: 2 pi / frequency. [n]"""
    return 2 * np.pi / frequency


# --- vectors ---------------------------------------------------------------------------------------


def vectors(model: Transformer, scheme: str, positions: Sequence[int]) -> np.ndarray:
    """Return the position vectors of a scheme at the given positions. float32 [P, D]

    "learned": rows of the model's own table. "sinusoidal": sines in even dimensions, cosines in odd ones, D = d_model.
    "rope": the cosines of all pairs, then the sines, D = d_rotary, in a text that ends at the last position. "alibi",
    "none": zeros. Raises InputError if the model has no table, or if a position is outside it.
    """
    at, config = np.asarray(positions, dtype=np.int64), model.config
    if scheme in WITHOUT_VECTORS:
        return np.zeros((len(at), config.d_model), dtype=np.float32)
    if scheme == "learned":
        return _learned(model, at)
    angle = at[:, None] * frequencies(config, scheme, int(at.max(initial=0)) + 1)  # [P, n]
    if scheme == "rope":
        return np.concatenate((np.cos(angle), np.sin(angle)), 1).astype(np.float32)
    table = np.empty((len(at), config.d_model), dtype=np.float32)
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle[:, : config.d_model // 2])
    return table


def _learned(model: Transformer, at: np.ndarray) -> np.ndarray:
    if model.pos_embed is None:
        raise InputError("This model has no learned positions.", model.config.positions, "Choose another scheme.")
    rows = len(model.pos_embed.weight)
    if outside := [int(p) for p in at if not 0 <= p < rows]:
        raise InputError("This position does not exist.", str(outside[0]), say("Positions run from 0 to {}.", rows - 1))
    return model.pos_embed.weight.detach()[torch.from_numpy(at)].float().numpy()


def cosines(table: np.ndarray) -> np.ndarray:
    """Return the cosine similarity of every pair of rows; NaN for a row of zeros. float32 [P, D] -> [P, P]"""
    length = np.linalg.norm(table, axis=1, keepdims=True)
    unit = np.divide(table, length, out=np.full_like(table, np.nan), where=length > 0)
    return unit @ unit.T


@dataclass(frozen=True, eq=False)
class Similarity:
    """Statistics of the cosine similarity of the vectors at p and p + d, over all valid p. Each array has one entry per
    distance d.
    """

    distance: np.ndarray  # d, in positions
    mean: np.ndarray
    low: np.ndarray  # 10th percentile
    high: np.ndarray  # 90th percentile


def similarity(table: np.ndarray) -> Similarity:
    """Compute the cosine similarity of the rows of a table by distance, starting at position 0. [P, D] -> P distances

    If it depends on the distance alone, as for sinusoids and RoPE, the percentiles coincide and the mean is `kernel`.
    """
    matrix = cosines(table)
    rows = [np.diagonal(matrix, d) for d in range(len(matrix))]
    low, high = np.transpose([np.percentile(row, (10, 90)) for row in rows])
    return Similarity(np.arange(len(matrix)), np.array([row.mean() for row in rows]), low, high)


def kernel(frequency: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Return the mean cosine sum_i cos(d theta_i) / n, which is the cosine similarity of two position vectors at
    distance d. [N]

    For RoPE it is the score of a query and a key that are equal in all pairs, relative to distance 0.
    """
    return np.cos(np.asarray(distances)[:, None] * frequency).mean(1)


def decay_bound(frequency: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Compute sum_j |S_j| / n with S_j = sum over i < j of exp(i d theta_i), which bounds the score at each distance d.
    [N]

    Multiplied by max_i |h_(i+1) - h_i|, with h_i the product of pair i of q and k as complex numbers and h_n = 0, it
    bounds |score| sqrt(d_head) / n. It is at least |kernel|, for which all h are 1. Su et al. 2021, section 3.4.3.
    """
    turned = np.exp(1j * np.asarray(distances)[:, None] * frequency)
    return np.abs(np.cumsum(turned, 1)).mean(1)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Discrete Fourier spectrum of a table along the positions: F waves, D dimensions."""

    wavelength: np.ndarray  # [F] in positions, in decreasing order
    share: np.ndarray  # [F] fraction of the variance over positions, for all dimensions together; sums to 1
    strongest: np.ndarray  # [D] wavelength of each dimension's strongest wave


def spectrum(table: np.ndarray) -> Spectrum:
    """Compute the discrete Fourier spectrum of each dimension along the positions, without its mean. [P, D], P > 1

    By Parseval's theorem, the total power of the waves is the variance (Oppenheim & Schafer 2010, section 8.6.7).
    """
    P = len(table)
    if P < 2:
        raise ValueError(f"a spectrum needs two positions, got a table of {table.shape}")
    centered = table.astype(np.float64) - table.mean(0, dtype=np.float64)
    power = np.abs(np.fft.rfft(centered, axis=0)[1:]) ** 2  # [F, D]
    power[: (P - 1) // 2] *= 2  # each coefficient stands for two waves, except the shortest wave of an even P
    wavelength = P / np.arange(1, len(power) + 1)
    total = power.sum()
    share = power.sum(1) / total if total else np.zeros(len(power))
    return Spectrum(wavelength, share, wavelength[power.argmax(0)])


def principal_shares(table: np.ndarray) -> np.ndarray:
    """Return the fraction of the variance over positions of each principal component, in decreasing order; 0 if all
    rows are equal.

    [P, D] -> [min(P, D)], in float64.
    """
    size = np.linalg.svd(table.astype(np.float64) - table.mean(0, dtype=np.float64), compute_uv=False) ** 2
    return size / size.sum() if size.sum() else size


# --- a query and a key -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HeadQK:
    """Queries and keys of one head before rotation, and as used in the scores. Each is float32 [T, E]."""

    q: np.ndarray
    k: np.ndarray
    q_used: np.ndarray  # rotated if the layer has RoPE, else equal to q
    k_used: np.ndarray
    layer: int

    @property
    def nbytes(self) -> int:
        """Bytes of all four arrays."""
        return 4 * self.q.nbytes


@dataclass(frozen=True, eq=False)
class QKPair:
    """One query and one key before rotation, their positions, and the RoPE config to rotate them.

    Their pairs are halves, and their rotated dimensions are multiplied by the amplitude of the scaling.
    """

    q: np.ndarray  # float32 [E]
    k: np.ndarray  # float32 [E]
    query: int
    key: int
    config: ModelConfig  # config with the RoPE parameters of the layer, see `rope_at`
    own: bool  # whether the layer itself has RoPE
    score: float  # q.k / sqrt(d_head) in the model itself

    @property
    def distance(self) -> int:
        """Number of positions from the key to the query."""
        return self.query - self.key


@public()
def head_qk(trace: Trace, layer: int, head: int) -> HeadQK:
    """Return q and k of one head of the run, with edits; the KV head is head // (H / G). Only one block is computed."""
    check_head(head, trace.config.n_head)
    need_qkv(trace.config, layer)
    need_alone(trace.config)
    names = ("q", "k", "q_rot", "k_rot") if trace.config.rotates(layer) else ("q", "k", "q", "k")
    at, kv = trace.sites(layer, dict.fromkeys(names)), head // trace.config.group_size
    parts = (at[name][0, head if name[0] == "q" else kv].numpy().copy() for name in names)
    return HeadQK(*parts, layer)


@public(query=unchecked, key=unchecked)
def pair_of(config: ModelConfig, head: HeadQK, query: int, key: int) -> QKPair:
    """Return the query and the key at two positions of a prompt, with their score."""
    check_positions([query, key], len(head.q_used))
    score = float(head.q_used[query] @ head.k_used[key]) / math.sqrt(config.d_head)
    rope, own = rope_at(config, head.layer, len(head.q)), config.rotates(head.layer)
    q, k = (in_halves(x, config) for x in (head.q[query], head.k[key]))
    if own and rope.rope_scaling is not None and rope.rope_scaling.amplitude != 1:
        by = np.where(np.arange(len(q)) < rope.d_rotary, np.float32(rope.rope_scaling.amplitude), np.float32(1))
        q, k = q * by, k * by
    return QKPair(q, k, query, key, rope, own, score)


def polar(x: np.ndarray, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the norm and angle of each pair (i, i + pairs) of a vector.
    [E] -> float64 [pairs] each, angles in radians
    """
    x = x.astype(np.float64)
    first, second = x[:pairs], x[pairs : 2 * pairs]
    return np.hypot(first, second), np.arctan2(second, first)


@public(distances=nonempty)
def contributions(pair: QKPair, distances: Sequence[int]) -> np.ndarray:
    """Return each pair's contribution to the score at each distance d. [N, n + 1]

    It is |q_i| |k_i| cos(angle_q - angle_k + d theta_i) / sqrt(d_head). The last column is the contribution of the
    dimensions without rotation. A row sums to the score at its distance.
    """
    theta = rope_frequencies(pair.config).double().numpy()
    n = len(theta)
    (q, q_angle), (k, k_angle) = polar(pair.q, n), polar(pair.k, n)
    turned = q * k * np.cos(q_angle - k_angle + np.asarray(distances)[:, None] * theta)
    unrotated = np.dot(pair.q[2 * n :].astype(np.float64), pair.k[2 * n :].astype(np.float64))
    return np.column_stack((turned, np.full(len(turned), unrotated))) / math.sqrt(len(pair.q))


# --- dependence on distance alone ------------------------------------------------------------------


def angles(config: ModelConfig, positions: Tensor, precision: str) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines at the given positions, from the model's frequencies. [N, n] each

    `precision` is a key of PRECISIONS; in float32 the values equal those of `model.gpt.layers.rope_table`.
    """
    dtype = PRECISIONS[precision]
    angle = positions.to(dtype)[:, None] * rope_frequencies(config).to(dtype)
    return angle.cos(), angle.sin()


def scores_at(pair: QKPair, queries: Tensor, keys: Tensor, precision: str) -> np.ndarray:
    """Return the score for each pair of a query and a key position, computed entirely in one precision. [N] and [N] ->
    [N]
    """
    q, k = (torch.from_numpy(x).to(PRECISIONS[precision]).expand(len(queries), -1) for x in (pair.q, pair.k))
    q, k = rotate(q, *angles(pair.config, queries, precision)), rotate(k, *angles(pair.config, keys, precision))
    return ((q * k).sum(-1) / math.sqrt(q.shape[-1])).numpy()


def shift_errors(pair: QKPair, shifts: Sequence[int], precision: str) -> np.ndarray:
    """Compute |score(m + s, n + s) - score(m, n)| for each shift s, which is 0 in exact arithmetic. [N]

    Su et al. 2021, section 3.2.1.
    """
    by = torch.tensor([0, *shifts])
    scores = scores_at(pair, by + pair.query, by + pair.key, precision).astype(np.float64)
    return np.abs(scores[1:] - scores[0])


def shift_bound(pair: QKPair, shifts: Sequence[int], precision: str) -> np.ndarray:
    """Return the first-order rounding bound on `shift_errors`. float64 [N]

    A product position x frequency has a relative error of u, half a unit in the last place, and so has the angle: the
    error of the score of pair i is u |q_i| |k_i| (m + n) theta_i. Cosine, sine, rotation, and the sum of E products add
    (E + 16) u |q_i| |k_i|. The errors of both scores of a difference are added. Higham 2002, section 3.1.
    """
    theta = rope_frequencies(pair.config).double().numpy()
    n, E = len(theta), len(pair.q)
    size = polar(pair.q, n)[0] * polar(pair.k, n)[0]
    unrotated = np.abs(pair.q[2 * n :].astype(np.float64) * pair.k[2 * n :]).sum()
    both = pair.query + pair.key

    def one(sums: np.ndarray) -> np.ndarray:
        return (sums[:, None] * theta) @ size + (E + 16) * (size.sum() + unrotated)

    by = np.asarray(shifts, dtype=np.float64)
    return UNIT[precision] / math.sqrt(E) * (one(both + 2 * by) + one(np.array([float(both)])))
