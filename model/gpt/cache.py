"""Cached data of earlier positions, passed to the forward pass and never stored on a module."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from model.errors import InputError
from model.gpt.config import ModelConfig

State = tuple[Tensor, ...]  # state of a layer that does not store all keys and values; axis 0 is the batch


@dataclass(eq=False)
class KVCache:
    """Preallocated keys (with positions applied) and values, filled up to `length` positions, and states.

    Decoding with a cache, in chunks of any size, gives the logits of a single uncached forward pass. Layers of full
    attention keep all keys and values. The others (ModelConfig.stateful) keep a state, which is replaced and never
    modified: the mixer's own state, or the keys and values that are still in the window.
    A Mamba 2 beside attention keeps its state beside the keys and values.
    """

    k: Tensor  # [L', B, G, S, E], for the L' layers of full attention
    v: Tensor  # [L', B, G, S, E]
    length: int = 0
    slots: Mapping[int, int] | None = None  # {layer: its index along the first axis}; None if all layers have one
    states: Mapping[int, State] = field(default_factory=dict)  # state by layer; empty before the first token
    whole: bool = False  # whether windows also keep all keys and values, for a tap that addresses them by position
    before: tuple[int, Mapping[int, State]] | None = None  # length and states before the last forward pass
    coming: dict[int, State] = field(default_factory=dict)  # states of the current forward pass

    @staticmethod
    def empty(config: ModelConfig, batch: int, max_len: int, *, whole: bool = False) -> "KVCache":
        """Return an empty cache for `max_len` positions of `batch` sequences:
        2 L' B G S E x 4 bytes plus the states.
        """
        layers = config.kept
        shape = (len(layers), batch, config.n_kv_head, max_len, config.d_head)
        slots = {layer: place for place, layer in enumerate(layers)} if not config.rewinds else None
        return KVCache(torch.empty(shape), torch.empty(shape), 0, slots, whole=whole)

    @property
    def capacity(self) -> int:
        """The maximum number of positions."""
        return self.k.shape[3]

    @property
    def batch(self) -> int:
        """The number of sequences."""
        return self.k.shape[1]

    @property
    def nbytes(self) -> int:
        """The bytes of keys, values and states."""
        states = sum(part.nbytes for state in self.states.values() for part in state)
        return self.k.nbytes + self.v.nbytes + states

    def reserve(self, batch: int, T: int) -> None:
        """Raise ValueError unless the cache has room for T more positions of `batch` sequences."""
        if batch != self.batch:
            raise ValueError(f"the cache holds {self.batch} sequences, the ids {batch}")
        if self.length + T > self.capacity:
            raise ValueError(f"the cache has room for {self.capacity} positions, {self.length} + {T} do not fit")
        self.coming.clear()  # states of an interrupted forward pass

    def put(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values [B, G, T, E], and return all keys and values so far, [B, G, S, E] each."""
        end, place = self.length + k.shape[2], layer if self.slots is None else self.slots[layer]
        self.k[place, :, :, self.length : end] = k
        self.v[place, :, :, self.length : end] = v
        return self.k[place, :, :, :end], self.v[place, :, :, :end]

    def state(self, layer: int) -> State | None:
        """Return the state of a layer after the cached positions, or None before the first token."""
        return self.states.get(layer)

    def keep(self, layer: int, state: State) -> None:
        """Store the state of a layer after this forward pass; `advance` then replaces the old one."""
        self.coming[layer] = state

    def advance(self, T: int) -> None:
        """Count T positions as filled, after every layer has stored its own data."""
        if self.coming:
            self.before = (self.length, self.states)
            self.states = {**self.states, **self.coming}
            self.coming.clear()
        self.length += T

    def truncate(self, length: int) -> None:
        """Drop the positions from `length` without moving data.

        A state cannot be rewound token by token. With states, `length` must be 0, the current length, or the length
        before the last forward pass; any other value raises InputError.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind {self.length} positions to {length}")
        if self.slots is not None and length != self.length:
            if self.before is not None and length == self.before[0]:
                self.states = self.before[1]
            elif length == 0:
                self.states = {}
            else:
                raise InputError(
                    "This model's state does not keep every token, so tokens cannot be removed from it again.",
                    f"{self.length} tokens, back to {length}",
                    "Choose a model with full attention in every layer.",
                )
            self.before = None
        self.length = length

    def rows(self, index: Tensor) -> "KVCache":
        """Return a new cache whose sequence b is the old sequence `index[b]`, to expand a shared prompt or reorder
        beams.
        """
        return self.like(self.k[:, index], self.v[:, index], index)

    def like(self, k: Tensor, v: Tensor, index: Tensor) -> "KVCache":
        """Return a cache with these keys and values, the same length, and the states of the sequences `index[b]`."""
        states = {layer: tuple(part[index] for part in state) for layer, state in self.states.items()}
        return dataclasses.replace(self, k=k, v=v, states=states, before=None, coming={})
