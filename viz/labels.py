"""Token text made visible and safe for display. Token text is untrusted until it has been processed here."""

import unicodedata
from collections.abc import Mapping

from viz.numbers import whole

_NAMED = {"\n": "↵", "\t": "⇥"}
# Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt: characters that are not rendered.
_IGNORABLE = frozenset(
    code
    for first, last in (
        (0xAD, 0xAD),
        (0x34F, 0x34F),
        (0x61C, 0x61C),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x200B, 0x200F),
        (0x202A, 0x202E),
        (0x2060, 0x206F),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFEFF, 0xFEFF),
        (0xFFA0, 0xFFA0),
        (0xFFF0, 0xFFF8),
        (0x1BCA0, 0x1BCA3),
        (0x1D173, 0x1D17A),
        (0xE0000, 0xE0FFF),
    )
    for code in range(first, last + 1)
)
# Letters and symbols with an empty glyph: a Braille cell without dots, a null notehead, blank hieroglyphs.
_BLANK = frozenset("\u2800\U0001d159\U00013441\U00013442")
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")  # general categories of characters without a glyph
_JOINER, _EMOJI = "\u200d", "\ufe0f"  # zero-width joiner, emoji presentation
_CARRIER = "◌"  # the base for a combining mark without a base letter
MAX_LABEL = 14  # maximum length of an axis label in characters


def visible(text: str) -> str:
    """Replace every character without a glyph by a visible symbol.

    This covers whitespace, control characters, characters that Unicode marks as ignorable or that are blank, and
    private and unassigned ones: `<U+200B>`. A leading or single space becomes a middle dot; inner spaces remain. A
    combining mark without a base letter is drawn on a dotted circle. Joiners inside an emoji remain, so that it is
    drawn.
    """
    if not text:
        return "∅"
    shown = _signs(text, _NAMED)
    lead = len(shown) - len(shown.lstrip(" "))
    if lead == len(shown):
        return "·" * min(lead, 4) + (f"×{lead}" if lead > 4 else "")
    return "·" * lead + shown[lead:]


def visible_lines(text: str) -> str:
    """Convert a multi-line text as `visible` does, except for spaces, tabs and line breaks."""
    return _signs(text, {c: c for c in _NAMED})


def _signs(text: str, named: Mapping[str, str]) -> str:
    """Replace every character without a glyph by a symbol; `named` has the symbols of line breaks and tabs."""
    if text.isascii() and text.isprintable():
        return text
    shown, seated = [], False  # `seated` means that the previous character can carry a combining mark
    for at, c in enumerate(text):
        if c in named or c == " ":
            shown.append(named.get(c, c))
        elif not has_glyph(c) and not _joins(text, at):
            shown.append(f"<0x{ord(c):02X}>" if ord(c) < 0x80 else f"<U+{ord(c):04X}>")
        else:
            lone = not seated and unicodedata.category(c) in ("Mn", "Mc", "Me")
            shown.append(_CARRIER + c if lone else c)
            seated = True
            continue
        seated = False
    return "".join(shown)


def has_glyph(c: str) -> bool:
    """Return whether a character has a visible glyph; a space does not."""
    return unicodedata.category(c) not in _UNSEEN and c not in _BLANK and ord(c) not in _IGNORABLE


def _joins(text: str, at: int) -> bool:
    """Return whether the character is part of a composed emoji, such as a family or a red heart."""
    before = text[at - 1] if at else ""
    symbol = bool(before) and has_glyph(before) and unicodedata.category(before) in ("So", "Sm", "Sk", "Po", "Pd", "Nd")
    if text[at] == _EMOJI:
        return symbol
    if text[at] != _JOINER or not (symbol or (before == _EMOJI and _joins(text, at - 1))):
        return False
    after = text[at + 1 : at + 2]
    return bool(after) and has_glyph(after) and unicodedata.category(after) in ("So", "Sm")


def shorten(text: str, limit: int = MAX_LABEL) -> str:
    """Shorten a text to `limit` characters, with an ellipsis as the last one if something was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quoted(piece: str) -> str:
    """Format a token's text as it is quoted in sentences."""
    return shorten(visible(piece), 40)


def run_label(task: str, config: Mapping, steps: int, words: Mapping[str, str]) -> str:
    """Format the name of a training run: its task, the settings that distinguish runs, and its steps.

    `config` holds the sizes and settings of its model. `words` is the whole catalogue.
    """
    choices = [words[f"choice.{config[key]}"] for key in ("positions", "norm_placement", "norm")]
    mixer = config.get("mixer", "softmax")
    if mixer != "softmax":
        choices.insert(0, words[f"mixer.{mixer if isinstance(mixer, str) else 'hybrid'}"])
    return " · ".join([words[f"task.{task}"], f"{config['n_layer']}×{config['n_head']}", *choices, whole(steps)])


def plotly_text(text: str) -> str:
    """Escape a text for Plotly, whose labels interpret certain HTML tags and entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def span_text(start: int, end: int) -> str:
    """Format the positions from `start` up to but not including `end`: "3" or "3–5"."""
    return str(start) if end - start == 1 else f"{start}–{end - 1}"


def axis_name(position: int | str, piece: str) -> str:
    """Format a unique category name for a token on an axis: position and text, escaped for Plotly."""
    return plotly_text(f"{position} {shorten(visible(piece), 40)}")


def tick_text(piece: str) -> str:
    """Format the short label of a token on an axis, escaped for Plotly."""
    return plotly_text(shorten(visible(piece)))
