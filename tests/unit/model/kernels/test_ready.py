"""The compiled loops are made once, waited for by those who ask for it, and where there are none, torch computes."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from model import IMPORTED_FROM
from model.kernels import loops_folder, ready

LOOPS = SimpleNamespace(product=print)  # what is imported here: the real ones are there already


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """A process that has not asked for them yet, on a machine that has not compiled them; commands that were run."""
    commands = []
    monkeypatch.setenv("NUMBA_CACHE_DIR", "elsewhere")
    monkeypatch.setattr(loops_folder, "folder", lambda: tmp_path / "loops")
    monkeypatch.setattr(ready, "_import", lambda: LOOPS)
    monkeypatch.setattr(ready.subprocess, "run", lambda command, **_: commands.append(command))
    again()
    yield commands
    again()


def again() -> None:
    for kept in (ready._thread, ready._load):
        kept.cache_clear()


def test_who_does_not_wait_has_nothing_until_all_is_compiled(fresh, monkeypatch, own_soon):
    may = threading.Event()
    monkeypatch.setattr(ready.subprocess, "run", lambda *_, **__: may.wait(60))
    assert own_soon() is None and own_soon() is None and not ready.never()
    may.set()
    assert ready.now() is LOOPS is own_soon() and not ready.never()


def test_a_process_of_its_own_compiles_once(fresh, tmp_path):
    assert ready.now() is LOOPS
    assert fresh == [[sys.executable, "-c", "import model.kernels.compiled"]]
    assert (tmp_path / "loops" / "done").exists()
    again()
    assert ready.now() is LOOPS and len(fresh) == 1


def test_several_processes_wait_for_one_but_not_for_ever(fresh, monkeypatch, tmp_path, own_soon):
    (tmp_path / "loops").mkdir()
    with FileLock(tmp_path / "loops" / "lock"):
        assert own_soon() is None
        ready._thread().join(0.3)
        assert own_soon() is None and not ready.never()
        loops_folder.seal(tmp_path / "loops")
    assert ready.now() is LOOPS and fresh == [], "the other one did it"
    again()
    (tmp_path / "loops" / "done").unlink()
    monkeypatch.setattr(ready, "_LONGEST", 0.1)
    with FileLock(tmp_path / "loops" / "lock"):
        assert ready.now() is LOOPS, "the other one hangs"


@pytest.mark.parametrize("error", [OSError("full"), subprocess.CalledProcessError(1, "python"), PermissionError()])
def test_where_that_fails_this_process_compiles(fresh, monkeypatch, tmp_path, error):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(ready.subprocess, "run", fails)
    assert ready.now() is LOOPS
    assert not (tmp_path / "loops" / "done").exists()


def test_a_machine_without_a_compiler_is_told_once(fresh, monkeypatch, caplog, own_soon):
    def fails():
        raise ImportError("no numba here")

    monkeypatch.setattr(ready, "_import", fails)
    assert ready.now() is None and own_soon() is None and ready.never()
    assert [record.getMessage() for record in caplog.records] == ["Steps of generation are not compiled: no numba here"]


def test_other_threads_have_their_turns_meanwhile(fresh, monkeypatch):
    usual, turns = sys.getswitchinterval(), []
    monkeypatch.setattr(ready, "_import", lambda: turns.append(sys.getswitchinterval()) or LOOPS)
    assert ready.now() is LOOPS
    assert turns == [pytest.approx(1e-4)] and sys.getswitchinterval() == usual


def test_a_folder_that_others_can_write_to_is_not_used(fresh, monkeypatch, tmp_path, caplog):
    place = tmp_path / "loops"
    place.mkdir()
    loops_folder.seal(place)
    place.chmod(0o777)
    assert ready.now() is LOOPS
    used = Path(os.environ["NUMBA_CACHE_DIR"])
    assert used != place and stat.S_IMODE(used.stat().st_mode) == 0o700 and len(fresh) == 1
    first, second = (record.getMessage() for record in caplog.records)
    assert first == f"The compiled loops in {place} are not used: others can write to {place}."
    assert second.startswith("They are compiled for this run alone")


def test_a_cache_that_is_a_file_is_told_and_a_private_folder_taken(fresh, monkeypatch, tmp_path, caplog):
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setattr(loops_folder, "folder", lambda: tmp_path / "cache" / "loops")
    assert ready.now() is LOOPS
    assert len(fresh) == 1 and (Path(os.environ["NUMBA_CACHE_DIR"]) / "done").exists()
    assert caplog.records[0].getMessage().startswith(f"The compiled loops cannot be kept in {tmp_path / 'cache'}")


def test_a_process_that_fails_is_quoted(fresh, monkeypatch, tmp_path, caplog):
    def fails(command, **_):
        raise subprocess.CalledProcessError(1, command, stderr=b"Traceback\nOSError: No space left on device\n")

    monkeypatch.setattr(ready.subprocess, "run", fails)
    assert ready.now() is LOOPS
    wanted = f"The compiled loops cannot be kept in {tmp_path / 'loops'}: OSError: No space left on device"
    assert caplog.records[0].getMessage() == wanted


@pytest.mark.long
def test_what_was_compiled_is_read_by_the_next_process():
    """The command itself, where these tests began on a new machine, and a second one, which finds nothing to do."""
    code = """if True:
        from model.kernels import loops_folder, ready
        ready.now()
        from model.kernels import compiled
        loops = [each for each in vars(compiled).values() if hasattr(each, "stats") and each.signatures]
        print(len(loops), sum(sum(each.stats.cache_misses.values()) for each in loops))
    """
    env = {key: value for key, value in ready.os.environ.items() if key != "NUMBA_CACHE_DIR"}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=IMPORTED_FROM,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        loops, misses = map(int, done.stdout.split())
        assert loops >= 6 and misses == 0, "all was compiled elsewhere"


def test_threads_are_torch_s(monkeypatch):
    import numba

    monkeypatch.setattr(ready.torch, "get_num_threads", lambda: 1)
    with ready.threads() as count:
        assert count == 1 == numba.get_num_threads()
    monkeypatch.setattr(ready.torch, "get_num_threads", lambda: 10_000)
    with ready.threads() as count:
        assert count == numba.config.NUMBA_NUM_THREADS == numba.get_num_threads()
