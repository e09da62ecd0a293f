"""The vocabularies of GPT-2, GPT-4 and GPT-4o: the published files byte for byte, tiktoken's ids, and hostile text."""

import base64
import hashlib
import inspect
import random
import re

import pytest
import tiktoken
import tiktoken_ext.openai_public as published

from model.errors import CheckpointError, InputError
from model.text import public_vocabularies
from model.text.bpe_steps import replay
from model.text.public_vocabularies import PUBLIC, public_vocabulary, tokens_of

PUBLISHED = {"gpt2": "r50k_base", "cl100k_base": "cl100k_base", "o200k_base": "o200k_base"}
HARD = "aA bB'sTtlLrReE\n\r\t  \u00a0\u3000é̀字あ한Жж12345.,!/-_\u202e👩\u200d👧\x00\x07\ud7ff𝒳ǅʰ"

HARD_TEXTS = ("", " " * 300, "👩\u200d👧 🇨🇭", "\x00\x1b\u202e", "字" * 100, "a\r\n\tb \n", "é")


@pytest.mark.parametrize("name", PUBLIC)
def test_the_published_file_is_rebuilt_byte_for_byte(name):
    lines = (base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens_of(name)))
    source = inspect.getsource(getattr(published, PUBLISHED[name]))
    assert hashlib.sha256(b"".join(lines)).hexdigest() == re.search(r'expected_hash="(\w{64})"', source)[1]


@pytest.mark.parametrize("name", PUBLIC)
def test_the_ids_are_tiktokens(name, monkeypatch):
    ranks = {token: rank for rank, token in enumerate(tokens_of(name))}
    monkeypatch.setattr(published, "load_tiktoken_bpe", lambda *args, **options: ranks)
    theirs, chance = tiktoken.Encoding(**getattr(published, PUBLISHED[name])()), random.Random(0)
    mine = public_vocabulary(name)
    assert dict(mine.special) == theirs._special_tokens and mine.vocab_size == theirs.n_vocab
    for _ in range(3000):
        text = "".join(chance.choice(HARD) for _ in range(chance.randint(1, 25)))
        ids = mine.encode_ids(text)
        assert ids == theirs.encode_ordinary(text) and mine.decode(ids) == text


def test_the_worked_examples():
    gpt2 = public_vocabulary("gpt2")
    assert gpt2.encode_ids("The cat sat") == [464, 3797, 3332]
    assert gpt2.encode_ids("Once upon a time") == [7454, 2402, 257, 640]
    assert gpt2.encode_ids("<|endoftext|>", special=True) == [50256] == [gpt2.eos_id]
    assert gpt2.piece(1) == '"' and len(gpt2.encode_ids("<|endoftext|>")) > 1


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.parametrize("text", HARD_TEXTS)
def test_merges_lead_to_the_same_ids(name, text):
    tokenizer = public_vocabulary(name)
    assert [number for piece in replay(tokenizer, text) for number in piece.ids] == tokenizer.encode_ids(text)


def test_half_a_character_is_refused():
    with pytest.raises(InputError):
        public_vocabulary("gpt2").encode_ids("a\ud800")


@pytest.mark.parametrize("data", [b"", b"no archive", b"\xfd7zXZ\x00\x00\x04", None])
def test_a_broken_file_says_so(tmp_path, monkeypatch, data):
    monkeypatch.setattr(public_vocabularies, "FOLDER", tmp_path)
    if data is not None:
        (tmp_path / "gpt2.xz").write_bytes(data)
    with pytest.raises(CheckpointError):
        tokens_of("gpt2")
