"""The directions of a head: the singular vectors of W_OV and W_QK, and the tokens that they read and write.

    W_OV = sum over i of s_i (written direction i) (read direction i)^T       W_QK = sum of s_i (query i) (key i)^T

Both matrices are [D, D] but products of [D, E] and [E, D], so that they have at most E = d_head nonzero singular
values. Millidge & Black 2022, "The Singular Value Decompositions of Transformer Weight Matrices are Highly
Interpretable".
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_head, check_layer
from model.attention.circuits import folded_heads
from model.gpt.layers import NORMS
from model.gpt.mixers.needs import need_alone, need_scores
from model.gpt.transformer import Transformer
from model.public import MOST_SEED, one_of, public, whole
from model.token_tables.head_tables import check_distance, check_ov, chunks, embedded, unembedded, written
from model.token_tables.token_table import CIRCUITS, Circuit


@dataclass(frozen=True, eq=False)
class Directions:
    """Singular values, largest first, and vectors of length 1 of one head's circuit.

    OV reads the attended token and writes to the stream. QK has a direction for the query and one for the key.
    """

    circuit: Circuit
    values: np.ndarray  # [E] float64
    reads: np.ndarray  # [E, D] float64; for QK, those of the query
    writes: np.ndarray  # [E, D] float64; for QK, those of the key


@dataclass(frozen=True, eq=False)
class DirectionTokens:
    """The component of every token along read and written directions."""

    reads: np.ndarray  # [n, V] float32
    writes: np.ndarray  # [n, V] float32


def low_rank_svd(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the SVD of left @ right without that product: by QR of both factors and the SVD of an [E, E] matrix.

    left [..., m, E], right [..., E, n] -> U [..., m, E], values [..., E], V^T [..., E, n]. With left = Q1 R1 and
    right^T = Q2 R2, left right = Q1 (R1 R2^T) Q2^T. Golub & Van Loan 2013, "Matrix Computations", section 5.4.
    """
    q1, r1 = torch.linalg.qr(left)
    q2, r2 = torch.linalg.qr(right.mT)
    u, values, vt = torch.linalg.svd(r1 @ r2.mT)
    return q1 @ u, values, vt @ q2.mT


@public(circuit=one_of(CIRCUITS), distance=whole(0))
@torch.inference_mode()
def head_directions(model: Transformer, layer: int, head: int, circuit: Circuit, distance: int = 0) -> Directions:
    """Compute the singular values and vectors of W_OV, or of W_QK / sqrt(d_head) at a distance.

    The gain and centering of the norm before attention and of a norm of queries and keys are folded in. With RoPE,
    W_QK = W_Q^T R W_K, with R the rotation by `distance` positions. Divisors, biases and clamps are left out. The
    entry of largest absolute value of each read direction is positive, since the signs of both directions of a pair
    may be swapped together. Raises InputError as `ov_table` and `qk_table` do.
    """
    _check(model, layer, head, circuit)
    check_distance(model, layer, distance)
    left, right = _factors(model, layer, head, circuit, distance)
    u, values, vt = low_rank_svd(left, right)
    reads, writes = (vt, u.mT) if circuit == "ov" else (u.mT, vt)
    sign = torch.where(reads.gather(1, reads.abs().argmax(1, keepdim=True)) < 0, -1.0, 1.0)
    return Directions(circuit, values.numpy(), (reads * sign).numpy(), (writes * sign).numpy())


@public(circuit=one_of(CIRCUITS), draws=whole(1, 256), seed=whole(0, MOST_SEED))
@torch.inference_mode()
def random_singular_values(
    model: Transformer, layer: int, head: int, circuit: Circuit, draws: int = 16, seed: int = 0
) -> np.ndarray:
    """Compute the singular values for factors of Gaussian numbers with the Frobenius norms of the head's. float64
    [draws, E]

    The same seed gives the same numbers. Raises InputError as `head_directions` does.
    """
    _check(model, layer, head, circuit)
    left, right = _factors(model, layer, head, circuit, 0)
    generator = torch.Generator().manual_seed(seed)
    some = []
    for factor in (left, right):
        each = torch.randn((draws, *factor.shape), generator=generator, dtype=torch.float64)
        some.append(each * factor.norm() / torch.linalg.matrix_norm(each)[:, None, None])
    return low_rank_svd(*some)[1].numpy()


def _check(model: Transformer, layer: int, head: int, circuit: Circuit) -> None:
    """Raise InputError unless the head has this circuit."""
    need_scores(model.config, layer)
    need_alone(model.config)
    check_head(head, model.config.n_head)
    if circuit == "ov":
        check_ov(model, layer)


@public(most=whole(1), vocab=whole(1))
@torch.inference_mode()
def direction_tokens(
    model: Transformer, layer: int, directions: Directions, most: int, vocab: int | None = None
) -> DirectionTokens:
    """Compute the component of every token along the first `most` directions.

    What is read: the normalized embedding times the read direction; for QK, both sides. What OV writes: the logits that
    the written direction adds, with the norms after the head as in `ov_table`. Raises InputError for a layer that does
    not exist.
    """
    check_layer(layer, model.config.n_layer)
    reads, writes = (torch.from_numpy(each[:most]).float() for each in (directions.reads, directions.writes))
    read = _along(model, layer, reads, vocab)
    wrote = (
        unembedded(model, layer, writes, vocab) if directions.circuit == "ov" else _along(model, layer, writes, vocab)
    )
    return DirectionTokens(read.T.numpy(), wrote.T.numpy())


def _along(model: Transformer, layer: int, directions: Tensor, vocab: int | None) -> Tensor:
    """Compute the components of the embeddings over the divisor of the norm before attention. [n, D] -> [V, n]"""
    block = model.blocks[layer]
    norm = None if block.post_norm else block.norm1
    parts = []
    for ids in chunks(model, vocab):
        x = embedded(model, ids).float()
        if norm is not None:
            numerator, divisor = NORMS[norm.kind](x, norm.eps)
            x = numerator / divisor
        parts.append(x @ directions.T)
    return torch.cat(parts)


def _factors(model: Transformer, layer: int, head: int, circuit: Circuit, distance: int) -> tuple[Tensor, Tensor]:
    """Return the factors of a head's matrix: W_O [D, E] and W_V [E, D], or W_Q^T [D, E] and R W_K [E, D] over
    sqrt(d_head). float64
    """
    heads = folded_heads(model, layer)
    if circuit == "ov":
        return written(model, layer, head).double().T, heads.v[head]
    q, k = heads.q[head].mT, heads.k[head].mT  # [D, E]
    turn, run = model.blocks[layer].attn.turn, model.prepare(distance, 1)
    if (table := turn.table(run)) is not None:
        start = turn.table(model.prepare(0, 1, text=distance + 1))
        q, k = turn.rotated(q, _double(table)), turn.rotated(k, _double(start))
    return q * (turn.q_factor / model.config.d_head**0.5), k.mT


def _double(table: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return table[0].double(), table[1].double()
