"""Tokens that make up one character together: by hand, and on random texts in the vocabularies at hand."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.loading.tokenizer_comparison import built_in, local_vocabularies
from model.text.characters import CharacterGroup, CharacterPart, character_groups, character_parts

SETTINGS = settings(max_examples=300, deadline=None, derandomize=True, database=None)
FAMILY = "👨‍👩‍👧"
SCRIPTS = "ab \n\r" + "éßשָׁלום" + "हिन्दी" + "你好" + "👨👩👧👍🏽🇨🇭❤️1️⃣" + "\u200d\u0301\ufeff𝒜"


def cut_at(text: bytes, places: list[int]) -> list[bytes]:
    """A text cut at the places, ends of it included or not."""
    edges = [0, *sorted({place for place in places if 0 < place < len(text)}), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


def spans(groups: tuple[CharacterGroup, ...]) -> list[tuple[int, int, str]]:
    return [(group.start, group.end, group.text) for group in groups]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([], []),
        ([b""], [(0, 1, "")]),
        ([b"a", b"b"], [(0, 1, "a"), (1, 2, "b")]),
        ([b"\xd7", b"\xa9"], [(0, 2, "ש")]),
        ([b" \xd7", b"\xa9a", b"b"], [(0, 2, " שa"), (2, 3, "b")]),
        ([b"\xd7", b"", b"\xa9"], [(0, 3, "ש")]),
        ([b"\xd7", b"\xa9\xd7", b"\xa9"], [(0, 3, "שש")]),  # the second token is part of both
        ([b"\xf0\x9f", b"\x91\xa8", "你".encode()], [(0, 2, "👨"), (2, 3, "你")]),
        ([b"\xd7", b"a", b"\xa9"], [(0, 1, "\ufffd"), (1, 2, "a"), (2, 3, "\ufffd")]),
        ([b"\xf0\x9f", b"\x91"], [(0, 1, "\ufffd"), (1, 2, "\ufffd")]),  # the text ends within it
        ([b"\xed", b"\xa0", b"\x80"], [(0, 1, "\ufffd"), (1, 2, "\ufffd"), (2, 3, "\ufffd")]),  # half a surrogate pair
        ([b"\xc0", b"\x80"], [(0, 1, "\ufffd"), (1, 2, "\ufffd")]),  # an overlong form
    ],
)
def test_groups_by_hand(raw, expected):
    assert spans(character_groups(raw)) == expected


def test_what_a_reader_takes_for_one_is_one_group_where_that_is_asked():
    family = [bytes([byte]) for byte in FAMILY.encode()]
    assert spans(character_groups(family, clusters=True)) == [(0, 18, FAMILY)]
    assert [group.text for group in character_groups(family)] == list(FAMILY)
    letters = [b"e", "\u0301".encode(), b"x", b"\r", b"\n", b"\xd7", b"\xa9", "\u05b8".encode(), b"\xff", b"a"]
    shown = [
        (0, 2, "e\u0301"),
        (2, 3, "x"),
        (3, 4, "\r"),
        (4, 5, "\n"),
        (5, 8, "ש\u05b8"),
        (8, 9, "\ufffd"),
        (9, 10, "a"),
    ]
    assert spans(character_groups(letters, clusters=True)) == shown


def test_parts_by_hand():
    raw = [b"a\xd7", b"\xa9\xf0", b"\x9f\x91", b"\xa8", "你".encode(), b"\xd7", b"", b"\xa9", b"\xd7"]
    assert character_parts(raw) == {
        0: (CharacterPart("ש", 1, 1, 2),),
        1: (CharacterPart("ש", 2, 2, 2), CharacterPart("👨", 1, 1, 4)),
        2: (CharacterPart("👨", 2, 3, 4),),
        3: (CharacterPart("👨", 4, 4, 4),),
        5: (CharacterPart("ש", 1, 1, 2),),
        7: (CharacterPart("ש", 2, 2, 2),),
    }
    assert character_parts([]) == character_parts([b"ab", "é".encode()]) == {}


@SETTINGS
@given(text=st.text(st.sampled_from(SCRIPTS) | st.characters(exclude_categories=["Cs"]), max_size=30), data=st.data())
def test_groups_of_a_text_are_the_shortest_that_are_text(text, data):
    raw = cut_at(text.encode(), data.draw(st.lists(st.integers(0, 120), max_size=60)))
    groups = character_groups(raw)
    assert "".join(group.text for group in groups) == text
    assert [group.start for group in groups] == [0, *(group.end for group in groups[:-1])] and groups[-1].end == len(
        raw
    )
    for group in groups:
        assert b"".join(raw[group.start : group.end]).decode() == group.text
        for cut in range(group.start + 1, group.end):
            with pytest.raises(UnicodeDecodeError):
                b"".join(raw[group.start : cut]).decode()
    joined = character_groups(raw, clusters=True)
    assert "".join(group.text for group in joined) == text
    assert {group.start for group in joined} <= {group.start for group in groups}


@SETTINGS
@given(raw=st.lists(st.binary(max_size=5), max_size=12))
def test_groups_of_any_bytes_read_as_all_of_them(raw):
    for clusters in (False, True):
        groups = character_groups(raw, clusters=clusters)
        assert sum(group.end - group.start for group in groups) == len(raw)
        whole = b"".join(raw).decode("utf-8", "replace")
        valid = "\ufffd" not in whole
        assert not valid or "".join(group.text for group in groups) == whole


@SETTINGS
@given(text=st.text(st.sampled_from(SCRIPTS), max_size=12), data=st.data())
def test_parts_of_a_character_are_all_of_its_bytes(text, data):
    raw = cut_at(text.encode(), data.draw(st.lists(st.integers(0, 60), max_size=40)))
    groups, parts = character_groups(raw), character_parts(raw)
    lone = {at for group in groups if group.end - group.start > 1 for at in range(group.start, group.end)}
    assert set(parts) == lone
    for group in groups:
        held = [part for at in range(group.start, group.end) for part in parts.get(at, ())]
        sizes = sum(part.last - part.first + 1 for part in held)
        assert all(part.text in group.text and part.of == len(part.text.encode()) for part in held)
        assert sizes == sum(len(part.text.encode()) for part in held if part.first == 1)


@pytest.mark.parametrize("name", local_vocabularies())
def test_groups_of_random_texts_in_a_vocabulary(name):
    tokenizer, chance = built_in(name), random.Random(0)
    for _ in range(200):
        text = "".join(chance.choices(SCRIPTS, k=chance.randint(1, 40)))
        tokens = tokenizer.encode(text)
        groups = character_groups(tokens.raw)
        assert "".join(group.text for group in groups) == tokenizer.decode(tokens.ids)
        assert [group.text for group in groups] == [
            tokenizer.decode(tokens.ids[group.start : group.end]) for group in groups
        ]
        assert not any("\ufffd" in group.text for group in groups)
    assert any(group.end - group.start > 1 for group in groups)
