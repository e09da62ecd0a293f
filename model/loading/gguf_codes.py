"""The quantized matrices of a GGUF file as stored integers, under this project's names."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind

from model.errors import CheckpointError, UnsupportedModel
from model.gpt.config import ModelConfig
from model.gpt.decode_step import has_step, parts_of, weights_of
from model.gpt.transformer import Transformer
from model.kernels.coded import Coded, Codes, Strips, below, digest, have_room, in_strips
from model.loading import gguf_models
from model.loading.convert import Change, expected_shapes, plan
from model.loading.families.hub.baichuan import unit_rows
from model.loading.gguf_file import GgufFile, states_of

Named = Callable[[str], Coded | None]
Parts = tuple[np.ndarray, np.ndarray, np.ndarray]  # integers [N, size], scales [N, 1] and offsets [N, 1] of N blocks


def codes_of(path: Path, model: Transformer) -> Codes | None:
    """Return the codes of a joined model that was loaded from a GGUF file; None for another file format.

    The codes are read on request, if there is enough memory. A request raises CheckpointError if the file has changed
    since.
    """
    if not has_step(model.config):
        return None
    try:
        codes, state = _codes_in(path), states_of(path)
    except (OSError, CheckpointError, UnsupportedModel):
        return None
    weights, matrices = weights_of(model), parts_of(model)
    # In bytes: one 8-bit integer per number, and two float32 per 32 numbers.
    size = sum(weight.size for weight in weights) * 5 // 4

    def strips() -> dict[str, Strips]:
        if not have_room(size):
            return {}
        joined = {name: _strips(codes, layers) for name, layers in matrices.items()}
        if states_of(path) != state:
            raise CheckpointError("The file has changed since it was loaded.", path.name, "Load the model again.")
        return {name: each for name, each in joined.items() if each is not None}

    return Codes(digest(weights), strips)


def _strips(codes: Named, layers: Sequence[str]) -> Strips | None:
    """Return the strips of several layers joined into one; None if a layer has no codes, or if they cannot be arranged
    in strips.
    """
    parts = [codes(f"{layer}.weight") for layer in layers]
    joined = None if None in parts else below(parts)
    return None if joined is None else in_strips(joined)


def _codes_in(path: Path) -> Named:
    """Return a function that maps this project's name of a matrix to its codes in a file. Raises the errors of
    `load_gguf`.
    """
    file, architecture, config = gguf_models.open_model(path)
    steps = plan(file.tensors, architecture.layout, config, expected_shapes(config))
    source = {name: (each, at, step.change) for each, step in steps.items() for at, name in enumerate(step.names)}
    if config.tie_embeddings:
        source["unembed.weight"] = source["embed.weight"]
    file = replace(file, metadata={})  # frees the memory of the vocabulary

    def codes(name: str) -> Coded | None:
        theirs, at, change = source[name]
        if change is unit_rows:  # the only conversion of a model with codes that changes numbers
            return None
        coded = _read(file, theirs)
        return coded if coded is None or change is None else _changed(coded, change, config, at)

    return codes


def _read(file: GgufFile, name: str) -> Coded | None:
    info = file.tensors[name]
    if info.type not in KINDS or len(info.shape) != 2:
        return None
    integers, scale, offset = KINDS[info.type](file.stored(name))
    blocks = info.shape[0], -1
    return Coded(integers.reshape(info.shape), *(part.astype(np.float32).reshape(blocks) for part in (scale, offset)))


def _changed(coded: Coded, change: Change, config: ModelConfig, at: int) -> Coded:
    """Apply a conversion to codes, which is possible because conversions only move rows."""
    parts = (torch.from_numpy(part) for part in (coded.code, coded.scale, coded.offset))
    return Coded(*(change(part, config)[at].contiguous().numpy() for part in parts))


# --- types -----------------------------------------------------------------------------------------


def _halves(blocks: np.ndarray, at: int) -> np.ndarray:
    """Return the float16 at byte `at` of each block, as float32. [N, 1]"""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: np.ndarray) -> np.ndarray:
    """Return the low 4 bits of the bytes of each row, then the high 4 bits. [N, n] -> [N, 2 n]"""
    return np.concatenate((packed & 15, packed >> 4), 1).view(np.int8)


def _q8_0(data: np.ndarray) -> Parts:
    blocks = data.reshape(-1, 34)
    return np.ascontiguousarray(blocks[:, 2:]).view(np.int8), _halves(blocks, 0), np.zeros((len(blocks), 1))


def _q4_0(data: np.ndarray) -> Parts:
    blocks = data.reshape(-1, 18)
    return _nibbles(blocks[:, 2:]) - np.int8(8), _halves(blocks, 0), np.zeros((len(blocks), 1))


def _q4_1(data: np.ndarray) -> Parts:
    blocks = data.reshape(-1, 20)
    return _nibbles(blocks[:, 4:]), _halves(blocks, 0), _halves(blocks, 2)


def _q4_k(data: np.ndarray) -> Parts:
    """Decode blocks of 256 numbers with the value d scale q - m minimum.

    A block consists of d and m in float16, eight 6-bit scales and minima, and 128 bytes of 4-bit integers q.
    """
    blocks = data.reshape(-1, 144)
    packed = blocks[:, 4:16].reshape(-1, 3, 4)
    high = packed[:, :2] >> 6 << 4
    scales = np.concatenate((packed[:, 0] & 63, packed[:, 2] & 15 | high[:, 0]), 1)
    minima = np.concatenate((packed[:, 1] & 63, packed[:, 2] >> 4 | high[:, 1]), 1)
    integers = _nibbles(blocks[:, 16:].reshape(-1, 32))
    return integers, _halves(blocks, 0) * scales, -(_halves(blocks, 2) * minima)


def _q6_k(data: np.ndarray) -> Parts:
    """Decode blocks of 256 numbers with the value d scale (q - 32).

    A block consists of 128 bytes with the low 4 bits of q, 64 bytes with the high 2 bits, 16 8-bit scales, and d in
    float16.
    """
    blocks = data.reshape(-1, 210)
    low = _nibbles(blocks[:, :128].reshape(-1, 64)).reshape(-1, 2, 4, 32)
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    integers = (low | (high << 4).view(np.int8)) - np.int8(32)
    scale = _halves(blocks, 208) * np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)
    return integers, scale, np.zeros_like(scale)


KINDS: dict[Kind, Callable[[np.ndarray], Parts]] = {
    Kind.Q8_0: _q8_0,
    Kind.Q4_0: _q4_0,
    Kind.Q4_1: _q4_1,
    Kind.Q4_K: _q4_k,
    Kind.Q6_K: _q6_k,
}
