"""Attention by feature maps: phi(q).phi(k) replaces exp(q.k / sqrt(d_head)), so that sums over keys can be precomputed.

All feature maps here are positive and stored as logarithms, to avoid overflow and underflow. A factor common to a row
cancels when the row is normalized, so it is omitted.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

# (q [..., R, E], k [..., T, E]) -> ln phi(q) [..., R, m] and ln phi(k) [..., T, m]
FeatureMap = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

_TINY = 1e-200  # smaller sums have lost precision


def directions(count: int, width: int, *, orthogonal: bool, generator: torch.Generator) -> Tensor:
    """Draw m = `count` random vectors w with independent standard normal entries. float64 [m, E]

    `orthogonal`: each group of `width` vectors is orthogonal, with the norms of independent ones (Choromanski et al.
    2021, "orthogonal random features"). The basis is uniformly distributed (Mezzadri 2007, section 5), so that each
    vector remains normal and the estimate unbiased.
    """
    drawn = torch.randn(count, width, generator=generator, dtype=torch.float64)
    if not orthogonal:
        return drawn
    bases = []
    for _ in range(-(-count // width)):
        q, r = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))
        bases.append(q * r.diagonal().sign())
    return torch.cat(bases)[:count] * drawn.norm(dim=-1, keepdim=True)


def positive_features(w: Tensor) -> FeatureMap:
    """Return FAVOR+: phi(x) = exp(w.x - |x|^2 / 2) / sqrt(m), where x is q or k divided by d_head^(1/4). w [m, E]

    E[phi(x).phi(y)] = exp(x.y), so the estimate of exp(q.k / sqrt(d_head)) is unbiased: Choromanski et al. 2021, lemma
    1. Attention weights, which are ratios of estimates, are biased.
    """

    def features(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        x, y = q / q.shape[-1] ** 0.25, k / k.shape[-1] ** 0.25
        log_q, log_k = (each @ w.T - (each.square().sum(-1, keepdim=True) + math.log(len(w))) / 2 for each in (x, y))
        return log_q, log_k

    return features


def elu_features(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the features of linear attention: phi(x) = elu(x) + 1, which is x + 1 for x > 0 and exp(x) otherwise.

    Katharopoulos et al. 2020, section 3.2.1. This is a different kernel, not an approximation of the softmax kernel,
    and it has no size that could reduce the difference.
    """
    return _log_elu(q), _log_elu(k)


def _log_elu(x: Tensor) -> Tensor:
    return torch.where(x > 0, torch.log1p(x.clamp(min=0)), x)


def kernel(log_q: Tensor, log_k: Tensor) -> Tensor:
    """Compute phi(q).phi(k), unnormalized. [..., R, m] and [..., T, m] -> [..., R, T]"""
    return log_q.exp() @ log_k.exp().transpose(-1, -2)


def hidden(rows: Tensor, T: int) -> Tensor:
    """Return a mask that is True if the key is after the query. rows [R] positions of queries -> bool [R, T]"""
    return torch.arange(T) > rows[:, None]


def parallel(log_q: Tensor, log_k: Tensor, rows: Tensor) -> Tensor:
    """Compute the T x T matrix of phi(q).phi(k), normalized over the visible keys. Rows sum to 1.

    log_q [..., R, m] of the queries at positions `rows` [R], log_k [..., T, m] of all keys -> [..., R, T].
    Katharopoulos et al. 2020, section 3.3.
    """
    top = log_k.amax(-2, keepdim=True)  # maximum of each feature over the keys, moved from the keys to the queries
    moved = log_q + top
    weights = kernel(moved - moved.amax(-1, keepdim=True), log_k - top)
    weights = weights.masked_fill(hidden(rows, log_k.shape[-2]), 0.0)
    sums = weights.sum(-1, keepdim=True)
    for at in (sums[..., 0] < _TINY).nonzero().tolist():  # underflow, because later keys are much larger
        place, end = tuple(at), int(rows[at[-1]]) + 1
        scores = (log_q[place] + log_k[(*place[:-1], slice(end))]).logsumexp(-1)  # [end]
        weights[place] = 0.0
        weights[(*place, slice(end))] = scores.softmax(-1)
        sums[place] = 1.0
    return weights / sums


def recurrent(log_q: Tensor, log_k: Tensor, v: Tensor) -> Tensor:
    """Compute the outputs of `parallel` with a state of constant size: S = sum phi(k) v^T, s = sum phi(k).

    z = phi(q) S / phi(q).s, token by token. log_q and log_k [T, m], v [T, E] -> [T, E]. Katharopoulos et al. 2020,
    section 3.4. Each feature is scaled by its maximum so far, as in online softmax.
    """
    T, m = log_k.shape
    state, total = torch.zeros(m, v.shape[-1], dtype=v.dtype), torch.zeros(m, dtype=v.dtype)
    top, out = torch.full((m,), -torch.inf, dtype=v.dtype), torch.empty_like(v)
    for t in range(T):
        higher = torch.maximum(top, log_k[t])
        shrunk, new = (top - higher).exp(), (log_k[t] - higher).exp()
        state = state.mul_(shrunk[:, None]).addr_(new, v[t])
        total = total * shrunk + new
        top = higher
        read = (log_q[t] + top).softmax(-1)
        out[t] = (read @ state) / (read @ total)
    return out
