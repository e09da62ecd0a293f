"""The tokenizer for the vocabularies of all models: tiktoken's byte-pair encoding, and for what it cannot express, the
`tokenizers` library (model/text/library).

This module never downloads: it uses only tiktoken's engine, not its registry of encodings.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import tiktoken

from model.arguments import check_token, shown
from model.errors import CheckpointError, InputError, UnsupportedModel, say
from model.records import Tokens
from model.text.bpe_ranks import FRESH_COPY
from model.text.gguf_vocabulary import read_gguf
from model.text.library.content import library_vocabulary, within_rows
from model.text.library.engine import LibraryEngine
from model.text.library.folders import folder_content
from model.text.surrogates import joined
from model.text.vocabulary import GPT2_PATTERN, Vocabulary, read_json, read_tiktoken
from model.text.vocabulary_files import json_vocabulary, read_vocab_merges
from model.text.vocabulary_settings import VocabularySettings, read_settings, settings_of

# tiktoken's regex engine uses a stack entry per whitespace character and panics at a million of them.
MAX_WHITESPACE_RUN = 500_000

_Matcher = tuple[re.Pattern[str] | None, dict[str, int]]


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A converter between text and token ids.

    If a byte-level vocabulary normalizes text (Qwen: NFC), all results of `encode`, spans included, refer to the bytes
    of the normalized text. With the `tokenizers` library, the spans of `encode` refer to the text as it was given.
    """

    name: str
    vocab_size: int  # number of ids; a model may have more rows
    special: Mapping[str, int]  # special token text -> id
    bos_id: int | None
    eos_id: int | None
    add_bos: bool  # True if the vocabulary puts BOS first by default
    chat_template: str | None
    _vocabulary: Vocabulary = field(repr=False)
    _engine: tiktoken.Encoding = field(repr=False)
    _matchers: Mapping[tuple[bool, bool], _Matcher] = field(repr=False)  # (after NFC, special) -> matcher
    # another project's tokenizer that encodes in place of the engine: (text, special) -> ids
    _foreign: Callable[[str, bool], list[int]] | None = field(default=None, repr=False)
    library: LibraryEngine | None = field(default=None, repr=False)  # encodes in place of the engine

    def encode(self, text: str, *, special: bool = False) -> Tokens:
        """Tokenize a text, without a BOS; `b"".join(raw)` is the (normalized) text in UTF-8.

        With the `tokenizers` library, the bytes of a token are what it adds to a text that is decoded, so the text may
        differ (a space first, lower case); the spans cover the text as it was given (LibraryEngine.encode).

        If `special`, special tokens in the text become their ids; otherwise they are plain text. Added tokens that are
        not special (runs of spaces in GPT-NeoX) are always matched.

        The two halves of a surrogate pair count as one character. Raises InputError if the text has an unpaired
        surrogate, a byte outside the vocabulary, or a run of whitespace longer than the engine accepts;
        UnsupportedModel if the vocabulary's pattern omits part of the text.
        """
        if self.library is not None:
            ids, spans = self.library.encode(joined(text), special)
            return replace(self.tokens(ids), spans=spans)
        return self.tokens(self.encode_ids(text, special=special))

    def encode_ids(self, text: str, *, special: bool = False) -> list[int]:
        """Return only the ids of `encode`. Raises the same errors."""
        text = joined(text)
        if self.library is not None:
            return self.library.ids(text, special)
        if self._foreign is not None:
            return self._foreign(text, special)
        ids: list[int] = []
        n_bytes = 0
        for part, token in self._cut(text, False, special):
            if token is not None:
                ids.append(token)
                n_bytes += len(part.encode())
                continue
            part = unicodedata.normalize("NFC", part) if self._vocabulary.nfc else part
            n_bytes += len(part.encode())
            for piece, fixed in self._cut(part, True, special):
                if fixed is not None:
                    ids.append(fixed)
                elif piece:
                    ids += self._merge(piece)
        if len(self.decode_bytes(ids)) != n_bytes:
            got = self._vocabulary.pattern
            hint = "Use a model whose vocabulary takes every text."
            raise UnsupportedModel("The pattern of this vocabulary skips part of the text.", got, hint)
        return ids

    @property
    def end_id(self) -> int | None:
        """The token that ends an answer in training: EOS, if the model's own generation ends there, too.

        None if there is no EOS, or if the files disagree: a model trained to end with a token that does not stop its
        generation would not stop. This matches trl, which appends `eos_token`, except for files that disagree.
        """
        return None if self.vocabulary.disputed_end else self.eos_id

    @property
    def begin_id(self) -> int | None:
        """The first token that this vocabulary puts before a text by default; None if it adds no token."""
        return self.begin_ids[0] if self.begin_ids else None

    @property
    def begin_ids(self) -> tuple[int, ...]:
        """The tokens that this vocabulary puts before a text by default: a BOS, or none, or several (GLM: two)."""
        if self.vocabulary.begin:
            return self.vocabulary.begin
        return (self.bos_id,) if self.add_bos and self.bos_id is not None else ()

    @property
    def mask_id(self) -> int | None:
        """The token that stands for a token to predict, such as [MASK]; None if the vocabulary has none."""
        return self._special("mask_token", "[MASK]", "<mask>")

    @property
    def separator_id(self) -> int | None:
        """The token between two texts, such as [SEP]; None if the vocabulary has none."""
        return self._special("sep_token", "[SEP]")

    def _special(self, key: str, *usual: str) -> int | None:
        """Return the special token that the files name under `key`, or one of the usual texts."""
        texts = (self._vocabulary.named.get(key), *usual)
        return next((self.special[text] for text in texts if isinstance(text, str) and text in self.special), None)

    def prompt_ids(self, text: str, *, special: bool = False) -> list[int]:
        """Return the ids of a text that begins a sequence: `begin_ids`, those of `encode`, and those that the
        vocabulary puts last (BERT: [SEP]).

        All code that runs a model on a text from its beginning uses this: tracing, generation, fine-tuning,
        preferences and reinforcement. An empty text has no ids. Raises the same errors as `encode`.
        """
        ids = self.encode_ids(text, special=special)
        return [*self.begin_ids, *ids, *self.vocabulary.finish] if ids else ids

    def typed(self, ids: Iterable[int]) -> str:
        """Decode token ids to the text as a user would type it, without the space that the tokenizer itself puts first
        (Llama 2: "The" is the token " The").
        """
        ids = _listed(ids)
        text = self.decode(ids)
        shorter = text.startswith(" ") and self.library is not None and self.encode_ids(text[1:]) == ids
        return text[1:] if shorter else text

    def decode(self, ids: Iterable[int]) -> str:
        """Decode token ids, with U+FFFD for bytes that are not UTF-8. Raises InputError for ids outside the
        vocabulary.
        """
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Concatenate the bytes of token ids. Raises InputError for ids outside the vocabulary."""
        return b"".join(map(self._raw, _listed(ids)))

    def tokens(self, ids: Iterable[int]) -> Tokens:
        """Return the Tokens of ids [T]. Raises InputError for ids outside the vocabulary."""
        ids = _listed(ids)
        raw = tuple(self._raw(number) for number in ids)
        ends = np.fromiter(accumulate(map(len, raw), initial=0), dtype=np.int64, count=len(ids) + 1)
        return Tokens(
            ids=np.array(ids, dtype=np.int64),
            pieces=tuple(map(_show, raw)),
            raw=raw,
            spans=np.stack([ends[:-1], ends[1:]], axis=1),  # [T, 2]
        )

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the tokenizer."""
        return self._vocabulary

    @property
    def raw(self) -> tuple[bytes | None, ...]:
        """The bytes of every id, None for an id without a token. [V]"""
        return self._vocabulary.raw

    def piece(self, id: int) -> str:
        """Return the text of one token; if its bytes alone are not UTF-8, they are written as `<0xE2><0x96>`.

        `<unused 50280>` stands for an id with a row in the model but no token in the vocabulary. Raises InputError if
        the id is negative.
        """
        check_token(id, max(self.vocab_size, 1 << 31))
        raw = self._vocabulary.raw[id] if id < self.vocab_size else None
        return f"<unused {int(id)}>" if raw is None else _show(raw)

    def _raw(self, number: int) -> bytes:
        check_token(number, self.vocab_size)
        raw = self._vocabulary.raw[number]
        if raw is None:
            hint = say("Ids run from 0 to {}.", self.vocab_size - 1)
            raise InputError("There is no token with this id.", str(number), hint)
        return raw

    def _cut(self, text: str, after_nfc: bool, special: bool) -> Iterator[tuple[str, int | None]]:
        """Split the text at added tokens: (an added token, its id) or (text between them, None)."""
        pattern, ids = self._matchers[after_nfc, special]
        if pattern is None:
            yield text, None
            return
        start = 0
        for match in pattern.finditer(text):
            yield text[start : match.start()], None
            yield match[0], ids[match[0]]
            start = match.end()
        yield text[start:], None

    def _merge(self, text: str) -> list[int]:
        """Tokenize a stretch of text without added tokens."""
        if len(text) > MAX_WHITESPACE_RUN:
            longest = max((match.end() - match.start() for match in re.finditer(r"\s+", text)), default=0)
            if longest > MAX_WHITESPACE_RUN:
                raise InputError(
                    "The text has a run of whitespace that is too long.",
                    f"{longest} characters",
                    say("At most {} whitespace characters in a row can be encoded.", MAX_WHITESPACE_RUN),
                )
        try:
            ranks = self._engine.encode_ordinary(text)
        except BaseException as error:
            # a panic in the engine derives only from BaseException, and would end the server's thread
            if type(error).__name__ != "PanicException":
                raise
            raise InputError(
                "The tokenizer cannot split this text.",
                str(error)[:80],
                "Shorten the text, or break its longest run without spaces.",
            ) from None
        rank_ids = self._vocabulary.rank_ids
        ids = [rank_ids[rank] for rank in ranks]
        if -1 in ids:
            byte = ranks[ids.index(-1)]  # only single bytes can lack an id, and their ranks are their values
            char = next(char for char in text if byte in char.encode())
            raise InputError(
                "This vocabulary has no token for a character of the text.",
                f"U+{ord(char):04X}",
                "Remove that character.",
            )
        return ids


