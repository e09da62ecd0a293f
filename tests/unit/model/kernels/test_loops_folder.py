"""Compiled loops are read only as the process that compiled them left them."""

import os
import shutil
import subprocess
import sys

import pytest

from model import IMPORTED_FROM
from model.kernels import loops_folder, ready


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the loops of two sources, sealed."""
    sources = [tmp_path / "one.py", tmp_path / "two.py"]
    for source in sources:
        source.write_text("loops")
    monkeypatch.setattr(loops_folder, "SOURCES", sources)
    inside = tmp_path / "loops-1" / "kernels_1"
    inside.mkdir(parents=True)
    for name in ("a.nbi", "a.1.nbc", "b.nbi"):
        (inside / name).write_bytes(b"compiled")
    (inside.parent / "steps-1.json").write_text("{}")
    loops_folder.seal(inside.parent)
    return inside.parent


def test_another_source_or_cpu_has_another_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(loops_folder, "cache_dir", lambda: tmp_path)
    sources = [tmp_path / "one.py", tmp_path / "two.py"]
    monkeypatch.setattr(loops_folder, "SOURCES", sources)
    folders = []
    for texts, kind in (("aa", "one"), ("aa", "one"), ("ba", "one"), ("bb", "one"), ("bb", "two")):
        for source, text in zip(sources, texts, strict=True):
            source.write_text(text)
        monkeypatch.setattr(loops_folder, "cpu", lambda kind=kind: kind)
        folders.append(loops_folder.folder())
    assert folders[0] == folders[1] and len({*folders}) == 4
    assert all(folder.parent == tmp_path and folder.name.startswith("loops-") for folder in folders)
    (tmp_path / "linked").symlink_to(tmp_path)
    monkeypatch.setattr(loops_folder, "SOURCES", [tmp_path / "linked" / source.name for source in sources])
    assert loops_folder.folder() not in folders, "numba has other files for a path through a link"
    monkeypatch.setattr(loops_folder, "SOURCES", sources)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "own"))
    assert loops_folder.folder() == tmp_path / "own" / folders[-1].name
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folders[0]))
    assert loops_folder.folder() == folders[0], "a process started by one that has its folder"


def test_what_was_compiled_is_complete(place, caplog):
    assert loops_folder.is_complete(place) and not caplog.records


@pytest.mark.parametrize("damage", ["cut", "gone", "other bytes"])
def test_a_damaged_loop_is_named_and_all_are_deleted(place, caplog, damage):
    path = place / "kernels_1" / "a.1.nbc"
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"comp" if damage == "cut" else b"COMPILED")
    assert not loops_folder.is_complete(place)
    message = f"The compiled loop {path} is damaged: all are deleted and compiled again."
    assert [record.getMessage() for record in caplog.records] == [message]
    assert sorted(each.name for each in place.rglob("*") if each.is_file()) == ["steps-1.json"]


def test_loops_older_than_their_source_are_compiled_again(place, caplog):
    os.utime(loops_folder.SOURCES[0], (1, 1))
    assert not loops_folder.is_complete(place) and not caplog.records


@pytest.mark.parametrize("text", ["", "[1]", "null", '{"files": {}}'])
def test_a_record_that_cannot_be_read_is_none(place, text):
    (place / "done").write_text(text)
    assert not loops_folder.is_complete(place)


@pytest.mark.long
def test_a_cut_loop_does_not_stay(tmp_path):
    """Three processes on a new machine, which has what this one compiled; after the first, one file is cut short."""
    assert ready.now() is not None
    shutil.copytree(loops_folder.folder(), tmp_path / "cache" / loops_folder.folder().name)
    (tmp_path / "cache").chmod(0o700)
    code = "from model.kernels import ready; print(ready.now() is not None)"
    env = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    env["ATTENTION_PLAYGROUND_CACHE"] = str(tmp_path / "cache")
    errors = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=IMPORTED_FROM,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "True\n"
        errors.append(done.stderr)
        index = max(tmp_path.rglob("compiled.survey*.nbi"))
        if len(errors) == 1:
            os.truncate(index, index.stat().st_size // 2)
    assert index.name in errors[1] and "is damaged" in errors[1]
    assert errors[0] == errors[2] == "" and (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
