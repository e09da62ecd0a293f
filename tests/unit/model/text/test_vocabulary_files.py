"""Files of vocabularies that are broken, unsupported, or of other kinds."""

import json

import pytest
from tokenizers import Tokenizer

from model.errors import CheckpointError, PlaygroundError, UnsupportedModel
from model.text.tokenizer import from_gguf, from_tokenizer_json
from model.text.vocabulary_files import json_vocabulary
from model.text.vocabulary_settings import VocabularySettings
from tests.support.models.small_vocabulary import BYTE_LEVEL, small_gguf, small_json, write


def break_vocab(**changes):
    def change(content):
        content["model"]["vocab"].update(changes)

    return change


def put(*keys, value):
    def change(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "error", "names"),
    [
        (break_vocab(extra=5), CheckpointError, "share an id"),
        (break_vocab(extra=999), CheckpointError, "999"),
        (break_vocab(extra=10**15), CheckpointError, "gaps"),
        (break_vocab(extra=-1), CheckpointError, "-1"),
        (break_vocab(extra="5"), CheckpointError, "whole numbers"),
        (break_vocab(**{"a" * 5000: 264}), CheckpointError, "implausibly"),
        (put("model", "vocab", value={}), CheckpointError, "empty"),
        (put("model", "vocab", value=[]), CheckpointError, "whole numbers"),
        (put("model", "merges", value=["h e", "q q"]), CheckpointError, "q q"),
        (put("model", "merges", value=["h"]), CheckpointError, "two tokens"),
        (put("model", "merges", value=[1]), CheckpointError, "two tokens"),
        (put("model", "merges", value=None), CheckpointError, "list"),
        (put("added_tokens", value=[{"id": 3, "content": "<|end|>"}]), CheckpointError, "two ids"),
        (put("added_tokens", value=[{"id": 264, "content": "\ud800"}]), CheckpointError, "Unicode"),
        (put("added_tokens", value=[{"id": "x"}]), CheckpointError, "added token"),
        (put("model", "type", value="Unigram"), CheckpointError, "cannot read"),
        (put("model", "type", value="Trie"), UnsupportedModel, "Trie"),
        (put("model", value=None), UnsupportedModel, "None"),
        (put("normalizer", value={"type": "Sort"}), CheckpointError, "cannot read"),
        (put("normalizer", value={"type": "Prepend", "prepend": "x" * 101}), UnsupportedModel, "Prepend"),
        (put("post_processor", value={"type": "BertProcessing"}), CheckpointError, "cannot read"),
    ],
)
def test_broken_and_unsupported_json(tmp_path, change, error, names):
    content = small_json()
    change(content)
    with pytest.raises(error) as caught:
        from_tokenizer_json(write(tmp_path / "tokenizer.json", content))
    assert names in str(caught.value) and caught.value.what


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (break_vocab(**{"▁the": 264}), "▁the"),
        (put("added_tokens", 0, "lstrip", value=True), "lstrip"),
        (put("model", "end_of_word_suffix", value="</w>"), "</w>"),
        (put("model", "byte_fallback", value=True), "byte_fallback"),
        (put("pre_tokenizer", value=None), "pre-tokenizer"),
        (put("pre_tokenizer", value={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}), "Metaspace"),
        (put("pre_tokenizer", value=BYTE_LEVEL | {"add_prefix_space": True}), "add_prefix_space"),
        (put("pre_tokenizer", value=BYTE_LEVEL | {"use_regex": False}), "use_regex"),
        (put("normalizer", value={"type": "Lowercase"}), "Lowercase"),
    ],
)
def test_what_tiktoken_cannot_express_is_left_to_the_library(tmp_path, change, names):
    content = small_json()
    change(content)
    with pytest.raises(UnsupportedModel) as caught:
        json_vocabulary(content, "small", VocabularySettings())
    assert names in str(caught.value)
    tokenizer = from_tokenizer_json(write(tmp_path / "tokenizer.json", content))
    for token in content["added_tokens"]:
        token.update({name: token.get(name, False) for name in ("single_word", "lstrip", "rstrip")})
    reference = Tokenizer.from_str(json.dumps(content))
    reference.encode_special_tokens = True
    for text in ("hello hello", " Hello", "<|end|> the"):
        assert tokenizer.encode_ids(text) == reference.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("text", ['{"model": {"type": "BPE", "vocab": {"a', "[]", "", "[" * 100_000, "1" * 10_000])
