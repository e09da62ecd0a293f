"""Characters that arrive as two halves of a UTF-16 surrogate pair, as JavaScript and Java count them."""

from model.errors import InputError


def joined(text: str) -> str:
    """Return the text with both halves of each surrogate pair as the character that they mean.

    Raises InputError for a half without the other.
    """
    text = _paired(text)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            "The text holds half of a surrogate pair, which is no character.",
            f"\\u{ord(text[error.start]):04x} at character {error.start}",
            "Remove that character or paste the text again.",
        ) from None
    return text


def whole(text: str) -> str:
    """Return the text as `joined` does, with "?" in place of a half without the other."""
    return _paired(text).encode("utf-8", "replace").decode("utf-8")


def _paired(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
