"""Products with weights on one or several GPUs, among which the layers are distributed; all else is computed on the
CPU.

Products with weights are nearly all operations of a model. Each transfers one row of activations per token in each
direction. All values shown by a view are therefore on the CPU, and views do not depend on the device. Layers that fit
on no device remain on the CPU. Weights that remain in their files are copied from there for each product.
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
SPARE = 10  # percentage of a device's free memory that is left for activations


def available() -> tuple[str, ...]:
    """Return those of KINDS that torch supports on this machine."""
    supported = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return tuple(kind for kind in KINDS if supported[kind])


def check(kind: str) -> None:
    """Raise InputError for a kind of device that is not available."""
    if kind not in available():
        hint = say("Choose one of: {}.", ", ".join(available()))
        raise InputError("torch does not find this device on this machine.", f"device: {shown(kind)}", hint)


def free(kind: str) -> dict[str, int]:
    """Return the free bytes of each device of a kind by name; empty for the CPU."""
    if kind == "cuda":
        return {f"cuda:{n}": torch.cuda.mem_get_info(n)[0] for n in range(torch.cuda.device_count())}
    if kind == "mps":
        return {"mps": torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()}
    return {}


def places(sizes: Sequence[int], room: Mapping[str, int]) -> list[str]:
    """Assign a device to each of several consecutive parts with these sizes in bytes, filling one device after another.

    SPARE percent of each device's free memory is left unused. A device is not used again after a part did not fit;
    once no device is left, the remaining parts are assigned to "cpu".
    """
    left = {name: space - space * SPARE // 100 for name, space in room.items()}
    names, chosen = list(left), []
    for size in sizes:
        while names and left[names[0]] < size:
            names.pop(0)  # consecutive layers share a device, which saves transfers
        chosen.append(names[0] if names else "cpu")
        if names:
            left[names[0]] -= size
    return chosen


def placed(model: Transformer, kind: str, dtype: torch.dtype) -> tuple[Transformer, str]:
    """Copy the model's weights to devices of a kind, and return the model with its products in a type there, and the
    devices' names.

    Raises InputError for an unavailable kind, and CheckpointError if a device has less memory than it reported.
    """
    chosen = _layers(model, kind, dtype)
    with _memory_errors(kind):
        changed = halved(model, dtype, lambda path: _of(path, chosen))
    return changed, ", ".join(dict.fromkeys(chosen.values()))


@torch.no_grad()
def streamed(model: Transformer, kind: str, dtype: torch.dtype) -> tuple[Transformer, str]:
    """Move the products of a model with stored weights to devices, in place, and return the model and the devices'
    names.

    `dtype` is float32 or the weights' own type. Layers that fit on a device are copied there once. The matrices of all
    others are copied for each product, a slice of rows at a time. Raises the errors of `placed`.
    """
    chosen = _layers(model, kind, dtype)
    names = list(free(kind)) or ["cpu"]
    leave_stored(model)
    with _memory_errors(kind):
        for path, layer in [(path, each) for path, each in model.named_modules() if isinstance(each, StoredLinear)]:
            layer.dtype, layer.device = dtype, names[-1]
            if (device := _of(path, chosen)) != "cpu":
                weight = layer._parameters["weight"].to(device).to(dtype)
                kept = HalfLinear(torch.nn.Parameter(weight, requires_grad=False), layer.bias)
                model.set_submodule(path, kept)
    return model, ", ".join(names)


def _layers(model: Transformer, kind: str, dtype: torch.dtype) -> dict[str, str]:
    """Select a device for each layer, by the prefix of its modules' paths, and make CUDA accumulate in float32, as on
    the CPU.
    """
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
    """Return the device of a module, given its path; the CPU for what is before the layers."""
    return next((device for part, device in chosen.items() if path.startswith(part)), "cpu")


@contextlib.contextmanager
def _memory_errors(kind: str) -> Iterator[None]:
    """Convert an out-of-memory error of a device to a CheckpointError with advice."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        hint = "Use 16-bit weights (--dtype bfloat16) or the CPU."
        raise CheckpointError("The model's weights do not fit on the device.", kind, hint) from error
