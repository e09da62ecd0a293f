"""The compiled loops, there once they are compiled: seconds on a new machine, then a moment, beside other work."""

import contextlib
import functools
import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch
from filelock import FileLock, Timeout

_LOCK = Path(tempfile.gettempdir()) / f"attention-playground-{getattr(os, 'getuid', str)()}.compiling"  # a file a user
_LONGEST = 120  # seconds that a process waits for another one
_ONE_AT_A_TIME = threading.Lock()


@functools.cache
def _thread() -> threading.Thread:
    """The thread that compiles, begun at the first call."""
    thread = threading.Thread(target=_load, daemon=True, name="compiling")
    thread.start()
    return thread


def _import() -> ModuleType:
    """The module; of several processes one compiles, and the others read what it kept."""
    with contextlib.suppress(OSError, Timeout), FileLock(_LOCK, timeout=_LONGEST):
        from model.kernels import compiled

        return compiled
    from model.kernels import compiled

    return compiled


@functools.cache
def _load() -> ModuleType | None:
    try:
        return _import()
    except Exception as error:  # no numba for this machine, or no folder that it may write to
        logging.getLogger(__name__).warning("Steps of generation are not compiled: %s", error)
        return None


def now() -> ModuleType | None:
    """`model.kernels.compiled`, waited for; None where nothing can be compiled on this machine."""
    _thread().join()
    return _load()


def soon() -> ModuleType | None:
    """The same without waiting: None as long as it is being compiled."""
    return None if _thread().is_alive() else _load()


def never() -> bool:
    """Whether it is known that nothing can be compiled on this machine."""
    return not _thread().is_alive() and _load() is None


@contextlib.contextmanager
def threads() -> Iterator[int]:
    """So many threads as torch has, for the compiled loops of this block."""
    import numba

    count = min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)
    numba.set_num_threads(count)
    with _ONE_AT_A_TIME:  # not every kind of numba's threads may be asked from two sides
        yield count
