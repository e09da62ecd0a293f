"""Statistics of the tensors inside one block, and of those before and after all blocks.

All tensors of a block are recomputed once and reduced to a few numbers per token, so that selecting another token, head
or part of the same layer needs no further computation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_layer, check_positions
from model.gpt.config import ModelConfig
from model.gpt.layers import MLPS
from model.gpt.passes import Pass, attend_fused
from model.gpt.tap import block_sites as sites_of_block
from model.gpt.tap import record
from model.public import public
from model.tracing.trace import Trace


@dataclass(frozen=True, eq=False)
class VectorSizes:
    """For each vector of one tensor: dimension, root mean square, mean, and the entry of largest absolute value with
    its index.

    Arrays are float32 [T] or [heads, T]; `place`, the index, is int32.
    """

    n: int
    rms: np.ndarray
    mean: np.ndarray
    largest: np.ndarray
    place: np.ndarray


@dataclass(frozen=True, eq=False)
class Rows:
    """Statistics of each row of attention scores and weights over the unmasked keys. Arrays are [H, T]."""

    top_score: np.ndarray  # the largest score
    mean_score: np.ndarray  # mean of the scores that are neither masked nor blocked by an edit
    top: np.ndarray  # the largest weight of a key
    key: np.ndarray  # its key, int32
    entropy: np.ndarray  # in nats, of the weights of the keys, divided by their sum where a sink takes some
    visible: np.ndarray  # number of keys that are neither masked nor blocked, int32


@dataclass(frozen=True, eq=False)
class Passed:
    """Statistics of one block: vector sizes by site, attention rows, and the fraction of active neurons
    at each token.
    """

    sizes: Mapping[str, VectorSizes]
    rows: Rows | None  # None for a layer without attention
    active: np.ndarray | None  # fraction of the pre-activations above 0, [T]; None for a layer without a single MLP

    @property
    def nbytes(self) -> int:
        """Size of all arrays, in bytes."""
        rows = {} if self.rows is None else vars(self.rows)
        groups = [*(vars(each) for each in self.sizes.values()), rows, {"": self.active}]
        return sum(array.nbytes for each in groups for array in each.values() if isinstance(array, np.ndarray))


@dataclass(frozen=True, eq=False)
class Vector:
    """Statistics of one vector, with the fields of VectorSizes."""

    n: int
    rms: float
    mean: float
    largest: float
    place: int


_OUTSIDE = ("embed", "pos_embed", "segment_embed", "embed_norm_in", "embed_norm_out", "final_in", "final_out")


def sizes_of(x: Tensor) -> VectorSizes:
    """Compute the statistics of the vectors along the last axis. x [..., n]"""
    place = x.abs().argmax(-1, keepdim=True)
    arrays = x.square().mean(-1).sqrt(), x.mean(-1), x.gather(-1, place)[..., 0]
    return VectorSizes(x.shape[-1], *(each.float().numpy() for each in arrays), place[..., 0].int().numpy())


def block_sites(config: ModelConfig, layer: int = 0) -> list[str]:
    """Return the sites of a block for which statistics are computed: all that hold vectors, without the divisors of
    norms.
    """
    others = ("scores", "pattern")
    return [site for site in sites_of_block(config, layer) if site not in others and not site.endswith("_scale")]


@public()
@torch.inference_mode()
def block_numbers(trace: Trace, layer: int) -> Passed:
    """Compute the statistics of one block in a single forward pass of the block, with the trace's edits.

    Besides the sites of `block_sites`, there are `heads` (the concatenated outputs of all heads, the input of o) and,
    if the config normalizes q and k, `q_raw` and `k_raw` (before that norm). Raises InputError for a layer that does
    not exist.
    """
    check_layer(layer, trace.config.n_layer)
    attends = trace.config.is_attention(layer)
    names = [*block_sites(trace.config, layer), *(("scores", "pattern") if attends else ())]
    sites = {site: tensor[0] for site, tensor in trace.sites(layer, names).items()}
    rows = _rows(sites.pop("scores"), sites.pop("pattern")) if attends else None
    sites["heads"] = sites["z"].transpose(0, 1).flatten(1)
    if trace.config.qk_norm and "q" in sites:
        block, attn = trace.model.blocks[layer], trace.model.blocks[layer].attn
        x = sites["resid_pre" if block.post_norm or block.norm1 is None else "norm1_out"]
        for name, linear in (("q_raw", attn.q), ("k_raw", attn.k)):
            if linear is not None:  # a layer may use the keys of an earlier one
                sites[name] = attn.turn.clamped(linear(x)).unflatten(-1, (-1, attn.d_head)).transpose(0, 1)
    active = (sites["mlp_pre"] > 0).float().mean(-1).numpy() if "mlp_pre" in sites else None
    return Passed({site: sizes_of(tensor) for site, tensor in sites.items()}, rows, active)


def _rows(scores: Tensor, pattern: Tensor) -> Rows:
    """Reduce scores and pattern [H, T, T]; masked or blocked scores are -inf and excluded from the means."""
    seen = ~scores.isneginf()
    mean = scores.masked_fill(~seen, 0).sum(-1) / seen.sum(-1)
    top, key = pattern.max(-1)
    entropy = torch.special.entr(pattern / pattern.sum(-1, keepdim=True)).sum(-1)
    arrays = scores.amax(-1), mean, top, key.int(), entropy, seen.sum(-1).int()
    return Rows(*(each.numpy() for each in arrays))


@torch.inference_mode()
def outside_numbers(trace: Trace, token: int) -> dict[str, VectorSizes]:
    """Compute the statistics before and after the blocks at one token: sites embed, pos_embed, segment_embed,
    embed_norm_in, embed_norm_out, resid_pre, resid_post, final_in, final_out, head_act, head_out.

    Arrays are [1], for the one token; sites that the model does not have are omitted. Raises InputError for a position
    outside the prompt.
    """
    check_positions([token], len(trace.tokens))
    model, store = trace.model, {}
    tap = record(_OUTSIDE, store)
    ids = torch.from_numpy(np.ascontiguousarray(trace.tokens.ids[None, : token + 1], dtype=np.int64))
    start = model.embed_tokens(ids, 0, trace.embedding_pass(tap))[0]
    last = trace.residuals[-1][token][None]
    model.normed(last, Pass(None, attend_fused, None, tap))
    sites = {site: tensor.reshape(-1, tensor.shape[-1])[-1:] for (site, _), tensor in store.items()}
    if model.head_dense is not None:
        sites["head_act"] = MLPS[model.config.mlp](model.head_dense(model.normed(last[None])))[0]
        sites["head_out"] = model.head_norm(sites["head_act"])
    return {site: sizes_of(x) for site, x in (sites | {"resid_pre": start[-1:], "resid_post": last}).items()}


def vector(sizes: VectorSizes, token: int, head: int | None = None) -> Vector:
    """Return the statistics of one token's vector, or of one head's slice at sites with heads."""
    at = token if head is None else (head, token)
    return Vector(sizes.n, float(sizes.rms[at]), float(sizes.mean[at]), float(sizes.largest[at]), int(sizes.place[at]))
