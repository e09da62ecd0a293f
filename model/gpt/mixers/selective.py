"""The selective state space of Mamba: a scalar recurrence for each channel and state dimension, with token-dependent
step sizes.

    recurrent   h_t = exp(d_t A) h_(t-1) + d_t B_t u_t,     y_t = C_t . h_t         (one channel; h, A, B and C are [N])
    matrix      M[t, s] = sum over n of C_t[n] exp(A[n] (d_(s+1) + ... + d_t)) d_s B_s[n]  for s <= t,     y = M u

u [B, T, I] are the channels, and d their step sizes ("delta", positive). A [I, N] is negative and the same for all
tokens; B and C [B, T, N] are computed from the token and shared by the channels. A large step writes the token into the
state and lets the past decay; a small step ignores the token. Gu & Dao 2023, "Mamba", 3.2 and algorithm 2; B is
discretized as d B (as in their code, to first order in eq. 4). The matrix is that of Ali et al. 2024, "The Hidden
Attention of Mamba Models", eq. 7 to 10; every channel has its own.

The recurrence is a Python loop over the tokens, in which each step processes all sequences, channels and state
dimensions. On a CPU this causes the least memory traffic (a parallel scan traverses [B, T, I, N] once for every
doubling of T). The gradient is a loop in the reverse direction. Nothing of size [B, T, I, N] is stored: h is stored at
every 16th token, and recomputed between these.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

STORED = 16  # number of tokens between two states that the forward pass stores for the backward pass


@dataclass(frozen=True, eq=False)
class StateSelection:
    """The inputs of the recurrence: the channels, and the parameters that each token selects."""

    u: Tensor  # [B, T, I] channels after the convolution
    delta: Tensor  # [B, T, I] step sizes
    A: Tensor  # [I, N] negative rates
    B: Tensor  # [B, T, N] write vectors of the tokens
    C: Tensor  # [B, T, N] read vectors of the tokens


def step(state: Tensor, s: StateSelection, t: int) -> Tensor:
    """Return h after token t. [B, I, N] -> [B, I, N]"""
    kept = torch.exp(s.delta[:, t, :, None] * s.A) * state
    return kept + (s.delta[:, t] * s.u[:, t])[:, :, None] * s.B[:, t, None, :]


def recurrent(s: StateSelection, state: Tensor) -> tuple[Tensor, Tensor]:
    """Compute y [B, T, I] and h after the last token [B, I, N] directly by the formula, as a reference for `scan`."""
    out = []
    for t in range(s.u.shape[1]):
        state = step(state, s, t)
        out.append((state @ s.C[:, t, :, None])[..., 0])
    return torch.stack(out, 1), state


def rows(s: StateSelection, channels: slice = slice(None)) -> Iterator[Tensor]:
    """Yield the matrices of the channels one row at a time; row t is [B, I', t + 1].

    The remaining contribution of each token is carried along: it starts as d_s B_s and decays at every step.
    """
    delta, A = s.delta[:, :, channels], s.A[channels]
    left = delta.new_zeros(len(delta), A.shape[0], delta.shape[1], A.shape[1])  # contributions left, [B, I', s, N]
    for t in range(delta.shape[1]):
        left[:, :, :t] *= torch.exp(delta[:, t, :, None] * A)[:, :, None, :]
        left[:, :, t] = delta[:, t, :, None] * s.B[:, t, None, :]
        yield (left[:, :, : t + 1] @ s.C[:, t, None, :, None])[..., 0]


def matrix(s: StateSelection, channels: slice = slice(None)) -> Tensor:
    """Return M of each of the channels, such that M @ u = y from an empty state. [B, I', T, T]"""
    n, T, width = s.delta[:, :, channels].shape
    out = s.delta.new_zeros(n, width, T, T)
    for t, row in enumerate(rows(s, channels)):
        out[:, :, t, : t + 1] = row
    return out


def sizes(s: StateSelection, channels: slice = slice(None)) -> Tensor:
    """Return the mean of |M| over the channels, without storing all their matrices. [B, T, T]"""
    n, T, _ = s.delta.shape
    out = s.delta.new_zeros(n, T, T)
    for t, row in enumerate(rows(s, channels)):
        out[:, t, : t + 1] = row.abs().mean(1)
    return out


def scan(s: StateSelection, state: Tensor) -> tuple[Tensor, Tensor]:
    """Compute y [B, T, I] and h after the last token [B, I, N], with a custom gradient."""
    return _Scan.apply(s.u, s.delta, s.A, s.B, s.C, state)


class _Scan(torch.autograd.Function):
    """The recurrence and its gradient.

    Internally, tokens are on the first axis, and the channels of a state [N, B, I] on the last, so that a step
    processes contiguous rows of memory, with B_t and C_t as factors.
    """

    @staticmethod
    def forward(ctx, u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor):
        u, delta = (x.transpose(0, 1).contiguous() for x in (u, delta))  # [T, B, I]
        B, C = (x.permute(1, 2, 0).contiguous()[..., None] for x in (B, C))  # [T, N, B, 1]
        A, state = A.t().contiguous()[:, None], state.permute(2, 0, 1).contiguous()  # [N, 1, I], [N, B, I]
        written, y, kept = delta * u, torch.empty_like(u), []
        for t in range(len(u)):
            if t % STORED == 0 and any(ctx.needs_input_grad):
                kept.append(state)
            state, decay = _advance(state, delta[t], A, written[t], B[t])
            torch.sum(torch.mul(state, C[t], out=decay), 0, out=y[t])
        ctx.save_for_backward(u, delta, A, B, C, *kept)
        return y.transpose(0, 1), state.permute(1, 2, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_y: Tensor, grad_state: Tensor):
        u, delta, A, B, C, *kept = ctx.saved_tensors
        grad_y = grad_y.transpose(0, 1)
        flow = grad_state.permute(2, 0, 1).clone(memory_format=torch.contiguous_format)  # d loss / d h_t, [N, B, I]
        du, ddelta, dA = torch.empty_like(u), torch.empty_like(u), torch.zeros_like(flow)
        dB, dC, written = torch.empty_like(B[..., 0]), torch.empty_like(C[..., 0]), delta * u
        for block in range(len(kept) - 1, -1, -1):
            first, states, decays = block * STORED, [kept[block]], []
            for t in range(first, min(first + STORED, len(u))):  # recomputed from the stored state
                state, decay = _advance(states[-1], delta[t], A, written[t], B[t])
                states.append(state)
                decays.append(decay)
            for t in range(first + len(decays) - 1, first - 1, -1):
                before, after, decay = states[t - first], states[t - first + 1], decays[t - first]
                torch.sum(grad_y[t] * after, -1, out=dC[t])
                flow.addcmul_(grad_y[t][None], C[t])
                torch.sum(written[t] * flow, -1, out=dB[t])
                through = (flow * B[t]).sum(0)  # d loss / d (delta u), [B, I]
                flow.mul_(decay)  # d loss / d h_(t-1)
                rate = flow * before  # d loss / d (delta A)
                ddelta[t] = (rate * A).sum(0).addcmul_(through, u[t])
                dA.addcmul_(rate, delta[t][None])
                du[t] = through * delta[t]
        du, ddelta, dB, dC = (x.transpose(0, 1) for x in (du, ddelta, dB.mT, dC.mT))  # [B, T, ...]
        return du, ddelta, dA.sum(1).t(), dB, dC, flow.permute(1, 2, 0)


def _advance(state: Tensor, delta: Tensor, A: Tensor, written: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Return the state after one token, and the decay.

    state [N, B, I], delta and written [B, I], A [N, 1, I], B [N, B, 1]
    """
    decay = torch.mul(delta, A).exp_()
    return (state * decay).addcmul_(written[None], B), decay
