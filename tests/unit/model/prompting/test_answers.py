"""What is read as an answer, and how votes are counted."""

import pytest

from model.prompting.answers import is_right, plain_answer, read_answer, vote
from model.prompting.question_sets import Question


@pytest.mark.parametrize(
    "text, said",
    [
        (" Oslo.", "oslo"),
        ("\n\nThe capital of Norway is Oslo, a city", "oslo"),
        (" Oslovia", "oslovia"),
        ("new york city", "new york"),
        (" I do not know. Sorry", "i do not know"),
        ("Bergen, then Oslo", "oslo"),
        ("York and New York", "york"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_words(text, said):
    assert read_answer(text, "word", ("Oslo", "New York", "York")) == said


@pytest.mark.parametrize(
    "text, said",
    [(" 42", "42"), ("27 + 48 = 75.", "75"), ("1,024 stones", "1024"), ("it is −5", "-5"), ("none", ""), ("", "")],
)
def test_numbers(text, said):
    assert read_answer(text, "number", ()) == said


def test_a_chain_of_thought_is_read_behind_its_end():
    text = "20 + 40 = 60. 60 + 15 = 75. The answer is 75.\n\nQ: 3? The answer is 9."
    assert read_answer(text, "number", (), chain=True) == "75"
    assert read_answer("60 + 15 = 75.", "number", (), chain=True) == ""
    assert read_answer("a, b, c. The answer is C", "word", ("c",), chain=True) == "c"


def test_what_counts_as_right():
    question = Question("", "Oslo", accepted=("Kristiania",))
    assert is_right("oslo", question) and is_right(" The Oslo.", question) and is_right("kristiania", question)
    assert not is_right("", question) and not is_right("os", question)
    assert plain_answer("  The  “Big”  cat! ") == "“big” cat"


def test_votes():
    found = vote(["b", "a", "", "a"])
    assert found.answer == "a" and found.counts == (("a", 2), ("b", 1)) and not found.tied
    tied = vote(["b", "a", "a", "b", "c"])
    assert tied.answer == "b" and tied.tied  # of equal numbers the one that was said first
    assert vote(["", ""]) == vote([]) and vote([]).answer == "" and not vote([]).tied
