"""The fastest products, stored between starts in one file for each machine and version of torch."""

import contextlib
import hashlib
import json
import os
import platform
import uuid
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from model.kernels.products import PRODUCTS, ROW_CLASSES
from model.private_folder import make_private

Choices = dict[tuple[int, int], tuple[str, ...]]  # (out, in) -> one name of PRODUCTS per row class


def file_in(folder: Path, of: str = "products") -> Path:
    """Return the file for this machine. Its name is a hash of everything that determines which product is fastest.

    That is the CPU, the number of threads, how they wait between two products, the versions of torch and numpy, and the
    candidates.
    """
    waiting = [os.environ.get(name, "") for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")]
    machine = [cpu(), torch.get_num_threads(), *waiting, torch.__version__, np.__version__, *PRODUCTS, *ROW_CLASSES]
    return folder / f"{of}-{hashlib.sha256(json.dumps(machine).encode()).hexdigest()[:12]}.json"


def cpu() -> str:
    """Return the processor's name and its instruction set as reported by torch."""
    name = platform.processor()
    with contextlib.suppress(OSError):  # on Linux, platform.processor returns only the architecture
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    return f"{name} {torch.backends.cpu.get_cpu_capability()}"


def read(path: Path) -> Choices:
    """Return the stored choices; empty if there is no valid file written by `write`."""
    try:
        return {tuple(map(int, shape.split("x"))): _names(names) for shape, names in entries(path).items()}
    except (ValueError, TypeError):
        return {}


def entries(path: Path) -> dict[str, object]:
    """Return a file's entries by name; empty if there is no valid file written by `write_entries`."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _names(names: list[str]) -> tuple[str, ...]:
    if len(names) != len(ROW_CLASSES) or not set(names) <= set(PRODUCTS):
        raise ValueError("not the products there are")
    return tuple(names)


def write(path: Path, choices: Mapping[tuple[int, int], tuple[str, ...]]) -> None:
    """Store the choices. If they cannot be written, they are measured again next time."""
    write_entries(path, {f"{d_out}x{d_in}": names for (d_out, d_in), names in sorted(choices.items())})


def write_entries(path: Path, named: Mapping[str, object]) -> None:
    """Replace a file's entries, or do nothing if it cannot be written."""
    text = json.dumps(named, indent=0)
    partial = path.with_suffix(f".{uuid.uuid4().hex}.part")
    with contextlib.suppress(OSError):
        try:
            make_private(path.parent)
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
