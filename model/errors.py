"""Errors that a user can cause, with messages for that user."""

import re
import unicodedata

LONGEST = 500  # maximum number of characters of an offending value to show


def plain(text: str) -> str:
    """Return a text on one line with only visible characters; invisible and control characters are escaped.

    File names, tokens and values of untrusted files are shown on the page and in the terminal only in this form.
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
    """A message for the user with its template and values; the template is the key of its translation."""

    template: str
    values: tuple[str, ...]

    def __new__(cls, template: str, values: tuple[str, ...] = ()) -> "Message":
        """Fill the "{}" of the template with the values, in order."""
        message = super().__new__(cls, template.format(*values))
        message.template, message.values = template, values
        return message

    def __reduce__(self) -> tuple:
        return Message, (self.template, self.values)


def say(template: str, *values: object) -> Message:
    """Format a message for the user by filling the "{}" of a template with values."""
    return Message(template, tuple(map(str, values)))


class PlaygroundError(Exception):
    """An error in which the user's request cannot be fulfilled; the page shows `what` and `hint`, never a traceback.

    Args:
        what: what went wrong, one plain sentence.
        got: the offending value, shortened if long; "" without such a value.
        hint: what to do about it, one plain sentence.

    If `what` or `hint` contains values, it is created by `say`, so that the page can translate it.
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
    """Error raised if the prompt, an option or a selection is not usable."""


class Astray(InputError):
    """Error raised when a training run diverges; the last model with finite numbers is kept."""


class DeadEnd(InputError):
    """Error raised if no token can come next under a rule, although the text is not complete."""


class PromptTooLong(InputError):
    """Error raised if the prompt has too many tokens; `cut` is the longest prefix that fits, `limit` the maximum
    number.
    """

    def __init__(self, what: str, got: str, hint: str, cut: str, limit: int) -> None:
        super().__init__(what, got, hint)
        self.cut, self.limit = cut, limit


class CheckpointError(PlaygroundError):
    """Error raised if a file of weights, a config or a vocabulary is missing, broken or inconsistent."""


class UnsupportedModel(PlaygroundError):
    """Error raised if a checkpoint is intact but has an architecture that this project does not support."""


class DownloadError(PlaygroundError):
    """Error raised if weights could not be downloaded: no network, no space, or unexpected contents."""
