"""Token text made visible and safe for the place it is shown in. Token text is hostile until it went through here."""

import unicodedata
from collections.abc import Mapping

from viz.numbers import whole

_NAMED = {"\n": "↵", "\t": "⇥"}
_JOINERS = "\u200d\ufe0f"  # of emoji: zero-width joiner, emoji presentation
MAX_LABEL = 14  # characters of a label on an axis


def visible(text: str) -> str:
    """The text with whitespace, control and invisible formatting characters drawn as visible signs.

    A leading or only space becomes a middle dot; others inside stay. Joiners inside emoji stay, so that they are drawn.
    """
    if not text:
        return "∅"
    if not text.strip(_JOINERS):  # on their own they draw nothing
        return "".join(_code(c) for c in text)
    shown = "".join(_sign(c) for c in text)
    lead = len(shown) - len(shown.lstrip(" "))
    if lead == len(shown):
        return "·" * min(lead, 4) + (f"×{lead}" if lead > 4 else "")
    return "·" * lead + shown[lead:]


def visible_lines(text: str) -> str:
    """A text of several lines with everything drawn as visible signs but its spaces, tabs and line breaks."""
    return "".join(c if c in _NAMED else _sign(c) for c in text)


def _sign(c: str) -> str:
    if c in _NAMED:
        return _NAMED[c]
    code = ord(c)
    if code < 0x20 or code == 0x7F:
        return f"<0x{code:02X}>"
    # U+200D joins emoji; every other format character could reorder or hide what follows.
    if unicodedata.category(c) in ("Cf", "Cc", "Zl", "Zp", "Zs", "Co", "Cn") and c not in (" ", "\u200d"):
        return _code(c)
    return c


def _code(c: str) -> str:
    return f"<U+{ord(c):04X}>"


def shorten(text: str, limit: int = MAX_LABEL) -> str:
    """At most `limit` characters, the last one an ellipsis where something was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quoted(piece: str) -> str:
    """A token's text as a sentence names it."""
    return shorten(visible(piece), 40)


def run_label(task: str, config: Mapping, steps: int, words: Mapping[str, str]) -> str:
    """The name of a training run: its task, the choices that distinguish runs, its steps.

    `config`: the sizes and choices of its model. `words`: the whole catalogue.
    """
    choices = [words[f"choice.{config[key]}"] for key in ("positions", "norm_placement", "norm")]
    mixer = config.get("mixer", "softmax")
    if mixer != "softmax":
        choices.insert(0, words[f"mixer.{mixer if isinstance(mixer, str) else 'hybrid'}"])
    return " · ".join([words[f"task.{task}"], f"{config['n_layer']}×{config['n_head']}", *choices, whole(steps)])


def plotly_text(text: str) -> str:
    """Text that Plotly draws as it is: its labels read a few HTML tags and entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def axis_name(position: int, piece: str) -> str:
    """A unique category name for a token on an axis: position and text, escaped for Plotly."""
    return plotly_text(f"{position} {shorten(visible(piece), 40)}")


def tick_text(piece: str) -> str:
    """The short label of a token on an axis, escaped for Plotly."""
    return plotly_text(shorten(visible(piece)))
