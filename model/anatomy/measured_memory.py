"""What a model really holds while it runs, measured on tensors: beside the formulas of model/anatomy/footprint.py."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from model.gpt.cache import KVCache
from model.gpt.transformer import Transformer, attend_explicit, attend_fused
from model.progress import Progress, silent

MOST_TOKENS = 64  # of a measurement: what it finds grows as the formulas say
_EXPLICIT = attend_explicit(lambda site, layer, x: x)


@dataclass(frozen=True)
class Held:
    """Bytes that were found, for B = 1."""

    tokens: int
    weights: int  # of the parameters' memory, each place once
    cache: int  # keys and values after the tokens were read
    peak: int  # the most at once in a forward without gradients, besides the two
    peak_explicit: int  # the same with attention step by step
    kept: int  # what autograd keeps of a training step
    kept_explicit: int


class Live(TorchDispatchMode):
    """Follows the memory of every tensor that is made inside: bytes `now` and at their `peak`."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: dict[int, weakref.ref] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        given = {id(each.untyped_storage()) for each in tree_iter((args, kwargs)) if isinstance(each, Tensor)}
        for each in tree_iter(found):
            if isinstance(each, Tensor):
                self._meet(each.untyped_storage(), given)
        return found

    def _meet(self, storage: torch.UntypedStorage, given: set[int]) -> None:
        key, nbytes = id(storage), storage.nbytes()
        if key in given or key in self._known:
            return  # a view of what was there
        self.now += nbytes
        self.peak = max(self.peak, self.now)
        self._known[key] = weakref.ref(storage, lambda _: self._gone(key, nbytes))

    def _gone(self, key: int, nbytes: int) -> None:
        self._known.pop(key, None)
        self.now -= nbytes


def storage_bytes(model: nn.Module) -> int:
    """Bytes of the parameters' memory; what two of them share counts once."""
    found = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in model.parameters()}
    return sum(found.values())


@torch.inference_mode()
def peak_bytes(model: Transformer, ids: Tensor, explicit: bool = False) -> tuple[int, int]:
    """The most bytes at once of a prompt's forward into an empty cache, cache aside; and those of the cache.

    The head runs for the last token only. What kernels hold inside themselves is not seen.
    """
    cache = KVCache.empty(model.config, *ids.shape)
    with Live() as live:
        x = model.trunk(ids, cache=cache, attend=_EXPLICIT if explicit else attend_fused)
        model.logits(x[:, -1:])
    return live.peak, cache.k.nbytes + cache.v.nbytes


def trainable(model: Transformer) -> Transformer:
    """The same tensors as parameters that take gradients; nothing is copied, and the model stays as it is."""
    with torch.device("meta"):
        twin = Transformer(model.config)
    named = dict(model.named_parameters(remove_duplicate=False))
    state = {name: named[name].detach() for name, _ in twin.named_parameters(remove_duplicate=False)}
    twin.load_state_dict(state, strict=True, assign=True)
    twin.tie()
    return twin.requires_grad_(True)


def kept_by_autograd(model: Transformer, ids: Tensor, explicit: bool = False) -> int:
    """Bytes between forward and backward of a training step on ids [B, T], parameters aside; each place once."""
    weights = {each.untyped_storage().data_ptr() for each in model.parameters()}
    kept: dict[int, tuple[int, Tensor]] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)  # held, so that no other takes its place
        return tensor

    with torch.inference_mode(False), torch.enable_grad():
        ids = ids.clone()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            logits = model.logits(model.trunk(ids, attend=_EXPLICIT if explicit else attend_fused))
            F.cross_entropy(logits.flatten(0, 1), torch.zeros_like(ids).flatten())
    return sum(nbytes for nbytes, _ in kept.values())


def measure(model: Transformer, ids: Sequence[int], progress: Progress = silent) -> Held:
    """All of it on a loaded model, with the first tokens of a text; its tensors are read and never changed."""
    text = torch.tensor([list(ids[:MOST_TOKENS])])
    twin, found = trainable(model), []
    steps = [
        lambda: peak_bytes(model, text),
        lambda: peak_bytes(model, text, explicit=True),
        lambda: kept_by_autograd(twin, text),
        lambda: kept_by_autograd(twin, text, explicit=True),
    ]
    for done, step in enumerate(steps):
        progress(done, len(steps), "")
        found.append(step())
    (peak, cache), (peak_explicit, _), kept, kept_explicit = found
    return Held(text.shape[1], storage_bytes(model), cache, peak, peak_explicit, kept, kept_explicit)
