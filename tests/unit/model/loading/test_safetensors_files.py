"""The safetensors reader: shards, and every way in which a folder can be wrong."""

import json
import struct

import pytest
import torch
from safetensors.torch import save_file

from model.errors import CheckpointError, UnsupportedModel
from model.loading.safetensors_files import INDEX, SINGLE, open_folder

W, B = torch.arange(6.0).reshape(2, 3), torch.tensor([7.0])


def index(folder, weight_map) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


@pytest.fixture
def shards(tmp_path):
    save_file({"w": W}, tmp_path / "model-1.safetensors")
    save_file({"b": B}, tmp_path / "model-2.safetensors")
    index(tmp_path, {"w": "model-1.safetensors", "b": "model-2.safetensors"})
    return tmp_path


def test_one_file(tmp_path):
    save_file({"w": W, "b": B}, tmp_path / SINGLE)
    folder = open_folder(tmp_path)
    assert set(folder.files) == {"w", "b"} and torch.equal(folder.read("w"), W)


def test_shards_are_one_folder(shards):
    folder = open_folder(shards)
    assert torch.equal(folder.read("w"), W) and torch.equal(folder.read("b"), B)


def test_what_was_read_survives_the_file(tmp_path):
    """A view of the mapped file would crash the process once the file is rewritten."""
    save_file({"w": W}, tmp_path / SINGLE)
    tensor = open_folder(tmp_path).read("w")
    (tmp_path / SINGLE).write_bytes(b"")
    assert torch.equal(tensor, W)
    tensor.zero_()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_floats_become_float32(tmp_path, dtype):
    save_file({"w": W.to(dtype)}, tmp_path / SINGLE)
    tensor = open_folder(tmp_path).read("w")
    assert tensor.dtype == torch.float32 and torch.equal(tensor, W)


def test_integers_are_refused_by_name(tmp_path):
    save_file({"packed": W.to(torch.int8)}, tmp_path / SINGLE)
    with pytest.raises(UnsupportedModel, match="packed"):
        open_folder(tmp_path).read("packed")


def header(length: int, content: bytes = b"") -> bytes:
    return struct.pack("<Q", length) + content


def entry(end: int, shape: list[int]) -> bytes:
    return json.dumps({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}).encode()


BROKEN = {
    "empty": b"",
    "seven bytes": b"\0" * 7,
    "absurd header": header((1 << 64) - 1, b"{}"),
    "header past the end": header(500, b"{}"),
    "header is not JSON": header(4, b"abcd"),
    "data past the end": header(len(entry(24, [2, 3])), entry(24, [2, 3])) + b"\0" * 8,
    "shape that is not its bytes": header(len(entry(24, [2, 4])), entry(24, [2, 4])) + b"\0" * 24,
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_named(case, tmp_path):
    (tmp_path / SINGLE).write_bytes(BROKEN[case])
    with pytest.raises(CheckpointError, match=SINGLE):
        open_folder(tmp_path)


def test_every_cut_of_a_file_is_seen(tmp_path):
    save_file({"w": W, "b": B}, tmp_path / SINGLE)
    whole = (tmp_path / SINGLE).read_bytes()
    for length in range(len(whole)):
        (tmp_path / SINGLE).write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            open_folder(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "../model-1.safetensors",
        "/etc/model-1.safetensors",
        "sub/model-1.safetensors",
        "..\\model-1.safetensors",
        "C:model-1.safetensors",
        ".safetensors",
        "model-1.bin",
        "model-1.safetensors\n",
        "",
    ],
)
def test_a_shard_outside_the_folder_is_refused(name, shards):
    index(shards, {"w": name, "b": "model-2.safetensors"})
    with pytest.raises(CheckpointError, match="outside its folder"):
        open_folder(shards)


def test_a_missing_shard_is_named(shards):
    (shards / "model-2.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"weights is missing.*model-2\.safetensors"):
        open_folder(shards)


@pytest.mark.parametrize(
    "weight_map",
    [
        {"w": "model-2.safetensors", "b": "model-2.safetensors"},
        {"w": "model-1.safetensors", "b": "model-2.safetensors", "w2": "model-2.safetensors"},
    ],
    ids=["in the other shard", "nowhere"],
)
def test_an_index_that_disagrees_with_its_shards(weight_map, shards):
    index(shards, weight_map)
    with pytest.raises(CheckpointError, match="w"):
        open_folder(shards)


def test_a_weight_the_index_does_not_list(shards):
    save_file({"b": B, "extra": B.clone()}, shards / "model-2.safetensors")
    with pytest.raises(CheckpointError, match="extra"):
        open_folder(shards)


def test_a_weight_in_two_shards(shards):
    save_file({"w": W, "b": B}, shards / "model-2.safetensors")
    with pytest.raises(CheckpointError, match=r"w in model-1\.safetensors and model-2\.safetensors"):
        open_folder(shards)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"weight_map": 3}',
        '{"weight_map": {}}',
        '{"weight_map": {"w": 1}}',
        "[" * 100_000,
        '{"weight_map": "\xff"}',
    ],
)
def test_an_index_that_is_none(content, shards):
    (shards / INDEX).write_text(content, encoding="latin-1")
    with pytest.raises(CheckpointError, match="index"):
        open_folder(shards)


def test_pickles_are_never_opened(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch hacked'\ntR.")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin.*never opened"):
        open_folder(tmp_path)


def test_an_empty_folder(tmp_path):
    with pytest.raises(CheckpointError, match=SINGLE):
        open_folder(tmp_path)


def test_shards_without_their_index_are_named(shards):
    (shards / INDEX).unlink()
    with pytest.raises(CheckpointError, match="without their index") as caught:
        open_folder(shards)
    assert INDEX in str(caught.value.hint)


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    (tmp_path / "model.safetensors").write_text(pointer)
    with pytest.raises(CheckpointError, match="pointer of Git LFS"):
        open_folder(tmp_path)
