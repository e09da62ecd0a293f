"""Errors that a person can cause, worded for that person."""

import re
import unicodedata

LONGEST = 500  # most characters of an offending value to show


def plain(text: str) -> str:
    """Return a text on one line with only visible characters: invisible and control characters are written as escapes.

    File names, tokens and values of untrusted files reach the page and the terminal through this.
    """
    if isinstance(text, Message):
        return Message(text.template, tuple(map(plain, text.values)))
    line = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    line = re.sub(r"[\t\r\n]+ *", " ", line)
    if line.isprintable():
        return line
    return "".join(
        char if char.isprintable() or unicodedata.category(char) == "Zs" else char.encode("unicode_escape").decode()
        for char in line
    )


class Message(str):
    """A sentence for a person with its template and values: the template is the key of a translation."""

    template: str
    values: tuple[str, ...]

    def __new__(cls, template: str, values: tuple[str, ...] = ()) -> "Message":
        """Return the template with its "{}" filled in, in order."""
        message = super().__new__(cls, template.format(*values))
        message.template, message.values = template, values
        return message

    def __reduce__(self) -> tuple:
        return Message, (self.template, self.values)


def say(template: str, *values: object) -> Message:
    """Format a message for the user by filling the "{}" of a template with values."""
    return Message(template, tuple(map(str, values)))


class PlaygroundError(Exception):
    """A request of the user cannot be fulfilled; the page shows `what` and `hint`, never a traceback.

    Args:
        what: what went wrong, one plain sentence.
        got: the offending value, shortened if long; "" without one.
        hint: what to do about it, one plain sentence.

    If `what` or `hint` contains values, it comes from `say`, so that the page can translate it.
    """

    def __init__(self, what: str, got: str = "", hint: str = "") -> None:
        self.what, self.got, self.hint = plain(what), plain(got), plain(hint)
        super().__init__(" ".join(part for part in (self.what, f"Got: {self.got}." if got else "", self.hint) if part))

    def __reduce__(self) -> tuple:
        return _the_same, (type(self), self.args, vars(self))


def _the_same(kind: type[PlaygroundError], args: tuple, state: dict) -> PlaygroundError:
    """Rebuild an error in another process."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class InputError(PlaygroundError):
    """The prompt, an option or a selection is not usable."""


class Astray(InputError):
    """A training run diverged; the last model with finite numbers is kept."""


class PromptTooLong(InputError):
    """The prompt has more tokens than fit; `cut` is the longest prefix that fits, `limit` the number of tokens."""

    def __init__(self, what: str, got: str, hint: str, cut: str, limit: int) -> None:
        super().__init__(what, got, hint)
        self.cut, self.limit = cut, limit


class CheckpointError(PlaygroundError):
    """A file of weights, a config or a vocabulary is missing, broken or inconsistent."""


class UnsupportedModel(PlaygroundError):
    """The checkpoint is intact but describes an architecture this project does not compute."""


class DownloadError(PlaygroundError):
    """Weights could not be downloaded: no network, no space, or unexpected contents."""
