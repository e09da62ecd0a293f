"""The effect of quantization on a model: weight errors, and changes of its output and attention on real text.

Weights are quantized one block at a time, in new blocks that share all other tensors with the model, which is not
changed. Values are dequantized to float32 in every format, so all formats run the same arithmetic.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.gpt.config import ModelConfig
from model.gpt.experts import require_dense
from model.gpt.layers import attention_pattern, attention_scores, mix
from model.gpt.linear import Linear
from model.gpt.mixers.needs import need_nothing_beside, need_scores, need_softmax
from model.gpt.mlp import MLP
from model.gpt.passes import Pass
from model.gpt.transformer import Block, Transformer, attention_input, share_ends, share_norms
from model.progress import Progress, silent
from model.public import nonempty, one_of, public
from model.quantization.formats import FORMATS, Format, WeightError, stored, stored_bytes, weight_error
from model.tracing.divergence import PredictionDivergence, StreamSample, read, sample

KINDS = ("q", "k", "v", "o", "gate", "up", "down")  # the matrices of a block; "gate" exists only in a SwiGLU MLP
# maximum number of tokens of a stored attention map, and maximum size of all maps together in bytes
MAP, MAPS = 48, 12 << 20

Change = Callable[[int, str, Tensor], Tensor | None]  # (layer, kind, weight [out, in]) -> its new values, or None


@dataclass(frozen=True, eq=False)
class Outcome:
    """Weight error, predictions, attention and speed measured for one format."""

    key: str
    error: WeightError  # total over all quantized matrices
    kept16: int  # number of matrices that stay float16 because their rows do not fit
    prompt: PredictionDivergence
    text: PredictionDivergence
    moved: np.ndarray  # mean total variation distance of each head's attention rows on the prompt, [L, H]
    speed: float | None = None  # measured tokens per second; None for simulated formats


@dataclass(frozen=True, eq=False)
class Maps:
    """Attention patterns of the first tokens of a prompt under several formats."""

    by_format: Mapping[str, np.ndarray]  # float16 [L, H, t, t] each

    @property
    def nbytes(self) -> int:
        """Bytes of all maps."""
        return sum(each.nbytes for each in self.by_format.values())


def layer_of(block: Block, kind: str) -> Linear | None:
    """Return one of the seven matrices of a block, or None if the block does not have it."""
    if kind not in "qkvo" and not isinstance(block.mlp, MLP):
        return None
    return getattr(block.attn if kind in "qkvo" else block.mlp, kind, None)


def need_matrices(config: ModelConfig) -> None:
    """Raise InputError unless every layer has attention and a single MLP, whose matrices can be quantized."""
    need_softmax(config)
    require_dense(config)


def kinds_of(model: Transformer) -> tuple[str, ...]:
    """Return the names of the matrices that every block of the model has."""
    return tuple(kind for kind in KINDS if all(layer_of(block, kind) is not None for block in model.blocks))


def matrices(
    model: Transformer, layers: Sequence[int] | None = None, *, head: bool = False
) -> list[tuple[str, Tensor]]:
    """Return the weights to quantize, by name: the linear layers of the blocks and, if `head`, the embedding and the
    output head.

    Position embeddings, norms and biases are never quantized. A tied head is listed once.
    """
    need_matrices(model.config)
    places = range(len(model.blocks)) if layers is None else layers
    weights = [
        (f"{layer}.{kind}", layer_of(model.blocks[layer], kind).weight) for layer in places for kind in kinds_of(model)
    ]
    if head:
        weights.append(("embed", model.embed.weight))
        if model.unembed.weight is not model.embed.weight:
            weights.append(("unembed", model.unembed.weight))
    return weights


def total_bytes(model: Transformer, kind: Format, *, head: bool = False) -> tuple[int, int]:
    """Compute the size of all quantized matrices in a format in bytes, and their number of weights, without
    quantizing.
    """
    shapes = [tuple(weight.shape) for _, weight in matrices(model, head=head)]
    return sum(stored_bytes(shape, kind) for shape in shapes), sum(out * width for out, width in shapes)


@torch.inference_mode()
def errors(
    model: Transformer,
    kind: Format,
    layers: Sequence[int] | None = None,
    *,
    head: bool = False,
    report: Callable[[], None] = lambda: None,
) -> WeightError:
    """Compute the total weight error of the given layers, or of all if None; `report` is called after every matrix."""
    total = WeightError()
    for _, weight in matrices(model, layers, head=head):
        total += weight_error(weight, *stored(weight, kind))
        report()
    return total


# --- models with replaced weights --------------------------------------------------------------------


def changed_block(model: Transformer, layer: int, change: Change) -> Block:
    """Build a block with some matrices replaced; norms, biases and all other matrices are the model's own tensors."""
    need_scores(model.config, layer)
    need_nothing_beside(model.config)
    theirs = model.blocks[layer]
    with torch.device("meta"):
        ours = Block(model.config, layer)
    ours.eval().requires_grad_(False)
    share_norms(ours, theirs)
    for name, module in theirs.attn.named_children():
        setattr(ours.attn, name, module)
    if not isinstance(theirs.mlp, MLP):
        ours.mlp = theirs.mlp
    for kind in KINDS:
        if (layer_ := layer_of(theirs, kind)) is None:
            continue
        values, owner = change(layer, kind, layer_.weight), ours.attn if kind in "qkvo" else ours.mlp
        setattr(owner, kind, layer_ if values is None else _with_weight(layer_, values))
    return ours


