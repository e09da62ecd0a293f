"""A visitor's selection: heads, tokens, a cell, target and distractor tokens, and edits of the run.

All data from a page is validated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from model.errors import InputError
from model.gpt.config import ModelConfig
from model.gpt.edit_checks import edit_of
from model.gpt.edits import Edit

MOST_HEADS = 8  # maximum number of heads; each has its own hue
MOST_EDITS = 64
WATCHED = ("target", "distractor")


@dataclass(frozen=True)
class Selection:
    """The selected heads in order of selection, with the main one last; token positions; one cell; edits.

    Target and distractor are the tokens of the vocabulary whose probabilities the views track.
    """

    heads: tuple[tuple[int, int], ...] = ()
    tokens: tuple[int, ...] = ()
    pair: tuple[int, int] | None = None  # query, key
    edits: tuple[Edit, ...] = ()
    target: int | None = None  # token id; None for the view's own default
    distractor: int | None = None


def picked(value: object, config: ModelConfig, T: int, model: str | None = None, size: int | None = None) -> Selection:
    """Parse the selection that a page sent, dropping parts that do not fit this model or this prompt of T tokens.

    `model` is its name, or None to skip that check. Heads, edits and token ids have a different meaning in another
    model, so those selected for another one are dropped. `size` is the size of the vocabulary, or None for all rows of
    the model.
    """
    sent = value if isinstance(value, Mapping) else {}
    ours = model is None or sent.get("of") in (None, model)
    sent_heads = _list(sent, "heads") if ours else []
    heads = [head for head in map(_int_pair, sent_heads) if head and _is_head(head, config)]
    tokens = [t for t in _list(sent, "tokens") if _is_int(t) and 0 <= t < T]
    pair = _int_pair(sent.get("pair"))
    fits = pair and 0 <= pair[1] <= pair[0] < T
    target, distractor = (_id(sent.get(name), size or config.vocab_size) if ours else None for name in WATCHED)
    edits = _list(sent, "edits")[:MOST_EDITS] if ours else []
    return Selection(
        tuple(dict.fromkeys(heads))[-MOST_HEADS:],
        tuple(dict.fromkeys(tokens)),
        pair if fits else None,
        tuple(edit for edit in (_edit(each, config, T, size or config.vocab_size) for each in edits) if edit),
        target,
        distractor,
    )


def _list(sent: Mapping, name: str) -> list:
    value = sent.get(name)
    return value if isinstance(value, list) else []


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _id(value: object, size: int) -> int | None:
    """Return the token id if it is valid, else None."""
    return value if _is_int(value) and 0 <= value < size else None


def _int_pair(value: object) -> tuple[int, int] | None:
    """Return the pair of integers if it is valid, else None."""
    if isinstance(value, list | tuple) and len(value) == 2 and all(_is_int(n) for n in value):
        return value[0], value[1]
    return None


def _is_head(head: tuple[int, int], config: ModelConfig) -> bool:
    return 0 <= head[0] < config.n_layer and 0 <= head[1] < config.n_head


def _edit(value: object, config: ModelConfig, T: int, size: int) -> Edit | None:
    try:
        edit = edit_of(value, config, T)
    except InputError:
        return None
    return edit if edit.token is None or edit.token < size else None
