"""The projection of the stream to queries, keys and values, shared by all mixers that have them."""

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.gpt.config import ModelConfig
from model.gpt.layers import merge_heads, rotate, split_heads
from model.gpt.linear import Linear, joined
from model.gpt.passes import Pass, Rope


@dataclass(frozen=True)
class Turn:
    """The factor, the clamp and the rotation of a layer's q, k and v between projection and scores."""

    rotates: bool  # whether q and k are rotated
    local: bool  # by the base of layers with a sliding window
    pairs: str  # ModelConfig.rope_pairs
    q_factor: float  # ModelConfig.query_factor
    limit: float | None  # ModelConfig.qkv_limit

    @staticmethod
    def of(config: ModelConfig, layer: int) -> "Turn":
        """Return those of a layer."""
        local = config.rope_theta_local is not None and config.mixer_of(layer) == "sliding_window"
        factor = config.at(layer).query_factor
        return Turn(config.rotates(layer), local, config.rope_pairs, factor, config.qkv_limit)

    def table(self, run: Pass) -> Rope | None:
        """Return the cosines and sines of a pass for this layer; None if it does not rotate."""
        return (run.rope_local if self.local else run.rope) if self.rotates else None

    def rotated(self, x: Tensor, table: Rope | None) -> Tensor:
        """Rotate q or k by a table of `table`, or return it unchanged. [..., T, E]"""
        return x if table is None else rotate(x, *table, self.pairs)

    def clamped(self, x: Tensor) -> Tensor:
        """Clamp a projection, if the model does. [...] -> [...]"""
        if self.limit is None or self.limit > torch.finfo(x.dtype).max:  # clamp takes no number beyond the type's
            return x
        return x.clamp(-self.limit, self.limit)


class Projecting(Protocol):
    """A mixer with queries, keys and values, except that `k` is None where they are those of layer `source`, and `v`
    where values are keys.
    """

    d_head: int
    q: Linear
    k: Linear | None
    v: Linear | None
    source: int | None
    v_eps: float | None  # of the norm of values; None: no norm
    q_norm: nn.Module | None
    k_norm: nn.Module | None
    turn: Turn
    counts: tuple[int, int, int]  # number of heads of q, k and v
    joint: tuple[Linear, ...]  # the joint layer of q, k and v, if `Transformer.join` has built it


def project(mixer: Projecting, x: Tensor, layer: int, run: Pass) -> tuple[Tensor, Tensor, Tensor]:
    """Return q [B, H, T, E], k and v [B, G, T, E], with QK norm and RoPE applied. x [B, T, D]

    Queries are multiplied by ModelConfig.query_factor, which is 1 unless the model scales scores in a way of its own.
    """
    turn, table = mixer.turn, mixer.turn.table(run)
    plain = mixer.q_norm is None and turn.limit is None and turn.q_factor == 1 and turn.pairs == "halves"
    plain = plain and mixer.v is not None and mixer.v_eps is None
    if run.tap is None and plain and not torch.is_grad_enabled() and (joint := joined(mixer)):
        return _project_joint(mixer, joint(x), table)
    if mixer.source is not None:
        return _queries(mixer, x, layer, run), *run.beside.shared(mixer.source)
    q, k = (split_heads(turn.clamped(linear(x)), mixer.d_head) for linear in (mixer.q, mixer.k))
    v = k if mixer.v is None else split_heads(turn.clamped(mixer.v(x)), mixer.d_head)
    q, k, v = _normed(mixer.q_norm, q), _normed(mixer.k_norm, k), values_normed(mixer, v)
    if turn.q_factor != 1:
        q = q * turn.q_factor
    q, k, v = run.at("q", layer, q), run.at("k", layer, k), run.at("v", layer, v)
    if table is not None:
        q, k = run.at("q_rot", layer, turn.rotated(q, table)), run.at("k_rot", layer, turn.rotated(k, table))
    return q, k, v


def _queries(mixer: Projecting, x: Tensor, layer: int, run: Pass) -> Tensor:
    """Return the queries of a layer that uses keys and values of an earlier one. x [B, T, D] -> [B, H, T, E]"""
    turn, table = mixer.turn, mixer.turn.table(run)
    q = _normed(mixer.q_norm, split_heads(turn.clamped(mixer.q(x)), mixer.d_head))
    q = run.at("q", layer, q * turn.q_factor)
    return q if table is None else run.at("q_rot", layer, turn.rotated(q, table))


