"""Characters that several tokens make up together, as the page shows them."""

import json

import pytest

from tests.support.models.helpers import tokens_of
from viz.characters import frames, part_notes, token_chips
from viz.labels import MAX_LABEL, quoted
from viz.words import words

PIECES = ("<b>", " the", "\n", "\u202e", "")
FAMILY = "👨‍👩‍👧"


def single(text: str) -> list[bytes]:
    """A text as its bytes, each alone."""
    return [bytes([byte]) for byte in text.encode()]


def test_chips_carry_plain_text():
    chips = token_chips(tokens_of([3, 1, 4, 1, 5], PIECES), words("en"))
    assert [chip["text"] for chip in chips] == ["<b>", "·the", "↵", "<U+202E>", "∅"]
    assert [chip["id"] for chip in chips] == [3, 1, 4, 1, 5]
    assert [chip["bytes"] for chip in chips] == ["3c 62 3e", "20 74 68 65", "0a", "e2 80 ae", ""]
    assert [chip["span"] for chip in chips] == [[0, 3], [3, 7], [7, 8], [8, 11], [11, 11]]
    assert json.loads(json.dumps(chips)) == chips and not any("part" in chip for chip in chips)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (single("abc"), []),
        (["ש".encode()], []),
        ([b"a", *single("ש"), b"b"], [[1, 3, "ש"]]),
        ([b" \xd7", b"\xa9"], [[0, 2, "·ש"]]),
        (single(FAMILY), [[0, 18, FAMILY]]),
        (single("\u200b"), [[0, 3, "<U+200B>"]]),
        (single("\u05b8"), [[0, 2, "◌\u05b8"]]),
        ([b"e", "\u0301".encode()], [[0, 2, "e\u0301"]]),
        (single("ש")[:1], []),
    ],
)
def test_frames_are_of_several_tokens_and_have_a_sign(raw, expected):
    assert frames(raw) == expected


def test_a_frame_is_short_however_many_marks_a_letter_has():
    [[start, end, shown]] = frames([b"e", *["\u0301".encode()] * 1000])
    assert (start, end) == (0, 1001) and MAX_LABEL < len(shown) <= 40 and shown == quoted("e" + "\u0301" * 1000)


def test_every_part_says_which_bytes_of_which_character_it_has():
    raw = [b" \xd7", b"\xa9\xf0", b"\x9f\x91", b"\xa8", b"a", b"\xd7"]
    assert part_notes(raw, words("en")) == {
        0: "byte 1 of 2 of ש",
        1: "byte 2 of 2 of ש, byte 1 of 4 of 👨",
        2: "bytes 2–3 of 4 of 👨",
        3: "byte 4 of 4 of 👨",
    }
    zh = part_notes(raw, words("zh"))
    assert list(zh) == [0, 1, 2, 3] and zh[2] == "👨 的第 2–3 个字节（共 4 个）"
    assert part_notes(single("\u200b")[:3], words("en"))[0] == "byte 1 of 3 of <U+200B>"
