"""The tokenizer on vocabularies small enough to merge by hand, and on files that are broken."""

import base64
import time

import numpy as np
import pytest

from model.errors import CheckpointError, InputError, UnsupportedModel
from model.text import tokenizer as module
from model.text.bpe_ranks import ALPHABET, bytes_of, merge_ranks
from model.text.tokenizer import from_folder, from_gguf, from_tiktoken, from_tokenizer_json, from_vocab_merges
from tests.support.models.small_vocabulary import BYTE_LEVEL, MERGES, small_gguf, small_json, small_vocab, write


@pytest.fixture
def small(tmp_path):
    return from_tokenizer_json(write(tmp_path / "tokenizer.json", small_json()))


def test_alphabet_is_gpt2s():
    assert len(ALPHABET) == 256 and sorted(ALPHABET.values()) == list(range(256))
    assert (ALPHABET["Ġ"], ALPHABET["Ċ"], ALPHABET["!"], ALPHABET["ÿ"]) == (32, 10, 33, 255)
    assert bytes_of("Ġhé") == b" h\xe9"


def test_merges_follow_the_list_not_the_ids(small):
    """hello: he, ll, hell, hello. Its id is 4 (MERGES[3] counted from the end, after <|end|>)."""
    tokens = small.encode("hello wow")
    vocab = small_vocab()
    assert tokens.ids.tolist() == [4, vocab["Ġw"], vocab["o"], vocab["w"]]
    assert tokens.pieces == ("hello", " w", "o", "w")
    assert tokens.spans.tolist() == [[0, 5], [5, 7], [7, 8], [8, 9]]
    assert tokens.ids.dtype == np.int64 and tokens.spans.dtype == np.int64


def test_half_a_character_is_shown_as_its_bytes(small):
    """U+2581 is e2 96 81, and the merges make e2 96 one token; a lone 0x81 is no UTF-8 either."""
    tokens = small.encode("▁")
    assert tokens.pieces == ("<0xE2><0x96>", "<0x81>")
    assert tokens.raw == (b"\xe2\x96", b"\x81")
    assert small.decode(tokens.ids) == "▁"
    assert small.decode(tokens.ids[:1]) == "\ufffd"
    assert small.decode_bytes(tokens.ids[:1]) == b"\xe2\x96"


def test_special_tokens_only_on_request(small):
    assert small.special == {"<|end|>": 0}
    assert (small.bos_id, small.eos_id, small.add_bos) == (0, 0, False)
    plain, special = small.encode("he<|end|>he"), small.encode("he<|end|>he", special=True)
    he = small_vocab()["he"]
    assert special.ids.tolist() == [he, 0, he]
    assert special.spans.tolist() == [[0, 2], [2, 9], [9, 11]]
    assert 0 not in plain.ids and b"".join(plain.raw) == b"he<|end|>he"
    assert small.decode([0]) == "<|end|>"


def test_empty_text(small):
    tokens = small.encode("")
    assert len(tokens) == 0 and tokens.spans.shape == (0, 2) and tokens.ids.shape == (0,)
    assert small.decode([]) == ""


def test_ids_the_vocabulary_lacks(small):
    assert small.vocab_size == 256 + len(MERGES) + 1
    assert small.piece(small.vocab_size) == f"<unused {small.vocab_size}>"
    assert small.piece(0) == "<|end|>"
    for ids in ([small.vocab_size], [-1], [3, 10**12]):
        with pytest.raises(InputError, match=str(ids[-1])):
            small.tokens(ids)
    with pytest.raises(InputError):
        small.piece(-1)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc00\ud800"])
def test_surrogates_are_refused(small, text):
    with pytest.raises(InputError, match="surrogate"):
        small.encode(text)


def test_long_runs(small):
    """The engine panics at a million whitespace characters; below our limit it must work, above be refused."""
    start = time.perf_counter()
    # the first 99,999 spaces are one piece: 49,999 pairs and one; then the last space and x
    assert len(small.encode(" " * 100_000 + "x")) == 50_002
    assert b"".join(small.encode("l" * 1_000_000).raw) == b"l" * 1_000_000
    with pytest.raises(InputError, match="whitespace"):
        small.encode("he" + " " * 1_200_000)
    assert time.perf_counter() - start < 30


