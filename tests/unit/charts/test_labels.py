"""Token text is hostile: nothing in it may act as markup, hide, reorder what follows, or make two labels one."""

import html
import unicodedata

import pytest

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
]


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


def test_control_characters_become_something_to_see():
    for code in (*range(0x20), *range(0x7F, 0xA0)):
        shown = visible(chr(code))
        assert shown.isprintable() and shown.strip(), f"U+{code:04X}"


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_nothing_hides_or_reorders(text: str):
    shown = visible(text)
    assert shown.strip(), "something can be seen"
    for c in shown.replace("\u200d", ""):
        assert unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp", "Co", "Cn"), f"U+{ord(c):04X}"


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
