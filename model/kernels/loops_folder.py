"""The folder of the loops compiled by numba: one for each CPU, version and source, verified before it is used.

numba's cache files are pickles, and loading a pickle can execute code. They are used only if no other user could have
written them, and if they are unchanged since they were compiled.
"""

import atexit
import hashlib
import json
import logging
import shutil
import sys
import tempfile
from importlib.metadata import version
from os import environ
from pathlib import Path

from model.downloads import cache_dir
from model.kernels.remembered import cpu
from model.private_folder import distrust

SOURCES = [Path(__file__).with_name(name) for name in ("compiled.py", "row_sums.py", "strips.py")]
VARIABLE = "NUMBA_CACHE_DIR"
_PREFIX = "loops-"

log = logging.getLogger(__name__)


def folder() -> Path:
    """Return the folder of the loops for this source and CPU, in NUMBA_CACHE_DIR or otherwise in the app's cache."""
    own = Path(environ[VARIABLE]) if environ.get(VARIABLE) else None
    if own and own.name.startswith(_PREFIX):  # set by the parent process
        return own
    parts = [
        cpu(),
        sys.version,
        version("numba"),
        version("llvmlite"),
        str(SOURCES[0].absolute()),  # numba's cache files depend on the source path, before links are followed
        *(source.read_text(encoding="utf-8") for source in SOURCES),
    ]
    return (own or cache_dir()) / f"{_PREFIX}{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


def trusted(place: Path) -> bool:
    """Return whether only this user can write to a folder of loops. If not, log a warning with the reason."""
    reason = distrust(place, place.parent)
    if reason:
        log.warning("The compiled loops in %s are not used: %s.", place, reason)
    return reason is None


def temporary() -> Path:
    """Create a private folder that is removed when this process exits. Raises OSError on failure."""
    place = Path(tempfile.mkdtemp(prefix=_PREFIX))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def is_complete(place: Path) -> bool:
    """Return whether a folder contains all loops as compiled. If one is damaged, log its name and delete them all.

    Loops older than their source count as incomplete, since numba would not load them.
    """
    try:
        record = json.loads((place / "done").read_text(encoding="utf-8"))
        stamps, files = record["sources"], record["files"]
    except (OSError, ValueError, TypeError, KeyError):
        return False
    if stamps != _stamps():
        return False
    for name, digest in files.items():
        if _digest(place / name) != digest:
            log.warning("The compiled loop %s is damaged: all are deleted and compiled again.", place / name)
            clear(place)
            return False
    return True


def seal(place: Path) -> None:
    """Record the loops present in a folder. Raises OSError if the record cannot be written."""
    files = {str(path.relative_to(place)): _digest(path) for path in _loops(place)}
    (place / "done").write_text(json.dumps({"sources": _stamps(), "files": files}), encoding="utf-8")


def clear(place: Path) -> None:
    """Delete the loops in a folder. Raises OSError on failure."""
    (place / "done").unlink(missing_ok=True)
    for path in _loops(place):
        path.unlink(missing_ok=True)


def _loops(place: Path) -> list[Path]:
    """Return the paths of numba's index and data files, sorted."""
    return sorted([*place.rglob("*.nbi"), *place.rglob("*.nbc")])


def _stamps() -> list[list[float]]:
    """Return the modification time and size of each source, by which numba identifies its files."""
    return [[status.st_mtime, status.st_size] for status in (source.stat() for source in SOURCES)]


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a file, or None if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