def test_files_that_are_no_json_object(tmp_path, text):
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        from_tokenizer_json(write(tmp_path / "tokenizer.json", text))
    with pytest.raises(CheckpointError):
        from_tokenizer_json(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("key", "value", "error", "names"),
    [
        ("model", "rwkv", UnsupportedModel, "rwkv"),
        ("model", None, CheckpointError, "no tokenizer"),
        ("pre", "nobody-s", UnsupportedModel, "nobody-s"),
        ("tokens", None, CheckpointError, "tokens"),
        ("tokens", [b"\xff"], CheckpointError, "UTF-8"),
        ("tokens", ["a", "a"], CheckpointError, "inconsistent"),
        ("token_type", [1], CheckpointError, "1 types"),
        ("merges", ["zz zz"], CheckpointError, "zz zz"),
        ("eos_token_id", 9999, CheckpointError, "9999"),
    ],
)
def test_broken_and_unsupported_gguf(key, value, error, names):
    with pytest.raises(error, match=names):
        from_gguf(small_gguf() | {f"tokenizer.ggml.{key}": value})


def test_gguf_kinds_of_token():
    """Bytes for strings; a control token only on request, a user-defined one always; an unflagged BOS is special."""
    metadata = small_gguf()
    tokens = [token.encode() for token in metadata["tokenizer.ggml.tokens"]] + [b"<tool>", b"<bos>"]
    tokenizer = from_gguf(
        metadata
        | {
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [*metadata["tokenizer.ggml.token_type"], 4, 1],
            "tokenizer.ggml.bos_token_id": 265,
            "tokenizer.ggml.add_bos_token": True,
            "tokenizer.ggml.pre": b"llama-bpe",
            "tokenizer.chat_template": "{{ messages }}",
        }
    )
    assert tokenizer.special == {"<|end|>": 0, "<bos>": 265}
    assert (tokenizer.add_bos, tokenizer.bos_id, tokenizer.chat_template) == (True, 265, "{{ messages }}")
    assert tokenizer.encode("<tool>").ids.tolist() == [264]
    assert tokenizer.encode("<bos>").ids.tolist()[0] != 265
    assert tokenizer.encode("<bos>", special=True).ids.tolist() == [265]


def test_nfc_spans_refer_to_the_normalized_text(tmp_path):
    """e + U+0301 is three bytes as typed and two, C3 A9, when composed."""
    tokenizer = from_tokenizer_json(write(tmp_path / "tokenizer.json", small_json() | {"normalizer": {"type": "NFC"}}))
    tokens = tokenizer.encode("e\u0301")
    assert b"".join(tokens.raw) == "é".encode() and tokens.spans[-1, 1] == 2


def test_added_tokens_meant_for_the_normalized_text(tmp_path):
    """An added token flagged normalized matches after NFC, another one only as typed."""
    content = small_json() | {"normalizer": {"type": "NFC"}}
    for normalized, expected in ((True, True), (False, False)):
        content["added_tokens"][1:] = [{"id": 264, "content": "é!", "special": False, "normalized": normalized}]
        tokenizer = from_tokenizer_json(write(tmp_path / "tokenizer.json", content))
        assert (264 in tokenizer.encode("e\u0301!").ids) == expected
        assert tokenizer.encode("é!").ids.tolist() == [264]


def test_nothing_but_our_errors_on_damaged_json(tmp_path):
    """Every truncation of a good file is refused as a checkpoint, never with a bare exception."""
    text = json.dumps(small_json())
    path = tmp_path / "tokenizer.json"
    for cut in range(0, len(text) - 1, 97):
        with pytest.raises(PlaygroundError):
            from_tokenizer_json(write(path, text[:cut]))
