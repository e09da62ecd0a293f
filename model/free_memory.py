"""A check that weights fit into memory before any are read, and a setting that keeps freed memory for reuse."""

import ctypes

import psutil

from model.errors import CheckpointError, say

SPARE = 10  # percent of the weights, reserved for a trace and intermediate results


def fits(weights: int) -> bool:
    """Return whether this many bytes of weights, and SPARE percent more, fit into free memory without swapping."""
    return _needed(weights) <= psutil.virtual_memory().available


def need_room(weights: int) -> None:
    """Raise CheckpointError if this many bytes of weights do not fit, before they are read instead of when memory is
    full.
    """
    if not fits(weights):
        got = f"{_needed(weights) / 1e9:.2f} GB, {psutil.virtual_memory().available / 1e9:.2f} GB"
        ways = "--weights stored", "--dtype bfloat16"
        hint = say("Leave the weights of safetensors in their files ({}), or use half the memory ({}).", *ways)
        raise CheckpointError("The model's weights do not fit into the free memory.", got, hint)


def _needed(weights: int) -> int:
    return weights + weights * SPARE // 100


def keep_freed_memory() -> None:
    """Make glibc keep large freed blocks for the next step, because returning them takes a third of a step's time."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library
        return
    # M_MMAP_MAX, M_ARENA_MAX, M_TRIM_THRESHOLD, M_TOP_PAD of malloc.h
    for parameter, value in ((-4, 0), (-8, 1), (-1, (1 << 31) - 1), (-2, 256 << 20)):
        mallopt(parameter, value)
