"""Pictures of a run that goes on wait for who asked, once, until the question is answered."""

from viz.work.early import Early

MINE, OTHER = ("me", "1"), ("me", "2")


def test_each_picture_is_taken_once_by_who_asked():
    early = Early()
    with early.answering(MINE), early.answering(OTHER):
        early.put(MINE, "map", {"n": 1})
        assert early.take(OTHER) == {}
        assert early.take(MINE) == {"map": {"n": 1}} and early.take(MINE) == {}
        early.put(MINE, "lines", {"n": 2})
        assert early.take(MINE) == {"lines": {"n": 2}}


def test_nothing_is_left_of_a_question_that_has_been_answered():
    early = Early()
    with early.answering(MINE):
        early.put(MINE, "map", {})
    early.put(MINE, "lines", {})
    assert early.take(MINE) == {} and early._drawn == {}
