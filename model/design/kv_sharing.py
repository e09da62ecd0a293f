"""Multi-head, grouped-query and multi-query attention of one model: merging of KV heads, and its effect on a prompt.

original, G = 4          g = 2                g = 1
k/v   0  1  2  3       (0+1)/2  (2+3)/2     (0+1+2+3)/4
q     0  1  2  3        0   1    2   3       0  1  2  3
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from model.activations.norm_swap import divergence
from model.anatomy.anatomy import n_params
from model.arguments import check_head, check_layer
from model.errors import InputError, say
from model.generation.cache_costs import cache_bytes
from model.gpt.config import ModelConfig
from model.gpt.layers import attention_pattern, attention_scores
from model.gpt.linear import Linear
from model.gpt.mixers.needs import need_attention
from model.gpt.passes import attend_fused
from model.gpt.transformer import Transformer, attention_input, share_ends, share_norms
from model.progress import Progress, silent
from model.public import MOST_SEED, nonempty, one_of, public, whole

STOPS_BYTES = 4 << 20  # maximum bytes of stored streams, which save recomputing a later layer from the first one
_ROWS = 1 << 21  # maximum number of logits in memory at once
_EVERY = 4  # number of layers between two progress reports


def _mean(part: Tensor, generator: torch.Generator) -> Tensor:
    return part.mean(1)


def _first(part: Tensor, generator: torch.Generator) -> Tensor:
    return part[:, 0]


def _random(part: Tensor, generator: torch.Generator) -> Tensor:
    """Draw normal weights with the mean and standard deviation of the heads' weights."""
    noise = torch.randn(part[:, 0].shape, generator=generator)
    return noise * part.std(correction=0) + part.mean()


# Merging of the heads of each group, [g, heads, ...] -> [g, ...]. Ainslie et al. 2023, section 2.1 and figure 4.
MERGES: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {"mean": _mean, "first": _first, "random": _random}


@dataclass(frozen=True)
class Variant:
    """Size of the model with `groups` KV heads, and how its predictions differ from the original's on one prompt."""

    groups: int
    merge: str  # a key of MERGES
    cache: int  # bytes of keys and values per token, all layers
    parameters: int
    kl: float  # mean KL(original || merged) of the next-token distribution, nats
    agree: float  # fraction of positions with the same most likely token
    loss: float | None  # mean -ln p of the following tokens, nats; None for a prompt of one token
    divergences: np.ndarray  # KL divergence at every position, nats, float32 [T]


@dataclass(frozen=True)
class Survey:
    """The results for every possible number of KV heads and way of merging."""

    loss: float | None  # loss of the original, nats
    variants: tuple[Variant, ...]  # by decreasing number of KV heads, then in the order of MERGES

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return 512 * (1 + len(self.variants)) + sum(each.divergences.nbytes for each in self.variants)


@dataclass(frozen=True, eq=False)
class Stops:
    """The residual stream of a merged model at some layers; the layers between them are recomputed on request."""

    groups: int
    merge: str
    streams: dict[int, np.ndarray]  # layer -> its input, float32 [T, D]; includes layer 0

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(stream.nbytes for stream in self.streams.values())


# --- the merged model -------------------------------------------------------------------------------


def group_counts(config: ModelConfig) -> tuple[int, ...]:
    """Return the numbers of KV heads to which the model's G heads can be merged:
    the divisors of G in decreasing order.
    """
    G = config.n_kv_head
    return tuple(n for n in range(G, 0, -1) if G % n == 0)


