"""Characters that arrive as two halves of a UTF-16 surrogate pair, as JavaScript and Java represent them."""

from model.errors import InputError


def joined(text: str) -> str:
    """Join the two halves of each surrogate pair of a text into one character.

    Raises InputError for an unpaired surrogate.
    """
    text = _paired(text)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            "The text contains an unpaired surrogate, which is not a character.",
            f"\\u{ord(text[error.start]):04x} at character {error.start}",
            "Remove that character or paste the text again.",
        ) from None
    return text


def whole(text: str) -> str:
    """Join surrogate pairs as `joined` does, and replace an unpaired surrogate by "?"."""
    return _paired(text).encode("utf-8", "replace").decode("utf-8")


def _paired(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
