"""Tokenizer files without a tokenizer.json: sentencepiece's model and vocab.txt, read by the `tokenizers` library."""

import json
import struct

import pytest

from model.errors import CheckpointError, UnsupportedModel
from model.loading.sources import Resolved
from model.loading.vocabulary_export import vocabulary_files, write_files
from model.text.library.pieces import BYTE, CONTROL, NORMAL, UNKNOWN, USER, content_of_pieces
from model.text.tokenizer import from_folder
from tests.support.models.small_vocabulary import small_json, small_vocab

BYTES = [f"<0x{n:02X}>" for n in range(256)]
PIECES = [
    ("<unk>", 0.0, UNKNOWN),
    ("<s>", 0.0, CONTROL),
    ("</s>", 0.0, CONTROL),
    *((each, 0.0, BYTE) for each in BYTES),
]
WORDS = ["▁t", "he", "▁the", "▁", "t", "h", "e", "c", "a", "ca"]
PIECES += [(text, -float(at), NORMAL) for at, text in enumerate(WORDS)]
BEGIN, END, FIRST = 1, 2, 259


def number(value: int) -> bytes:
    """Write a number of variable length."""
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def part(field: int, data: bytes) -> bytes:
    return number(field << 3 | 2) + number(len(data)) + data


def sentencepiece(kind: int, space_first: bool = True, one_space: bool = False, pieces=PIECES) -> bytes:
    """Write the file of a sentencepiece model (sentencepiece_model.proto)."""
    listed = b"".join(
        part(1, part(1, text.encode()) + number(2 << 3 | 5) + struct.pack("<f", score) + number(3 << 3) + number(type_))
        for text, score, type_ in pieces
    )
    trainer = part(2, number(3 << 3) + number(kind))
    normalizer = part(3, number(3 << 3) + number(space_first) + number(4 << 3) + number(one_space))
    return listed + trainer + normalizer


def folder(tmp_path, kind, config=None, **options):
    (tmp_path / "tokenizer.model").write_bytes(sentencepiece(kind, **options))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config or {"tokenizer_class": "LlamaTokenizer"}))
    return tmp_path


def test_a_bpe_of_sentencepiece_with_bytes_and_bos(tmp_path):
    tokenizer = from_folder(folder(tmp_path, 2))
    tokens = tokenizer.encode("the céa")
    assert tokens.pieces == (" the", " ", "c", "<0xC3>", "<0xA9>", "a")
    assert tokens.spans.tolist() == [[0, 3], [3, 4], [4, 5], [5, 6], [6, 7], [7, 8]]
    assert tokenizer.prompt_ids("the") == [BEGIN, FIRST + 2] and tokenizer.special["</s>"] == END
    assert tokenizer.typed(tokens.ids) == "the céa"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"tokenizer_class": "LlamaTokenizer", "add_bos_token": False}, []),
        ({"tokenizer_class": "LlamaTokenizer", "add_eos_token": True}, [BEGIN, END]),
        ({"tokenizer_class": "T5Tokenizer"}, [END]),
        ({"tokenizer_class": "GemmaTokenizer", "bos_token": "<s>"}, [BEGIN]),
    ],
)
def test_the_class_and_its_configuration_say_what_is_added(tmp_path, config, expected):
    ids = from_folder(folder(tmp_path, 2, config)).prompt_ids("the")
    assert [each for each in ids if each < 3] == expected and FIRST + 2 in ids


def test_a_unigram_takes_the_best_path_and_drops_spaces(tmp_path):
    tokenizer = from_folder(folder(tmp_path, 1, one_space=True))
    tokens = tokenizer.encode("  the   ca ")
    assert "".join(tokens.pieces) == " the ca"
    assert tokens.spans[0, 0] == 0 and tokens.spans[-1, 1] == 11
    assert BEGIN not in tokenizer.encode_ids("<s>")


def test_added_tokens_of_the_files_beside_it(tmp_path):
    config = {
        "tokenizer_class": "LlamaTokenizer",
        "added_tokens_decoder": {"269": {"content": "<tool>", "special": True}},
    }
    (folder(tmp_path, 2, config) / "added_tokens.json").write_text(json.dumps({"<more>": 270}))
    tokenizer = from_folder(tmp_path)
    assert tokenizer.special["<tool>"] == 269 and tokenizer.vocab_size == 271
    assert tokenizer.encode_ids("<more>")[-1] == 270 and 269 not in tokenizer.encode_ids("<tool>")