def test_a_panic_becomes_an_input_error(small, monkeypatch):
    monkeypatch.setattr(module, "MAX_WHITESPACE_RUN", 10**9)
    with pytest.raises(InputError, match="cannot split"):
        small.encode("\n " * 600_000)


def test_a_byte_without_token_is_refused_by_name(tmp_path):
    content = small_json()
    byte = next(char for char, value in ALPHABET.items() if value == 4)
    vocab = content["model"]["vocab"]
    last = max(vocab, key=vocab.get)
    vocab[last] = vocab.pop(byte)  # keep the ids without a gap
    tokenizer = from_tokenizer_json(write(tmp_path / "tokenizer.json", content))
    with pytest.raises(InputError, match=r"U\+0004"):
        tokenizer.encode("he\x04llo")
    assert tokenizer.encode("hello").ids.tolist() == [4]


def test_a_pattern_with_holes_is_refused(tmp_path):
    content = small_json()
    content["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "[a-z]+"}, "behavior": "Isolated", "invert": False},
            BYTE_LEVEL | {"use_regex": False},
        ],
    }
    tokenizer = from_tokenizer_json(write(tmp_path / "tokenizer.json", content))
    assert tokenizer.encode("hello").ids.tolist() == [4]
    for text in ("hello you", "!"):
        with pytest.raises(UnsupportedModel, match="skips part"):
            tokenizer.encode(text)


def test_ranks_leave_out_what_no_named_pair_reaches():
    """bc merges before ab, so abc is always a + bc: the pair (ab, c) never stands alone and abc is never made."""
    tokens = [*ALPHABET, "ab", "bc", "abc"]
    assert "abc" not in merge_ranks(tokens, [("b", "c"), ("a", "b"), ("ab", "c")])
    assert merge_ranks(tokens, [("a", "b"), ("b", "c"), ("ab", "c")])["abc"] == 258
    # with equal ranks the left pair was first: aaa is aa + a, never a + aa
    assert "aaa" not in merge_ranks([*ALPHABET, "aa", "aaa"], [("a", "a"), ("a", "aa")])
    assert "aaa" in merge_ranks([*ALPHABET, "aa", "aaa"], [("a", "a"), ("aa", "a")])


def test_whole_pieces():
    """abc is looked up whole: allowed if no merge leads to it, refused where a + bc would also make it."""
    assert merge_ranks([*ALPHABET, "abc"], [], ["abc"])["abc"] == 256
    with pytest.raises(UnsupportedModel, match="abc"):
        merge_ranks([*ALPHABET, "bc", "abc"], [("b", "c")], ["bc", "abc"])


def test_merges_before_their_parts():
    """abb: bb comes first, so a + bb makes it, late; then aabb = a + abb follows at once, though listed earlier."""
    merges = [("b", "b"), ("a", "abb"), ("a", "bb")]
    ranks = merge_ranks([*ALPHABET, "bb", "abb", "aabb"], merges)
    assert [ranks[token] for token in ("bb", "aabb", "abb")] == [256, 257, 258]


def test_out_of_order_lists_leave_out_what_is_never_made():
    """With bc merged first, aabbc ends as a, a, b, bc: its pair (aabb, c) is named and never met."""
    merges = [("b", "c"), ("b", "b"), ("a", "abb"), ("a", "bb"), ("aabb", "c")]
    ranks = merge_ranks([*ALPHABET, "bc", "bb", "abb", "aabb", "aabbc"], merges)
    assert "aabb" in ranks and "aabbc" not in ranks


def test_a_repeated_merge_is_refused():
    with pytest.raises(CheckpointError, match="twice"):
        merge_ranks([*ALPHABET, "ab"], [("a", "b"), ("a", "b")])


