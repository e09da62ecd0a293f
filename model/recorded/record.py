"""Attention weights that were computed elsewhere, checked and together with their tokens."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from model.arguments import is_whole, shown
from model.errors import InputError, Message, say
from model.recorded import padded, picture, sources, weights
from model.recorded.picture import Picture
from model.recorded.readable import readable
from model.recorded.taken import stacked

MASKS = ("causal", "two-way", "cross")
MOST_TOKENS = 8192
MOST_CHARACTERS = 400  # of one token


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """Attention of one run. The weights of each row are at least 0 and sum to 1, or are 0 everywhere."""

    weights: np.ndarray  # float32 [L, H, T, S]
    queries: tuple[str, ...]  # [T], readable
    keys: tuple[str, ...] | None  # [S]; None if they are the queries
    mask: str  # one of MASKS
    first_layer: int = 0  # number of the first layer
    image: Picture | None = None  # key tokens are its patches
    notes: tuple[Message, ...] = ()

    @property
    def key_tokens(self) -> tuple[str, ...]:
        """The key tokens, also if they are the queries."""
        return self.queries if self.keys is None else self.keys


def record_of(
    attention: object,
    tokens: object,
    keys: object = None,
    *,
    image: object = None,
    grid: Sequence[int] | None = None,
    padding: object = None,
    key_padding: object = None,
    which: str = "",
    batch: int | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    first_layer: int | None = None,
) -> AttentionRecord:
    """Check attention from elsewhere and put it together with its tokens.

    attention: [L, H, T, S], [H, T, S] or a list with one array per layer, of NumPy or torch, or a structure of
        transformers, TransformerLens or nnsight (model.recorded.sources).
    tokens, keys: texts of the query and the key tokens, as in the text or as a tokenizer has them (model.recorded.
        readable). `keys` only where they are other tokens: the encoder's, for cross-attention.
    image, grid: the picture whose patches are key tokens, [h, w, 3] uint8, of PIL, or a path to a PNG or JPEG file, and
        the (rows, columns) of its patches.
    padding, key_padding: 1 for a token, 0 for padding, which is cut; `key_padding` if the keys are other tokens.
    which: "encoder", "decoder" or "cross", if the structure has several kinds of attention.
    batch: the example to take from a batch.
    layers, heads: numbers of the layers and heads to keep; layers have to follow each other.
    first_layer: the number of the first layer, if it is not 0.

    The mask is read from the numbers. Where queries and keys are the same tokens, it is "causal" if every weight on a
    later token is exactly 0, else "two-way"; with other keys, it is "cross".

    Raises InputError that says what was expected and got.
    """
    found, first, notes = sources.layers_of(attention, which)
    array, tolerance = stacked(found, batch)
    first = _first(first if first_layer is None else first_layer)
    array, first, chosen = _parts(array, first, layers, heads)
    queries = texts_of(tokens, "tokens")
    others = None if keys is None else texts_of(keys, "keys")
    _check_lengths(array, queries, others)
    cut = padded.cut(array, queries, others, padding, key_padding)
    weights.check(cut.weights, tolerance)
    kept_weights, more = weights.cleaned(cut.weights)
    square = cut.keys is None
    mask = "cross" if not square else "causal" if weights.is_causal(kept_weights) else "two-way"
    record = AttentionRecord(
        weights=kept_weights,
        queries=readable(cut.queries, patches=square and image is not None),
        keys=None if cut.keys is None else readable(cut.keys, patches=image is not None),
        mask=mask,
        first_layer=first,
        notes=(*notes, *chosen, *cut.notes, *more),
    )
    if image is None:
        if grid is not None:
            raise InputError("There is a grid but no image.", shown(grid), "Give image=, too.")
        return record
    return replace(record, image=picture.picture(image, grid, len(record.key_tokens)))


def texts_of(tokens: object, name: str) -> tuple[str, ...]:
    """Return tokens as texts. Raises InputError for a single text, ids, no tokens or too many."""
    hint = 'Give a list of texts, for example ["The", " cat"].'
    if isinstance(tokens, str | bytes) or not hasattr(tokens, "__len__") or not hasattr(tokens, "__iter__"):
        raise InputError(say("{} is not a list of tokens.", name), shown(tokens), hint)
    listed = list(tokens)
    if not listed:
        raise InputError(say("{} is empty.", name), "", hint)
    if len(listed) > MOST_TOKENS:
        raise InputError(
            "These are too many tokens for one page.", str(len(listed)), say("At most {} are shown.", MOST_TOKENS)
        )
    if any(is_whole(each) or (hasattr(each, "dtype") and not isinstance(each, str | bytes)) for each in listed):
        raise InputError(
            say("{} has ids instead of texts.", name),
            shown(listed[0]),
            "Convert them: tokenizer.convert_ids_to_tokens(ids).",
        )
    for each in listed:
        if not isinstance(each, str | bytes):
            raise InputError(say("{} is not a list of texts.", name), type(each).__name__, hint)
    return tuple(each if isinstance(each, bytes) else each[:MOST_CHARACTERS] for each in listed)  # type: ignore[misc]


def _first(first: object) -> int:
    if not (is_whole(first) and 0 <= first < 10_000):  # type: ignore[operator]
        raise InputError("first_layer is the number of a layer.", shown(first), "Give an integer from 0.")
    return int(first)  # type: ignore[call-overload]


def _parts(
    array: np.ndarray, first: int, layers: Sequence[int] | None, heads: Sequence[int] | None
) -> tuple[np.ndarray, int, tuple[Message, ...]]:
    """Keep the chosen layers and heads. Raises InputError for those that do not exist."""
    notes: tuple[Message, ...] = ()
    if layers is not None:
        numbers = _numbers(layers, first, len(array), "layers")
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise InputError(
                "These layers do not follow each other.", str(numbers)[:80], "Choose, for example, range(4, 8)."
            )
        array, first = array[numbers[0] - first : numbers[-1] - first + 1], numbers[0]
    if heads is not None:
        numbers = _numbers(heads, 0, array.shape[1], "heads")
        array = array[:, numbers]
        if numbers != list(range(len(numbers))):
            notes = (say("Heads are numbered here in this order: {}.", ", ".join(map(str, numbers))),)
    return array, first, notes


def _numbers(chosen: Sequence[int] | int, first: int, n: int, name: str) -> list[int]:
    listed = [chosen] if isinstance(chosen, str) or not isinstance(chosen, Iterable) else list(chosen)
    numbers = [int(each) for each in listed if is_whole(each)]
    if not numbers or len(numbers) != len(listed) or not all(first <= each < first + n for each in numbers):
        raise InputError(
            say("{} has numbers that do not exist.", name),
            str(listed)[:80],
            say("They run from {} to {}.", first, first + n - 1),
        )
    return numbers


def _check_lengths(array: np.ndarray, queries: Sequence[str], keys: Sequence[str] | None) -> None:
    """Raise InputError unless the tokens fit the last two axes."""
    T, S = array.shape[2:]
    got = say("{} queries × {} keys, {} tokens", T, S, len(queries))
    if keys is None and T != S:
        raise InputError(
            "Queries and keys differ in number.", got, "Give the key tokens, too: keys=[…]. The last axis is the keys."
        )
    if keys is None and len(queries) != T:
        raise InputError(
            "The number of tokens does not fit the attention.",
            got,
            "Give one text per token, also for special tokens such as [CLS] or <s>.",
        )
    if keys is not None and (len(queries), len(keys)) != (T, S):
        swapped = (len(keys), len(queries)) == (T, S)
        raise InputError(
            "The numbers of tokens and keys do not fit the attention.",
            say("{} queries × {} keys, {} tokens, {} keys given", T, S, len(queries), len(keys)),
            "Exchange tokens and keys." if swapped else "Give one text per query token and one per key token.",
        )