def _with_weight(layer: Linear, values: Tensor) -> Linear:
    """Build a layer with the given weight and the old one's product function; a layer whose product holds the old
    weight gets a new product.
    """
    linear = Linear(1, 1, False)
    linear.weight, linear.bias = nn.Parameter(values, requires_grad=False), layer.bias
    linear.products = tuple(F.linear if isinstance(each, functools.partial) else each for each in layer.products)
    return linear


def changed(model: Transformer, blocks: Mapping[int, Block], head: Change = lambda *_: None) -> Transformer:
    """Build a model with some blocks replaced; `head` may return other values for "embed" and "unembed" (layer -1).

    A tied head stays tied.
    """
    with torch.device("meta"):
        ours = Transformer(model.config)
    ours.eval().requires_grad_(False)
    share_ends(ours, model)
    ours.blocks = nn.ModuleList(blocks.get(layer, block) for layer, block in enumerate(model.blocks))
    embed = head(-1, "embed", model.embed.weight)
    if embed is not None:
        ours.embed = nn.Embedding(*embed.shape, _weight=embed, _freeze=True)
    tied = model.unembed.weight is model.embed.weight
    unembed = embed if tied else head(-1, "unembed", model.unembed.weight)
    if unembed is not None:
        ours.unembed = _with_weight(model.unembed, unembed)
        if tied:
            ours.unembed.weight = ours.embed.weight
    return ours


@public()
@torch.inference_mode()
def with_format(model: Transformer, kind: Format, *, head: bool = False) -> Transformer:
    """Build a float32 copy of the model, quantized to a format and dequantized."""

    def change(layer: int, name: str, weight: Tensor) -> Tensor:
        return stored(weight, kind)[0]

    blocks = {layer: changed_block(model, layer, change) for layer in range(len(model.blocks))}
    return changed(model, blocks, change if head else lambda *_: None)


# --- effect on the output ----------------------------------------------------------------------------


