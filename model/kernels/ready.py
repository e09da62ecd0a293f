"""The compiled loops, loaded in the background: in seconds on a new machine, where they are compiled first, else
immediately.

Compiling is Python code and would slow down all other threads of this process, so a separate process does it, once for
each CPU and source, and stores the result in the cache folder.
"""

import contextlib
import functools
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import torch

from model import IMPORTED_FROM
from model.kernels import loops_folder
from model.private_folder import make_private

_LONGEST = 600  # maximum seconds to compile, or to wait for another process that compiles
_TURN = 1e-4  # thread switch interval in seconds while the loops are loaded, instead of Python's usual 5e-3
_ONE_AT_A_TIME = threading.Lock()

log = logging.getLogger(__name__)


@functools.cache
def _thread() -> threading.Thread:
    """Return the thread that loads the loops, started on the first call."""
    thread = threading.Thread(target=_load, daemon=True, name="compiling")
    thread.start()
    return thread


@functools.cache
def _load() -> ModuleType | None:
    """Return the module of the compiled loops, compiling them if necessary;
    None if this machine cannot compile them.
    """
    try:
        os.environ[loops_folder.VARIABLE] = str(_filled())  # inherited by child processes
        with _short_turns():
            return _import()
    except Exception as error:  # for example if numba is not available, or its cache folder is not writable
        log.warning("Steps of generation are not compiled: %s", error)
        return None


def _import() -> ModuleType:
    import numba

    numba.config.CACHE_DIR = os.environ[loops_folder.VARIABLE]  # numba may have been imported before
    from model.kernels import compiled

    return compiled


def _filled() -> Path:
    """Return a folder with the compiled loops: that in the cache, or a private temporary one if the cache cannot be
    used.

    If they cannot be compiled in either, the folder is empty, and this process compiles them when it imports them.
    """
    place = loops_folder.folder()
    if loops_folder.trusted(place):
        try:
            _compile(place)
            return place
        except (OSError, subprocess.SubprocessError) as error:
            log.warning("The compiled loops cannot be kept in %s: %s", place, _reason(error))
    place = loops_folder.temporary()
    log.warning("They are compiled for this run alone, which takes about a minute of processor time at each start.")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        _compile(place)
    return place


def _reason(error: Exception) -> str:
    """Return the last line of a failed process's error output, or the error itself."""
    lines = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else str(error)


def _compile(place: Path) -> None:
    """Compile the loops in a separate process unless this has been done.
    Raises OSError or SubprocessError on failure.
    """
    from filelock import FileLock  # imported late, since an app imports this module before serving its page

    make_private(place)
    if loops_folder.is_complete(place):
        return
    with FileLock(place / "lock", timeout=_LONGEST):
        if loops_folder.is_complete(place):
            return
        loops_folder.clear(place)
        subprocess.run(
            [sys.executable, "-c", f"import {__package__}.compiled"],
            cwd=IMPORTED_FROM,
            env={**os.environ, loops_folder.VARIABLE: str(place)},
            umask=0o077,
            check=True,
            capture_output=True,
            timeout=_LONGEST,
        )
        loops_folder.seal(place)


@contextlib.contextmanager
def _short_turns() -> Iterator[None]:
    """Shorten the thread switch interval, since loading the loops takes a second and would delay every call of other
    threads.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def now() -> ModuleType | None:
    """Wait for `model.kernels.compiled` and return it; None if this machine cannot compile it."""
    _thread().join()
    return _load()


def soon() -> ModuleType | None:
    """Return `model.kernels.compiled` without waiting; None if it is not loaded yet or cannot be compiled."""
    return None if _thread().is_alive() else _load()


def never() -> bool:
    """Return whether it is already known that this machine cannot compile the loops."""
    return not _thread().is_alive() and _load() is None


@contextlib.contextmanager
def threads() -> Iterator[int]:
    """Limit the compiled loops to torch's number of threads, and yield it."""
    import numba

    count = min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)
    numba.set_num_threads(count)
    with _ONE_AT_A_TIME:  # not all threading layers of numba support calls from two threads
        yield count
