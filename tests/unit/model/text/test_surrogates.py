"""Both halves of a surrogate pair are one character; a half alone is none."""

import pytest

from model.api import load_model
from model.errors import InputError
from model.text.surrogates import joined, whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("é 你", "é 你"),
        ("\ud83d\udc4d", "\U0001f44d"),
        ("a\ud83d\udc4d\ud800\udc00b\U0001f44d", "a\U0001f44d\U00010000b\U0001f44d"),
        ("\udbff\udfff", "\U0010ffff"),
    ],
)
def test_pairs_are_joined(text, expected):
    assert joined(text) == whole(text) == expected == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


@pytest.mark.parametrize(
    ("text", "at", "shown"),
    [
        ("a\ud83d", 1, "a?"),
        ("\udc4d\ud83d", 0, "??"),
        ("\ud83d\ud83d\udc4d", 0, "?\U0001f44d"),
        ("\U0001f44d\udfff", 1, "\U0001f44d?"),
    ],
)
def test_a_half_alone_is_refused_where_it_stands(text, at, shown):
    with pytest.raises(InputError, match=rf"unpaired surrogate.*\\u[0-9a-f]{{4}} at character {at}\."):
        joined(text)
    assert whole(text) == shown


def test_a_model_reads_and_stops_at_the_character():
    lm = load_model("tinygpt")
    assert lm.encode("\ud83d\udc4d ok").ids.tolist() == lm.encode("\U0001f44d ok").ids.tolist()
    with pytest.raises(InputError, match="surrogate"):
        lm.generate("a", stop="\ud83d")
    *_, last = lm.generate("Once", "greedy", 3, stop=["\ud83d\udc4d"])
    assert last.changes[0].ended == "length"
