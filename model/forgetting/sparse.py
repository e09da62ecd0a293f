"""Sparse attention with real savings: only blocks that contain visible keys are multiplied.

A mask over all keys saves nothing, because the masked weights are computed and then discarded. Here the text is divided
into blocks of queries, and each block is multiplied only by the keys that may be visible to its queries, as in Beltagy
et al. 2020, section 3.2, and Zaheer et al. 2020, appendix D.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from model.errors import InputError, say
from model.forgetting.policies import Policy, mask_of
from model.gpt.config import ModelConfig
from model.gpt.layers import fused_attention
from model.progress import Progress, silent
from model.public import array, check_alike, public, whole

SPARSE = ("window", "first", "block", "dilated")  # kinds with a kernel in this module
ROUNDS = 3
_MASKED = 4096  # maximum number of tokens for which masked attention is timed for comparison


@public(q=array("B H T E"), k=array("B H T E"), v=array("B H T E"))
def sparse_attention(policy: Policy, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute attention under a policy of SPARSE without a [T, T] matrix. q, k and v [B, H, T, E] -> [B, H, T, E]"""
    check_alike(q=q, k=k, v=v)
    if policy.kind not in SPARSE:
        raise InputError(
            "This policy has no attention kernel.",
            f"policy: {policy.kind}",
            say("Choose one of: {}.", ", ".join(SPARSE)),
        )
    if policy.kind == "block":
        return _blocks(q, k, v, policy.budget)
    if policy.kind == "dilated":
        return _dilated(q, k, v, policy.budget, policy.dilation)
    kept = min(policy.first, policy.budget - 1) if policy.kind == "first" else 0
    return _window(q, k, v, policy.budget - kept, kept)


@public(T=whole(1, 1 << 40))
def computed(policy: Policy, T: int) -> int:
    """Return the number of query-key pairs that the kernel multiplies, including the masked ones within a block."""
    n = policy.budget
    if policy.kind == "block":
        return -(-T // n) * n * n
    if policy.kind == "dilated":
        d = policy.dilation
        return d * _in_window(-(-T // d), n, 0)
    kept = min(policy.first, n - 1) if policy.kind == "first" else 0
    return _in_window(T, n - kept, kept)


def _in_window(T: int, width: int, first: int) -> int:
    return -(-T // width) * width * (2 * width + first)


def _padded(x: Tensor, block: int) -> Tensor:
    """Pad with zeros after the last token to a multiple of the block size. [B, H, T, E] -> [B, H, blocks * block, E]"""
    return F.pad(x, (0, 0, 0, -x.shape[2] % block))


def _blocks(q: Tensor, k: Tensor, v: Tensor, n: int) -> Tensor:
    T = q.shape[2]
    cut = [_padded(x, n).unflatten(2, (-1, n)) for x in (q, k, v)]  # [B, H, blocks, n, E]
    return F.scaled_dot_product_attention(*cut, is_causal=True).flatten(2, 3)[:, :, :T]


def _window(q: Tensor, k: Tensor, v: Tensor, width: int, first: int) -> Tensor:
    """Compute sliding-window attention in blocks of `width` queries.

    Each block uses its own keys, those of the previous block, and the `first` keys of the text.
    """
    T, n = q.shape[2], width
    queries = _padded(q, n).unflatten(2, (-1, n))  # [B, H, blocks, n, E]
    blocks = queries.shape[2]
    keys, values = (_two_blocks(_padded(x, n), n) for x in (k, v))  # [B, H, blocks, 2 n, E]
    query = torch.arange(blocks * n).view(blocks, n, 1)
    key = torch.arange(blocks)[:, None] * n + torch.arange(-n, n)  # [blocks, 2 n]
    behind = query - key[:, None, :]
    seen = (behind >= 0) & (behind < n) & (key[:, None, :] >= 0)
    if first:
        begin = torch.arange(first).expand(blocks, 1, first)
        seen = torch.cat(((begin <= query) & (query - begin >= n), seen), -1)
        keys, values = (
            torch.cat((x[:, :, None, :first].expand(-1, -1, blocks, -1, -1), y), 3)
            for x, y in ((_padded(k, max(n, first)), keys), (_padded(v, max(n, first)), values))
        )
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen).flatten(2, 3)[:, :, :T]


def _two_blocks(x: Tensor, n: int) -> Tensor:
    """Concatenate each block of keys with the previous one. [B, H, blocks * n, E] -> [B, H, blocks, 2 n, E]"""
    own = x.unflatten(2, (-1, n))
    return torch.cat((F.pad(own, (0, 0, 0, 0, 1, 0))[:, :, :-1], own), 3)


def _dilated(q: Tensor, k: Tensor, v: Tensor, width: int, step: int) -> Tensor:
    """Compute dilated attention: positions with the same remainder modulo `step` form a separate text with an ordinary
    window.
    """
    T = q.shape[2]
    parts = [_padded(x, step).unflatten(2, (-1, step)).movedim(3, 2).flatten(1, 2) for x in (q, k, v)]
    out = _window(*parts, width, 0)  # [B, H * step, T / step, E]
    return out.unflatten(1, (-1, step)).movedim(2, 3).flatten(2, 3)[:, :, :T]


@dataclass(frozen=True)
class Timed:
    """Median seconds of one layer's attention over T tokens, by implementation."""

    T: int
    full: float
    masked: float | None  # seconds if all weights are computed, then masked; None if not measured
    sparse: float


def _ways(policy: Policy, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Callable[[], Tensor]]:
    ways = {"full": partial(fused_attention, q, k, v), "sparse": partial(sparse_attention, policy, q, k, v)}
    if q.shape[2] <= _MASKED:
        seen = mask_of(policy, q.shape[2])
        ways["masked"] = partial(F.scaled_dot_product_attention, q, k, v, attn_mask=seen)
    return ways


@public(lengths=whole(1, 1 << 20))
@torch.inference_mode()
def timed(
    config: ModelConfig, policy: Policy, lengths: Sequence[int], progress: Progress = silent
) -> tuple[Timed, ...]:
    """Time one layer of the model's shape on random queries, keys and values: full, masked, and in blocks.

    Raises InputError for a policy without a kernel in this module.
    """
    if policy.kind not in SPARSE:
        raise InputError(
            "This policy has no attention kernel.",
            f"policy: {policy.kind}",
            say("Choose one of: {}.", ", ".join(SPARSE)),
        )
    rows = []
    for at, T in enumerate(lengths):
        progress(at, len(lengths), "")
        generator = torch.Generator().manual_seed(T)
        shape = 1, config.n_head, T, config.d_head
        q, k, v = (torch.randn(shape, generator=generator) for _ in range(3))
        ways = _ways(policy, q, k, v)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for each in ways.values():
            each()  # the first call for a shape is slower
        for _ in range(ROUNDS):
            for name, each in ways.items():  # alternate, so that a load spike affects all variants equally
                began = time.perf_counter()
                each()
                times[name].append(time.perf_counter() - began)
        middle = {name: statistics.median(each) for name, each in times.items()}
        rows.append(Timed(T, middle["full"], middle.get("masked"), middle["sparse"]))
    progress(len(lengths), len(lengths), "")
    return tuple(rows)


def _check_kernel(policy: Policy) -> None:
    """Raise InputError for a policy without a kernel in this module."""
    if policy.kind not in SPARSE:
        hint = say("Choose one of: {}.", ", ".join(SPARSE))
        raise InputError("This policy has no attention kernel.", f"policy: {policy.kind}", hint)
