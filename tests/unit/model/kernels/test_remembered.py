"""What was fastest is kept for this machine only, and a file that is not in order is as none."""

import json

import pytest
import torch

from model.kernels import remembered
from model.kernels.products import ROW_CLASSES

NAMES = ("mv", *["F.linear"] * (len(ROW_CLASSES) - 1))


def test_what_is_written_is_read(tmp_path):
    path = remembered.file_in(tmp_path / "not" / "yet")
    remembered.write(path, {(3, 4): NAMES, (30, 40): NAMES})
    assert remembered.read(path) == {(3, 4): NAMES, (30, 40): NAMES}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"3": []}',
        '{"axb": []}',
        json.dumps({"3x4": NAMES[:-1]}),
        json.dumps({"3x4": ["other", *NAMES[1:]]}),
        json.dumps({"3x4": [[1], *NAMES[1:]]}),
        json.dumps({"3x4": None}),
        "\x00\udcff",
    ],
)
def test_a_file_that_is_not_in_order_is_as_none(text, tmp_path):
    path = tmp_path / "products.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert remembered.read(path) == {}


def test_no_file_and_no_place_to_write_are_no_errors(tmp_path):
    assert remembered.read(tmp_path / "none.json") == {}
    (tmp_path / "file").write_text("")
    remembered.write(tmp_path / "file" / "products.json", {(3, 4): NAMES})  # a file where a folder would have to be
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_another_machine_has_another_file(tmp_path, monkeypatch):
    here = remembered.file_in(tmp_path)
    assert remembered.file_in(tmp_path) == here
    others = set()
    for module, name, value in (
        (remembered, "cpu", lambda: "another"),
        (torch, "get_num_threads", lambda: 77),
        (torch, "__version__", "9.9"),
        (remembered, "PRODUCTS", {"F.linear": None}),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(module, name, value)
            others.add(remembered.file_in(tmp_path))
    monkeypatch.setenv("GOMP_SPINCOUNT", "12345")
    others.add(remembered.file_in(tmp_path))
    assert len(others) == 5 and here not in others


def test_the_cpu_has_a_name():
    assert len(remembered.cpu()) > 3 and torch.backends.cpu.get_cpu_capability() in remembered.cpu()
