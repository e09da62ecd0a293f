"""Where two texts part."""

from types import SimpleNamespace

from model.generation.parting import parting
from model.public import without_checks

part = without_checks(parting)


def text(*ids: int) -> list:
    return [SimpleNamespace(id=each) for each in ids]


def test_the_first_token_that_differs():
    found = part(text(1, 2, 3), text(1, 5, 3))
    assert (found.at, found.first.id, found.second.id) == (1, 2, 5)


def test_the_same_text_does_not_part():
    assert part(text(1, 2), text(1, 2)) is None and part([], []) is None


def test_a_text_that_has_ended_has_no_token_there():
    found = part(text(1), text(1, 2))
    assert (found.at, found.first, found.second.id) == (1, None, 2)
