"""The selective state space of Mamba: a scalar recurrence a channel and state number, whose speed the token chooses.

    recurrent   h_t = exp(d_t A) h_(t-1) + d_t B_t u_t,     y_t = C_t . h_t         (one channel; h, A, B and C are [N])
    matrix      M[t, s] = sum over n of C_t[n] exp(A[n] (d_(s+1) + ... + d_t)) d_s B_s[n]  for s <= t,     y = M u

u [B, T, I] are the channels, d their step sizes ("delta", above 0), A [I, N] below 0 and the same for every token; B
and C [B, T, N] are read from the token and shared by the channels. A long step writes the token in and lets the past
fade, a short one passes the token by. Gu & Dao 2023, "Mamba", 3.2 and algorithm 2; B is discretised as d B (their code,
and the first order of eq. 4). The matrix is Ali et al. 2024, "The Hidden Attention of Mamba Models", eq. 7 to 10; every
channel has its own.

The recurrence runs over the tokens in plain Python, each step over all sequences, channels and state numbers: on a CPU
that reads and writes the least (a parallel scan passes over [B, T, I, N] once for every doubling of T). Its gradient is
the same walk backwards: nothing of size [B, T, I, N] is stored but h at every 16th token, the rest is computed again.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

STORED = 16  # tokens between the states that the forward keeps for the backward


@dataclass(frozen=True, eq=False)
class Selection:
    """What the tokens chose, and the channels themselves."""

    u: Tensor  # channels after the convolution, [B, T, I]
    delta: Tensor  # step sizes, [B, T, I]
    A: Tensor  # rates, below 0, [I, N]
    B: Tensor  # how a token is written, [B, T, N]
    C: Tensor  # how it reads, [B, T, N]


def step(state: Tensor, s: Selection, t: int) -> Tensor:
    """h after token t. [B, I, N] -> [B, I, N]"""
    kept = torch.exp(s.delta[:, t, :, None] * s.A) * state
    return kept + (s.delta[:, t] * s.u[:, t])[:, :, None] * s.B[:, t, None, :]


def recurrent(s: Selection, state: Tensor) -> tuple[Tensor, Tensor]:
    """y [B, T, I] and h after the last token [B, I, N], as in the formula: the reference for `scan`."""
    out = []
    for t in range(s.u.shape[1]):
        state = step(state, s, t)
        out.append((state @ s.C[:, t, :, None])[..., 0])
    return torch.stack(out, 1), state


def rows(s: Selection, channels: slice = slice(None)) -> Iterator[Tensor]:
    """The matrices of the channels a row at a time, token t's being [B, I', t + 1].

    What is left of each token is carried along: it starts as d_s B_s and fades with every step.
    """
    delta, A = s.delta[:, :, channels], s.A[channels]
    left = delta.new_zeros(len(delta), A.shape[0], delta.shape[1], A.shape[1])  # of token s, [B, I', s, N]
    for t in range(delta.shape[1]):
        left[:, :, :t] *= torch.exp(delta[:, t, :, None] * A)[:, :, None, :]
        left[:, :, t] = delta[:, t, :, None] * s.B[:, t, None, :]
        yield (left[:, :, : t + 1] @ s.C[:, t, None, :, None])[..., 0]


def matrix(s: Selection, channels: slice = slice(None)) -> Tensor:
    """M of each of the channels, with M @ u = y from an empty state. [B, I', T, T]"""
    n, T, width = s.delta[:, :, channels].shape
    out = s.delta.new_zeros(n, width, T, T)
    for t, row in enumerate(rows(s, channels)):
        out[:, :, t, : t + 1] = row
    return out


def sizes(s: Selection, channels: slice = slice(None)) -> Tensor:
    """The mean of |M| over the channels, none of whose matrices is kept. [B, T, T]"""
    n, T, _ = s.delta.shape
    out = s.delta.new_zeros(n, T, T)
    for t, row in enumerate(rows(s, channels)):
        out[:, t, : t + 1] = row.abs().mean(1)
    return out


def scan(s: Selection, state: Tensor) -> tuple[Tensor, Tensor]:
    """y [B, T, I] and h after the last token [B, I, N], with a gradient of its own."""
    return _Scan.apply(s.u, s.delta, s.A, s.B, s.C, state)


class _Scan(torch.autograd.Function):
    """The recurrence and its gradient; the tokens lie on the first axis, so that a step reads one block of memory."""

    @staticmethod
    def forward(ctx, u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor):
        u, delta, B, C = (x.transpose(0, 1).contiguous() for x in (u, delta, B, C))
        written, kept = delta * u, []
        y, state = torch.empty_like(u), state.clone()
        for t in range(len(u)):
            if t % STORED == 0 and any(ctx.needs_input_grad):
                kept.append(state.clone())
            _advance(state, delta[t], A, written[t], B[t])
            torch.matmul(state, C[t, :, :, None], out=y[t, :, :, None])
        ctx.save_for_backward(u, delta, A, B, C, *kept)
        return y.transpose(0, 1), state

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_y: Tensor, grad_state: Tensor):
        u, delta, A, B, C, *kept = ctx.saved_tensors
        grad_y, flow = grad_y.transpose(0, 1), grad_state.clone()  # flow: d loss / d h_t, [B, I, N]
        du, ddelta, dA = torch.empty_like(u), torch.empty_like(delta), torch.zeros_like(A)
        dB, dC = torch.empty_like(B), torch.empty_like(C)
        written = delta * u
        for block in range(len(kept) - 1, -1, -1):
            first = block * STORED
            states, decays = _again(kept[block], delta[first : first + STORED], A, written[first:], B[first:])
            for t in range(first + len(decays) - 1, first - 1, -1):
                before, after, decay = states[t - first], states[t - first + 1], decays[t - first]
                dC[t] = (grad_y[t, :, None, :] @ after)[:, 0]
                flow.addcmul_(grad_y[t, :, :, None], C[t, :, None, :])
                dB[t] = (written[t, :, None, :] @ flow)[:, 0]
                through = (flow @ B[t, :, :, None])[..., 0]  # d loss / d (delta u), [B, I]
                flow.mul_(decay)  # d loss / d h_(t-1)
                rate = flow * before  # d loss / d (delta A)
                ddelta[t] = (rate * A).sum(-1).addcmul_(through, u[t])
                dA += (rate * delta[t, :, :, None]).sum(0)
                du[t] = through * delta[t]
        return (*(x.transpose(0, 1) for x in (du, ddelta)), dA, *(x.transpose(0, 1) for x in (dB, dC)), flow)


def _advance(state: Tensor, delta: Tensor, A: Tensor, written: Tensor, B: Tensor) -> Tensor:
    """One token, in place; returns the decay. state [B, I, N], delta and written [B, I], B [B, N]"""
    decay = (delta[:, :, None] * A).exp_()
    state.mul_(decay).addcmul_(written[:, :, None], B[:, None, :])
    return decay


def _again(state: Tensor, delta: Tensor, A: Tensor, written: Tensor, B: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The states before and after each token of a block, and the decays between them."""
    states, decays = [state], []
    for t in range(len(delta)):
        state = state.clone()
        decays.append(_advance(state, delta[t], A, written[t], B[t]))
        states.append(state)
    return states, decays