def _listed(ids: Iterable[int]) -> list[int]:
    """Convert unchecked ids to a list of Python integers. Raises InputError for anything but a sequence of ids."""
    if hasattr(ids, "tolist"):
        ids = ids.tolist()
    if isinstance(ids, str | bytes | Mapping) or not isinstance(ids, Iterable):
        raise InputError("These are not token ids.", shown(ids), "Give a list of whole numbers.")
    return list(ids)


def _show(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in raw)


def _matcher(vocabulary: Vocabulary, after_nfc: bool, special: bool) -> _Matcher:
    """Build a pattern for the added tokens of one kind, longest first, and return it with their ids."""
    ids = {}
    for token in vocabulary.added:
        if token.after_nfc == after_nfc and (special or not token.special):
            ids[unicodedata.normalize("NFC", token.text) if after_nfc and vocabulary.nfc else token.text] = token.id
    if not ids:
        return None, ids
    return re.compile("|".join(map(re.escape, sorted(ids, key=len, reverse=True)))), ids


def from_vocabulary(vocabulary: Vocabulary) -> Tokenizer:
    """Build the tokenizer of a vocabulary. Raises UnsupportedModel if the engine cannot use its pattern."""
    if vocabulary.library:
        special = {token.text: token.id for token in vocabulary.added if token.special}
        engine = LibraryEngine(vocabulary.library, vocabulary.raw, special)
        return _built(vocabulary, None, {}, library=engine)
    try:
        engine = tiktoken.Encoding(
            vocabulary.name, pat_str=vocabulary.pattern, mergeable_ranks=dict(vocabulary.ranks), special_tokens={}
        )
    except ValueError as error:
        got = f"{vocabulary.pattern}: {str(error)[:80]}"
        raise UnsupportedModel("The pattern of this vocabulary cannot be used.", got, FRESH_COPY) from error
    kinds = [(after_nfc, special) for after_nfc in (False, True) for special in (False, True)]
    return _built(vocabulary, engine, {kind: _matcher(vocabulary, *kind) for kind in kinds})


