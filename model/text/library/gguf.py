"""A tokenizer.json made of the lists in a GGUF file, for tokenizers that no single expression splits."""

from collections.abc import Sequence

from model.text.library.folders import template
from model.text.library.pieces import NORMAL, USER, content_of_pieces
from model.text.library.token_bytes import SPACE

# tokenizer.ggml.model -> kind of the pieces; gpt2 is byte-level BPE. gemma4 states its merges, llama scores.
KINDS = {"llama": "bpe", "t5": "unigram", "bert": "wordpiece", "gemma4": "bpe"}
ENCODERS = ("roberta-bpe", "modern-bert")  # values of tokenizer.ggml.pre whose texts have tokens at both ends
_NUMBER, _GPT2 = r"\p{N}", r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)
# Letters with case as DeepSeek LLM lists them: without those of Armenian and Georgian text, and of formulas.
_CASED = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-"
    "\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-"
    "\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-"
    "\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-"
    "\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-"
    "\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-"
    "\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-"
    "\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
# By the value of tokenizer.ggml.pre: expressions that split text one after the other, as in src/llama-vocab.cpp of
# llama.cpp. What an expression does not match remains a piece.
STEPS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("bloom", "poro-chat", "gpt3-finnish"), (_BLOOM,)),
    "viking": (_BLOOM, _NUMBER),
    "falcon": (r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"),
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    "deepseek-llm": (
        r"[\r\n]",
        rf"\s?[{_CASED}]+",
        "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        r"\s+$",
        "[一-龥ࠀ-一가-퟿]+",
        r"\p{N}+",
    ),
    "deepseek-coder": (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", _NUMBER),
    **dict.fromkeys(("deepseek-v3", "hunyuan-dense", "joyai-llm"), _DEEPSEEK3),
    **dict.fromkeys(ENCODERS, (_GPT2,)),
}


def byte_level_content(
    tokens: Sequence[str], merges: Sequence[tuple[str, str]], types: Sequence[int], pre: str
) -> dict:
    """Return the content of a tokenizer.json for byte-level BPE whose text is split by the expressions of STEPS."""
    content = content_of_pieces("bpe", tokens, types=types, merges=merges)
    splits: list[dict] = [
        {"type": "Split", "pattern": {"Regex": step}, "behavior": "Isolated", "invert": False} for step in STEPS[pre]
    ]
    bytewise = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    content["model"] |= {"byte_fallback": False, "fuse_unk": False, "unk_token": None}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*splits, bytewise]}
    return content | {"normalizer": {"type": "NFC"} if pre == "modern-bert" else None, "decoder": bytewise}


def pieces_content(
    kind: str,
    tokens: Sequence[str],
    scores: Sequence[float] | None,
    types: Sequence[int],
    unknown: int | None,
    *,
    space_first: bool,
    one_space: bool,
    charsmap: str,
    merges: Sequence[tuple[str, str]] | None = None,
) -> dict:
    """Return the content of a tokenizer.json for a value of `KINDS`; see `content_of_pieces`."""
    if kind == "bert":
        return _words(tokens, types, unknown)
    # The converter writes added tokens with spaces, as they stand in a text.
    return content_of_pieces(
        KINDS[kind],
        tokens,
        scores=scores,
        types=types,
        merges=merges,
        unknown=unknown,
        space_first=space_first,
        one_space=one_space,
        charsmap=charsmap,
    )


def _words(tokens: Sequence[str], types: Sequence[int], unknown: int | None) -> dict:
    """Return the content for WordPiece, whose list has ▁ before the beginning of a word in place of ## elsewhere."""
    pieces = [
        token if kind not in (NORMAL, USER) else token.removeprefix(SPACE) if token.startswith(SPACE) else f"##{token}"
        for token, kind in zip(tokens, types, strict=True)
    ]
    content = content_of_pieces("wordpiece", pieces, types=types, unknown=unknown)
    normal = (piece for piece, kind in zip(pieces, types, strict=True) if kind == NORMAL)
    content["normalizer"] = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": not any(piece != piece.lower() for piece in normal),  # the file does not say it
    }
    content["pre_tokenizer"] = {"type": "BertPreTokenizer"}
    content["decoder"] |= {"cleanup": True}
    return content


def with_ends(content: dict, tokens: Sequence[str], first: int | None, last: int | None) -> dict:
    """Return the content with a token before each text and one after it, if given."""
    ends = [[] if each is None else [tokens[each]] for each in (first, last)]
    ids = {tokens[each]: each for each in (first, last) if each is not None}
    return content | {"post_processor": template(*ends, ids)} if ids else content
