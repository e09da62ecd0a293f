"""One pass over a corpus: the attention maps of all heads, a batch at a time, and what a uniform head would do."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.corpus.texts import Corpus
from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.progress import Progress, silent

_NUMBERS = 1 << 24  # maximum number of weights in memory at once
READING = "Reading the corpus"  # progress label


@dataclass(frozen=True, eq=False)
class Batch:
    """Some sequences of a corpus with the maps of all layers that have attention."""

    rows: slice  # which sequences of the corpus
    patterns: Mapping[int, Tensor]  # by layer, [B, H, T, T]
    sites: Mapping[tuple[str, int], Tensor]  # the tensors that were asked for


def uniform(seen: np.ndarray) -> np.ndarray:
    """Return the map of a head that attends equally to every key it sees. bool [T, T] -> float64 [T, T]"""
    return seen / seen.sum(1, keepdims=True)


def batch_size(config: ModelConfig, T: int) -> int:
    """Return how many sequences are run at once, so that their maps fit in memory; 16 at most."""
    return int(min(max(_NUMBERS // (config.n_layer * config.n_head * T * T), 1), 16))


@torch.inference_mode()
def read_batches(
    model: Transformer,
    corpus: Corpus,
    *,
    sites: tuple[tuple[str, int], ...] = (),
    maps: bool = True,
    batch: int | None = None,
    progress: Progress = silent,
) -> Iterator[Batch]:
    """Run the sequences in batches, and return the maps of each; the maps of the batch before are dropped.

    `sites`: (site, layer) pairs of model.gpt.tap.SITES whose tensors are wanted, too. `maps`: whether attention is.
    """
    N, T = corpus.ids.shape
    size = batch or batch_size(model.config, T)
    attended = tuple(filter(model.config.is_attention, range(model.config.n_layer)))
    for start in range(0, N, size):
        progress(start, N, READING)
        kept: dict[tuple[str, int], Tensor] = {}
        rows = slice(start, min(start + size, N))
        ids = torch.from_numpy(corpus.ids[rows])
        wanted = (*sites, *(("pattern", layer) for layer in attended)) if maps else sites
        model.trunk(ids, tap=_keeper(kept, wanted))
        patterns = {layer: kept.pop(("pattern", layer)).float() for layer in attended} if maps else {}
        yield Batch(rows, patterns, kept)
    progress(N, N, READING)


def _keeper(kept: dict[tuple[str, int], Tensor], sites: tuple[tuple[str, int], ...]) -> Callable:
    """Return a tap that keeps the named tensors."""

    def keep(site: str, layer: int, tensor: Tensor) -> Tensor:
        if (site, layer) in sites:
            kept[site, layer] = tensor.clone()
        return tensor

    return keep
