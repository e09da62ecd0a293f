"""Readers of vocabulary files: GGUF metadata, tokenizer.json, vocab.json + merges.txt, .tiktoken.

Each returns a `Vocabulary`, in which the merge priorities and the model's token ids are two separate numberings:
SmolLM2 keeps ids 0..16 for special tokens and orders the bytes in its own way, so an id says nothing about priority.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from model.errors import CheckpointError, UnsupportedModel
from model.merges import ALPHABET, FRESH_COPY, bytes_of, merge_ranks

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
# Digits are cut out before the GPT-2 pattern sees the text, so a space before a digit ends its stretch of text:
# it joins no number, and a run of spaces before a digit stays whole.
SMOLLM_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"

_MAX_FILE_BYTES = 1 << 28
_MAX_TOKENS = 1 << 22
_MAX_TOKEN_LENGTH = 4096


@dataclass(frozen=True)
class AddedToken:
    """A token matched in the text as it stands, before any merge; `after_nfc`: in the normalised text."""

    text: str
    id: int
    special: bool
    after_nfc: bool = False


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """What a tokenizer needs to know, whichever file it came from.

    `ranks[b]` is the merge priority of the bytes b and `rank_ids[rank]` the model's id for it, -1 for a byte that the
    vocabulary has no token for. `raw[id]` are the bytes of a token, None for an id that no token has.
    """

    name: str
    pattern: str
    raw: tuple[bytes | None, ...]  # [V]
    ranks: Mapping[bytes, int]
    rank_ids: tuple[int, ...]  # [number of ranks]
    added: tuple[AddedToken, ...] = ()
    nfc: bool = False
    bos_id: int | None = None
    eos_id: int | None = None
    add_bos: bool = False
    chat_template: str | None = None


def _byte_level(
    vocab: Mapping[str, int],
    merges: Iterable[tuple[str, str]],
    added: Sequence[AddedToken],
    whole: bool,
    base: Vocabulary,
) -> Vocabulary:
    """`base` with raw bytes, ranks and ids filled in from a vocabulary written in the byte alphabet.

    `whole`: a complete piece of text is looked up before it is merged (`ignore_merges`).

    Raises CheckpointError for ids that are no clean 0..V-1, clashing tokens and tokens outside the byte alphabet.
    """
    texts = {token.text: token.id for token in added}
    for text, number in texts.items():
        if vocab.get(text, number) != number:
            raise CheckpointError("A token has two ids.", f"{text}: {vocab[text]} and {number}", FRESH_COPY)
    merged = {token: number for token, number in vocab.items() if token not in texts}
    by_id = {number: token for token, number in merged.items()} | {number: text for text, number in texts.items()}
    if not merged or len(by_id) != len(merged) + len(texts):
        raise CheckpointError("Two tokens share an id, or there are none.", f"{len(vocab)} tokens", FRESH_COPY)
    if len(by_id) > _MAX_TOKENS or min(by_id) != 0 or max(by_id) != len(by_id) - 1:
        got = f"{len(by_id)} tokens with ids {min(by_id)} to {max(by_id)}"
        raise CheckpointError("The token ids leave gaps or run too high.", got, FRESH_COPY)
    if max(map(len, vocab), default=0) > _MAX_TOKEN_LENGTH:
        raise CheckpointError("A token is absurdly long.", f"{max(map(len, vocab))} characters", FRESH_COPY)
    strange = set().union(*merged) - ALPHABET.keys()
    if strange:
        token = next(token for token in merged if strange & set(token))
        hint = "Only byte-level BPE is read."
        raise CheckpointError("A token is not written in the byte alphabet.", repr(token), hint)
    ranks = merge_ranks(vocab, merges, merged if whole else ())
    rank_ids = [-1] * len(ranks)
    for token, rank in ranks.items():
        rank_ids[rank] = vocab.get(token, -1)
    # An added token's bytes are its text as it stands, even where the vocabulary lists it as well.
    try:
        raw = tuple(by_id[i].encode() if by_id[i] in texts else bytes_of(by_id[i]) for i in range(len(by_id)))
    except UnicodeEncodeError as error:
        raise CheckpointError("An added token is not valid Unicode.", repr(error.object)[:80], FRESH_COPY) from error
    return replace(
        base,
        raw=raw,
        added=tuple(added),
        rank_ids=tuple(rank_ids),
        ranks={bytes_of(token): rank for token, rank in ranks.items()},
    )


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise CheckpointError("A vocabulary file is absurdly large.", path.name, FRESH_COPY)
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"The vocabulary file {path.name} cannot be read.", str(error), FRESH_COPY) from error


def read_json(path: Path) -> dict:
    """The JSON object in a file; CheckpointError where it is missing, truncated or no object."""
    try:
        value = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path.name} is not valid JSON.", str(error)[:80], FRESH_COPY) from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path.name} must hold a JSON object.", type(value).__name__, FRESH_COPY)
    return value


def _as_vocab(value: object, where: str) -> dict[str, int]:
    if not isinstance(value, dict) or not set(map(type, value.values())) <= {int}:
        raise CheckpointError(f"{where} must map tokens to whole numbers.", type(value).__name__, FRESH_COPY)
    return value


def _as_merges(value: object, where: str) -> list[tuple[str, str]]:
    """Merges as pairs of tokens, from "a b" strings or [a, b] lists."""
    if not isinstance(value, list):
        raise CheckpointError(f"{where} must be a list.", type(value).__name__, FRESH_COPY)
    merges = [
        tuple(merge.split(" ") if isinstance(merge, str) else merge)
        for merge in value
        if isinstance(merge, (str, list))
    ]
    if len(merges) != len(value) or any(len(m) != 2 or not all(isinstance(part, str) for part in m) for m in merges):
        raise CheckpointError(f"{where} must name two tokens each.", "", FRESH_COPY)
    return merges


def _refuse(what: str, got: object, supported: str) -> UnsupportedModel:
    return UnsupportedModel(f"This vocabulary uses a {what} that is not supported.", str(got)[:160], supported)


GGUF_PRE = {  # tokenizer.ggml.pre: pattern, pieces looked up whole, NFC, BOS by default
    "gpt-2": (GPT2_PATTERN, False, False, False),
    "gpt2": (GPT2_PATTERN, False, False, False),
    "smollm": (SMOLLM_PATTERN, False, False, False),
    "llama-bpe": (LLAMA3_PATTERN, True, False, True),
    "qwen2": (QWEN_PATTERN, False, True, False),
}


def _gguf_strings(metadata: Mapping[str, object], key: str) -> list[str]:
    values = metadata.get(key)
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise CheckpointError(f"The GGUF file has no list {key}.", type(values).__name__, FRESH_COPY)
    try:
        strings = [value.decode() if isinstance(value, bytes) else value for value in values]
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{key} holds text that is not UTF-8.", str(error)[:80], FRESH_COPY) from error
    if not set(map(type, strings)) <= {str}:
        raise CheckpointError(f"{key} must be a list of strings.", "", FRESH_COPY)
    return strings


def _gguf_text(metadata: Mapping[str, object], key: str, default: str | None) -> str | None:
    value = metadata.get(key, default)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def read_gguf(metadata: Mapping[str, object]) -> Vocabulary:
    """The vocabulary in GGUF metadata, keys `tokenizer.*`.

    Raises UnsupportedModel for another tokenizer than byte-level BPE or an unknown pre-tokenizer, CheckpointError for
    inconsistent lists.
    """
    kind = _gguf_text(metadata, "tokenizer.ggml.model", None)
    pre = _gguf_text(metadata, "tokenizer.ggml.pre", "gpt-2")
    if kind is None:
        raise CheckpointError("The GGUF file has no tokenizer.", "no tokenizer.ggml.model", FRESH_COPY)
    if kind != "gpt2":
        raise _refuse("tokenizer model", kind, "In GGUF, tokenizer.ggml.model gpt2 is supported.")
    if pre not in GGUF_PRE:
        raise _refuse("pre-tokenizer", pre, f"Supported in GGUF are {', '.join(GGUF_PRE)}.")
    pattern, whole, nfc, add_bos = GGUF_PRE[pre]
    tokens = _gguf_strings(metadata, "tokenizer.ggml.tokens")
    merges = _as_merges(_gguf_strings(metadata, "tokenizer.ggml.merges"), "tokenizer.ggml.merges")
    types = metadata.get("tokenizer.ggml.token_type")
    types = [1] * len(tokens) if types is None else list(types)
    if len(types) != len(tokens) or len(set(tokens)) != len(tokens):
        got = f"{len(tokens)} tokens, {len(set(tokens))} of them different, {len(types)} types"
        raise CheckpointError("The GGUF vocabulary is inconsistent.", got, FRESH_COPY)
    ends = {}
    for key in ("bos", "eos"):
        ends[key] = number = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if number is not None and not (isinstance(number, int) and 0 <= number < len(tokens)):
            raise CheckpointError(f"The {key} token is not in the vocabulary.", str(number), FRESH_COPY)
    made = {left + right for left, right in merges} | ALPHABET.keys()
    special = {i for i, kind in enumerate(types) if kind == 3} | {
        number for number in ends.values() if number is not None and tokens[number] not in made
    }
    added = [AddedToken(tokens[i], i, i in special) for i, kind in enumerate(types) if i in special or kind != 1]
    base = Vocabulary(
        name=str(_gguf_text(metadata, "general.name", None) or f"{pre} vocabulary"),
        pattern=pattern,
        raw=(),
        ranks={},
        rank_ids=(),
        nfc=nfc,
        bos_id=ends["bos"],
        eos_id=ends["eos"],
        add_bos=bool(metadata.get("tokenizer.ggml.add_bos_token", add_bos)) and ends["bos"] is not None,
        chat_template=_gguf_text(metadata, "tokenizer.chat_template", None),
    )
    return _byte_level({token: i for i, token in enumerate(tokens)}, merges, added, whole, base)


def _json_pattern(pre: object) -> str:
    """The one pattern that cuts a text as the pre-tokenizers of a tokenizer.json do; UnsupportedModel for others."""
    steps = pre.get("pretokenizers", [pre]) if isinstance(pre, dict) else [pre]
    kinds = [step.get("type") if isinstance(step, dict) else step for step in steps]
    supported = "Supported are ByteLevel, Split by a regex + ByteLevel, and Digits one by one + ByteLevel."
    if not kinds or kinds[-1] != "ByteLevel":
        raise _refuse("pre-tokenizer", kinds, supported)
    first, last = steps[0], steps[-1]
    if last.get("add_prefix_space", True):
        raise _refuse("pre-tokenizer", "ByteLevel with add_prefix_space", supported)
    gpt2 = last.get("use_regex", True)
    if len(kinds) == 1 and gpt2:
        return GPT2_PATTERN
    if kinds == ["Digits", "ByteLevel"] and first.get("individual_digits") and gpt2:
        return SMOLLM_PATTERN
    if kinds == ["Split", "ByteLevel"] and not gpt2 and first.get("behavior") == "Isolated" and not first.get("invert"):
        pattern = first.get("pattern")
        if isinstance(pattern, dict) and isinstance(pattern.get("Regex"), str):
            return pattern["Regex"]
    raise _refuse("pre-tokenizer", json.dumps(steps), supported)


def _json_nfc(normalizer: object) -> bool:
    if normalizer is None:
        return False
    if isinstance(normalizer, dict) and normalizer.get("type") == "NFC":
        return True
    raise _refuse("normalizer", json.dumps(normalizer), "Supported are none and NFC.")


def _json_bos(post: object) -> int | None:
    """The id that the post-processor puts first, None where it adds nothing; UnsupportedModel where it adds more."""
    steps = post.get("processors", [post]) if isinstance(post, dict) else [post]
    bos = None
    for step in steps:
        kind = step.get("type") if isinstance(step, dict) else step
        if kind in (None, "ByteLevel"):
            continue
        try:
            if kind != "TemplateProcessing":
                raise KeyError(kind)
            *front, text = step["single"]
            if "Sequence" not in text or len(front) > 1:
                raise KeyError(kind)
            for item in front:
                (bos,) = step["special_tokens"][item["SpecialToken"]["id"]]["ids"]
        except (KeyError, TypeError, ValueError) as error:
            raise _refuse("post-processor", json.dumps(step), "Supported are none, ByteLevel and one BOS.") from error
    return bos


def _json_added(items: object) -> list[AddedToken]:
    added = []
    for item in items if isinstance(items, list) else [items]:
        text, number = (item.get("content"), item.get("id")) if isinstance(item, dict) else (None, None)
        if not isinstance(text, str) or not text or type(number) is not int:
            raise CheckpointError("An added token has no text or no id.", str(item)[:80], FRESH_COPY)
        flags = [flag for flag in ("single_word", "lstrip", "rstrip") if item.get(flag)]
        if flags:
            raise _refuse("added token", f"{text!r} with {', '.join(flags)}", "Added tokens must match as they stand.")
        added.append(AddedToken(text, number, bool(item.get("special")), after_nfc=bool(item.get("normalized"))))
    return added


def _named(config: Mapping, key: str, ids: Mapping[str, int]) -> int | None:
    """The id of the token that a tokenizer_config.json names under `key`, None where it names none."""
    text = config.get(key)
    text = text.get("content") if isinstance(text, Mapping) else text
    if text is None:
        return None
    if text not in ids:
        what = f"The {key} in tokenizer_config.json is not in the vocabulary."
        raise CheckpointError(what, str(text)[:80], FRESH_COPY)
    return ids[text]


def _template(config: Mapping) -> str | None:
    template = config.get("chat_template")
    if isinstance(template, list):  # several, by name
        named = {item.get("name"): item.get("template") for item in template if isinstance(item, Mapping)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _with_ends(base: Vocabulary, ids: Mapping[str, int], added: Sequence[AddedToken], config: Mapping) -> Vocabulary:
    """`base` with what a tokenizer_config.json says; a single special token is both BOS and EOS, as in GPT-2."""
    special = [token.id for token in added if token.special]
    bos, eos = _named(config, "bos_token", ids), _named(config, "eos_token", ids)
    if bos is None and eos is None and len(special) == 1:
        bos = eos = special[0]
    bos = bos if base.bos_id is None else base.bos_id
    add_bos = base.add_bos or (config.get("add_bos_token") is True and bos is not None)
    return replace(base, bos_id=bos, eos_id=eos, add_bos=add_bos, chat_template=_template(config))


def read_tokenizer_json(path: Path, config: Mapping) -> Vocabulary:
    """The vocabulary in a tokenizer.json; `config` is the content of tokenizer_config.json, {} without one.

    Raises CheckpointError for a broken file, UnsupportedModel for steps that this tokenizer does not compute.
    """
    content = read_json(path)
    model = content.get("model")
    kind = model.get("type", "BPE") if isinstance(model, dict) else None
    if kind != "BPE":
        raise _refuse("tokenizer model", kind, "In tokenizer.json, BPE is supported.")
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "dropout"):
        if model.get(key):
            raise _refuse("BPE option", f"{key} = {model[key]}", "Byte-level BPE without it is supported.")
    vocab = _as_vocab(model.get("vocab"), "The vocabulary in tokenizer.json")
    merges = _as_merges(model.get("merges"), "The merges in tokenizer.json")
    nfc, bos = _json_nfc(content.get("normalizer")), _json_bos(content.get("post_processor"))
    added = _json_added(content.get("added_tokens") or [])
    base = Vocabulary(
        name=path.parent.name or path.stem,
        pattern=_json_pattern(content.get("pre_tokenizer")),
        raw=(),
        ranks={},
        rank_ids=(),
        nfc=nfc,
        bos_id=bos,
        add_bos=bos is not None,
    )
    full = _byte_level(vocab, merges, added, bool(model.get("ignore_merges")), base)
    if bos is not None and not 0 <= bos < len(full.raw):
        raise CheckpointError("The BOS token is not in the vocabulary.", str(bos), FRESH_COPY)
    return _with_ends(full, vocab | {token.text: token.id for token in added}, added, config)


def read_vocab_merges(vocab_path: Path, merges_path: Path, config: Mapping) -> Vocabulary:
    """The vocabulary in GPT-2's vocab.json and merges.txt; a token that no merge makes is taken for a special one.

    Raises CheckpointError for a broken file.
    """
    vocab = _as_vocab(read_json(vocab_path), vocab_path.name)
    lines = [line.rstrip("\r") for line in _read_text(merges_path).split("\n")]
    lines = lines[1:] if lines[0].startswith("#version") else lines
    merges = _as_merges([line for line in lines if line], merges_path.name)
    made = {left + right for left, right in merges} | ALPHABET.keys()
    added = [AddedToken(token, number, True) for token, number in vocab.items() if token not in made]
    base = Vocabulary(vocab_path.parent.name or "GPT-2 files", GPT2_PATTERN, raw=(), ranks={}, rank_ids=())
    return _with_ends(_byte_level(vocab, merges, added, False, base), vocab, added, config)


def read_tiktoken(path: Path, pattern: str, special: Mapping[str, int]) -> Vocabulary:
    """The vocabulary in a .tiktoken file: a base64 token and its rank, which is its id, on each line.

    Raises CheckpointError for a broken file or special tokens whose ids are taken.
    """
    ranks: dict[bytes, int] = {}
    count = 0
    for count, line in enumerate(filter(None, _read_text(path).splitlines()), start=1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError as error:
            what = f"Line {count} of {path.name} is no token and rank."
            raise CheckpointError(what, line[:80], FRESH_COPY) from error
    used = set(ranks.values())
    if not ranks or len(ranks) != count or used != set(range(count)) or b"" in ranks:
        raise CheckpointError(f"{path.name} repeats a token or a rank, or leaves gaps.", f"{count} lines", FRESH_COPY)
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise CheckpointError(f"{path.name} has no token for some bytes.", f"{missing[:8]}", FRESH_COPY)
    ids = set(special.values())
    if ids & used or len(ids) != len(special) or any(not 0 <= number < _MAX_TOKENS for number in ids):
        raise CheckpointError("The ids of the special tokens clash.", str(dict(special))[:80], FRESH_COPY)
    raw: list[bytes | None] = [None] * (max(ids | used) + 1)
    for token, rank in ranks.items():
        raw[rank] = token
    for text, number in special.items():
        raw[number] = text.encode()
    added = tuple(AddedToken(text, number, True) for text, number in special.items())
    return Vocabulary(path.stem, pattern, tuple(raw), ranks, tuple(range(count)), added)