def _built(
    vocabulary: Vocabulary, engine: Any, matchers: Mapping, *, library: LibraryEngine | None = None
) -> Tokenizer:
    return Tokenizer(
        name=vocabulary.name,
        vocab_size=len(vocabulary.raw),
        special={token.text: token.id for token in vocabulary.added if token.special},
        bos_id=vocabulary.bos_id,
        eos_id=vocabulary.eos_id,
        add_bos=vocabulary.add_bos,
        chat_template=vocabulary.chat_template,
        _vocabulary=vocabulary,
        _engine=engine,
        _matchers=matchers,
        library=library,
    )


def from_gguf(metadata: Mapping[str, object]) -> Tokenizer:
    """Build the tokenizer in GGUF metadata (plain Python values). Raises CheckpointError or UnsupportedModel.

    With `tokenizer.ggml.pre` "qwen2" the text is normalized to NFC, as in Qwen's own tokenizer.
    """
    return from_vocabulary(read_gguf(metadata))


def from_tokenizer_json(path: Path, config: Mapping | None = None) -> Tokenizer:
    """Build the tokenizer of a tokenizer.json file; `config` is the content of tokenizer_config.json, if that exists.

    If the config does not name them, a single special token is both BOS and EOS. Raises CheckpointError if the file is
    broken.
    """
    path = Path(path)
    return from_content(read_json(path), path.parent.name or path.stem, settings_of(config or {}))


