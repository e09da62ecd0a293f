"""Sums by turn on attention that was built by hand."""

import numpy as np
import pytest

from model.attention.turns import by_turn, sentences
from model.records import Tokens

TURNS = np.array([-1, 0, 0, -1, 1, -1])
ROWS = np.array([[0.5, 0.1, 0.2, 0.0, 0.15, 0.05], [0, 0, 0, 0, 1, 0]])


def test_each_turn_has_the_sum_of_its_tokens():
    found = by_turn(ROWS, TURNS, 3)
    np.testing.assert_allclose(found, [[0.3, 0.15, 0, 0.55], [0, 1, 0, 0]], atol=1e-15)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-15)
    np.testing.assert_allclose(by_turn(ROWS[0], TURNS, 2), [0.3, 0.15, 0.55], atol=1e-15)
    assert by_turn(-ROWS, TURNS, 2).tolist() == (-by_turn(ROWS, TURNS, 2)).tolist()


def test_without_a_template_or_without_turns():
    assert by_turn(ROWS[1], np.zeros(6, int), 1).tolist() == [1, 0]
    assert by_turn(ROWS[1], np.full(6, -1), 0).tolist() == [1]


@pytest.mark.parametrize(("turns", "count"), [(TURNS[:5], 2), (TURNS, 1), (TURNS - 1, 2)])
def test_turns_that_are_not_of_these_values(turns, count):
    with pytest.raises(ValueError, match="turns"):
        by_turn(ROWS, turns, count)


def tokens_of(*pieces: str) -> Tokens:
    raw = tuple(piece.encode() for piece in pieces)
    ends = np.cumsum([len(each) for each in raw])
    return Tokens(np.arange(len(raw)), pieces, raw, np.stack([ends - [len(each) for each in raw], ends], -1))


@pytest.mark.parametrize(
    ("pieces", "places"),
    [
        ("The| cat| sat|.| It| slept|.", [-1, 0, 0, 0, 1, 1, 1]),
        ("It| costs| 3|.|5| euros|.", [-1, 0, 0, 0, 0, 0, 0]),  # a point within a number
        ('"|Go|."| He| went|!', [-1, 0, 0, 1, 1, 1]),  # the closing quote belongs to the sentence
        ("你好|。|再见|！", [-1, 0, 1, 1]),
        ("a|\n|\n|b", [-1, 0, 0, 1]),  # blank lines end no sentence of their own
        ("a", [-1]),
    ],
)
def test_a_plain_prompt_has_sentences(pieces, places):
    assert sentences(tokens_of(*pieces.split("|"))).tolist() == places


def test_many_sentences_are_joined():
    tokens = tokens_of("a", *[" b", "."] * 25)
    found = sentences(tokens)
    assert found[0] == -1 and (np.unique(found[1:]) == np.arange(12)).all() and (np.diff(found) >= 0).all()
    assert sentences(tokens, 30).max() == 24


def test_a_byte_that_is_no_text_is_passed_over():
    tokens = Tokens(np.arange(3), ("<0xE2>", ".", " a"), (b"\xe2", b".", b" a"), np.array([[0, 1], [1, 2], [2, 4]]))
    assert sentences(tokens).tolist() == [-1, 0, 1]
