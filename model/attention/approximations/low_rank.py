"""Causal attention with fewer keys: Linformer's projected keys and values, and Nystromformer's landmarks."""

import math

import torch
from torch import Tensor

from model.attention.approximations.kernels import hidden

ITERATIONS = 6  # number of iterations of the pseudoinverse, as published
_CELLS = 1 << 22  # maximum landmark x key weights in memory at once


def exact(q: Tensor, k: Tensor, rows: Tensor) -> Tensor:
    """Compute softmax attention weights. q [..., R, E] at positions `rows` [R], k [..., T, E] -> [..., R, T]"""
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return scores.masked_fill(hidden(rows, k.shape[-2]), -math.inf).softmax(-1)


# --- Linformer ---------------------------------------------------------------------------------------


def random_projection(count: int, T: int, generator: torch.Generator) -> Tensor:
    """Draw a Johnson-Lindenstrauss projection from length T to r = `count`, with entries of variance 1 / r. float64 [r,
    T]

    Wang et al. 2020, theorem 1; their E and F are learned, whereas here they are random.
    """
    return torch.randn(count, T, generator=generator, dtype=torch.float64) / math.sqrt(count)


def segments(count: int, T: int) -> Tensor:
    """Build the 0/1 matrix that assigns tokens to r = min(count, T) segments of nearly equal length. [r, T]"""
    count = min(count, T)
    return (torch.arange(T) * count // T == torch.arange(count)[:, None]).double()


def linformer(q: Tensor, k: Tensor, rows: Tensor, projection: Tensor, *, mean: bool) -> Tensor:
    """Compute the T x T matrix of softmax(q (E K)^T / sqrt(d_head)) F V with E = F = `projection`, restricted to the
    visible keys.

    q [..., R, E] at positions `rows` [R], k [..., T, E], projection [r, T] -> [..., R, T]. Wang et al. 2020, eq. 7, and
    section 4 for one projection shared by keys and values. In the published form, each projected key mixes all tokens,
    including later ones; here, query i sums over the keys 0 .. i, so that no future token contributes. With `mean`,
    each sum is divided by its number of keys, and empty ones are masked. With a random projection, the weights of
    single tokens may be negative and rows need not sum to 1: only the weights of the projected keys are normalized.
    """
    seen = ~hidden(rows, k.shape[-2])  # [R, T]
    dots = (q @ k.transpose(-1, -2)).masked_fill(~seen, 0.0)
    scores = dots @ projection.T / math.sqrt(q.shape[-1])  # [..., R, r]: q_i . sum over j <= i of E_rj k_j
    if not mean:
        weights = scores.softmax(-1)
    else:
        counts = seen.double() @ projection.T  # [R, r]
        weights = (scores / counts.clamp(min=1)).masked_fill(counts == 0, -math.inf).softmax(-1) / counts.clamp(min=1)
    return (weights @ projection).masked_fill(~seen, 0.0)


# --- Nystromformer -----------------------------------------------------------------------------------


def pseudoinverse(a: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """Compute an approximate Moore-Penrose inverse using only matrix products. [..., m, m] -> [..., m, m]

    Xiong et al. 2021: Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4, starting from A^T / (|A|_1 |A|_inf). The
    published 6 iterations do not suffice for convergence if A is nearly singular.
    """
    eye = torch.eye(a.shape[-1], dtype=a.dtype)
    size = a.abs().sum(-2).amax(-1) * a.abs().sum(-1).amax(-1)
    z = a.transpose(-1, -2) / size[..., None, None]
    for _ in range(iterations):
        az = a @ z
        z = z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az))) / 4
    return z


def nystrom(q: Tensor, k: Tensor, rows: Tensor, count: int, iterations: int = ITERATIONS) -> Tensor:
    """Compute, for each row i, the last row of the matrix that Nystromformer computes for the tokens 0 .. i.

    Xiong et al. 2021. q [..., T, E] of all queries, k [..., T, E] -> [..., R, T] for the increasing positions `rows`
    [R]: softmax(q K~^T) softmax(Q~ K~^T)^+ softmax(Q~ K^T), where the m = `count` landmarks Q~ and K~ are segment
    means. In the published form, landmarks mix later tokens into each row; here, each query has landmarks of only the
    tokens up to itself, which is causal but saves no computation. For i < m, the row is exactly that of the softmax.
    """
    T, few = k.shape[-2], rows[rows < count]
    parts = [exact(q[..., few, :], k, few)] if len(few) else []
    many = rows[rows >= count]
    sums = tuple(torch.nn.functional.pad(x.cumsum(-2), (0, 0, 1, 0)) for x in (q, k))
    step = max(1, _CELLS // (count * T * max(1, q[..., 0, 0].numel())))
    for start in range(0, len(many), step):
        at = many[start : start + step]
        part = _nystrom_rows(q, k, sums, at, count, iterations)
        parts.append(torch.nn.functional.pad(part, (0, T - part.shape[-1])))
    return torch.cat(parts, -2)


def _nystrom_rows(q: Tensor, k: Tensor, sums: tuple[Tensor, Tensor], at: Tensor, count: int, iterations: int) -> Tensor:
    """Compute the rows at positions `at` [n] over the S keys up to the last of them. -> [..., n, S]"""
    S, root = int(at[-1]) + 1, math.sqrt(q.shape[-1])
    bounds = (at[:, None] + 1) * torch.arange(count + 1) // count  # [n, m + 1]
    lengths = (bounds[:, 1:] - bounds[:, :-1])[..., None]
    q_marks, k_marks = (
        (x[..., bounds[:, 1:], :] - x[..., bounds[:, :-1], :]) / lengths for x in sums
    )  # [..., n, m, E]
    first = (q[..., at, None, :] @ k_marks.transpose(-1, -2) / root).softmax(-1)  # [..., n, 1, m]
    middle = (q_marks @ k_marks.transpose(-1, -2) / root).softmax(-1)  # [..., n, m, m]
    scores = q_marks @ k[..., None, :S, :].transpose(-1, -2) / root  # [..., n, m, S]
    last = scores.masked_fill_(hidden(at, S)[:, None], -math.inf).softmax(-1)
    return (first @ pseudoinverse(middle, iterations) @ last)[..., 0, :]
