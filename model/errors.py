"""Errors that a person can cause, worded for that person."""

import re
import unicodedata

LONGEST = 500  # characters of an offending value that are shown


def plain(text: str) -> str:
    """A text on one line in which every character is seen: what controls, turns or hides text is written as an escape.

    File names, tokens and values of somebody else's file come to the page and the terminal through this.
    """
    if isinstance(text, Message):
        return Message(text.template, tuple(map(plain, text.values)))
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    shown = re.sub(r"[\t\r\n]+ *", " ", shown)
    if shown.isprintable():
        return shown
    return "".join(
        char if char.isprintable() or unicodedata.category(char) == "Zs" else char.encode("unicode_escape").decode()
        for char in shown
    )


class Message(str):
    """A sentence for a person that remembers how it was made: its template is the key of a translation."""

    template: str
    values: tuple[str, ...]

    def __new__(cls, template: str, values: tuple[str, ...] = ()) -> "Message":
        """The template with its "{}" filled in, in order."""
        made = super().__new__(cls, template.format(*values))
        made.template, made.values = template, values
        return made

    def __reduce__(self) -> tuple:
        return Message, (self.template, self.values)


def say(template: str, *values: object) -> Message:
    """A sentence for a person, with values in the places of its "{}"."""
    return Message(template, tuple(map(str, values)))


class PlaygroundError(Exception):
    """Something the user asked for cannot be done; the page shows `what` and `hint`, never a traceback.

    Args:
        what: what went wrong, one plain sentence.
        got: the offending value, shortened where it is long; "" where there is none to show.
        hint: what to do about it, one plain sentence.

    `what` and `hint` with values in them are made by `say`, so that the page can say them in the reader's language.
    """

    def __init__(self, what: str, got: str = "", hint: str = "") -> None:
        self.what, self.got, self.hint = plain(what), plain(got), plain(hint)
        super().__init__(" ".join(part for part in (self.what, f"Got: {self.got}." if got else "", self.hint) if part))


class InputError(PlaygroundError):
    """The prompt, an option or a selection is not usable."""


class CheckpointError(PlaygroundError):
    """A file of weights, a config or a vocabulary is missing, broken or not what it says."""


class UnsupportedModel(PlaygroundError):
    """The checkpoint is intact but describes an architecture this project does not compute."""


class DownloadError(PlaygroundError):
    """Weights could not be fetched: no network, no space, or not the bytes that were expected."""