@torch.inference_mode()
def outcome(
    model: Transformer,
    kind: Format,
    texts: tuple[StreamSample, StreamSample],
    *,
    head: bool = False,
    size: int = MAP,
    report: Callable[[], None] = lambda: None,
) -> tuple[Outcome, np.ndarray]:
    """Measure one format on two texts, the prompt (with all its streams) and another; each block is freed after use.

    Also returns the attention patterns of the prompt's first `size` tokens, float16 [L, H, t, t]. `report` is called
    after every block.
    """
    prompt, t = texts[0], size
    total, kept16 = WeightError(), 0

    def change(layer: int, name: str, weight: Tensor) -> Tensor:
        nonlocal total, kept16
        values, nbytes = stored(weight, kind)
        total += weight_error(weight, values, nbytes)
        kept16 += not kind.fits(weight.shape[1])
        return values

    other = changed(model, {}, change if head else lambda *_: None)
    report()
    xs = [other.embed_tokens(text.ids, 0, other.prepare(0, text.ids.shape[1])) for text in texts]
    moved, maps = [], []
    for layer in range(len(model.blocks)):
        block, weights = changed_block(model, layer, change), []
        xs[0] = block(xs[0], layer, _recording(other, xs[0].shape[1], weights))
        xs[1] = block(xs[1], layer, other.prepare(0, xs[1].shape[1]))
        gap = (weights[0] - patterns(model, layer, prompt.streams[layer])).abs_()
        moved.append((gap.sum(-1).mean(-1) / 2).numpy())  # [H]
        maps.append(weights[0][:, :t, :t].half().numpy())
        report()
    readings = []
    for text, x in zip(texts, xs, strict=True):
        readings += read(model, text, other, x)
        report()
    return Outcome(kind.key, total, kept16, *readings, np.stack(moved)), np.stack(maps)


def _recording(model: Transformer, T: int, weights: list[Tensor]) -> Pass:
    """Return a Pass that appends the pattern of each layer's single sequence to `weights`, [H, T, T]. A layer with a
    window or other rules for its scores shows its pattern; for others, the kernel is an eager one.
    """

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        pattern = attention_pattern(attention_scores(q, k))
        weights.append(pattern[0])
        return mix(pattern, v)

    return model.prepare(0, T, attend=attend, see=lambda _, pattern: weights.append(pattern[0]))


def patterns(model: Transformer, layer: int, x: Tensor) -> Tensor:
    """Compute the attention weights of all heads of a layer from its input stream, [1, T, D]. [H, T, T]"""
    read = attention_input(model, layer, x)
    attn = model.blocks[layer].attn
    q, k, _ = attn.project(read, layer, model.prepare(0, x.shape[1]))
    return attn.scoring.pattern(attn.scoring.scores(q, k))[0]


# --- all formats -------------------------------------------------------------------------------------


@public(texts=nonempty, keys=one_of(FORMATS))
@torch.inference_mode()
def measure(
    model: Transformer,
    texts: tuple[Sequence[int], Sequence[int]],
    keys: Sequence[str],
    *,
    head: bool = False,
    progress: Progress = silent,
) -> tuple[list[Outcome], Maps]:
    """Measure the formats of FORMATS with the given keys on a prompt and another text; the model is not changed.

    A format that fits none of the model's matrices is skipped.
    """
    need_matrices(model.config)
    formats = [FORMATS[key] for key in keys if usable(model, FORMATS[key])]
    total, done = len(formats) * (len(model.blocks) + 3) + 2, 0
    size = map_size(model, len(texts[0]), len(formats))

    def report() -> None:
        nonlocal done
        done = min(done + 1, total)
        progress(done, total, "")

    progress(0, total, "")
    prompt = sample(model, texts[0])
    report()
    samples = prompt, sample(model, texts[1], keep=False)
    report()
    results = {kind.key: outcome(model, kind, samples, head=head, size=size, report=report) for kind in formats}
    return [result for result, _ in results.values()], Maps({key: maps for key, (_, maps) in results.items()})


def map_size(model: Transformer, T: int, formats: int) -> int:
    """Return the number of tokens in the stored attention maps: MAP, or fewer if the maps would not fit in memory."""
    heads = model.config.n_layer * model.config.n_head
    return max(min(T, MAP, math.isqrt(MAPS // (2 * heads * max(formats, 1)))), 1)


def usable(model: Transformer, kind: Format) -> bool:
    """Return whether at least one matrix of the blocks has rows that fit the format."""
    return any(kind.fits(weight.shape[1]) for _, weight in matrices(model, [0]))
