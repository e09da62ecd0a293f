"""Byte-pair encoding step by step, on merges that can be followed by hand."""

import base64

import pytest

from model.api import load_model
from model.errors import InputError
from model.loading.tokenizer_comparison import BYTES, CHARACTERS, built_in, counted, cut, local_vocabularies
from model.text.bpe_ranks import ALPHABET
from model.text.bpe_steps import MOST_CHARACTERS, Merge, candidates, merges_of, replay, split
from model.text.tokenizer import from_gguf, from_tiktoken

RANKS = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"bc": 257, b"abc": 258, b"aa": 259}


def gguf(merges, pre="gpt-2", added=()):
    tokens = list(dict.fromkeys(["<|end|>", *added, *ALPHABET, *(merge.replace(" ", "") for merge in merges)]))
    types = [3 if token == "<|end|>" else 4 if token in added else 1 for token in tokens]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": list(merges),
        "tokenizer.ggml.token_type": types,
    }


def test_the_lowest_rank_first_and_the_left_one_of_equals():
    assert merges_of(RANKS, b"abcab") == (Merge(0, 256), Merge(2, 256), Merge(0, 258))  # ab c ab -> abc ab
    assert merges_of(RANKS, b"aaa") == (Merge(0, 259),)
    assert merges_of(RANKS, b"xyz") == merges_of(RANKS, b"") == ()


def test_candidates_are_what_could_be_merged():
    assert candidates(RANKS, [b"a", b"b", b"c", b"a", b"a"]) == [(256, 0), (257, 1), (259, 3)]
    assert candidates(RANKS, [b"x"]) == []


def test_parts_after_each_step():
    tokenizer = from_gguf(gguf(["a b", "ab c"]))
    (piece,) = replay(tokenizer, "abcab")
    assert [piece.parts(step) for step in range(4)] == [
        [b"a", b"b", b"c", b"a", b"b"],
        [b"ab", b"c", b"a", b"b"],
        [b"ab", b"c", b"ab"],
        [b"abc", b"ab"],
    ]
    assert list(piece.ids) == tokenizer.encode_ids("abcab")


def test_pieces_come_before_merges():
    tokenizer = from_gguf(gguf(["Ġ a", "a b"]))
    assert split(tokenizer, "ab ab, 12") == ["ab", " ab", ",", " 12"]
    pieces = replay(tokenizer, "ab ab, 12")
    assert [piece.text for piece in pieces] == ["ab", " ab", ",", " 12"]
    assert [len(piece.merges) for piece in pieces] == [1, 1, 0, 0]
    assert replay(tokenizer, "") == ()


def test_added_tokens_are_found_before_merges_and_special_ones_are_text():
    tokenizer = from_gguf(gguf(["a b"], added=("[code]",)))
    pieces = replay(tokenizer, "ab[code]<|end|>")
    assert [(piece.text, piece.added) for piece in pieces][:2] == [("ab", False), ("[code]", True)]
    assert not any(piece.added for piece in pieces[2:])
    assert [number for piece in pieces for number in piece.ids] == tokenizer.encode_ids("ab[code]<|end|>")


def test_a_whole_piece_may_be_a_token_that_no_merge_makes(tmp_path):
    """tiktoken looks a piece up before it merges: `xyz` has a rank, none of its pairs has."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"xyz"]
    file = tmp_path / "made.tiktoken"
    file.write_text("\n".join(f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(tokens)))
    tokenizer = from_tiktoken(file)
    (piece,) = replay(tokenizer, "xyz")
    assert piece.whole and piece.ids == (256,) and piece.merges == ()
    assert not any(piece.whole for piece in replay(tokenizer, "xyzz"))


def test_nfc_is_merged_as_it_was_normalized():
    tokenizer = from_gguf(gguf(["Ã ©"], pre="qwen2"))
    (piece,) = replay(tokenizer, "e\u0301")
    assert piece.raw == "é".encode() and len(piece.ids) == 1


def test_long_texts_are_refused():
    tokenizer = built_in("tinygpt")
    assert len(replay(tokenizer, "a" * MOST_CHARACTERS)) == 1
    with pytest.raises(InputError, match="too long to replay"):
        replay(tokenizer, "a" * (MOST_CHARACTERS + 1))


# --- counting ------------------------------------------------------------------------------------------------


def test_counts_by_hand():
    tokenizer = from_gguf(gguf(["a b"]))
    found = cut("x", tokenizer, "abé")  # ab, and the two bytes of é alone
    assert found.raw == (b"ab", b"\xc3", b"\xa9")
    numbers = counted(found)
    assert (numbers.tokens, numbers.bytes_per_token, numbers.characters_per_token) == (3, 4 / 3, 1.0)
    assert numbers.single == 0.5
    assert counted(cut(BYTES, None, "abé")).tokens == 4 and counted(cut(BYTES, None, "abé")).single == 0.5
    assert counted(cut(CHARACTERS, None, "abé")).tokens == 3 and counted(cut(CHARACTERS, None, "abé")).single == 0
    assert counted(cut("x", tokenizer, "")).tokens == 0


def test_a_lone_ascii_byte_has_not_fallen_back():
    assert counted(cut(BYTES, None, "abc")).single == 0


def test_built_in_vocabularies_are_those_of_their_models():
    assert "tinygpt" in local_vocabularies()
    text = "Once upon a time, 人 🎉"
    assert built_in("tinygpt").encode_ids(text) == load_model("tinygpt").tokenizer.encode_ids(text)
