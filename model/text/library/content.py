"""The vocabulary of a tokenizer.json that the `tokenizers` library runs."""

import json
from collections.abc import Iterator, Mapping

from model.errors import CheckpointError
from model.text.bpe_ranks import FRESH_COPY
from model.text.library.engine import build
from model.text.library.token_bytes import bytes_of_tokens
from model.text.patterns import check_backtracking
from model.text.vocabulary import AddedToken, Vocabulary, as_vocab, refuse
from model.text.vocabulary_settings import VocabularySettings, with_settings

_MODELS = ("BPE", "Unigram", "WordPiece", "WordLevel")
_FLAGS = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
_MOST_IDS = 1 << 22
_MOST_INSERTED = 100  # maximum number of characters that a step puts in place of one
_MOST_CHARSMAP = 1 << 20  # maximum length of sentencepiece's normalization rules in base64
_LONGEST_WORD = 1000  # maximum value of max_input_chars_per_word, with whose square the steps of WordPiece grow


def library_vocabulary(content: Mapping, name: str, settings: VocabularySettings) -> Vocabulary:
    """Read the vocabulary in the content of a tokenizer.json, whatever its steps are.

    Text is encoded by the `tokenizers` library; `ranks` and `pattern` are empty. Raises CheckpointError if the file is
    broken, UnsupportedModel for an unknown model of the tokenizer.
    """
    model = content.get("model")
    kind = model.get("type") or _kind(model) if isinstance(model, Mapping) else None
    if kind not in _MODELS:
        raise refuse("tokenizer model", kind, f"In tokenizer.json, {', '.join(_MODELS)} are supported.")
    _check_steps(content)
    listed = content.get("added_tokens") or []
    listed = [_FLAGS | token if isinstance(token, dict) else token for token in listed]
    content = {**content, "truncation": None, "padding": None, "added_tokens": listed}
    content["model"] = {**model, "type": kind} | ({"dropout": None} if kind == "BPE" else {})
    built = build(content)
    added = tuple(
        AddedToken(token.content, number, token.special, token.normalized)
        for number, token in sorted(built.get_added_tokens_decoder().items())
    )
    texts = _texts(content["model"])
    if max((*texts, *(token.id for token in added)), default=-1) >= _MOST_IDS:
        raise CheckpointError("The token ids have gaps or are too large.", str(max(texts, default=0)), FRESH_COPY)
    raw = bytes_of_tokens(content, texts, {token.id: token.text for token in added})
    mask = (sample := built.encode("a")).special_tokens_mask
    begin = tuple(sample.ids[: mask.index(0)]) if 0 in mask else ()
    finish = tuple(sample.ids[len(mask) - mask[::-1].index(0) :]) if 0 in mask else ()
    base = Vocabulary(
        name=name,
        pattern="",
        raw=raw,
        ranks={},
        rank_ids=(),
        added=added,
        begin=begin,
        finish=finish,
        add_bos=bool(begin),
        library=json.dumps(content, ensure_ascii=False),
    )
    ids = {text: number for number, text in texts.items()} | {token.text: token.id for token in added}
    return with_settings(base, ids, added, settings)


def within_rows(content: Mapping, rows: int) -> Mapping:
    """Leave out the added tokens for which a model has no row, as of Gemma 3's text models, whose files list the token
    of an image. Other tokens beyond the rows remain.
    """
    listed, model = content.get("added_tokens"), content.get("model")
    if not (isinstance(listed, list) and all(isinstance(token, dict) for token in listed)):
        return content
    beyond = {str(token.get("content")) for token in listed if isinstance(at := token.get("id"), int) and at >= rows}
    if not beyond or not isinstance(model, Mapping):
        return content
    vocab = model.get("vocab")
    if isinstance(vocab, Mapping):
        vocab = {text: number for text, number in vocab.items() if text not in beyond}
    elif isinstance(vocab, list):
        last = [str(piece[0]) if isinstance(piece, list) and piece else "" for piece in vocab[rows:]]
        vocab = vocab[:rows] if beyond.issuperset(last) else vocab
    kept = [token for token in listed if token.get("content") not in beyond]
    return {**content, "added_tokens": kept, "model": {**model, "vocab": vocab}}


def _check_steps(content: Mapping) -> None:
    """Raise UnsupportedModel if a text could make a step run for very long, or grow beyond measure."""
    if isinstance(longest := content["model"].get("max_input_chars_per_word"), int) and longest > _LONGEST_WORD:
        raise refuse("WordPiece option", f"max_input_chars_per_word = {longest}", f"At most {_LONGEST_WORD}.")
    for step in _steps({key: content.get(key) for key in ("normalizer", "pre_tokenizer")}):
        if isinstance(step.get("pattern"), Mapping) and isinstance(step["pattern"].get("Regex"), str):
            check_backtracking(step["pattern"]["Regex"])
        inserted = [step.get("content"), step.get("prepend")]
        if any(isinstance(text, str) and len(text) > _MOST_INSERTED for text in inserted):
            raise refuse("normalizer", step.get("type"), f"At most {_MOST_INSERTED} characters are inserted.")
        if len(str(step.get("precompiled_charsmap") or "")) > _MOST_CHARSMAP:
            raise refuse("normalizer", "precompiled_charsmap", f"At most {_MOST_CHARSMAP} characters.")


def _steps(value: object) -> Iterator[Mapping]:
    """Yield all objects within a part of tokenizer.json."""
    if isinstance(value, Mapping):
        yield value
    for each in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _steps(each)


def _kind(model: Mapping) -> str:
    """Return the type of a model that does not state it."""
    if "merges" in model:
        return "BPE"
    return "Unigram" if isinstance(model.get("vocab"), list) else "WordPiece"


def _texts(model: Mapping) -> dict[int, str]:
    """Return id -> text of the vocabulary of a model."""
    vocab = model.get("vocab")
    if isinstance(vocab, list):
        return {number: str(text) for number, (text, _) in enumerate(vocab)}
    return {number: text for text, number in as_vocab(vocab, "The vocabulary in tokenizer.json").items()}
