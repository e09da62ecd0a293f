"""The delta rule: before a head writes a value for a key, it removes the value stored for that key. Three equivalent
forms.

    recurrent   S_t = a_t S_(t-1) + b_t k_t (v_t - a_t S_(t-1)^T k_t)^T,     o_t = S_t^T q_t
    matrix      M = tril(Q K^T * A) (I + tril(diag(b) (K K^T * A), -1))^(-1) diag(b),     o = M v
    chunked     the matrix within a chunk of tokens, the recurrence between chunks

S_t is the result of one step of gradient descent, with step size b_t, on |S^T k_t - v_t|^2 / 2: with b = 1 and |k| = 1,
the value then read for k_t is exactly v_t. Schlag et al. 2021, "Linear Transformers Are Secretly Fast Weight
Programmers", eq. 20 to 24. The closed form is that of Yang et al. 2024, "Parallelizing Linear Transformers with the
Delta Rule over Sequence Length", eq. 8 to 12. As there (3.3), keys and queries have length 1 after SiLU; 0 < b < 1.

The gated rule also lets the whole state decay: A[t, s] = a_(s+1) ... a_t, and `log_a` has the logarithms [B, H, T].
Without it, a = 1. Yang et al. 2024, "Gated Delta Networks", eq. 10.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from model.gpt.mixers.decay import between

CHUNK = 64  # tokens per chunk


def directions(x: Tensor) -> Tensor:
    """Apply SiLU and normalize to length 1. [..., E] -> [..., E]. Yang et al. 2024, 3.3."""
    return F.normalize(F.silu(x), dim=-1)


def _kept(products: Tensor, inside: Tensor | None) -> Tensor:
    """Multiply products of tokens by the decay between them, if there is any. [..., T, T]"""
    return products if inside is None else products * inside


def solved(k: Tensor, beta: Tensor, x: Tensor, inside: Tensor | None = None) -> Tensor:
    """Compute (I + tril(diag(b) (K K^T * A), -1))^(-1) diag(b) x, with A = `inside` [..., T, T] or 1.

    Row t is b_t times the difference of x_t and what earlier tokens have already written for k_t. k [..., T, E], beta
    [..., T], x [..., T, n] -> [..., T, n]
    """
    lower = beta[..., None] * _kept(k @ k.transpose(-1, -2), inside)
    return torch.linalg.solve_triangular(lower, beta[..., None] * x, upper=False, unitriangular=True)


def matrix(q: Tensor, k: Tensor, beta: Tensor, log_a: Tensor | None = None) -> Tensor:
    """Return M such that M @ v = o from an empty state. q and k [B, H, T, E], beta [B, H, T] -> [B, H, T, T]"""
    eye = torch.eye(k.shape[-2], dtype=k.dtype, device=k.device).expand(*k.shape[:-1], k.shape[-2])
    inside = None if log_a is None else between(log_a)
    return _kept(q @ k.transpose(-1, -2), inside).tril() @ solved(k, beta, eye, inside)


def recurrent(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor, log_a: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute o [B, H, T, E'] and the state after the last token [B, H, E, E'], one token at a time."""
    out = []
    for t in range(q.shape[2]):
        key = k[:, :, t, :, None]  # [B, H, E, 1]
        state = state if log_a is None else log_a[:, :, t, None, None].exp() * state
        held = (key * state).sum(-2)  # the value stored for the key, [B, H, E']
        state = state + beta[:, :, t, None, None] * key * (v[:, :, t] - held)[:, :, None, :]
        out.append((q[:, :, t, None, :] @ state)[:, :, 0])
    return torch.stack(out, 2), state


def chunked(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor, log_a: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the results of `recurrent` one chunk at a time, with the chunk's writes as the solution of one triangular
    system.
    """
    out = []
    logs = [None] * -(-q.shape[2] // CHUNK) if log_a is None else log_a.split(CHUNK, 2)
    for *parts, log_c in zip(*(x.split(CHUNK, 2) for x in (q, k, v, beta)), logs, strict=True):
        q_c, k_c, v_c, beta_c = parts
        inside = None if log_c is None else between(log_c)
        # Fraction of the state before the chunk that remains at each token.
        since = 1 if log_c is None else log_c.cumsum(-1).exp()[..., None]
        writes = solved(k_c, beta_c, v_c - since * (k_c @ state), inside)  # [B, H, t, E']
        out.append(since * (q_c @ state) + _kept(q_c @ k_c.transpose(-1, -2), inside).tril() @ writes)
        if log_c is not None:  # fraction of each token's write that remains at the end of the chunk
            k_c, state = k_c * inside[..., -1, :, None], since[..., -1:, :] * state
        state = state + k_c.transpose(-1, -2) @ writes  # token s adds k_s writes_s^T to S
    return out[0] if len(out) == 1 else torch.cat(out, 2), state