def test_the_files_of_a_sentencepiece_model_are_written_as_tokenizer_json(tmp_path):
    before = from_folder(folder(tmp_path, 2))
    written = tmp_path / "written"
    written.mkdir()
    write_files(written, vocabulary_files(Resolved("folder", str(tmp_path), tmp_path, "folder")))
    after = from_folder(written)
    assert (written / "tokenizer.json").is_file() and after.prompt_ids("the céa") == before.prompt_ids("the céa")


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", CheckpointError, "no pieces"),
        (b"\x0a\xff", CheckpointError, "not a sentencepiece model"),
        (b"not a model at all", CheckpointError, "not a sentencepiece model"),
        (sentencepiece(2)[:-9], CheckpointError, "sentencepiece"),
        (sentencepiece(3), UnsupportedModel, "model_type = 3"),
        (sentencepiece(2, pieces=[*PIECES, PIECES[-1]]), CheckpointError, "same token twice"),
    ],
)
def test_broken_sentencepiece_models(tmp_path, data, error, words):
    (tmp_path / "tokenizer.model").write_bytes(data)
    with pytest.raises(error, match=words):
        from_folder(tmp_path)


def test_word_pieces_of_a_vocab_txt(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "un", "##able", "##s", "cat", "!"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = from_folder(tmp_path)
    tokens = tokenizer.encode("Thé  unable cats!")
    assert tokens.pieces == (" the", " un", "able", " cat", "s", "!")
    assert tokens.spans.tolist() == [[0, 4], [4, 8], [8, 12], [12, 16], [16, 17], [17, 18]]
    assert tokenizer.prompt_ids("the") == [2, 4, 3] and 3 not in tokenizer.encode_ids("[SEP]")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert from_folder(tmp_path).encode_ids("The") == [1]


@pytest.mark.parametrize(("kind", "supported"), [("CodeGenTokenizer", True), ("Qwen2Tokenizer", True), ("X", False)])
def test_vocab_and_merges_of_other_classes(tmp_path, kind, supported):
    vocab = small_vocab()
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nh e\n")
    (tmp_path / "added_tokens.json").write_text(json.dumps({"  ": len(vocab)}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    if not supported:
        with pytest.raises(UnsupportedModel, match="class of tokenizers"):
            from_folder(tmp_path)
        return
    tokenizer = from_folder(tmp_path)
    assert tokenizer.library is None and tokenizer.encode_ids("a  b")[1] == len(vocab)
    assert ("  " in tokenizer.special) is False


def test_lists_of_other_lengths_are_refused():
    with pytest.raises(CheckpointError, match="1 scores"):
        content_of_pieces("bpe", ["a", "b"], scores=[0.0])
    added = content_of_pieces("bpe", ["a", "<tool>"], types=[NORMAL, USER])["added_tokens"]
    assert [(token["content"], token["special"]) for token in added] == [("<tool>", False)]


@pytest.mark.parametrize("kind", ["BPE", "Unigram"])
@pytest.mark.parametrize("in_vocab", [True, False])
def test_added_tokens_without_a_row_are_left_out(tmp_path, kind, in_vocab):
    content = small_json()
    rows = len(small_vocab())
    if kind == "Unigram":
        content["model"] = {"type": kind, "unk_id": 0, "vocab": [[text, -1.0] for text in small_vocab()]}
    image = {"id": rows, "content": "<image_soft_token>", "special": True, "normalized": False}
    content["added_tokens"].append(image)
    if in_vocab and kind == "BPE":
        content["model"]["vocab"][image["content"]] = rows
    elif in_vocab:
        content["model"]["vocab"].append([image["content"], 0.0])
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert from_folder(tmp_path).vocab_size == rows + 1
    tokenizer = from_folder(tmp_path, rows)
    assert tokenizer.vocab_size == rows
    assert max(tokenizer.prompt_ids("hello <image_soft_token>", special=True)) < rows
