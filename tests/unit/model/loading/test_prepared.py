"""What loading made of a file is the same when it is read back, and is made again wherever it is not as it was."""

import json
import os
import shutil
import time
from collections import namedtuple
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from model.downloads import CACHE_VARIABLE
from model.errors import CheckpointError
from model.gpt.decode_step import weights_of
from model.gpt.transformer import Transformer
from model.kernels.coded import Coded, Codes, digest, in_strips
from model.loading import prepared
from model.loading.checkpoint import build, load_folder
from model.text.tokenizer import Tokenizer, from_folder
from tests.support.models.small_models import LLAMA, TEXT, save_tiny


class Source:
    """A file, and a model that loading it gives; `made` counts the loads."""

    def __init__(self, folder: Path) -> None:
        self.path, self.made = folder / "a model[1].gguf", 0
        self.folder = save_tiny(folder / "weights", **LLAMA, n_layer=2, n_kv_head=1, q_bias=True).path
        self.path.write_bytes(b"what the weights were made of")

    def make(self) -> tuple[Transformer, Tokenizer]:
        self.made += 1
        return build(*load_folder(self.folder)), from_folder(self.folder)

    def opened(self) -> prepared.Opened:
        return prepared.opened(self.path, self.make)

    @property
    def kept(self) -> Path:
        return prepared.kept_at(self.path)

    @property
    def seal(self) -> Path:
        return self.kept.with_name(f"{self.kept.name}.checked")


@pytest.fixture
def source(tmp_path, monkeypatch) -> Source:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(prepared, "LEAST", 0)
    monkeypatch.setattr(prepared, "codes_of", lambda path, model: Codes(digest(weights_of(model)), lambda: STRIPS))
    return Source(tmp_path)


STRIPS = {
    name: in_strips(
        Coded(np.full((out, 32), n, np.int8), np.ones((out, 2), np.float32), np.zeros((out, 2), np.float32))
    )
    for n, (name, out) in enumerate({"head": 96, "0.qkv": 160}.items())
}


def same(found: Sequence, wanted: Sequence) -> None:
    """The same weights, bit by bit, the same config, vocabulary, and codes where both may have any."""
    (model, vocabulary, *codes), (other, words, *others) = found, wanted
    assert type(model) is type(other) and type(vocabulary) is type(words)
    assert model.config == other.config and model.training is False
    state, whole = model.state_dict(), other.state_dict()
    assert state.keys() == whole.keys() and all(torch.equal(state[name], whole[name]) for name in whole)
    assert vocabulary.vocabulary.__dict__ == words.vocabulary.__dict__
    assert vocabulary.encode_ids(TEXT) == words.encode_ids(TEXT)
    for mine, theirs in zip(codes, others, strict=False):
        assert mine.digest == theirs.digest == digest(weights_of(model))
        strips, more = mine.strips(), theirs.strips()
        assert strips.keys() == more.keys() != set()
        for name, parts in strips.items():
            for a, b in zip(parts, more[name], strict=True):
                assert a.dtype == b.dtype and np.array_equal(a, b) and a.flags.c_contiguous


def test_what_is_read_back_is_the_same_and_maps_the_file(source, monkeypatch):
    first = source.opened()
    monkeypatch.setattr(prepared, "_sha256", pytest.fail)  # files that are as they were are not read for it
    again = source.opened()
    assert source.made == 1
    same(again, first)
    same(again, source.make())
    model, *_ = again
    assert model.unembed.weight is model.embed.weight
    places = {part: part.parts()[0].weight.data_ptr() for block in model.blocks for part in (block.attn, block.mlp)}
    model.join()  # of weights that lie side by side, as they were written: nothing is copied
    for part, before in places.items():
        assert part.joint[0].weight.data_ptr() == part.parts()[0].weight.data_ptr() == before
    maps = Path("/proc/self/maps")  # of Linux
    assert not maps.exists() or source.kept.name in maps.read_text()


@pytest.mark.parametrize("wrong", ["none", "they cannot be read"])
def test_without_codes_all_else_is_kept(source, monkeypatch, wrong):
    def changed():
        raise CheckpointError("The file was changed.", "", "")

    monkeypatch.setattr(prepared, "codes_of", lambda *_: None if wrong == "none" else Codes("", changed))
    first, again = source.opened(), source.opened()
    assert source.made == 1 and again[2] is None
    same(again[:2], first[:2])


def flipped(source: Source) -> None:
    """One bit of the last weight, later than one tick of the clock by which files are dated."""
    time.sleep(0.02)
    with source.kept.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))


def rewritten(source: Source, content: bytes) -> None:
    """Another content under a seal that fits."""
    source.kept.write_bytes(content)
    status = source.kept.stat()
    seal = json.loads(source.seal.read_text()) | {"kept": [status.st_size, status.st_mtime_ns]}
    source.seal.write_text(json.dumps(seal))


DAMAGE = {
    "a bit": flipped,
    "cut short": lambda source: os.truncate(source.kept, source.kept.stat().st_size // 2),
    "cut short, its seal fits": lambda source: rewritten(source, source.kept.read_bytes()[:-64]),
    "no safetensors, its seal fits": lambda source: rewritten(source, b"\x08" + bytes(40)),
    "gone": lambda source: source.kept.unlink(),
    "its seal": lambda source: source.seal.write_text("[1]"),
    "no seal": lambda source: source.seal.unlink(),
    "the file it was made of": lambda source: source.path.write_bytes(b"what other weights are made of"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_is_damaged_or_of_another_file_is_made_again(source, what):
    wanted = source.opened()
    DAMAGE[what](source)
    same(source.opened(), wanted)
    same(source.opened(), wanted)
    assert source.made == 2


def test_a_file_that_was_only_touched_is_known_by_its_content(source):
    source.opened()
    os.utime(source.path)
    source.opened()
    assert source.made == 1


def test_other_code_makes_it_again_and_removes_what_was_kept(source, monkeypatch):
    source.opened()
    old = source.kept
    monkeypatch.setattr(prepared, "_version", lambda: "another")
    source.opened()
    assert source.made == 2 and source.kept.is_file()
    assert not old.exists() and sorted(source.kept.parent.iterdir()) == [source.kept, source.seal]


def test_a_full_disk_or_one_that_cannot_be_written_to_costs_time_only(source, monkeypatch):
    wanted = source.make()
    Usage = namedtuple("Usage", "total used free")
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda path: Usage(1, 1, 0))
        same(source.opened(), wanted)

    def refuse(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as late:
        late.setattr(prepared, "save_file", refuse)
        same(source.opened(), wanted)
    assert list(source.kept.parent.iterdir()) == []
    with monkeypatch.context() as closed:
        closed.setenv(CACHE_VARIABLE, "/dev/null/cache")
        same(source.opened(), wanted)


def test_weights_that_others_could_have_written_are_not_read(source, caplog):
    wanted = source.opened()
    source.kept.parent.chmod(0o777)
    same(source.opened(), wanted)
    assert source.made == 2, "though size and time are as they were"
    assert f"others can write to {source.kept.parent}" in caplog.text
    source.kept.parent.chmod(0o700)
    source.seal.chmod(0o666)
    source.opened()
    assert source.made == 3


def test_small_files_are_not_kept(source, monkeypatch):
    monkeypatch.setattr(prepared, "LEAST", 1 << 30)
    source.opened()
    assert not source.kept.parent.exists()
