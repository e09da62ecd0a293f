"""A tokenizer.json made of a list of pieces with scores: sentencepiece's models, and the same lists in GGUF files."""

from collections.abc import Mapping, Sequence

from model.errors import CheckpointError
from model.text.bpe_ranks import FRESH_COPY
from model.text.library.token_bytes import SPACE

# Types of pieces, as numbered by sentencepiece_model.proto and by GGUF's tokenizer.ggml.token_type.
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)


def content_of_pieces(
    kind: str,
    pieces: Sequence[str],
    *,
    scores: Sequence[float] | None = None,
    types: Sequence[int] | None = None,
    merges: Sequence[tuple[str, str]] | None = None,
    unknown: int | None = None,
    space_first: bool = True,
    one_space: bool = False,
    charsmap: str = "",
) -> dict:
    """Return the content of a tokenizer.json for the `tokenizers` library.

    kind: "bpe", "unigram" or "wordpiece". pieces: their texts in the order of their ids, with ▁ for a space; for
    WordPiece with ## before what continues a word. scores: of each piece (log probability for Unigram; for BPE the
    merges are derived from them, unless `merges` are given). types: of each piece. unknown: id of the unknown token.
    space_first: whether a space is put before the text. one_space: whether several spaces become one, and those at both
    ends are dropped. charsmap: sentencepiece's precompiled_charsmap in base64, "" for none.

    Raises CheckpointError for lists of different lengths and repeated pieces.
    """
    types = [NORMAL] * len(pieces) if types is None else list(types)
    scores = [0.0] * len(pieces) if scores is None else [float(score) for score in scores]
    if not len(pieces) == len(scores) == len(types):
        got = f"{len(pieces)} pieces, {len(scores)} scores, {len(types)} types"
        raise CheckpointError("The lists of the vocabulary have different lengths.", got, FRESH_COPY)
    vocab = {piece: number for number, piece in enumerate(pieces)}
    if len(vocab) != len(pieces):
        got = f"{len(pieces)} pieces, {len(vocab)} of them different"
        raise CheckpointError("The vocabulary has the same token twice.", got, FRESH_COPY)
    unknown = unknown if unknown is not None else next((n for n, each in enumerate(types) if each == UNKNOWN), None)
    fallback = BYTE in types
    if kind == "wordpiece":
        return _content(_word_piece(vocab, pieces, unknown), pieces, types, {"type": "WordPiece", "prefix": "##"})
    if kind == "unigram":
        model = {"type": "Unigram", "unk_id": unknown, "byte_fallback": fallback}
        model["vocab"] = [[piece, score] for piece, score in zip(pieces, scores, strict=True)]
    else:
        fixed = {n for n, each in enumerate(types) if each != NORMAL}
        model = {"type": "BPE", "vocab": vocab, "byte_fallback": fallback, "fuse_unk": True, "ignore_merges": False}
        model["merges"] = [list(pair) for pair in (merges or _merges(vocab, scores, fixed))]
        model["unk_token"] = None if unknown is None else pieces[unknown]
    steps: list[dict] = [{"type": "Precompiled", "precompiled_charsmap": charsmap}] if charsmap else []
    if one_space:
        steps.append({"type": "Strip", "strip_left": True, "strip_right": True})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    steps += [{"type": "Prepend", "prepend": SPACE}] if space_first else []
    steps.append({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})
    decoder = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        *([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if space_first else []),
    ]
    content = _content(model, pieces, types, {"type": "Sequence", "decoders": decoder})
    return content | {"normalizer": {"type": "Sequence", "normalizers": steps}}


def _content(model: dict, pieces: Sequence[str], types: Sequence[int], decoder: dict) -> dict:
    added = [
        {"id": number, "content": pieces[number], "special": kind != USER, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        for number, kind in enumerate(types)
        if kind in (UNKNOWN, CONTROL, USER) and pieces[number]
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }


def _word_piece(vocab: Mapping[str, int], pieces: Sequence[str], unknown: int | None) -> dict:
    return {
        "type": "WordPiece",
        "vocab": vocab,
        "unk_token": "[UNK]" if unknown is None else pieces[unknown],
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    }


def _merges(vocab: Mapping[str, int], scores: Sequence[float], fixed: set[int]) -> list[tuple[str, str]]:
    """Derive the merges of sentencepiece's BPE: every way to build a piece of two others, the highest score first."""
    pairs: list[tuple[float, int, int, str, str]] = []
    for piece, number in vocab.items():
        if number in fixed:
            continue
        for at in range(1, len(piece)):
            left, right = vocab.get(piece[:at]), vocab.get(piece[at:])
            if left is not None and right is not None and not {left, right} & fixed:
                pairs.append((-scores[number], left, right, piece[:at], piece[at:]))
    pairs.sort(key=lambda pair: pair[:3])
    return [(left, right) for *_, left, right in pairs]
