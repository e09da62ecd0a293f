"""Measured memory use of a running model, for comparison with the formulas of footprint.py."""

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from model.anatomy.footprint import counts_activations
from model.gpt.cache import KVCache
from model.gpt.passes import attend_explicit, attend_fused
from model.gpt.transformer import Transformer
from model.progress import Progress, silent

MOST_TOKENS = 64  # maximum tokens of a measurement; the formulas extrapolate
_EXPLICIT = attend_explicit(lambda site, layer, x: x)


@dataclass(frozen=True)
class MemoryUse:
    """Measured bytes at batch size 1."""

    tokens: int
    weights: int  # bytes of the parameters, shared memory counted once
    cache: int  # bytes of the tokens' keys and values
    peak: int  # peak bytes of a forward pass without gradients, besides weights and cache; with states
    peak_explicit: int | None  # the same with explicit attention; None if it changes only a part of the layers
    kept: int | None  # bytes saved by autograd in a training step; None without an output head
    kept_explicit: int | None
    state: int = 0  # bytes of the states of mixers other than attention


class Live(TorchDispatchMode):
    """Context manager that tracks the memory of all tensors created inside it: the current bytes `now` and their
    `peak`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: dict[int, weakref.ref] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        outputs = func(*args, **(kwargs or {}))
        inputs = {id(each.untyped_storage()) for each in _with_storage((args, kwargs))}
        for each in _with_storage(outputs):
            self._meet(each.untyped_storage(), inputs)
        return outputs

    def _meet(self, storage: torch.UntypedStorage, inputs: set[int]) -> None:
        key, nbytes = id(storage), storage.nbytes()
        if key in inputs or key in self._known:
            return  # a view of existing memory
        self.now += nbytes
        self.peak = max(self.peak, self.now)
        self._known[key] = weakref.ref(storage, lambda _: self._gone(key, nbytes))

    def _gone(self, key: int, nbytes: int) -> None:
        self._known.pop(key, None)
        self.now -= nbytes


def _with_storage(values: object) -> Iterator[Tensor]:
    """Yield the tensors among the values, except weights packed for small batches, which have no storage."""
    return (each for each in tree_iter(values) if isinstance(each, Tensor) and not each.is_mkldnn)


def storage_bytes(model: nn.Module) -> int:
    """Return the bytes of the parameters' storage; shared storage counts once."""
    sizes = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in model.parameters()}
    return sum(sizes.values())


@torch.inference_mode()
def peak_bytes(model: Transformer, ids: Tensor, explicit: bool = False) -> tuple[int, int, int]:
    """Measure the peak bytes of a prompt's forward pass with an empty cache, without the cache, the bytes of the
    cache, and those of the states.

    The unembedding runs for the last token only. Memory that kernels use internally is not included. A model that reads
    in both directions has no cache.
    """
    config = model.config
    cache = None if config.two_way else KVCache.empty(config, *ids.shape)
    with Live() as live:
        x = model.trunk(ids, cache=cache, attend=_EXPLICIT if explicit else attend_fused)
        if not config.headless:
            model.logits(x[:, -1:])
    if cache is None:
        return live.peak, 0, 0
    kept = {layer: sum(part.nbytes for part in state) for layer, state in cache.states.items()}
    windows = sum(n for layer, n in kept.items() if config.mixer_of(layer) == "sliding_window")
    return live.peak, cache.k.nbytes + cache.v.nbytes + windows, sum(kept.values()) - windows


def trainable(model: Transformer) -> Transformer:
    """Return a model with the same tensors as trainable parameters; nothing is copied, and the original
    is unchanged.
    """
    with torch.device("meta"):
        twin = Transformer(model.config)
    params = dict(model.named_parameters(remove_duplicate=False))
    state = {name: params[name].detach() for name, _ in twin.named_parameters(remove_duplicate=False)}
    twin.load_state_dict(state, strict=True, assign=True)
    twin.tie()
    return twin.requires_grad_(True)


def kept_by_autograd(model: Transformer, ids: Tensor, explicit: bool = False) -> int:
    """Measure the bytes saved for the backward pass of a training step on ids [B, T], without
    parameters, gains that are not parameters, or duplicates.
    """
    own = {each.untyped_storage().data_ptr() for each in (*model.parameters(), *model.buffers())}
    saved: dict[int, tuple[int, Tensor]] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = (
                storage.nbytes(),
                tensor,
            )  # keep a reference, so that its address is not reused
        return tensor

    with torch.inference_mode(False), torch.enable_grad():
        ids = ids.clone()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            logits = model.logits(model.trunk(ids, attend=_EXPLICIT if explicit else attend_fused))
            F.cross_entropy(logits.flatten(0, 1), torch.zeros_like(ids).flatten())
    return sum(nbytes for nbytes, _ in saved.values())


def measure(model: Transformer, ids: Sequence[int], progress: Progress = silent) -> MemoryUse:
    """Measure a loaded model on the first MOST_TOKENS tokens of a text; the model's tensors are never changed."""
    counted = counts_activations(model.config)
    text = torch.tensor([list(ids[:MOST_TOKENS])])
    twin, results = trainable(model), []
    steps = [
        lambda: peak_bytes(model, text),
        lambda: peak_bytes(model, text, explicit=True)[0] if counted else None,
        lambda: None if model.config.headless else kept_by_autograd(twin, text),
        lambda: kept_by_autograd(twin, text, explicit=True) if counted else None,
    ]
    for done, step in enumerate(steps):
        progress(done, len(steps), "")
        results.append(step())
    (peak, cache, state), peak_explicit, saved, saved_explicit = results
    return MemoryUse(text.shape[1], storage_bytes(model), cache, peak, peak_explicit, saved, saved_explicit, state)
