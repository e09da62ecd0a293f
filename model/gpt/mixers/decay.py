"""Linear attention with decay: the mixers "linear" and "retention", in three equivalent forms.

    recurrent   S_t = a_t S_(t-1) + k_t v_t^T,     o_t = S_t^T q_t
    matrix      M[t, s] = (q_t . k_s) a_(s+1) ... a_t  for s <= t, else 0,     o = M v
    chunked     the matrix within a chunk of tokens, the recurrence between chunks

S [E, E] is the entire state that a head carries along the text. A softmax requires every key; without a softmax, the
sum over the past is accumulated in S (Katharopoulos et al. 2020, "Transformers are RNNs", eq. 16 to 20). The mixers
differ in a_t:

    retention   a_t = 1 - 2^(-5 - h): fixed, one per head. Sun et al. 2023, "Retentive Network", eq. 5 to 8
    linear      a_t = sigmoid(w . x_t + b)^(1/16): data-dependent, one per head. Yang et al. 2024, "Gated Linear
                Attention", 4.1 with the exponent of 4.4, but their gate has one value per key dimension; one value per
                head as in Dao & Gu 2024, "Transformers are SSMs", and Peng et al. 2021, "Random Feature Attention", 3.2

The decays are stored as logarithms [B, H, T], so that products become sums. q is already scaled by 1 / sqrt(E).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from model.gpt.layers import future

CHUNK = 64  # tokens per chunk; the matrix within a chunk then costs as much as the recurrence between chunks
TEMPERATURE = 16  # temperature of the gate, so that the initial decay is slow


def retention_log_decay(n_head: int) -> Tensor:
    """Return ln(1 - 2^(-5 - h)) of each head h: half-lives of 22, 44, 88 ... tokens. float64 [H]

    Sun et al. 2023, eq. 8.
    """
    return torch.log1p(-torch.exp2(-5.0 - torch.arange(n_head, dtype=torch.float64)))


def gate_log_decay(gate: Tensor) -> Tensor:
    """Return ln(sigmoid(gate)^(1/16)). [..., T] -> [..., T]"""
    return F.logsigmoid(gate) / TEMPERATURE


def between(log_a: Tensor) -> Tensor:
    """Return a_(s+1) ... a_t for every pair s <= t, 0 above the diagonal. [..., T] -> [..., T, T]

    The logarithms are summed along t for each s: a difference of sums over the whole text would lose digits.
    """
    T = log_a.shape[-1]
    later = log_a[..., :, None].expand(*log_a.shape, T).masked_fill(future(T, T) | torch.eye(T, dtype=torch.bool), 0)
    return later.cumsum(-2).masked_fill(future(T, T), -math.inf).exp()


def matrix(q: Tensor, k: Tensor, log_a: Tensor) -> Tensor:
    """Return M such that M @ v = o from an empty state. q and k [B, H, T, E], log_a [B, H, T] -> [B, H, T, T]"""
    return (q @ k.transpose(-1, -2)) * between(log_a)


def recurrent(q: Tensor, k: Tensor, v: Tensor, log_a: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Compute o [B, H, T, E] and the state after the last token [B, H, E, E], one token at a time."""
    out = []
    for t in range(q.shape[2]):
        kept = log_a[:, :, t, None, None].exp() * state
        state = kept + k[:, :, t, :, None] * v[:, :, t, None, :]
        out.append((q[:, :, t, None, :] @ state)[:, :, 0])
    return torch.stack(out, 2), state


def chunked(q: Tensor, k: Tensor, v: Tensor, log_a: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the results of `recurrent` one chunk at a time, with matrix products instead of a step per token."""
    out = []
    for q_c, k_c, v_c, log_c in zip(*(x.split(CHUNK, 2) for x in (q, k, v, log_a)), strict=True):
        inside = between(log_c)  # [B, H, t, t]
        since = log_c.cumsum(-1).exp()[..., None]  # fraction of the state before the chunk that remains at each token
        out.append((q_c @ k_c.transpose(-1, -2) * inside) @ v_c + (q_c * since) @ state)
        left = inside[..., -1, :, None]  # fraction of each token that remains at the end of the chunk, [B, H, t, 1]
        state = since[..., -1:, :] * state + (k_c * left).transpose(-1, -2) @ v_c
    return out[0] if len(out) == 1 else torch.cat(out, 2), state