def from_content(content: Mapping, name: str, settings: VocabularySettings) -> Tokenizer:
    """Build the tokenizer of the content of a tokenizer.json: tiktoken's engine if it can express it, otherwise the
    `tokenizers` library. Raises CheckpointError if it is broken.
    """
    try:
        return from_vocabulary(json_vocabulary(content, name, settings))
    except UnsupportedModel:
        return from_vocabulary(library_vocabulary(content, name, settings))


def from_vocab_merges(vocab: Path, merges: Path) -> Tokenizer:
    """Build the tokenizer of GPT-2's vocab.json and merges.txt. Raises CheckpointError for broken files."""
    return from_vocabulary(read_vocab_merges(Path(vocab), Path(merges), VocabularySettings()))


def from_tiktoken(path: Path, *, pattern: str = GPT2_PATTERN, special: Mapping[str, int] | None = None) -> Tokenizer:
    """Build the tokenizer of a .tiktoken file (a base64 token and its rank per line). Raises CheckpointError for a
    broken file.

    The file does not include the pattern that splits the text; pass it unless it is GPT-2's.
    """
    return from_vocabulary(read_tiktoken(Path(path), pattern, special or {}))


def from_folder(folder: Path, rows: int = sys.maxsize) -> Tokenizer:
    """Build the tokenizer of a model folder: tokenizer.json, else vocab.json + merges.txt, else one .tiktoken file,
    else sentencepiece's tokenizer.model or WordPiece's vocab.txt.

    Special tokens, end tokens and chat templates are read from the files beside it (vocabulary_settings.py). Added
    tokens from id `rows` on are left out.

    Raises CheckpointError if the folder has none of these files, UnsupportedModel if the tokenizer is unsupported.
    """
    folder = Path(folder)
    settings = read_settings(folder)
    settings = replace(settings, added=tuple(token for token in settings.added if token["id"] < rows))
    if (folder / "tokenizer.json").is_file():
        content = within_rows(read_json(folder / "tokenizer.json"), rows)
        return from_content(content, folder.name, settings)
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return from_vocabulary(read_vocab_merges(folder / "vocab.json", folder / "merges.txt", settings))
    files = sorted(folder.glob("*.tiktoken")) if folder.is_dir() else []
    if len(files) == 1:
        return from_tiktoken(files[0])
    made = folder_content(folder, settings)
    if made is not None:
        return from_vocabulary(library_vocabulary(made, folder.name, settings))
    hint = "It needs tokenizer.json, tokenizer.model, vocab.txt, or vocab.json and merges.txt."
    raise CheckpointError("The folder has no vocabulary.", folder.name, hint)
