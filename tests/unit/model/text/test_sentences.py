"""Ends of sentences, by hand."""

import pytest

from model.text.sentences import has_stop, sentence_ends, split_sentences


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("One. Two", "One.| Two"),
        ("Pi is 3.14 here. Yes.", "Pi is 3.14 here.| Yes."),
        ("Mr. and Mrs. A. Smith, e.g. today. I. Then", "Mr. and Mrs. A. Smith, e.g. today.| I.| Then"),
        ("Wait... what?! “Now.” He", "Wait...| what?!| “Now.”| He"),
        ("你好。再见！他说：“好。”走", "你好。|再见！|他说：“好。”|走"),
        ("a.\n\nb\n  c", "a.\n\n|b\n|  c"),
        ("हाँ। नहीं।", "हाँ।| नहीं।"),
        ("Dr.\nNo", "Dr.\n|No"),
        ("the end of etc.", "the end of etc."),
        ("", ""),
    ],
)
def test_pieces_by_hand(text, pieces):
    found = split_sentences(text)
    assert "|".join(found) == pieces and "".join(found) == text


def test_an_unfinished_sentence_has_no_end():
    assert sentence_ends("One. Two") == [4] and sentence_ends("One. Two.") == [4, 9]


@pytest.mark.parametrize(
    ("text", "stopped"), [("Yes.", True), ("“好。”", True), ("Yes", False), ("a. b", False), ("", False)]
)
def test_a_text_that_ends_with_a_stop(text, stopped):
    assert has_stop(text) is stopped
