"""Token text is hostile: nothing in it may act as markup, hide, reorder what follows, or make two labels one."""

import html
import sys
import unicodedata
from collections.abc import Iterator

import pytest
from tokenizers import Regex, normalizers

from viz.labels import MAX_LABEL, axis_name, plotly_text, shorten, tick_text, visible, visible_lines

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<b>bold</b>",
    "</script><script>",
    "&lt;",
    "&amp;amp;",
    "\"'`",
    "a\nb",
    "\r\n",
    "\t",
    "\x00",
    "\x1b[31m",
    "\x7f",
    "\u202e",
    "abc\u202edef",
    "\u200b",
    "\u200d",
    "\ufe0f",
    "\ufeff",
    "\u2028",
    "\u2066x",
    "\u00ad",
    "\u00a0",
    "\u3000",
    "\ue000",
    "<0xE2><0x96>",
    "",
    " ",
    "     ",
    "x" * 1000,
    "%{z}",
    "$x$",
    "👨‍👩‍👧",
    "好",
    "a\u200db",
    "\u0301",
    "\u2800",
    "\u3164",
    "\ud800",
]
MARKS = ("Mn", "Mc", "Me")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "∅"),
        (" ", "·"),
        ("   ", "···"),
        ("    ", "····"),
        ("     ", "····×5"),
        (" the", "·the"),
        ("  the end ", "··the end "),
        ("a\nb\tc", "a↵b⇥c"),
        ("\x00\x1b[0m", "<0x00><0x1B>[0m"),
        ("a\r\n", "a<0x0D>↵"),
        ("\x7f", "<0x7F>"),
        ("\x85", "<U+0085>"),
        ("\u202eabc", "<U+202E>abc"),
        ("a\u200bb", "a<U+200B>b"),
        ("\ufeff", "<U+FEFF>"),
        ("\u00a0", "<U+00A0>"),
        ("\u3000", "<U+3000>"),
        ("\u200d", "<U+200D>"),
        ("\ufe0f", "<U+FE0F>"),
        ("\u200d\u200d", "<U+200D><U+200D>"),
        ("a\u200db", "a<U+200D>b"),  # joins nothing that is drawn
        ("👨\u200d", "👨<U+200D>"),
        ("\u200d👩", "<U+200D>👩"),
        ("A\ufe0f", "A<U+FE0F>"),
        ("🏳\ufe0f\u200d🌈", "🏳\ufe0f\u200d🌈"),
        ("1\ufe0f\u20e3", "1\ufe0f\u20e3"),
        ("\u0301", "◌\u0301"),
        ("\u0301\u0323a", "◌\u0301\u0323a"),
        (" \u0301", "·◌\u0301"),
        ("\n\u05b8", "↵◌\u05b8"),
        ("\u200b\u0301", "<U+200B>◌\u0301"),
        ("e\u0301", "e\u0301"),
        ("\u034f", "<U+034F>"),
        ("\u2800", "<U+2800>"),
        ("\u3164", "<U+3164>"),
        ("\U000e0001", "<U+E0001>"),
        ("\u0378", "<U+0378>"),
        ("👨‍👩‍👧", "👨‍👩‍👧"),
        ("❤\ufe0f", "❤\ufe0f"),
        ("<0xE2><0x96>", "<0xE2><0x96>"),
        ("<b>", "<b>"),
        ("好的", "好的"),
    ],
)
def test_visible_by_hand(text: str, shown: str):
    assert visible(text) == shown


def test_lines_of_a_text_stay_lines():
    assert visible_lines("a b\n\tc\u200bd\u202e \x1b") == "a b\n\tc<U+200B>d<U+202E> <0x1B>"
    assert visible_lines("") == ""
    assert visible_lines("a\n\u0301 \u3164\u2800") == "a\n◌\u0301 <U+3164><U+2800>"


def test_control_characters_become_something_to_see():
    for code in (*range(0x20), *range(0x7F, 0xA0)):
        shown = visible(chr(code))
        assert shown.isprintable() and shown.strip(), f"U+{code:04X}"


def every_character() -> Iterator[str]:
    """Yield every code point."""
    return map(chr, range(sys.maxunicode + 1))


def test_what_is_blank_or_ignorable_has_its_code_as_its_sign():
    """Of all code points. Which ones are ignorable is taken from the tables of another program."""
    text = "".join(c for c in every_character() if unicodedata.category(c) != "Cs")
    drawn = set(normalizers.Replace(Regex(r"\p{Default_Ignorable_Code_Point}"), "").normalize_str(text))
    ignorable = set(text) - drawn
    blank = {"\u2800", "\u3164", "\uffa0", "\u115f", "\u1160", "\U000e0fff"}
    found = {}
    for c in every_character():
        unseen = unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp") and c not in " \n\t"
        if unseen or c in blank or c in ignorable:
            found[c] = f"<0x{ord(c):02X}>" if ord(c) < 0x80 else f"<U+{ord(c):04X}>"
    assert not [c for c, sign in found.items() if visible(c) != sign]
    assert visible_lines("a".join(found)) == "a".join(found.values())
    assert {"\u034f", "\u17b4", "\u180b", "\ufe00", "\U000e0100"} < ignorable and len(ignorable) > 4000
    assert blank < set(found) and len(found) > 800_000


def test_a_mark_without_a_letter_stands_on_a_circle_and_one_with_a_letter_does_not():
    marks = [c for c in every_character() if unicodedata.category(c) in MARKS and not visible(c).startswith("<")]
    assert len(marks) > 2000
    for c in marks:
        assert (visible(c), visible(f"a{c}{c}"), visible(f" {c}")) == (f"◌{c}", f"a{c}{c}", f"·◌{c}")


def test_every_other_character_is_shown_as_it_is():
    for c in every_character():
        if unicodedata.category(c)[0] in "LNPS" and not visible(c).startswith("<U+"):
            assert visible(c) == c
    assert [visible(c) for c in "aéשक你👨+5…"] == list("aéשक你👨+5…")


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_nothing_hides_or_reorders(text: str):
    shown = visible(text)
    assert shown.strip(), "something can be seen"
    for c in shown.replace("\u200d", ""):
        assert unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"), f"U+{ord(c):04X}"


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_labels_carry_no_markup_and_read_as_the_text(text: str):
    for label, plain in (
        (tick_text(text), shorten(visible(text))),
        (axis_name(3, text), f"3 {shorten(visible(text), 40)}"),
    ):
        assert "<" not in label and ">" not in label
        assert html.unescape(label) == plain


def test_plotly_text_escapes_the_ampersand_first():
    assert plotly_text("a<b>&lt;") == "a&lt;b&gt;&amp;lt;"


def test_shorten_keeps_to_the_limit():
    assert shorten("x" * MAX_LABEL) == "x" * MAX_LABEL
    assert shorten("x" * (MAX_LABEL + 1)) == "x" * (MAX_LABEL - 1) + "…"
    assert shorten("abcd", 3) == "ab…"
    assert html.unescape(tick_text("<" * 50)) == "<" * (MAX_LABEL - 1) + "…", "cut before it is escaped"


def test_names_on_an_axis_are_unique():
    pieces = [*HOSTILE, *HOSTILE, "1 a", "a", "x" * 1001]
    names = [axis_name(i, piece) for i, piece in enumerate(pieces)]
    assert len(set(names)) == len(names)
