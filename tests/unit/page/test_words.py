"""Sentences made of several."""

from viz.words import joined


def test_no_space_stands_after_a_wide_full_stop():
    assert joined(["甲。", "乙！", "", "One.", "Two."]) == "甲。乙！One. Two."
