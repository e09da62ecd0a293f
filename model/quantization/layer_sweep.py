"""Sensitivity of layers to quantization: one layer, or one matrix of it, is quantized at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import nonempty, one_of, public
from model.quantization.experiments import changed_block, kinds_of, need_matrices
from model.quantization.formats import Format, stored
from model.tracing.divergence import PredictionDivergence, read, sample

ATTENTION, MLP, BLOCK = "attention", "mlp", "block"


@dataclass(frozen=True, eq=False)
class Sweep:
    """The effect on the predictions of quantizing each part alone, and all blocks together."""

    parts: tuple[str, ...]  # labels of the columns: matrices, or "attention" and "mlp"; the last one is "block"
    kl: np.ndarray  # mean KL(float32 || changed), nats, [L, parts]
    loss: np.ndarray | None  # change of the mean -log p(next token), nats, [L, parts]; None for a single-token prompt
    agree: np.ndarray  # fraction of positions with the same most likely token, [L, parts]
    together: PredictionDivergence  # all blocks quantized at once

    @property
    def single(self) -> np.ndarray:
        """KL divergence with only one block quantized, for each block, [L]."""
        return self.kl[:, -1]


def parts_of(model: Transformer, by: str) -> dict[str, tuple[str, ...]]:
    """Return the matrices to quantize at once, by part: each matrix for "matrix", attention and MLP for "half", and in
    both cases the complete block.
    """
    kinds = kinds_of(model)
    if by == "matrix":
        parts = {kind: (kind,) for kind in kinds}
    else:
        parts = {
            ATTENTION: tuple(kind for kind in kinds if kind in "qkvo"),
            MLP: tuple(kind for kind in kinds if kind not in "qkvo"),
        }
    return parts | {BLOCK: kinds}


@public(ids=nonempty, by=one_of(("matrix", "half")))
@torch.inference_mode()
def sweep(
    model: Transformer, ids: Sequence[int], kind: Format, by: str = "matrix", progress: Progress = silent
) -> Sweep:
    """Quantize one part of one layer at a time, where `by` selects matrices or halves, and compare the predictions.

    Layers before the changed one are not recomputed: its block starts from the stored input stream. All variants of a
    layer pass through the later layers as one batch. Raises ValueError if `by` is neither "matrix" nor "half".
    """
    need_matrices(model.config)
    parts, L, done = parts_of(model, by), len(model.blocks), 0
    total = L * (L + 3) // 2 + 2

    def report() -> None:
        nonlocal done
        done += 1
        progress(min(done, total), total, "")

    progress(0, total, "")
    text, readings = sample(model, ids), []
    report()
    run = model.prepare(0, len(ids))
    every = text.streams[0]  # the stream of the model with all blocks quantized
    for layer in range(L):
        values = {name: stored(_weight(model, layer, name), kind)[0] for name in parts[BLOCK]}
        streams = []
        for names in parts.values():
            chosen = {name: values[name] for name in names}
            block = changed_block(model, layer, lambda _, name, __, chosen=chosen: chosen.get(name))
            streams.append(block(text.streams[layer], layer, run))
        every = block(every, layer, run)  # the last part is the whole block
        report()
        x = torch.cat(streams)  # [parts, T, D]
        for later in range(layer + 1, L):
            x = model.blocks[later](x, later, run)
            report()
        readings.append(read(model, text, model, x))
        report()
    return _swept(tuple(parts), readings, read(model, text, model, every)[0])


def _weight(model: Transformer, layer: int, name: str) -> Tensor:
    block = model.blocks[layer]
    return getattr(block.attn if name in "qkvo" else block.mlp, name).weight


def _swept(parts: tuple[str, ...], readings: list[list[PredictionDivergence]], together: PredictionDivergence) -> Sweep:
    """Collect the readings of all layers into arrays."""

    def array(value) -> np.ndarray:
        return np.array([[value(each) for each in row] for row in readings])

    loss = None if together.loss is None else array(lambda each: each.loss - each.before)
    return Sweep(parts, array(lambda each: each.kl), loss, array(lambda each: each.agree), together)
