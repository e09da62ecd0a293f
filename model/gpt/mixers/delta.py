"""The delta rule: before a head writes a value for a key, it removes the value stored for that key. Three equivalent
forms.

    recurrent   S_t = S_(t-1) + b_t k_t (v_t - S_(t-1)^T k_t)^T,     o_t = S_t^T q_t
    matrix      M = tril(Q K^T) (I + tril(diag(b) K K^T, -1))^(-1) diag(b),     o = M v
    chunked     the matrix within a chunk of tokens, the recurrence between chunks

S_t is the result of one step of gradient descent, with step size b_t, on |S^T k_t - v_t|^2 / 2: with b = 1 and |k| = 1,
the value then read for k_t is exactly v_t. Schlag et al. 2021, "Linear Transformers Are Secretly Fast Weight
Programmers", eq. 20 to 24. The closed form is that of Yang et al. 2024, "Parallelizing Linear Transformers with the
Delta Rule over Sequence Length", eq. 8 to 12. As there (3.3), keys and queries have length 1 after SiLU; 0 < b < 1.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 64  # tokens per chunk


def directions(x: Tensor) -> Tensor:
    """Apply SiLU and normalize to length 1. [..., E] -> [..., E]. Yang et al. 2024, 3.3."""
    return F.normalize(F.silu(x), dim=-1)


def solved(k: Tensor, beta: Tensor, x: Tensor) -> Tensor:
    """Compute (I + tril(diag(b) K K^T, -1))^(-1) diag(b) x. k [..., T, E], beta [..., T], x [..., T, n] -> [..., T, n]

    Row t is b_t times the difference of x_t and what earlier tokens have already written for k_t.
    """
    lower = beta[..., None] * (k @ k.transpose(-1, -2))
    return torch.linalg.solve_triangular(lower, beta[..., None] * x, upper=False, unitriangular=True)


def matrix(q: Tensor, k: Tensor, beta: Tensor) -> Tensor:
    """Return M such that M @ v = o from an empty state. q and k [B, H, T, E], beta [B, H, T] -> [B, H, T, T]"""
    eye = torch.eye(k.shape[-2], dtype=k.dtype, device=k.device).expand(*k.shape[:-1], k.shape[-2])
    return (q @ k.transpose(-1, -2)).tril() @ solved(k, beta, eye)


def recurrent(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Compute o [B, H, T, E] and the state after the last token [B, H, E, E], one token at a time."""
    out = []
    for t in range(q.shape[2]):
        key = k[:, :, t, :, None]  # [B, H, E, 1]
        held = (key * state).sum(-2)  # the value stored for the key, [B, H, E]
        state = state + beta[:, :, t, None, None] * key * (v[:, :, t] - held)[:, :, None, :]
        out.append((q[:, :, t, None, :] @ state)[:, :, 0])
    return torch.stack(out, 2), state


def chunked(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the results of `recurrent` one chunk at a time, with the chunk's writes as the solution of one triangular
    system.
    """
    out = []
    for q_c, k_c, v_c, beta_c in zip(*(x.split(CHUNK, 2) for x in (q, k, v, beta)), strict=True):
        writes = solved(k_c, beta_c, v_c - k_c @ state)  # [B, H, t, E]; token s adds k_s writes_s^T to S
        out.append(q_c @ state + (q_c @ k_c.transpose(-1, -2)).tril() @ writes)
        state = state + k_c.transpose(-1, -2) @ writes
    return out[0] if len(out) == 1 else torch.cat(out, 2), state
