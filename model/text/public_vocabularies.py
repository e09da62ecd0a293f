"""The vocabularies of GPT-2, GPT-4 and GPT-4o, which are part of the project: nothing is downloaded."""

import functools
import lzma
from collections.abc import Mapping
from itertools import accumulate, pairwise
from pathlib import Path

from model.errors import CheckpointError
from model.public import one_of, public
from model.text.bpe_ranks import FRESH_COPY
from model.text.tokenizer import Tokenizer, from_vocabulary
from model.text.vocabulary import GPT2_PATTERN, AddedToken, Vocabulary

FOLDER = Path(__file__).parents[1] / "weights" / "vocabularies"
_LARGEST = 1 << 23  # bytes of a vocabulary after decompression
# The patterns match what tiktoken's do (tiktoken_ext/openai_public.py), without possessive quantifiers.
_CL100K_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s+\z|\s*[\r\n]|\s+(?!\S)|\s"
)
_LOWER, _UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_O200K_PATTERN = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_END, _PREFIX, _MIDDLE, _SUFFIX, _PROMPT = (
    "<|endoftext|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|endofprompt|>",
)
# name -> pattern, special tokens
_KINDS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "gpt2": (GPT2_PATTERN, {_END: 50256}),
    "cl100k_base": (
        _CL100K_PATTERN,
        {_END: 100257, _PREFIX: 100258, _MIDDLE: 100259, _SUFFIX: 100260, _PROMPT: 100276},
    ),
    "o200k_base": (_O200K_PATTERN, {_END: 199999, _PROMPT: 200018}),
}
PUBLIC = tuple(_KINDS)


def tokens_of(name: str) -> list[bytes]:
    """Read the tokens of a public vocabulary in the order of their ids. Raises CheckpointError for a broken file."""
    unpacker = lzma.LZMADecompressor()
    try:
        packed = unpacker.decompress((FOLDER / f"{name}.xz").read_bytes(), _LARGEST)
        if not unpacker.eof:
            raise lzma.LZMAError("the file ends early")
    except (OSError, lzma.LZMAError) as error:
        raise CheckpointError("The vocabulary cannot be read.", f"{name}: {error}"[:160], FRESH_COPY) from error
    # The lengths come first, one byte per token, so their number is where the sum of the lengths is what follows.
    count = next((n for n, total in enumerate(accumulate(packed, initial=0)) if n + total == len(packed)), 0)
    ends = accumulate(packed[:count], initial=count)
    return [packed[start:end] for start, end in pairwise(ends)]


@public(name=one_of(PUBLIC))
@functools.lru_cache(maxsize=len(PUBLIC))
def public_vocabulary(name: str) -> Tokenizer:
    """Return the tokenizer of a public vocabulary: "gpt2", "cl100k_base" (GPT-4) or "o200k_base" (GPT-4o).

    The ids are those of tiktoken's encodings of the same names. Raises CheckpointError for a broken file.
    """
    pattern, special = _KINDS[name]
    tokens = tokens_of(name)
    raw: list[bytes | None] = [*tokens, *[None] * (max(special.values()) + 1 - len(tokens))]
    for text, number in special.items():
        raw[number] = text.encode()
    ranks = {token: rank for rank, token in enumerate(tokens)}
    added = tuple(AddedToken(text, number, True) for text, number in special.items())
    ids, end = tuple(range(len(tokens))), special[_END]
    return from_vocabulary(Vocabulary(name, pattern, tuple(raw), ranks, ids, added, bos_id=end, eos_id=end))
