"""Tokens that a user enters in a field, and their form in sentences."""

from collections.abc import Mapping, Sequence

from model.api import LanguageModel
from model.errors import InputError
from viz.charts.distribution import likeliest
from viz.labels import shorten, visible
from viz.seam.scene import Scene

MOST_TYPED = 200  # maximum length of an entered token in characters; no token is that long
LIKELY = 30  # number of most likely next tokens that a text without the leading space may denote
MOST_PIECES = 12  # maximum number of tokens to list if a text is not a single token


def quoted(scene: Scene, token: int) -> str:
    """Return a token's text as the page shows it."""
    return shorten(visible(scene.model.tokenizer.piece(token)), 40)


def typed_token(scene: Scene, values: object, name: str) -> int | None:
    """Return the token entered in a field, or None if it is empty. Raises InputError if it is not a single token."""
    text = values.get(name) if isinstance(values, Mapping) else None
    if not isinstance(text, str) or not text:
        return None
    ids, pieces = readings(scene, text[:MOST_TYPED])
    if not ids:
        raise InputError(not_one(scene.words, text, pieces))
    return ids[0]


def readings(scene: Scene, text: str) -> tuple[list[int], list[str]]:
    """Return the tokens that an entered text may denote, default first, and the tokens into which the text is split.

    Most tokens begin with a space, which users often omit: the token with the space comes first if the prompt contains
    it or it is among the most likely next tokens, else the text as entered. Raises InputError for an unreadable text.
    """
    token, pieces = token_of(scene.model, text)
    spaced = None if text[:1] in " ·↵\n⇥\t" else token_of(scene.model, f" {text}")[0]
    if spaced is None:
        return ([] if token is None else [token]), pieces
    logits = scene.unedited.logits_at(scene.position)[: scene.model.tokenizer.vocab_size]
    expected = spaced in scene.tokens.ids or spaced in likeliest(logits, LIKELY)
    both = [spaced, token] if expected else [token, spaced]
    return [each for each in both if each is not None], pieces


def not_one(words: Mapping[str, str], text: str, pieces: Sequence[str]) -> str:
    """Format the message that a text is not a single token but splits into the given ones."""
    shown = " ".join(f"“{shorten(visible(piece), 24)}”" for piece in pieces[:MOST_PIECES])
    more = " …" if len(pieces) > MOST_PIECES else ""
    return words["common.not_one"].format(text=shorten(visible(text), 40), n=len(pieces), pieces=shown + more)


def token_of(model: LanguageModel, text: str) -> tuple[int | None, list[str]]:
    """Return the token of a text, or None if it is not a single token, and the tokens into which it is split. Raises
    InputError for an unreadable text.
    """
    ids = ids_of(model, text)
    return ids[0] if len(ids) == 1 else None, [model.tokenizer.piece(number) for number in ids]


def ids_of(model: LanguageModel, text: str) -> list[int]:
    """Tokenize an entered text.

    The symbols that the page shows for spaces, line breaks and tabs are read as those characters, unless the symbol
    itself is a token and the characters are not. A special token must be entered in full. Raises InputError for an
    unreadable text.
    """
    if text in model.tokenizer.special:
        return [model.tokenizer.special[text]]
    lead = len(text) - len(text.lstrip(" ·"))
    typed = (" " * lead + text[lead:]).replace("↵", "\n").replace("⇥", "\t")
    ids = model.tokenizer.encode_ids(typed)
    literal = model.tokenizer.encode_ids(text) if len(ids) != 1 and typed != text else []
    return literal if len(literal) == 1 else ids
