"""Folders for code and weights that only their owner can change."""

import contextlib
import os
import stat
from pathlib import Path

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, accessible only to their owner (0700). Raises OSError on failure.

    An existing folder keeps its mode.
    """
    missing = []
    for each in (folder, *folder.parents):
        if each.exists():
            break
        missing.append(each)
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder")


def distrust(path: Path, root: Path) -> str | None:
    """Return the reason why other users could have written a file or folder, or None if they could not.

    `path` lies in `root`. Both, all folders between them, and the contents of a folder `path` must belong to this user
    or to the administrator and not be writable by other users. A folder above `root` must not let all users rename its
    contents: it may be writable by all only with the sticky bit, as /tmp is. A path that does not exist is trusted.
    Systems without file owners (Windows) are not checked.
    """
    if not hasattr(os, "getuid"):
        return None
    path, root = path.resolve(), root.resolve()
    for each in root.parents:
        with contextlib.suppress(OSError):
            if each.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
                return f"everybody can write to {each}"
    between = [above for above in reversed(path.parents) if above.is_relative_to(root) and above != root]
    for each in (root, *between, path, *(sorted(path.rglob("*")) if path.is_dir() else [])):
        with contextlib.suppress(OSError):
            status = each.lstat()
            if status.st_uid not in (0, os.getuid()):
                return f"{each} belongs to another user"
            if status.st_mode & OTHERS_WRITE and not stat.S_ISLNK(status.st_mode):
                return f"others can write to {each}"
    return None