def unturned(mixer: Projecting, x: Tensor) -> tuple[Tensor, Tensor]:
    """Compute k and v before rotation, without a tap. x [B, T, D] -> [B, G, T, E] each"""
    turn = mixer.turn
    k = split_heads(turn.clamped(mixer.k(x)), mixer.d_head)
    v = k if mixer.v is None else split_heads(turn.clamped(mixer.v(x)), mixer.d_head)
    return _normed(mixer.k_norm, k), values_normed(mixer, v)


def values_normed(mixer: Projecting, v: Tensor) -> Tensor:
    """Apply the norm of values, which has no gain, if there is one. [..., E]"""
    return v if mixer.v_eps is None else F.rms_norm(v, v.shape[-1:], None, mixer.v_eps)


def project_rows(mixer: Projecting, x: Tensor, run: Pass, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Compute q [1, H, n, E] at `rows` and k [1, G, T, E] as for scores, without a tap. x [T, D]"""
    turn, table = mixer.turn, mixer.turn.table(run)
    q = _normed(mixer.q_norm, split_heads(turn.clamped(mixer.q(x[rows][None])), mixer.d_head))
    k = project_keys(mixer, x, run)[0] if mixer.source is None else run.beside.shared(mixer.source)[0][:, :, : len(x)]
    return turn.rotated(q * turn.q_factor, _at(table, rows)), k


def project_keys(mixer: Projecting, x: Tensor, run: Pass) -> tuple[Tensor, Tensor]:
    """Compute k and v [1, G, T, E] as attention uses them, without a tap. x [T, D]"""
    k, v = unturned(mixer, x[None])
    return mixer.turn.rotated(k, mixer.turn.table(run)), v


def project_head(mixer: Projecting, x: Tensor, run: Pass, head: int, kv: int) -> tuple[Tensor, Tensor, Tensor]:
    """Compute q of one head, and k and v of one KV head, without a tap. x [T, D] -> three of [1, 1, T, E]

    Only the weights of these heads are used, unless a norm goes over all heads together.
    """
    turn, table = mixer.turn, mixer.turn.table(run)
    q = turn.rotated(one_head(mixer, mixer.q, mixer.q_norm, head, x) * turn.q_factor, table)[None, None]
    if mixer.source is not None:
        k, v = run.beside.shared(mixer.source)
        return q, k[:, kv : kv + 1], v[:, kv : kv + 1]
    k, v = one_head(mixer, mixer.k, mixer.k_norm, kv, x), one_head(mixer, mixer.v or mixer.k, None, kv, x)
    return q, turn.rotated(k, table)[None, None], values_normed(mixer, v)[None, None]


def _at(table: Rope | None, rows: Tensor) -> Rope | None:
    """Return the given rows of a table."""
    return None if table is None else (table[0][rows], table[1][rows])


def one_head(mixer: Projecting, linear: Linear, norm: nn.Module | None, n: int, x: Tensor) -> Tensor:
    """Project x to head n and clamp it if the model does, with its norm if given. [T, D] -> [T, E]"""
    rows = slice(n * mixer.d_head, (n + 1) * mixer.d_head)
    if norm is not None and norm.weight.shape[0] != mixer.d_head:
        return norm(mixer.turn.clamped(linear(x)))[:, rows]
    part = mixer.turn.clamped(linear.part(x, rows))
    return part if norm is None else norm(part)


def _normed(norm: nn.Module | None, x: Tensor) -> Tensor:
    """Apply the norm of q or k, if there is one, over each head or over all heads, as wide as it is. [B, n, T, E]"""
    if norm is None or norm.weight.shape[0] == x.shape[-1]:
        return x if norm is None else norm(x)
    return split_heads(norm(merge_heads(x)), x.shape[-1])


def _project_joint(mixer: Projecting, qkv: Tensor, table: Rope | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k and v from one joint product, with one rotation and without taps. qkv [B, T, (H + 2 G) E]"""
    H, G, _ = mixer.counts
    heads = split_heads(qkv, mixer.d_head)  # [B, H + 2 G, T, E]
    if table is None:
        return heads.split(mixer.counts, dim=1)
    turned = rotate(heads[:, : H + G], *table)
    return turned[:, :H], turned[:, H:], heads[:, H + G :]
