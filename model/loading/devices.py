"""Products with weights on a GPU, or on several that share the layers; everything else stays on the CPU.

Nearly all operations of a model are products with weights. What goes back and forth is a row of activations a token and
product, so that every number that a view shows is on the CPU as ever, and a view needs to know of no device. Layers
that no device has room for stay on the CPU; of weights that stay in their files they come from there each time.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import torch

from model.arguments import shown
from model.errors import CheckpointError, InputError, say
from model.gpt.linear import Linear
from model.gpt.transformer import Transformer
from model.loading.halves import HalfLinear, halved
from model.loading.stored import StoredLinear, leave_stored

KINDS = ("cpu", "cuda", "mps")
SPARE = 10  # percent of a device's free memory that is left for activations


def available() -> tuple[str, ...]:
    """Return those of KINDS that this torch finds on this machine."""
    found = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return tuple(kind for kind in KINDS if found[kind])


def check(kind: str) -> None:
    """Raise InputError for a device that is not there."""
    if kind not in available():
        hint = say("Choose one of: {}.", ", ".join(available()))
        raise InputError("torch finds no such device on this machine.", f"device: {shown(kind)}", hint)


def free(kind: str) -> dict[str, int]:
    """Free bytes of each device of a kind, by its name; none for the CPU."""
    if kind == "cuda":
        return {f"cuda:{n}": torch.cuda.mem_get_info(n)[0] for n in range(torch.cuda.device_count())}
    if kind == "mps":
        return {"mps": torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()}
    return {}


def places(sizes: Sequence[int], room: Mapping[str, int]) -> list[str]:
    """Return a device for each of some parts in a row, of so many bytes: one device is filled after the other.

    SPARE percent of each stay free. Parts that have no room left anywhere stay on "cpu".
    """
    left = {name: space - space * SPARE // 100 for name, space in room.items()}
    names, chosen = list(left), []
    for size in sizes:
        while names and left[names[0]] < size:
            names.pop(0)  # neighbors lie together, so that what follows does not go back and forth
        chosen.append(names[0] if names else "cpu")
        if names:
            left[names[0]] -= size
    return chosen


def placed(model: Transformer, kind: str, dtype: torch.dtype) -> tuple[Transformer, str]:
    """Return the model with its products in a type on devices of a kind, and their names. Its weights are copied there.

    Raises InputError for a kind that is not there, CheckpointError where a device has less room than it said.
    """
    chosen = _layers(model, kind, dtype)
    with _told(kind):
        changed = halved(model, dtype, lambda path: _of(path, chosen))
    return changed, ", ".join(dict.fromkeys(chosen.values()))


@torch.no_grad()
def streamed(model: Transformer, kind: str, dtype: torch.dtype) -> tuple[Transformer, str]:
    """Return the same with the weights left in their files, `dtype` being float32 or their own; the model is changed.

    Layers for which a device has room are copied there once; the matrices of all others go there at each product, some
    rows at a time. Raises as `placed` does.
    """
    chosen = _layers(model, kind, dtype)
    names = list(free(kind)) or ["cpu"]
    leave_stored(model)
    with _told(kind):
        for path, layer in [(path, each) for path, each in model.named_modules() if isinstance(each, StoredLinear)]:
            layer.dtype, layer.device = dtype, names[-1]
            if (device := _of(path, chosen)) != "cpu":
                there = layer._parameters["weight"].to(device).to(dtype)
                kept = HalfLinear(torch.nn.Parameter(there, requires_grad=False), layer.bias)
                model.set_submodule(path, kept)
    return model, ", ".join(names)


def _layers(model: Transformer, kind: str, dtype: torch.dtype) -> dict[str, str]:
    """Return a device for each layer, by the beginning of its modules' paths; sums there are float32, as on the CPU."""
    check(kind)
    if kind == "cuda":
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_tf32 = False
    parts = [*(f"blocks.{layer}." for layer in range(model.config.n_layer)), "unembed"]
    sizes = [
        sum(
            module.weight.numel() * dtype.itemsize
            for path, module in model.named_modules()
            if isinstance(module, Linear) and path.startswith(part)
        )
        for part in parts
    ]
    return dict(zip(parts, places(sizes, free(kind)), strict=True))


def _of(path: str, chosen: Mapping[str, str]) -> str:
    """Return the device of a module."""
    return next(device for part, device in chosen.items() if path.startswith(part))


@contextlib.contextmanager
def _told(kind: str) -> Iterator[None]:
    """A full device as an error that says what to do."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        hint = "Take weights of 16 bits, --dtype bfloat16, or the CPU."
        raise CheckpointError("The model's weights do not fit on the device.", kind, hint) from error
