"""Attention by feature maps: exp(q.k / sqrt(d_head)) replaced by phi(q).phi(k), so that keys can be summed beforehand.

Every feature map here is positive and stored as its logarithm, to avoid overflow and underflow. A row's own factor
cancels when the row is divided by its sum, so it is left out.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

# (q [..., R, E], k [..., T, E]) -> ln phi(q) [..., R, m] and ln phi(k) [..., T, m]
FeatureMap = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

_TINY = 1e-200  # a sum below it has lost precision


def directions(count: int, width: int, *, orthogonal: bool, generator: torch.Generator) -> Tensor:
    """Return random vectors w, each normal with variance 1 in every dimension. float64 [m, E]

    `orthogonal`: every `width` of them are orthogonal, with the lengths of independent ones (Choromanski et al. 2021,
    "orthogonal random features"). The basis is uniform over all (Mezzadri 2007, section 5), so each single vector stays
    normal and the estimate unbiased.
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
    """Return FAVOR+: phi(x) = exp(w.x - |x|^2 / 2) / sqrt(m) for x = q or k over d_head^(1/4). w [m, E]

    E[phi(x).phi(y)] = exp(x.y), so the estimate of exp(q.k / sqrt(d_head)) is unbiased: Choromanski et al. 2021, lemma
    1. Weights, which are quotients of estimates, are not.
    """

    def features(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        x, y = q / q.shape[-1] ** 0.25, k / k.shape[-1] ** 0.25
        log_q, log_k = (each @ w.T - (each.square().sum(-1, keepdim=True) + math.log(len(w))) / 2 for each in (x, y))
        return log_q, log_k

    return features


def elu_features(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the features of linear attention: phi(x) = elu(x) + 1, which is x + 1 above 0 and exp(x) below.

    Katharopoulos et al. 2020, section 3.2.1. It is another kernel, not an estimate of the softmax's: no size makes it
    closer.
    """
    return _log_elu(q), _log_elu(k)


def _log_elu(x: Tensor) -> Tensor:
    return torch.where(x > 0, torch.log1p(x.clamp(min=0)), x)


def kernel(log_q: Tensor, log_k: Tensor) -> Tensor:
    """Compute phi(q).phi(k), unnormalized. [..., R, m] and [..., T, m] -> [..., R, T]"""
    return log_q.exp() @ log_k.exp().transpose(-1, -2)


def hidden(rows: Tensor, T: int) -> Tensor:
    """Return a mask, True if a key lies after the query. rows [R] positions of queries -> bool [R, T]"""
    return torch.arange(T) > rows[:, None]


def parallel(log_q: Tensor, log_k: Tensor, rows: Tensor) -> Tensor:
    """Return the T x T matrix: phi(q).phi(k) over its sum along the keys read so far. Rows sum to 1.

    log_q [..., R, m] of the queries at positions `rows` [R], log_k [..., T, m] of all keys -> [..., R, T].
    Katharopoulos et al. 2020, section 3.3.
    """
    top = log_k.amax(-2, keepdim=True)  # of each feature over the keys: taken from the keys, given to the queries
    moved = log_q + top
    weights = kernel(moved - moved.amax(-1, keepdim=True), log_k - top)
    weights = weights.masked_fill(hidden(rows, log_k.shape[-2]), 0.0)
    sums = weights.sum(-1, keepdim=True)
    for at in (sums[..., 0] < _TINY).nonzero().tolist():  # underflow, since later keys are much larger
        place, end = tuple(at), int(rows[at[-1]]) + 1
        scores = (log_q[place] + log_k[(*place[:-1], slice(end))]).logsumexp(-1)  # [end]
        weights[place] = 0.0
        weights[(*place, slice(end))] = scores.softmax(-1)
        sums[place] = 1.0
    return weights / sums


def recurrent(log_q: Tensor, log_k: Tensor, v: Tensor) -> Tensor:
    """Compute the outputs of `parallel` by a state of constant size: S = sum phi(k) v^T, s = sum phi(k).

    z = phi(q) S / phi(q).s, token by token. log_q and log_k [T, m], v [T, E] -> [T, E]. Katharopoulos et al. 2020,
    section 3.4. Each feature is scaled by its largest value so far, as in the online softmax.
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
