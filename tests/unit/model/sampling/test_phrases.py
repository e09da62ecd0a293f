"""Banned words and breakers as token sequences, on the vocabulary of TinyGPT."""

import pytest

from model.loading.tokenizer_comparison import built_in
from model.sampling.phrases import banned, breakers, lines_of
from model.text.tokenizer import Tokenizer
from tests.support.models.helpers import byte_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return built_in("tinygpt")


def test_a_word_is_banned_with_and_without_a_space(tokenizer):
    found = banned(tokenizer, "cat\n a testament to\ncat")
    assert found == tuple(tuple(tokenizer.encode_ids(text)) for text in ("cat", " cat", " a testament to"))
    assert all(len(phrase) > 1 for phrase in found[2:])


def test_a_special_token_is_one_token(tokenizer):
    (name, id), *_ = tokenizer.special.items()
    assert banned(tokenizer, name) == ((id,),)
    assert banned(tokenizer, "") == ()


def test_every_token_with_a_breaker_is_one(tokenizer):
    found = breakers(tokenizer, "\\n\n:")
    assert all(len(phrase) == 1 for phrase in found)
    ids = {phrase[0] for phrase in found}
    assert ids == {id for id, raw in enumerate(tokenizer.raw) if raw and (b"\n" in raw or b":" in raw)}
    assert tokenizer.encode_ids(":")[0] in ids


def test_the_beginning_of_a_breaker_is_followed_by_its_rest(tmp_path):
    tokenizer = byte_tokenizer(tmp_path)
    assert breakers(tokenizer, "aab") == ((ord("a"), ord("a"), ord("b")),)
    assert breakers(tokenizer, "é") == ((0xC3,),)  # the rest is not a character
    assert [len(phrase) for phrase in breakers(tokenizer, "x" * 60)] == [21]  # cut at 20 tokens after the first


def test_as_llama_finds_them(tokenizer):
    """Its loop over the vocabulary, place by place in each token."""
    for word in ("the end", '"', " I ", "ing"):
        wanted = set()
        for token, raw in enumerate(tokenizer.raw):
            text, given = raw or b"", word.encode()
            if given in text:
                wanted.add((token,))
                continue
            for place in range(len(text)):
                shared = text[place:]
                if given.startswith(shared) and shared:
                    rest = tokenizer.encode_ids(given[len(shared) :].decode())
                    wanted.add((token, *rest[:20]))
        assert set(breakers(tokenizer, word)) == wanted and wanted


def test_lines_with_signs():
    assert lines_of("a\n\n\\n\n b\\t") == ["a", "\n", " b\t"]


def test_a_line_of_ids_bans_these_tokens(lm):
    """Without another spelling; a line with an id beyond the vocabulary, or another bracket, is none."""
    assert banned(lm.tokenizer, "[97]\n [98, 99] \n[1, 999999]") == ((97,), (98, 99))
    assert banned(lm.tokenizer, "[a]") == (tuple(b"[a]"), tuple(b" [a]"))
