"""The compiled loops are waited for by those who ask for it, and where there are none, torch computes."""

import threading

import pytest
from filelock import FileLock

from model.kernels import ready


@pytest.fixture
def fresh(monkeypatch):
    """A process that has not asked for them yet; `soon` is its own, which does not wait."""
    for kept in (ready._thread, ready._load):
        kept.cache_clear()
    yield
    for kept in (ready._thread, ready._load):
        kept.cache_clear()


def test_who_does_not_wait_has_nothing_until_all_is_compiled(fresh, monkeypatch, own_soon):
    may, real = threading.Event(), ready._import

    def slowly():
        may.wait(60)
        return real()

    monkeypatch.setattr(ready, "_import", slowly)
    assert own_soon() is None and own_soon() is None and not ready.never()
    may.set()
    assert ready.now().product is not None
    assert own_soon() is ready.now() and not ready.never()


def test_one_process_compiles_and_others_wait_for_it_but_not_for_ever(fresh, monkeypatch, tmp_path, own_soon):
    monkeypatch.setattr(ready, "_LOCK", tmp_path / "lock")
    with FileLock(tmp_path / "lock"):
        assert own_soon() is None
        ready._thread().join(0.3)
        assert own_soon() is None and not ready.never()
    assert ready.now() is not None
    for kept in (ready._thread, ready._load):
        kept.cache_clear()
    monkeypatch.setattr(ready, "_LONGEST", 0.1)
    with FileLock(tmp_path / "lock"):
        assert ready.now() is not None, "the other one hangs"
    monkeypatch.setattr(ready, "_LOCK", tmp_path / "no" / "such" / "folder")
    assert ready._import() is ready.now(), "no lock can be had"


def test_a_machine_without_a_compiler_is_told_once(fresh, monkeypatch, caplog, own_soon):
    def fails():
        raise ImportError("no numba here")

    monkeypatch.setattr(ready, "_import", fails)
    assert ready.now() is None and own_soon() is None and ready.never()
    assert [record.getMessage() for record in caplog.records] == ["Steps of generation are not compiled: no numba here"]


def test_threads_are_torch_s(monkeypatch):
    import numba

    monkeypatch.setattr(ready.torch, "get_num_threads", lambda: 1)
    with ready.threads() as count:
        assert count == 1 == numba.get_num_threads()
    monkeypatch.setattr(ready.torch, "get_num_threads", lambda: 10_000)
    with ready.threads() as count:
        assert count == numba.config.NUMBA_NUM_THREADS == numba.get_num_threads()
