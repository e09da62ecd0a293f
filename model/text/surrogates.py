"""Characters that arrive as two halves of a UTF-16 surrogate pair, as JavaScript and Java count them."""

from model.errors import InputError


def joined(text: str) -> str:
    """Return the text with both halves of each surrogate pair as the character that they mean.

    Raises InputError for a half without the other.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        pass
    else:
        return text
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            "The text holds half of a surrogate pair, which is no character.",
            f"\\u{ord(text[error.start]):04x} at character {error.start}",
            "Remove that character or paste the text again.",
        ) from None
    return text
