"""The compiled loops, there once they are compiled: seconds on a new machine, then a moment, beside other work.

Compiling is work of Python's and would slow down every other thread of this process: one of its own does it, once for
this CPU and this source, and keeps what it made in the cache's folder.
"""

import contextlib
import functools
import hashlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import torch

from model.downloads import cache_dir
from model.kernels.remembered import cpu

_SOURCES = [Path(__file__).with_name(name) for name in ("compiled.py", "row_sums.py", "strips.py")]
_LONGEST = 600  # seconds that a process waits for the one that compiles
_TURN = 1e-4  # seconds after which a thread hands over while the loops are read, of Python's usual 5e-3
_ONE_AT_A_TIME = threading.Lock()


@functools.cache
def _thread() -> threading.Thread:
    """The thread that gets them, begun at the first call."""
    thread = threading.Thread(target=_load, daemon=True, name="compiling")
    thread.start()
    return thread


@functools.cache
def _load() -> ModuleType | None:
    try:
        with contextlib.suppress(OSError, subprocess.SubprocessError):  # else this process compiles
            _compile(folder())
        with _short_turns():
            return _import()
    except Exception as error:  # no numba for this machine
        logging.getLogger(__name__).warning("Steps of generation are not compiled: %s", error)
        return None


def _import() -> ModuleType:
    from model.kernels import compiled

    return compiled


def folder() -> Path:
    """Where numba keeps what it made of this source for this CPU."""
    told = [
        cpu(),
        sys.version,
        version("numba"),
        version("llvmlite"),
        *(source.read_text(encoding="utf-8") for source in _SOURCES),
    ]
    return cache_dir() / f"loops-{hashlib.sha256(repr(told).encode()).hexdigest()[:12]}"


def _compile(folder: Path) -> None:
    """Compile in a process of its own, unless one did; raises OSError or SubprocessError where that fails."""
    from filelock import FileLock  # late: an app imports this module before it serves its page

    os.environ.setdefault("NUMBA_CACHE_DIR", str(folder))  # read as numba is imported, there and here
    done = folder / "done"
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock", timeout=_LONGEST):
        if not done.exists():
            command = [sys.executable, "-c", "import model.kernels.compiled"]
            subprocess.run(command, cwd=_SOURCES[0].parents[2], check=True, capture_output=True, timeout=_LONGEST)
            done.touch()


@contextlib.contextmanager
def _short_turns() -> Iterator[None]:
    """Have threads take short turns: one that reads for a second would let the others wait at each of their calls."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


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
