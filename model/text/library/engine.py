"""The engine of a tokenizer.json: ids and spans from the `tokenizers` library.

It holds two copies of the tokenizer. In the plain one, each special token has a name of its own that no text contains:
a text that spells out a special token cannot become one, whatever the model of the tokenizer (a Unigram model would
otherwise find it in its vocabulary). The other one, built at its first use, recognizes special tokens in the text.
"""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from model.errors import CheckpointError, InputError
from model.text.bpe_ranks import FRESH_COPY

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


def build(content: Mapping) -> "Tokenizer":
    """Build the library's tokenizer of the content of a tokenizer.json. Raises CheckpointError if it refuses."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(json.dumps(content))
    except BaseException as error:  # the library raises Exception itself; a panic derives from BaseException
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        what = "The tokenizers library cannot read this tokenizer.json."
        raise CheckpointError(what, str(error)[:160], FRESH_COPY) from error


class LibraryEngine:
    """An encoder of texts: ids, and where in the text each comes from."""

    def __init__(self, text: str, raw: Sequence[bytes | None], special: Mapping[str, int]) -> None:
        """Build the engine of a tokenizer.json's text.

        raw: the bytes of each id; special: the special tokens, text -> id.
        """
        self._content = json.loads(text)
        self._raw = raw
        mark = secrets.token_hex(8)
        self.hidden = {name: f"<{mark}:{number}>" for name, number in special.items()}
        self.content = _renamed(self._content, self.hidden)
        self._plain = build(self.content)

    @cached_property
    def _full(self) -> "Tokenizer":
        return build(self._content)

    def ids(self, text: str, special: bool) -> list[int]:
        """Return the ids of a text, without those that the post-processor adds."""
        return self._encoding(text, special).ids

    def encode(self, text: str, special: bool) -> tuple[list[int], np.ndarray]:
        """Return the ids of a text, and the span of each in the bytes of the text. [T], [T, 2]

        The spans follow each other without gaps or overlaps from the beginning of the text to its end. A token has the
        characters that it came from, whatever the normalizer made of them. Text without a token, such as a dropped
        space, belongs to the next token; at the end, to the last. If one character became several tokens, they share
        its bytes if they are its bytes (byte fallback); otherwise, the first has it and the others have an empty span.
        """
        encoding = self._encoding(text, special)
        return encoding.ids, self._spans(text, encoding.ids, encoding.offsets)

    def _encoding(self, text: str, special: bool) -> "Encoding":
        try:
            return (self._full if special else self._plain).encode(text, add_special_tokens=False)
        except BaseException as error:  # such as for a character without a token, if there is no unknown token
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise InputError("The tokenizer cannot split this text.", str(error)[:80], "Try another text.") from None

    def split(self, text: str) -> list[str]:
        """Normalize a text and split it into the pieces that the model of the tokenizer sees."""
        plain = self._plain
        text = plain.normalizer.normalize_str(text) if plain.normalizer else text
        if plain.pre_tokenizer is None:
            return [text] if text else []
        return [piece for piece, _ in plain.pre_tokenizer.pre_tokenize_str(text)]

    def marked(self, parts: Sequence[tuple[str, bool]]) -> tuple[list[int], list[int]]:
        """Encode a text in parts: (text, whether it is a special token).

        Returns the ids, and the number of bytes of `parts` that each has, as in `encode`. Special tokens spelled out
        in another part remain text.
        """
        names = [self.hidden[text] if special else text for text, special in parts]
        ids, spans = self.encode("".join(names), False)
        edges = np.cumsum([0, *(len(name.encode()) for name in names)])
        true = np.cumsum([0, *(len(text.encode()) for text, _ in parts)])
        ends = np.interp(spans[:, 1], edges, true).round().astype(int)
        return ids, np.diff(ends, prepend=0).tolist()

    def _spans(self, text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]]) -> np.ndarray:
        data = text.encode()
        at = np.cumsum([0, *(len(char.encode()) for char in text)]) if len(data) != len(text) else None
        ends, end = [], 0
        for number, (first, last) in zip(ids, offsets, strict=True):
            start, stop = (first, last) if at is None else (int(at[first]), int(at[last]))
            end = self._end(data, end, start, stop, self._raw[number] or b"")
            ends.append(end)
        if ends:
            ends[-1] = len(data)
        return np.stack([np.array([0, *ends[:-1]][: len(ends)], np.int64), np.array(ends, np.int64)], axis=1)

    def _end(self, data: bytes, end: int, start: int, stop: int, raw: bytes) -> int:
        """Return the end of a token in the text; the previous one ends at `end`, and it came from [start, stop)."""
        for begin in (end, max(end, start)):
            if begin + len(raw) <= stop and data.startswith(raw, begin):
                return begin + len(raw)
        if raw == b" " and data[start : start + 1].strip():  # a space that the tokenizer put before a word
            return end
        return max(end, stop)


def _renamed(content: Mapping, names: Mapping[str, str]) -> dict:
    """Return the content of a tokenizer.json in which special tokens have other names.

    A byte as a token (<0x0A>) keeps its name, because the model of the tokenizer looks it up; it is not matched in the
    text either.
    """
    model = dict(content["model"])
    if model.get("byte_fallback"):
        names = {text: name for text, name in names.items() if not _BYTE.fullmatch(text)}
        known = {*model["vocab"]} if isinstance(model["vocab"], dict) else {text for text, _ in model["vocab"]}
        kept = [t for t in content["added_tokens"] if not (_BYTE.fullmatch(t["content"]) and t["content"] in known)]
        content = {**content, "added_tokens": kept}
    vocab = model["vocab"]
    if isinstance(vocab, list):
        model["vocab"] = [[names.get(text, text), score] for text, score in vocab]
    else:
        model["vocab"] = {names.get(text, text): number for text, number in vocab.items()}
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    merges = [tuple(merge.split(" ")) if isinstance(merge, str) else merge for merge in model.get("merges") or ()]
    if merges:  # a special token that merges also build is then built under its new name, so those merges are omitted
        model["merges"] = [merge for merge in merges if not {*merge, "".join(merge)} & names.keys()]
    added = [token | {"content": names.get(token["content"], token["content"])} for token in content["added_tokens"]]
    return {**content, "model": model, "added_tokens": added, "post_processor": None}
