"""Corpora: kinds of tokens, sequences of equal length, and the folders that can be read."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from model.corpus.deciles import deciles
from model.corpus.kinds import KINDS, kinds_of
from model.corpus.texts import MOST_BYTES, bundled, corpus_of, folder_texts
from model.errors import InputError
from model.public import without_checks


def kinds(*pieces: str) -> list[str]:
    return [KINDS[code] for code in kinds_of(pieces)]


def test_every_token_has_the_first_kind_that_fits():
    pieces = ("The", " old", " S", "ara", " saw", " 12", " cats", ",", "\n", " ", " the", "<0xE2>")
    expected = [
        "function",
        "word",
        "name",
        "inside",
        "word",
        "digit",
        "word",
        "punctuation",
        *["space"] * 2,
        "function",
        "other",
    ]
    assert kinds(*pieces) == expected
    assert kinds(".", " Then", " Tom") == ["punctuation", "function", "name"]
    assert kinds("x", ".", " Peter", " ran") == ["word", "punctuation", "word", "word"]  # it begins a sentence
    assert kinds() == []


def test_sequences_are_consecutive_spread_and_do_not_cross_texts(lm):
    texts = ["".join(chr(97 + n % 26) for n in range(50)), "0123456789" * 3]
    corpus = corpus_of(lm, texts, 20, 100)
    assert corpus.begins == 0 and corpus.first == 1
    assert lm.tokenizer.decode(corpus.ids[1].tolist()) == texts[0][20:40]
    assert lm.tokenizer.decode(corpus.ids[2].tolist()) == texts[1][:20]
    assert len(corpus.ids) == 3  # the rest of each text is dropped
    assert {KINDS[code] for code in corpus.kinds[2, 1:]} == {"digit"}
    assert (corpus.kinds[:, 0] == KINDS.index("first")).all()
    assert np.array_equal(corpus_of(lm, texts, 20, 2).ids, corpus.ids[[0, 1]])
    alone = corpus_of(lm, ["abcdefghijk", "abc"], 20)
    assert alone.ids.shape == (1, 11)


def test_sequences_begin_as_the_model_has_it(lm):
    tokenizer = SimpleNamespace(begin_ids=(7, 9), encode_ids=lm.tokenizer.encode_ids, piece=lm.tokenizer.piece)
    given = SimpleNamespace(tokenizer=tokenizer, config=SimpleNamespace(n_ctx=10))
    corpus = without_checks(corpus_of)(given, [bytes(range(97, 121)).decode()], 16)
    assert corpus.begins == corpus.first == 2 and corpus.ids.shape == (3, 10)  # the context is shorter than asked
    assert (corpus.ids[:, :2] == [7, 9]).all() and corpus.ids[:, 2:].ravel().tolist() == list(range(97, 121))
    assert (corpus.kinds[:, :2] == KINDS.index("first")).all() and (corpus.kinds[:, 2:] != KINDS.index("first")).all()


def test_texts_that_cannot_be_read_say_why(lm, tmp_path):
    with pytest.raises(InputError, match="too short"):
        corpus_of(lm, ["abc"])
    with pytest.raises(InputError, match="no such folder"):
        folder_texts(str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"no \.txt file"):
        folder_texts(str(tmp_path))
    (tmp_path / "b.txt").write_text("second", encoding="utf-8")
    (tmp_path / "a.txt").write_text("first", encoding="utf-8")
    (tmp_path / "c.md").write_text("not read", encoding="utf-8")
    assert folder_texts(str(tmp_path)) == ("first", "second")
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match=r"not in UTF-8.*a\.txt"):
        folder_texts(str(tmp_path))
    (tmp_path / "a.txt").write_bytes(b"a" * (MOST_BYTES + 1))
    with pytest.raises(InputError, match="too large"):
        folder_texts(str(tmp_path))


def test_bundled_texts_are_there():
    assert len(bundled("princess")[0]) > 30_000 and "Marcius" in bundled("shakespeare")[0]


def test_deciles_hold_every_sequence_once():
    values = np.random.default_rng(0).permutation(23).astype(float)
    values[3] = np.nan
    parts = deciles(values)
    assert len(parts) == 10 and {len(part.members) for part in parts} == {2, 3}
    assert sorted(np.concatenate([part.members for part in parts])) == [n for n in range(23) if n != 3]
    assert parts[0].high == np.nanmax(values) and parts[-1].low == np.nanmin(values)
    assert all(above.low >= below.high for above, below in itertools.pairwise(parts))
    assert all(part.low <= values[part.middle] <= part.high for part in parts)
    assert [part.high for part in deciles(np.array([2.0, np.nan, 5.0]))] == [5, 2]
    assert deciles(np.array([np.nan])) == ()
