"""The projection of the stream to queries, keys and values, shared by all mixers that have them."""

from typing import Protocol

import torch
from torch import Tensor, nn

from model.gpt.layers import rotate, split_heads
from model.gpt.linear import Linear, joined
from model.gpt.passes import Pass


class Projecting(Protocol):
    """A mixer with queries, keys and values."""

    d_head: int
    q: Linear
    k: Linear
    v: Linear
    q_norm: nn.Module | None
    k_norm: nn.Module | None
    counts: tuple[int, int, int]  # number of heads of q, k and v
    joint: tuple[Linear, ...]  # the joint layer of q, k and v, if `Transformer.join` has built it


def project(mixer: Projecting, x: Tensor, layer: int, run: Pass) -> tuple[Tensor, Tensor, Tensor]:
    """Return q [B, H, T, E], k and v [B, G, T, E], with QK norm and RoPE applied. x [B, T, D]"""
    if run.tap is None and mixer.q_norm is None and not torch.is_grad_enabled() and (joint := joined(mixer)):
        return _project_joint(mixer, joint(x), run)
    q, k, v = (split_heads(linear(x), mixer.d_head) for linear in (mixer.q, mixer.k, mixer.v))
    if mixer.q_norm is not None:
        q, k = mixer.q_norm(q), mixer.k_norm(k)
    q, k, v = run.at("q", layer, q), run.at("k", layer, k), run.at("v", layer, v)
    if run.rope is not None:
        q, k = run.at("q_rot", layer, rotate(q, *run.rope)), run.at("k_rot", layer, rotate(k, *run.rope))
    return q, k, v


def _project_joint(mixer: Projecting, qkv: Tensor, run: Pass) -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k and v from one joint product, with one rotation and without taps. qkv [B, T, (H + 2 G) E]"""
    H, G, _ = mixer.counts
    heads = split_heads(qkv, mixer.d_head)  # [B, H + 2 G, T, E]
    if run.rope is None:
        return heads.split(mixer.counts, dim=1)
    turned = rotate(heads[:, : H + G], *run.rope)
    return turned[:, :H], turned[:, H:], heads[:, H + G :]
