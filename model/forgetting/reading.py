"""Reading of texts with restricted attention, and the resulting change in the loss. Nothing is retrained.

The restriction applies in every layer, so later layers read streams that were themselves computed under it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.forgetting.eviction import gone_of, may_forget, read_through
from model.forgetting.policies import Policy
from model.gpt.layers import attention_scores, fused_attention, mix
from model.gpt.mixers.needs import need_attention
from model.gpt.passes import attend_fused
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import array, nonempty, public, whole
from model.tracing.ranking import top_ids

TOP = 10  # number of most likely next tokens to compare
_WEIGHTS = 1 << 24  # maximum number of attention weights of one layer in memory at once
_LOGITS = 1 << 21  # maximum number of logits in memory at once
_KEPT = 1 << 24  # maximum number of stored log-probabilities under full attention, 64 MB


@dataclass(frozen=True, eq=False)
class PolicyReading:
    """Comparison of a policy with full attention on the same texts [B, T], for n predictions per text."""

    policy: Policy
    loss: np.ndarray  # float32 [B, n]: -log p of the token after each position, NaN if unknown; nats
    full_loss: np.ndarray  # float32 [B, n], the same under full attention
    kl: np.ndarray  # float32 [B, n], KL(full || policy) of the prediction at each position; nats
    agree: np.ndarray  # bool [B, n], whether the most likely next token is the same
    lost: np.ndarray  # float32 [L, H], fraction of a head's full-attention weight that falls on evicted keys
    kept: np.ndarray  # int32 [T], maximum number of keys visible at each position, over texts, heads and layers
    gone: np.ndarray | None  # int32 [L, G, T], eviction times for the first text; None if no cache can evict
    before: tuple[tuple[int, float, float], ...]  # top next tokens of the first text: id, p in full, p under policy
    after: tuple[tuple[int, float, float], ...]  # the same for the tokens that are most likely under the policy

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(each.nbytes for each in vars(self).values() if isinstance(each, np.ndarray))


@dataclass(eq=False)
class Forgetful:
    """An attention function (`Transformer.trunk(attend=...)`) that applies a policy and records the lost attention
    weight.

    It processes complete texts, without a cache. q [B, H, T, E], k and v [B, G, T, E] -> z [B, H, T, E]
    """

    policy: Policy
    lost: dict[int, Tensor] = field(default_factory=dict)  # layer -> [H], mean over positions, summed over texts
    gone: dict[int, Tensor] = field(default_factory=dict)  # layer -> eviction times [G, T] for the first text
    kept: Tensor | None = None  # [T], maximum number of visible keys

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.policy.budget >= q.shape[2] and self.policy.kind in ("window", "first", "h2o"):
            return self._all(layer, q, k, v)
        B, H, T, _ = q.shape
        together = max(1, _WEIGHTS // (H * T * T))
        parts = [slice(start, start + together) for start in range(0, B, together)]
        return torch.cat([self._part(layer, q[part], k[part], v[part]) for part in parts])

    def _all(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute attention to all keys with the model's own kernel, for a policy that evicts none of them."""
        self._count(layer, torch.zeros(q.shape[1]), torch.arange(1, q.shape[2] + 1))
        self.gone.setdefault(layer, torch.full((k.shape[1], k.shape[2]), k.shape[2]))
        return fused_attention(q, k, v)

    def _part(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        (B, H, T, _), G = q.shape, k.shape[1]
        scores = attention_scores(q, k)
        grouped = scores.view(B, G, H // G, T, T)
        weights, seen = read_through(self.policy, grouped)
        wanted = grouped.softmax(-1).masked_fill_(seen, 0.0).sum(-1)  # [B, G, R, T], weight on evicted keys
        self._count(layer, wanted.mean(-1).sum(0).flatten(), seen.sum(-1).view(-1, T).amax(0))
        if may_forget(self.policy):
            gone = gone_of(seen)
            self.gone.setdefault(layer, gone.expand(G, T) if gone.ndim == 1 else gone[0, :, 0])
        return mix(weights.view(B, H, T, T), v)

    def _count(self, layer: int, lost: Tensor, kept: Tensor) -> None:
        self.lost[layer] = self.lost.get(layer, 0) + lost
        self.kept = kept if self.kept is None else torch.maximum(self.kept, kept)


class FullReading:
    """Texts read with full attention. As many predictions as fit in memory are stored and reused for all policies.

    x [B, n, D] is the stream after the last block, at the positions from `since`.
    """

    @torch.inference_mode()
    def __init__(self, model: Transformer, ids: Tensor, *, since: int = 0, size: int | None = None) -> None:
        self.model, self.since, self.size = model, since, size or model.config.vocab_size
        self.x = model.trunk(ids, attend=attend_fused)[:, since:]
        self._known: dict[int, Tensor] = {}

    def parts(self) -> Iterator[slice]:
        """Return an iterator of slices of positions, small enough to bound the memory for the logits."""
        B, n, _ = self.x.shape
        step = max(1, _LOGITS // (B * self.model.config.vocab_size))
        return (slice(start, start + step) for start in range(0, n, step))

    def log_probs(self, part: slice) -> Tensor:
        """Compute ln p of every next token at the positions of a slice. [B, positions, V]"""
        known = self._known.get(part.start)
        if known is None:
            known = log_probs(self.model, self.x[:, part], self.size)
            if sum(each.numel() for each in self._known.values()) + known.numel() <= _KEPT:
                self._known[part.start] = known
        return known


def log_probs(model: Transformer, x: Tensor, size: int) -> Tensor:
    """Compute ln p of the first `size` tokens of the vocabulary from the stream. [..., D] -> [..., size]"""
    return model.logits(x)[..., :size].float().log_softmax(-1)


@public(ids=array("B T"), following=array("B"), size=whole(1))
@torch.inference_mode()
def read(
    model: Transformer,
    ids: Tensor,
    policy: Policy,
    *,
    following: Tensor | None = None,
    full: FullReading | None = None,
    size: int | None = None,
) -> PolicyReading:
    """Read texts [B, T] under a policy and compare the predictions with those of full attention.

    `following` [B] are the tokens after the texts, if known. `full` holds the same texts under full attention, and
    determines the positions and tokens to compare. Without it, all positions are compared, and the first `size` tokens
    of the vocabulary if the model has more rows. Raises InputError for an invalid policy and for a model with other
    mixers, and ValueError for ids that the model cannot process.
    """
    need_attention(model.config)
    full = full or FullReading(model, ids, size=size)
    kernel = Forgetful(policy)
    less = model.trunk(ids, attend=kernel)[:, full.since :]
    targets = torch.cat((ids[:, 1:], torch.full((len(ids), 1), -1) if following is None else following[:, None]), 1)
    compared = _compare(full, less, targets[:, full.since :])
    layers = range(model.config.n_layer)
    gone = torch.stack([kernel.gone[layer] for layer in layers]).int().numpy() if kernel.gone else None
    return PolicyReading(
        policy,
        compared[1].numpy(),
        compared[0].numpy(),
        compared[2].numpy(),
        compared[3].bool().numpy(),
        torch.stack([kernel.lost[layer] / len(ids) for layer in layers]).numpy(),
        kernel.kept.int().numpy(),
        gone,
        *_next(model, full.x[:1, -1:], less[:1, -1:], full.size),
    )


def _compare(full: FullReading, less: Tensor, targets: Tensor) -> Tensor:
    """Compute the loss under full and restricted attention, the KL divergence and the agreement. [B, n, D] -> [4, B, n]

    A few positions are processed at a time.
    """
    out = torch.empty(4, *targets.shape)
    for part in full.parts():
        a, b = full.log_probs(part), log_probs(full.model, less[:, part], full.size)
        wanted = targets[:, part]
        for row, each in enumerate((a, b)):
            losses = -each.gather(-1, wanted.clamp(min=0)[..., None])[..., 0]
            out[row, :, part] = losses.masked_fill(wanted < 0, math.nan)
        out[2, :, part] = F.kl_div(b, a, reduction="none", log_target=True).sum(-1).clamp_(min=0)
        out[3, :, part] = a.argmax(-1) == b.argmax(-1)
    return out


def _next(model: Transformer, full: Tensor, less: Tensor, size: int) -> tuple[tuple, tuple]:
    """Return the most likely next tokens under full and under restricted attention, each with its id and both
    probabilities.
    """
    a, b = (model.logits(x)[0, 0, :size].float().softmax(-1) for x in (full, less))
    return tuple(
        tuple((i, float(a[i]), float(b[i])) for i in top_ids(each, min(TOP, size)).tolist()) for each in (a, b)
    )


@public(windows=array("W T"), policies=nonempty, size=whole(1), since=whole(0))
@torch.inference_mode()
def read_all(
    model: Transformer,
    windows: Tensor,
    policies: Sequence[Policy],
    progress: Progress = silent,
    *,
    size: int | None = None,
    since: int = 0,
    keep: Callable[[PolicyReading], object] = lambda reading: reading,
) -> list:
    """Read the windows of a text [W, T + 1] under several policies. Returns `keep(reading)` for each policy, in the
    same order.

    Predictions are compared at the positions from `since`.
    """
    ids, following = windows[:, :-1], windows[:, -1]
    full, results = FullReading(model, ids, since=since, size=size), []
    for n, policy in enumerate(policies):
        progress(n, len(policies), "")
        results.append(keep(read(model, ids, policy, following=following, full=full)))
    progress(len(policies), len(policies), "")
    return results
