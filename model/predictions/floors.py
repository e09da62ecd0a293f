"""The worth of each part of a model: its loss and its text when the model is built up part by part.

The parts stand in the order of the computation: the embedding, learned or sinusoidal positions, then attention and MLP
of each layer. A rung has all parts up to one of them; the outputs of the later parts are replaced by zeros or by their
mean over a text. The first rung, embedding and output head, is a bigram model: it sees the current token only.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.tap import Tap, record
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import nonempty, one_of, public, whole

FILLS = ("zero", "mean")
NEW = 20  # tokens that a rung writes
MOST_READ = 128  # tokens of a prompt, its last ones, after which the rungs write
# The site of each part's output, and that of the residual stream with the output added.
OUTPUT = {"embed": "embed", "positions": "pos_embed", "attention": "attn_out", "mlp": "mlp_out"}
STREAM = {"attention": "resid_mid", "mlp": "resid_post"}


class Part(NamedTuple):
    """A part of a model; the layer is -1 before the layers."""

    layer: int
    kind: str  # a key of OUTPUT


@public()
def parts_of(config: ModelConfig) -> list[Part]:
    """Return the parts of a model in the order of the computation, one rung of the ladder each."""
    positions = [Part(-1, "positions")] if config.positions in ("learned", "sinusoidal") else []
    layers = [Part(layer, kind) for layer in range(config.n_layer) for kind in ("attention", "mlp")]
    return [Part(-1, "embed"), *positions, *layers]


@public(ids=nonempty, how=one_of(FILLS))
@torch.inference_mode()
def ladder_losses(model: Transformer, ids: Sequence[int], how: str = "zero", progress: Progress = silent) -> np.ndarray:
    """Compute the mean loss of the next token on a text, in nats, for every rung. float64 [parts]

    One forward pass serves all rungs: up to its last part, a rung has the residual stream of the whole model. So the
    last value is the loss of the whole model. NaN for a text of one token.
    """
    text, parts = torch.tensor([list(ids)]), parts_of(model.config)
    outputs, streams = _recorded(model, text)
    fills = _fills(outputs, parts, how)
    losses = np.full(len(parts), np.nan)
    for rung in range(len(parts) if len(ids) > 1 else 0):
        logits = model.logits(_through(model, streams[rung], parts, fills, rung))[0, :-1]
        losses[rung] = F.cross_entropy(logits.float(), text[0, 1:]).item()
        progress(rung + 1, len(parts), "")
    return losses


@public(text=nonempty, prompt=nonempty, how=one_of(FILLS), new=whole(1), vocab=whole(1))
@torch.inference_mode()
def ladder_texts(
    model: Transformer,
    text: Sequence[int],
    prompt: Sequence[int],
    how: str = "zero",
    new: int = NEW,
    vocab: int | None = None,
    progress: Progress = silent,
) -> np.ndarray:
    """Continue a prompt greedily with every rung. int64 [parts, at most `new`]

    The rungs are the rows of one batch, which share a cache. `text` is the text of the means. Only the last MOST_READ
    tokens of the prompt are read; a full context leaves room for fewer new tokens. Ids >= `vocab` are not written.
    """
    parts, config = parts_of(model.config), model.config
    fills = _fills(_recorded(model, torch.tensor([list(text)]))[0], parts, how)
    read = list(prompt)[-MOST_READ:]
    new = min(new, config.n_ctx - len(read) + 1)
    cache, tap = KVCache.empty(config, len(parts), len(read) + new, whole=True), _tap(parts, fills)
    ids, written = torch.tensor([read] * len(parts)), []
    for done in range(new):
        written.append(model(ids, cache=cache, tap=tap)[:, -1, :vocab].argmax(-1))
        ids = written[-1][:, None]
        progress(done + 1, new, "")
    return torch.stack(written, 1).numpy()


def _tap(parts: Sequence[Part], fills: Sequence[Tensor]) -> Tap:
    """Return the tap under which row r of a batch is the model with the parts 0 .. r only."""
    places = {(OUTPUT[part.kind], part.layer): at for at, part in enumerate(parts)}

    def tap(site: str, layer: int, x: Tensor) -> Tensor:
        at = places.get((site, layer), 0)
        if not at:
            return x
        x = x.expand(len(parts), *x.shape[-2:]).clone()
        x[:at] = fills[at]
        return x

    return tap


def _recorded(model: Transformer, text: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Run the whole model once; return the output of each part and the residual stream with it. text [1, T]"""
    found: dict[tuple[str, int], Tensor] = {}
    model(text, tap=record({*OUTPUT.values(), *STREAM.values(), "resid_pre"}, found))
    parts = parts_of(model.config)
    outputs = [found[OUTPUT[part.kind], part.layer] for part in parts]
    first = found["resid_pre", 0]  # after a norm of the embeddings, if there is one
    before = [found["embed", -1], first] if parts[1].kind == "positions" else [first]
    return outputs, before + [found[STREAM[part.kind], part.layer] for part in parts if part.layer >= 0]


def _fills(outputs: Sequence[Tensor], parts: Sequence[Part], how: str) -> list[Tensor]:
    """Return what replaces each part's output: zeros, or its mean over the positions of the text. [D] each"""
    means = [output.flatten(0, -2).mean(0) for output in outputs]
    return means if how == "mean" else [torch.zeros_like(mean) for mean in means]


def _through(model: Transformer, x: Tensor, parts: Sequence[Part], fills: Sequence[Tensor], rung: int) -> Tensor:
    """Pass the residual stream of a rung through the later parts, which add their fills. x [B, T, D]"""
    for part, fill in zip(parts[rung + 1 :], fills[rung + 1 :], strict=True):
        if part.layer < 0:
            x = x + fill if model.embed_norm is None else model.embed_norm(x + fill)
            continue
        block, attends = model.blocks[part.layer], part.kind == "attention"
        after = block.after1 if attends else block.after2
        x = x + (fill if after is None else after(fill))
        if block.post_norm:
            x = (block.norm1 if attends else block.norm2)(x)
    return x