def test_gpt2_files_and_folder(tmp_path, small):
    vocab = write(tmp_path / "vocab.json", small_vocab())
    merges = write(tmp_path / "merges.txt", "#version: 0.2\n" + "\n".join(MERGES) + "\n")
    text = "hello  ▁ <|end|>"
    for tokenizer in (from_vocab_merges(vocab, merges), from_gguf(small_gguf())):
        assert tokenizer.special == {"<|end|>": 0} and tokenizer.eos_id == 0
        for special in (False, True):
            assert (tokenizer.encode(text, special=special).ids == small.encode(text, special=special).ids).all()
    (tmp_path / "tokenizer.json").unlink()
    assert from_folder(tmp_path).encode("hello").ids.tolist() == [4]
    write(tmp_path / "tokenizer_config.json", {"tokenizer_class": "RwkvTokenizer"})
    with pytest.raises(UnsupportedModel, match="RwkvTokenizer"):
        from_folder(tmp_path)
    vocab.unlink()
    with pytest.raises(CheckpointError, match="no vocabulary"):
        from_folder(tmp_path)


def test_a_merge_may_begin_with_a_number_sign(tmp_path):
    vocab = {token: n for n, token in enumerate([*ALPHABET, "##"])}
    files = write(tmp_path / "vocab.json", vocab), write(tmp_path / "merges.txt", "# #\n")
    assert from_vocab_merges(*files).encode("##").ids.tolist() == [256]


def test_tiktoken_file(tmp_path):
    tokens = [bytes([byte]) for byte in range(256)] + [b"he", b"ll", b"hell"]
    lines = [f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(tokens)]
    path = write(tmp_path / "small.tiktoken", "\n".join(lines) + "\n")
    tokenizer = from_tiktoken(path, special={"<s>": 300})
    assert tokenizer.encode("hello<s>", special=True).ids.tolist() == [258, 111, 300]
    assert tokenizer.vocab_size == 301 and tokenizer.piece(299) == "<unused 299>"
    with pytest.raises(InputError):
        tokenizer.tokens([299])
    assert from_folder(tmp_path).encode("he").ids.tolist() == [256]
    gap, twice, no_byte = lines[:-2] + lines[-1:], lines + lines[-1:], lines[1:]
    for broken in (gap, twice, no_byte, [*lines, "!! 259"], [*lines, "aGVsbG8= x"], []):
        write(path, "\n".join(broken))
        with pytest.raises(CheckpointError):
            from_tiktoken(path)
    write(path, "\n".join(lines))
    with pytest.raises(CheckpointError, match="clash"):
        from_tiktoken(path, special={"<s>": 256})


def test_config_and_template(tmp_path):
    content = small_json()
    content["added_tokens"].append({"id": 264, "content": "<|begin|>", "special": True, "normalized": False})
    content["post_processor"] = {
        "type": "Sequence",
        "processors": [
            {"type": "ByteLevel"},
            {
                "type": "TemplateProcessing",
                "single": [
                    {"SpecialToken": {"id": "<|begin|>", "type_id": 0}},
                    {"Sequence": {"id": "A", "type_id": 0}},
                ],
                "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [264], "tokens": ["<|begin|>"]}},
            },
        ],
    }
    write(tmp_path / "tokenizer.json", content)
    config = {"eos_token": {"content": "<|end|>"}, "chat_template": [{"name": "default", "template": "hi"}]}
    write(tmp_path / "tokenizer_config.json", config)
    tokenizer = from_folder(tmp_path)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.add_bos, tokenizer.chat_template) == (264, 0, True, "hi")
    assert tokenizer.encode("hello").ids.tolist() == [4]  # never adds BOS itself
    write(tmp_path / "tokenizer_config.json", {"eos_token": "<nowhere>"})
    with pytest.raises(CheckpointError, match="<nowhere>"):
        from_folder(tmp_path)
    single = content["post_processor"]["processors"][1]["single"]
    single.append(single[0])
    write(tmp_path / "tokenizer.json", content)
    with pytest.raises(CheckpointError, match="cannot read"):  # the library needs a template for pairs, too
        from_tokenizer_json(tmp_path / "tokenizer.json")
