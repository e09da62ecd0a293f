"""Keys and values of earlier positions, passed to the forward and never stored on a module."""

from dataclasses import dataclass

import torch
from torch import Tensor

from model.gpt.config import ModelConfig


@dataclass(eq=False)
class KVCache:
    """Preallocated keys (after positions are applied) and values; the first `length` positions are filled.

    Decoding with a cache, in chunks of any size, gives the logits of one uncached forward.
    """

    k: Tensor  # [L, B, G, S, E]
    v: Tensor  # [L, B, G, S, E]
    length: int = 0

    @staticmethod
    def empty(config: ModelConfig, batch: int, max_len: int) -> "KVCache":
        """Room for `max_len` positions of `batch` sequences: 2 L B G S E x 4 bytes."""
        shape = (config.n_layer, batch, config.n_kv_head, max_len, config.d_head)
        return KVCache(torch.empty(shape), torch.empty(shape))

    @property
    def capacity(self) -> int:
        """Number of positions that fit."""
        return self.k.shape[3]

    def reserve(self, batch: int, T: int) -> None:
        """Raise ValueError unless T more positions of `batch` sequences fit."""
        if batch != self.k.shape[1]:
            raise ValueError(f"the cache holds {self.k.shape[1]} sequences, the ids {batch}")
        if self.length + T > self.capacity:
            raise ValueError(f"the cache has room for {self.capacity} positions, {self.length} + {T} do not fit")

    def put(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append [B, G, T, E]; return everything up to it, [B, G, S, E] each."""
        end = self.length + k.shape[2]
        self.k[layer, :, :, self.length : end] = k
        self.v[layer, :, :, self.length : end] = v
        return self.k[layer, :, :, :end], self.v[layer, :, :, :end]

    def advance(self, T: int) -> None:
        """Count T positions as filled, once every layer has put its own."""
        self.length += T

    def truncate(self, length: int) -> None:
        """Drop the positions from `length` on; no data is moved."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} positions to {length}")
        self.length = length

    def rows(self, index: Tensor) -> "KVCache":
        """A new cache whose sequence b is the old sequence index[b]: expands a shared prompt, reorders beams."""
        return KVCache(self.k[:, index], self.v[:, index], self.length)
