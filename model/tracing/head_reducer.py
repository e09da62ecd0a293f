"""Metrics and a thumbnail of every head, computed while the model runs.

A [H, T, T] pattern exists only for the chunk of rows being computed, so a thousand tokens and hundreds of heads can be
analyzed together.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from model.gpt.layers import fused_attention
from model.gpt.passes import attend_explicit
from model.gpt.tap import Tap, compose
from model.tracing.head_metrics import (
    HEAD_METRICS,
    MASKED,
    Repeats,
    RowStats,
    encode,
    find_repeats,
    head_metrics,
    pool_size,
    rows_from_pattern,
    thumbnails_from_pattern,
)

_CHUNK = 128  # number of query rows reduced at once: large enough for the matrix product, small enough for the cache
_BATCH = 1 << 21  # maximum number of weights reduced at once; short prompts are reduced several layers at a time


class HeadReducer:
    """An attention kernel that computes the metrics and the thumbnail of every head.

    Pass it to `Transformer.trunk(attend=...)` for one sequence (B = 1, no cache), then call `finish`; it computes the
    same z as the fused kernel. With a tap, the complete pattern is computed and passed through the tap, and the result
    is reduced; `tapped` names the layers whose scores or pattern the tap changes, if they are known. Short prompts are
    batched over several layers, because for them, the call of an operation costs more than its computation.

    `two_way` says that later keys are visible. `known` holds rows and thumbnails of the first positions from another
    reducer, for a multiple of `pool_size(T)` positions. The kernel then receives only the queries of the other
    positions, with the keys and values of all.
    """

    def __init__(
        self,
        ids: Tensor,
        n_layer: int,
        n_head: int,
        tap: Tap | None = None,
        tapped: Collection[int] | None = None,
        known: tuple[Tensor, Tensor] | None = None,
        *,
        two_way: bool = False,
    ) -> None:
        T = len(ids)
        self.repeats, self.tap = find_repeats(ids, two_way=two_way), tap
        self.tapped = range(n_layer) if tapped is None else tapped
        self.k = pool_size(T)
        t = -(-T // self.k)
        self.metrics = torch.full((n_layer, n_head, len(HEAD_METRICS)), math.nan)  # [L, H, metrics]
        self.rows = torch.full((len(fields(RowStats)), n_layer, n_head, T), math.nan)  # [statistics, L, H, T]
        self.thumbnails = torch.full((n_layer, n_head, t, t), MASKED, dtype=torch.uint8)  # [L, H, t, t]
        start = 0 if known is None else known[0].shape[-1]
        if known is not None:
            self.rows[..., :start], done = known[0], start // self.k
            self.thumbnails[:, :, :done, :done] = known[1]
        rows = max(1, _CHUNK // self.k) * self.k  # whole thumbnail rows, so that each chunk can be pooled separately
        self.waiting: list[tuple[int, Tensor, Tensor]] = []  # pending: layer, q [H, T, E], k [G, T, E]
        self.together = max(1, _BATCH // (n_head * min(T - start, rows) * T))  # number of layers reduced at once
        self.chunks = [_Chunk.of(first, min(first + rows, T), self.repeats) for first in range(start, T, rows)]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.tap is not None and layer in self.tapped:
            return attend_explicit(compose(self.tap, self._see))(layer, q, k, v)
        if self.together == 1:
            stats, pooled, z = _reduce(q[0], k[0], v[0], self.chunks, self.k)
            self._keep([layer], stats, encode(pooled))
            return z
        self.waiting.append((layer, q[0], k[0]))
        if len(self.waiting) == self.together:
            self.finish()
        return fused_attention(q, k, v)

    def finish(self) -> None:
        """Reduce the layers that are still pending."""
        if self.waiting:
            layers, q, k = zip(*self.waiting, strict=True)
            stats, pooled, _ = _reduce(torch.cat(q), torch.cat(k), None, self.chunks, self.k)
            self._keep(list(layers), stats, encode(pooled))
            self.waiting.clear()

    def see(self, layer: int, weights: Tensor) -> None:
        """Reduce the weights of a layer that does not call a kernel: windowed attention, or a mixer without softmax.
        [1, H, T, T]
        """
        small = thumbnails_from_pattern(weights[0], two_way=self.repeats.two_way)
        self._keep([layer], rows_from_pattern(weights[0], self.repeats), small)

    def _see(self, site: str, layer: int, tensor: Tensor) -> Tensor:
        """Reduce the pattern; a tap that runs after all other taps."""
        if site == "pattern":
            self.see(layer, tensor)
        return tensor

    def _keep(self, layers: list[int], stats: RowStats, codes: Tensor) -> None:
        """Store the results of the given layers, concatenated over heads; if earlier rows are known, only the last
        rows.
        """
        rows = torch.stack([getattr(stats, field.name) for field in fields(stats)])
        n, r, t = rows.shape[-1], *codes.shape[-2:]
        self.rows[:, layers, :, -n:] = rows.view(len(rows), len(layers), -1, n)
        self.thumbnails[layers, :, -r:] = codes.view(len(layers), -1, r, t)
        merged = RowStats(*self.rows[:, layers].flatten(1, 2))
        self.metrics[layers] = head_metrics(merged, self.repeats).view(len(layers), *self.metrics.shape[1:])


@dataclass(frozen=True)
class _Chunk:
    """Query rows start .. end - 1, and the places of their repeats in the [end, rows] block of weights."""

    start: int
    end: int
    row: tuple[Tensor, Tensor]  # for duplicate and induction: query rows within the chunk, [P] each
    key: tuple[Tensor, Tensor]  # for duplicate and induction: keys, [P] each

    @staticmethod
    def of(start: int, end: int, repeats: Repeats) -> "_Chunk":
        inside = (repeats.query >= start) & (repeats.query < end)
        query, key = repeats.query[inside], repeats.key[inside]
        later = key + 1 < query
        return _Chunk(start, end, (query - start, (query - start)[later]), (key, (key + 1)[later]))


def _reduce(
    q: Tensor, k: Tensor, v: Tensor | None, chunks: list[_Chunk], pool: int
) -> tuple[RowStats, Tensor, Tensor | None]:
    """Compute the row statistics [H, n], pooled weights [H, r, t] and, given v, z [1, H, n, E] of the rows of the
    chunks.

    They are the last n of T rows, or all rows if no earlier ones are known. q [H, n, E], k and v [G, T, E]
    """
    H, n, E = q.shape
    G, T = k.shape[:2]
    first, R = T - n, H // G  # R query heads share a KV head
    q = (q / math.sqrt(E)).view(G, R, n, E)
    # One product with [V | K | position | 1] gives z, sum_j P k_j, the mean position and the row's sum at once.
    ones = torch.ones(G, T, 1)
    position = torch.arange(T, dtype=torch.float32)[None, :, None].expand(G, T, 1)
    parts = (k, position, ones) if v is None else (v, k, position, ones)
    read = torch.cat(parts, dim=-1).transpose(1, 2)  # [G, 2E + 2, S], or [G, E + 2, S]
    rows = torch.zeros(len(fields(RowStats)), H, n)
    pooled = torch.zeros(H, -(-n // pool), -(-T // pool))
    z = None if v is None else torch.empty(1, H, n, E)
    for chunk in chunks:
        a, b = chunk.start - first, chunk.end - first  # indices within the n rows
        part = q[:, :, a:b].reshape(G, R * (b - a), E)
        stats, small, out = _reduce_chunk(part, k[:, : chunk.end], read[:, :, : chunk.end], chunk, pool)
        rows[:, :, a:b] = stats.view(-1, H, b - a)
        if z is not None:
            z[0, :, a:b] = out[:, :E].transpose(1, 2).reshape(H, b - a, E)
        pooled[:, a // pool : -(-b // pool), : small.shape[-1]] = small.reshape(H, *small.shape[-2:])
    return RowStats(*rows), pooled, z


def _reduce_chunk(q: Tensor, k: Tensor, read: Tensor, chunk: _Chunk, pool: int) -> tuple[Tensor, Tensor, Tensor]:
    """Reduce one block of query rows against all keys up to its end.

    Queries are on the contiguous axis, so every reduction over keys is vectorized. q [G, R C, E], k [G, b, E], read [G,
    (E +) E + 2, b] -> stats [fields of RowStats, G R, C], pooled [G, R, c, t], and the weighted means of `read`, [G, (E
    +) E + 2, R C].
    """
    G, RC, E = q.shape
    a, b = chunk.start, chunk.end
    C = b - a
    R = RC // C
    weight = k @ q.transpose(1, 2)  # [G, b, R C]; scores at this point
    weight[:, a:].view(G, C, R, C).masked_fill_(torch.ones(C, C, dtype=torch.bool).tril_(-1)[:, None, :], -math.inf)
    peak = _block_max(weight, pool)  # [G, t, R C]
    top = peak.amax(1, keepdim=True)  # [G, 1, R C]
    weight.sub_(top).exp_()
    out = read @ weight  # [G, 2E + 2, R C]
    Z = out[:, -1:]
    out = out / Z
    weight = weight.view(G, b, R, C)
    # H = ln Z' - sum_j P s_j, and sum_j P s_j = q . (sum_j P k_j).
    entropy = (top + Z.log()).squeeze(1) - (q.transpose(1, 2) * out[:, -E - 2 : -2]).sum(1)
    query = torch.arange(a, b, dtype=torch.float32).repeat(R)
    total = Z.view(G, R, C)
    previous = torch.zeros(G, R, C)
    before = weight[:, max(a - 1, 0) : b - 1]
    skip = C - before.shape[1]  # 1 in the first chunk, because row 0 has no previous token
    previous[:, :, skip:] = before[..., skip:].diagonal(dim1=1, dim2=3)
    duplicate, induction = (_listed(weight, row, key) for row, key in zip(chunk.row, chunk.key, strict=True))
    stats = torch.stack(
        (
            previous / total,
            weight[:, a:].diagonal(dim1=1, dim2=3) / total,
            weight[:, 0] / total,
            entropy.clamp_(min=0).view(G, R, C),
            (query - out[:, -2]).view(G, R, C),
            duplicate / total,
            induction / total,
        )
    )
    # exp is monotonic: the largest score gives the largest weight
    share = (peak.sub_(top).exp_() / Z).view(G, -1, R, C)
    tail = -C % pool
    share = torch.nn.functional.pad(share, (0, tail)) if tail else share
    small = share.unflatten(-1, (-1, pool)).amax(-1)  # [G, t, R, c]
    return stats, small.permute(0, 2, 3, 1), out


def _listed(weight: Tensor, row: Tensor, key: Tensor) -> Tensor:
    """Sum each query's weights on the keys listed for it. weight [G, b, R, C], row and key [P] -> [G, R, C]"""
    G, b, R, C = weight.shape
    if 16 * len(row) > b * C:  # above this number of pairs, one pass over all weights is cheaper than gathering them
        mask = torch.zeros(b, 1, C)
        mask[key, 0, row] = 1
        return (weight * mask).sum(1)
    total = torch.zeros(C, G, R)
    if len(row):
        total.index_add_(0, row, weight.permute(1, 3, 0, 2)[key, row])
    return total.permute(1, 2, 0)


def _block_max(scores: Tensor, pool: int) -> Tensor:
    """Compute the largest score of every `pool` keys; the last block may be shorter. [G, b, N] -> [G, ceil(b / pool),
    N]
    """
    if pool == 1:
        return scores.clone()
    G, b, N = scores.shape
    full = b // pool
    blocks = scores[:, : full * pool].view(G, full, pool, N).amax(2)
    return blocks if full * pool == b else torch.cat((blocks, scores[:, full * pool :].amax(1, keepdim=True)), 1)