@public(groups=whole(1))
def readers(config: ModelConfig, groups: int) -> tuple[tuple[int, int], ...]:
    """Return, for each query head, the index of its KV head in the model and after merging to `groups` KV heads."""
    _check_groups(config, groups)
    size = config.n_head // groups
    return tuple((head // config.group_size, head // size) for head in range(config.n_head))


@public(groups=whole(1), merge=one_of(MERGES), seed=whole(0, MOST_SEED))
@torch.inference_mode()
def pooled(model: Transformer, groups: int, merge: str = "mean", seed: int = 0) -> Transformer:
    """Return the model with neighboring KV heads merged into `groups` heads, without retraining.

    The rows of W_K, W_V and their biases that belong to the heads of a group are merged by MERGES into one head's rows;
    all other parameters are the model's own tensors. Ainslie et al. 2023, section 2.1. Merging into the model's own
    number of heads by "mean" or "first" changes nothing, nor does merging equal heads. q is unchanged; the QK norm and
    RoPE are applied to the merged keys. Raises InputError for a number that does not divide G.
    """
    need_attention(model.config)
    _check_groups(model.config, groups)
    if model.config.qk_norm and model.config.qk_norm_over != "head" and groups != model.config.n_kv_head:
        raise InputError(
            "Keys cannot be merged if one norm covers all of them.",
            f"qk_norm_over {model.config.qk_norm_over}",
            "Use another model.",
        )
    with torch.device("meta"):
        merged = Transformer(dataclasses.replace(model.config, n_kv_head=groups))
    merged.eval().requires_grad_(False)
    share_ends(merged, model)
    generator = torch.Generator().manual_seed(seed)
    for ours, theirs in zip(merged.blocks, model.blocks, strict=True):
        share_norms(ours, theirs)
        ours.mlp, ours.attn.q, ours.attn.o = theirs.mlp, theirs.attn.q, theirs.attn.o
        join = functools.partial(_merge_projection, groups=groups, merge=merge, generator=generator)
        ours.attn.k, ours.attn.v = join(theirs.attn.k, model.config), join(theirs.attn.v, model.config)
    return merged


def _merge_projection(
    layer: nn.Module, config: ModelConfig, groups: int, merge: str, generator: torch.Generator
) -> Linear:
    """Merge a projection to G heads into a projection to `groups` heads. Rows [G * E, D] -> [g * E, D]"""

    def rows(part: Tensor) -> nn.Parameter:
        heads = part.detach().float().view(groups, config.n_kv_head // groups, config.d_head, -1)
        return nn.Parameter(MERGES[merge](heads, generator).reshape(groups * config.d_head, *part.shape[1:]), False)

    with torch.device("meta"):
        linear = Linear(layer.weight.shape[1], groups * config.d_head, layer.bias is not None)
    linear.weight = rows(layer.weight)
    if layer.bias is not None:
        linear.bias = rows(layer.bias)
    return linear


# --- effect on a prompt -----------------------------------------------------------------------------


@public(ids=nonempty, seed=whole(0, MOST_SEED))
@torch.inference_mode()
def survey(model: Transformer, ids: Sequence[int], progress: Progress = silent, seed: int = 0) -> Survey:
    """Evaluate each number of KV heads and each way of merging on a prompt. ids [T] -> one Variant each

    The original is included as its own number of heads merged by "mean"; its divergence is 0 up to float32 rounding.
    """
    need_attention(model.config)
    tokens, config = torch.tensor([ids]), model.config
    cases = [(config.n_kv_head, "mean")]
    cases += [(n, merge) for n in group_counts(config)[1:] for merge in MERGES]
    total, done = 1 + 2 * len(cases), 0

    def tick(_: int = 0) -> None:
        progress(done, total, "")

    plain, variants, loss = _run(model, tokens, tick), [], None
    for groups, merge in cases:
        done += 1
        merged = pooled(model, groups, merge, seed)
        stream = _run(merged, tokens, tick)
        done += 1
        kl, agree, losses = _compare(model, plain, stream, ids, tick)
        loss = float(losses[0].mean()) if losses.shape[1] else None
        variants.append(
            Variant(
                groups,
                merge,
                cache_bytes(merged.config, 1, 1),
                n_params(merged.config),
                float(kl.mean()),
                agree,
                float(losses[1].mean()) if losses.shape[1] else None,
                kl.float().numpy(),
            )
        )
    return Survey(loss, tuple(variants))


def _run(model: Transformer, tokens: Tensor, tick: Callable[[int], None]) -> Tensor:
    """Return the output stream of the last block [T, D]; reports progress every few layers."""
    *_, (_, last) = _layers(model, tokens, tick)
    return last[0]


def _layers(model: Transformer, tokens: Tensor, tick: Callable[[int], None]):
    """Yield each layer with its input [1, T, D], and finally n_layer with the output of the last block."""
    run = model.prepare(0, tokens.shape[1])
    x = model.embed_tokens(tokens, 0, run)
    for layer, block in enumerate(model.blocks):
        if layer % _EVERY == 0:
            tick(layer)
        yield layer, x
        x = block(x, layer, run)
    yield len(model.blocks), x


def _compare(
    model: Transformer, plain: Tensor, other: Tensor, ids: Sequence[int], tick: Callable[[int], None]
) -> tuple[Tensor, float, Tensor]:
    """Compute the KL divergence at every position, the fraction of equal top predictions, and both losses.

    Streams are [T, D] -> divergences [T], a number, losses [2, T - 1]. The merged model shares the original's output
    head.
    """
    T, rows = len(ids), max(1, _ROWS // model.config.vocab_size)
    following, kl, losses, same = torch.tensor([*ids[1:], 0]), [], [], 0
    for start in range(0, T, rows):
        both = torch.stack([model.logits(x[None, start : start + rows])[0] for x in (plain, other)])
        same += int((both[0].argmax(-1) == both[1].argmax(-1)).sum())
        both = both.double().log_softmax(-1)  # [2, n, V]
        kl.append(divergence(*both))
        targets = following[start : start + both.shape[1]]
        losses.append(-both.gather(-1, targets.expand(2, -1)[..., None])[..., 0])
        tick(start)
    return torch.cat(kl), same / T, torch.cat(losses, 1)[:, : T - 1]


# --- the pattern of one head ------------------------------------------------------------------------


@public(ids=nonempty, groups=whole(1), merge=one_of(MERGES), seed=whole(0, MOST_SEED))
@torch.inference_mode()
def stops(
    model: Transformer, ids: Sequence[int], groups: int, merge: str, progress: Progress = silent, seed: int = 0
) -> Stops:
    """Run the merged model and store its stream at evenly spaced layers, as many as fit in STOPS_BYTES. ids [T]"""
    need_attention(model.config)
    merged, T = pooled(model, groups, merge, seed), len(ids)
    L = model.config.n_layer
    step = -(-L // max(1, min(L, STOPS_BYTES // (4 * T * model.config.d_model))))

    def tick(layer: int) -> None:
        progress(layer, L, "")

    layers = _layers(merged, torch.tensor([ids]), tick)
    return Stops(groups, merge, {layer: x[0].numpy() for layer, x in layers if layer % step == 0 and layer < L})


@public(seed=whole(0, MOST_SEED))
@torch.inference_mode()
def pattern_at(model: Transformer, stored: Stops, layer: int, head: int, seed: int = 0) -> np.ndarray:
    """Return the pattern of one head of the merged model, NaN above the diagonal. float32 [T, T]

    Only the layers from the nearest stored one below are run. The result is that of `run(pooled(...)).pattern`.
    """
    check_layer(layer, model.config.n_layer)
    check_head(head, model.config.n_head)
    merged = pooled(model, stored.groups, stored.merge, seed)
    start = max(each for each in stored.streams if each <= layer)
    x = torch.from_numpy(stored.streams[start])[None]
    run = merged.prepare(0, x.shape[1])
    for each in range(start, layer):
        x = merged.blocks[each](x, each, run)
    patterns: list[Tensor] = []

    def attend(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        kv = head // merged.config.group_size
        patterns.append(attention_pattern(attention_scores(q[:, head : head + 1], k[:, kv : kv + 1]))[0, 0])
        return attend_fused(layer, q, k, v)

    inner = attention_input(merged, layer, x)
    merged.blocks[layer].attn(inner, layer, dataclasses.replace(run, attend=attend))
    pattern = patterns[0].numpy()
    return np.where(np.tri(len(pattern), dtype=bool), pattern, np.float32(np.nan))


def _check_groups(config: ModelConfig, groups: int) -> None:
    """Raise InputError unless the KV heads can be merged into this number of heads."""
    if groups not in group_counts(config):
        known = ", ".join(map(str, group_counts(config)))
        raise InputError(
            "The KV heads cannot be merged into this number of heads.", str(groups), say("Choose one of: {}.", known)
        )
