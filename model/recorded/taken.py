"""Arrays of other libraries as one array of attention weights [L, H, T, S], by their shapes."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from model.arguments import is_whole, shown
from model.errors import InputError, say

MOST_WEIGHTS = 40_000_000  # maximum number of weights: 12 x 12 heads of 512 tokens
_FLOATS = ("float16", "bfloat16", "float32", "float64")
# The largest rounding error of a row's sum, by the type in which the weights were computed.
TOLERANCES = {"float64": 1e-3, "float32": 1e-3, "float16": 1e-2, "bfloat16": 3e-2}


def is_array(value: object) -> bool:
    """Return whether a value is an array or a tensor of any library."""
    return hasattr(value, "shape") and (hasattr(value, "__array__") or isinstance(value, torch.Tensor))


def stacked(attention: object, batch: int | None = None) -> tuple[np.ndarray, float]:
    """Return weights as one array, and the rounding error that their type allows in the sum of a row.

    attention: [L, H, T, S], [H, T, S] for one layer, [T, S] for one head, or a sequence with one array per layer:
        [H, T, S], or [B, H, T, S] as transformers, BertViz and nnsight have them.
    batch: the example to take from arrays with a batch axis.

    Returns (float32 [L, H, T, S], tolerance). Raises InputError for other shapes and types, and for a batch of several
    without a choice.
    """
    if isinstance(attention, Sequence) and not isinstance(attention, str | bytes):
        if len(attention) == 0:
            raise InputError("The attention is empty.", "", "Give at least one layer.")
        if any(is_array(each) for each in attention):
            return _by_layer(attention, batch)
    array, tolerance = _numbers(attention)
    if array.ndim == 5:
        array = _of_batch(np.moveaxis(array, 1, 0), batch)
    elif batch is not None:
        raise InputError(
            "There is no batch axis to choose from.",
            _shape(array),
            "A batch needs a list with one array [batch, heads, queries, keys] per layer.",
        )
    if array.ndim not in (2, 3, 4):
        raise InputError(
            "This array does not have the shape of attention.",
            _shape(array),
            "Give [layers, heads, queries, keys], [heads, queries, keys], or a list with one array per layer.",
        )
    return _bounded(array.reshape((1,) * (4 - array.ndim) + array.shape)), tolerance


def _by_layer(layers: Sequence[object], batch: int | None) -> tuple[np.ndarray, float]:
    """Stack one array per layer. Raises InputError if they do not have one shape."""
    taken = []
    for layer, each in enumerate(layers):
        if each is None:
            raise InputError(
                "A layer has no attention.", say("layer {}", layer), "With transformers, load it with eager attention."
            )
        if not is_array(each):
            raise InputError("A layer is not an array.", type(each).__name__, "Give a list with one array per layer.")
        array, tolerance = _numbers(each)
        array = _of_batch(array, batch) if array.ndim == 4 else array
        if array.ndim != 3:
            raise InputError(
                "A layer does not have the shape of attention.",
                say("layer {}: {}", layer, _shape(array)),
                "Give [heads, queries, keys] or [1, heads, queries, keys] for each layer.",
            )
        first = taken[0][0] if taken else array
        if array.shape != first.shape:
            what = (
                "The layers have different numbers of heads."
                if array.shape[1:] == first.shape[1:]
                else "The layers have different numbers of tokens."
            )
            got = say("layer {}: {}; layer {}: {}", 0, _shape(first), layer, _shape(array))
            raise InputError(what, got, "Show layers of one shape at a time.")
        if (len(taken) + 1) * array.size > MOST_WEIGHTS:
            raise _too_large((len(layers), *array.shape))
        taken.append((array, tolerance))
    return _bounded(np.stack([array for array, _ in taken])), max(tolerance for _, tolerance in taken)


def _of_batch(array: np.ndarray, batch: int | None) -> np.ndarray:
    """Choose an example of a batch. [B, ...] -> [...]"""
    n = len(array)
    if batch is None and n != 1:
        raise InputError(
            "This is a batch of several examples." if n else "The batch is empty.",
            _shape(array),
            say("Choose one with batch=0 to batch={}.", n - 1) if n else "Give one example.",
        )
    if batch is not None and not (is_whole(batch) and 0 <= batch < n):
        raise InputError("The batch has no such example.", shown(batch), say("Examples run from 0 to {}.", n - 1))
    return array[batch or 0]


def _numbers(value: object) -> tuple[np.ndarray, float]:
    """Convert an array, a tensor or nested lists to floats. Raises InputError for anything else."""
    if isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        _check_size(tuple(value.shape))
        array = value.detach().to("cpu", torch.float32).numpy() if name in _FLOATS else value.detach().cpu().numpy()
    else:
        if isinstance(value, str | bytes | Mapping) or value is None:
            raise InputError("This is not an array of attention.", type(value).__name__, "Give numbers.")
        if hasattr(value, "shape"):
            _check_size(tuple(value.shape))
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(
                "This cannot be read as an array.", type(value).__name__, "Rows and heads need one length each."
            ) from None
        name = str(array.dtype)
    if name not in _FLOATS:
        if array.dtype.kind not in "iub":
            raise InputError("Attention weights are real numbers.", name[:40], "Use float32 or float16.")
        name = "float32"
    return array, TOLERANCES[name]


def _check_size(shape: tuple[int, ...]) -> None:
    if int(np.prod(shape, dtype=object)) > 64 * MOST_WEIGHTS:  # a batch may be cut afterwards
        raise _too_large(shape)


def _bounded(array: np.ndarray) -> np.ndarray:
    """Check the number of weights, and return them as float32."""
    if array.size == 0:
        raise InputError("The attention is empty.", _shape(array), "It needs at least one layer, head and token.")
    if array.size > MOST_WEIGHTS:
        raise _too_large(array.shape)
    return np.ascontiguousarray(array, np.float32)


def _too_large(shape: tuple[int, ...]) -> InputError:
    return InputError(
        "This is too much attention for one page.",
        " × ".join(map(str, shape)),
        say(
            "At most {} million weights are shown. Choose fewer with layers= and heads=, or cut the text.",
            MOST_WEIGHTS // 10**6,
        ),
    )


def _shape(array: np.ndarray) -> str:
    return f"[{', '.join(map(str, array.shape))}]"
