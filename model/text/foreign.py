"""The tokenizer of another project, given as an object in memory, such as one of transformers, which is not imported.

A fast tokenizer is read from its own description, like the same tokenizer.json. A slow one keeps encoding: only the
bytes of its tokens are read.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from model.arguments import shown
from model.errors import CheckpointError, InputError, UnsupportedModel
from model.text.bpe_ranks import ALPHABET, bytes_of
from model.text.library.content import within_rows
from model.text.tokenizer import Tokenizer, from_content, from_vocabulary
from model.text.vocabulary import AddedToken, Vocabulary, with_rows
from model.text.vocabulary_settings import DEFAULT, VocabularySettings, settings_of

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # a byte as a token, in vocabularies with byte fallback


def from_object(tokenizer: object, rows: int, end_ids: tuple[int, ...] = ()) -> Tokenizer:
    """Build the tokenizer of an object: a fast or slow tokenizer of transformers, or a `tokenizers.Tokenizer`.

    rows: the number of ids that the model accepts.
    end_ids: the end tokens that the model names.

    Raises InputError if it is not a tokenizer, or has more tokens than the model has rows.
    """
    if not (callable(getattr(tokenizer, "encode", None)) and callable(getattr(tokenizer, "decode", None))):
        raise InputError("This is not a tokenizer.", shown(tokenizer), _ORDER)
    settings = _settings(tokenizer, end_ids)
    backend: Any = getattr(tokenizer, "backend_tokenizer", tokenizer)
    built = None
    if hasattr(backend, "to_str"):
        try:
            built = from_content(within_rows(json.loads(backend.to_str()), rows), _name(tokenizer), settings)
        except (UnsupportedModel, CheckpointError):
            built = None  # the object encodes
    built = built or _adapted(tokenizer, settings)
    if built.vocab_size > rows:
        hint = "Give the tokenizer that belongs to the model."
        raise InputError(
            "The tokenizer has more tokens than the model has rows.", f"{built.vocab_size} tokens, {rows} rows", hint
        )
    if built._foreign is None:
        return from_vocabulary(with_rows(built.vocabulary, rows))
    return built


_ORDER = "Give the model, then its tokenizer, then the prompt."


def _name(tokenizer: object) -> str:
    return str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)


def _settings(tokenizer: object, end_ids: tuple[int, ...]) -> VocabularySettings:
    """Read the special tokens and chat templates of the object, as of the files that it would save."""
    named = getattr(tokenizer, "special_tokens_map", None)
    template = getattr(tokenizer, "chat_template", None)
    config = {
        **({name: text for name, text in named.items() if text is not None} if isinstance(named, Mapping) else {}),
        "add_bos_token": getattr(tokenizer, "add_bos_token", False),
        "chat_template": dict(template) if isinstance(template, Mapping) else template,
    }
    return settings_of(config, end_ids=end_ids)


def _adapted(tokenizer: Any, settings: VocabularySettings) -> Tokenizer:
    """Build a tokenizer that lets the object encode."""
    raw = _raw(tokenizer)
    special = {int(number) for number in getattr(tokenizer, "all_special_ids", ())}
    added = tuple(
        AddedToken(raw[number].decode("utf-8", "replace"), number, True)
        for number in sorted(special)
        if number < len(raw) and raw[number]
    )
    ids = {token.text: token.id for token in added}
    bos, eos = (ids.get(str(settings.named.get(name))) for name in ("bos_token", "eos_token"))
    encode = _encoder(tokenizer)
    templates = dict(settings.templates)
    vocabulary = Vocabulary(
        name=_name(tokenizer),
        pattern="",
        raw=tuple(raw),
        ranks={},
        rank_ids=(),
        added=added,
        bos_id=bos,
        eos_id=eos,
        add_bos=bos is not None and _adds(tokenizer, bos, encode),
        chat_template=templates.pop(DEFAULT, None),
        other_templates=templates,
        end_ids=tuple(number for number in settings.end_ids if number < len(raw)),
        named=settings.named,
    )
    nothing: Any = None  # the engine and the matchers of added tokens are not used
    return Tokenizer(
        name=vocabulary.name,
        vocab_size=len(raw),
        special=ids,
        bos_id=bos,
        eos_id=eos,
        add_bos=vocabulary.add_bos,
        chat_template=vocabulary.chat_template,
        _vocabulary=vocabulary,
        _engine=nothing,
        _matchers={},
        _foreign=encode,
    )


def _encoder(tokenizer: Any) -> Callable[[str, bool], list[int]]:
    """Return a function from a text, and whether its special tokens are recognized, to ids."""

    def encode(text: str, special: bool) -> list[int]:
        try:
            ids = tokenizer.encode(text, add_special_tokens=False, split_special_tokens=not special)
        except TypeError:  # a tokenizer without this argument
            ids = tokenizer.encode(text, add_special_tokens=False)
        return _listed(ids)

    return encode


def _listed(ids: Any) -> list[int]:
    return [int(number) for number in getattr(ids, "ids", ids)]


def _adds(tokenizer: Any, bos: int, encode: Callable[[str, bool], list[int]]) -> bool:
    """Return whether the tokenizer puts its BOS before a text by default."""
    ids = _listed(tokenizer.encode("a"))
    return ids[:1] == [bos] and encode("a", False)[:1] != [bos]


def _raw(tokenizer: Any) -> list[bytes | None]:
    """Return the bytes of every id, None for an id without a token."""
    texts = _texts(tokenizer)
    added = {int(number) for number in getattr(tokenizer, "added_tokens_decoder", ())}
    added |= {int(number) for number in getattr(tokenizer, "all_special_ids", ())}
    plain = [text for number, text in enumerate(texts) if text is not None and number not in added]
    spaced = any(text.startswith("Ġ") for text in plain)
    in_bytes = spaced and all(set(text) <= ALPHABET.keys() for text in plain)
    return [None if text is None else _bytes(text, number in added, in_bytes) for number, text in enumerate(texts)]


def _texts(tokenizer: Any) -> Sequence[str | None]:
    """Return the text of every id as the vocabulary writes it."""
    listing = getattr(tokenizer, "get_vocab", None)
    if not callable(listing):
        raise InputError("This is not a tokenizer.", shown(tokenizer), "It needs encode, decode and get_vocab.")
    vocabulary: Mapping[str, int] = listing()
    texts: list[str | None] = [None] * (1 + max(vocabulary.values(), default=-1))
    for text, number in vocabulary.items():
        texts[number] = str(text)
    return texts


def _bytes(text: str, is_added: bool, in_bytes: bool) -> bytes:
    """Return the bytes of a token as the vocabulary writes it: in the byte alphabet, or with ▁ for a space."""
    if is_added:
        return text.encode("utf-8", "replace")
    if in_bytes:
        return bytes_of(text)
    if match := _BYTE.fullmatch(text):
        return bytes([int(match[1], 16)])
    return text.replace("▁", " ").encode("utf-8", "replace")
