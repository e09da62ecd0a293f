"""From a list of merges to tiktoken's ranks: GPT-2's byte alphabet and the proof that the two agree."""

from collections.abc import Iterable

from model.errors import CheckpointError, UnsupportedModel

FRESH_COPY = "Fetch the vocabulary again from where the model was published."


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's writing of bytes as visible characters: character -> byte, 256 of them."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(b): b for b in visible} | {chr(256 + n): b for n, b in enumerate(hidden)}


ALPHABET = _byte_alphabet()
_TO_LATIN1 = {ord(char): byte for char, byte in ALPHABET.items()}


def bytes_of(token: str) -> bytes:
    """The bytes of a token written in the byte alphabet."""
    return token.translate(_TO_LATIN1).encode("latin-1")


def _pair_forms(a: int, b: int, parts: list[tuple[int, int]], pairs: dict[tuple[int, int], int]) -> bool:
    """True if merging the bytes of tokens a and b passes through exactly the two tokens (a, b).

    Undoes the merges on both sides of the seam, latest first; the pair never stands alone if at any of those moments
    an earlier merge would have crossed the seam. On equal ranks the left one happened first.
    """
    limit = len(parts)
    while True:
        if pairs.get((a, b), limit) < limit:
            return False
        if a < 256 and b < 256:
            return True
        if a > b:
            limit, a = a, parts[a][1]
        else:
            limit, b = b + 1, parts[b][0]


def merge_ranks(tokens: Iterable[str], merges: Iterable[tuple[str, str]], whole: Iterable[str] = ()) -> dict[str, int]:
    """The rank of each token (in the byte alphabet) that makes 'merge the lowest-ranked neighbours' equal the list.

    A list of merges names pairs; tiktoken joins any two neighbours whose bytes together are a token. The two agree
    if and only if each token kept is reached through a pair that the list names, because what two neighbours were
    made from does not depend on the text around them. So a token no named pair can reach is left out here, as it is
    never produced by the list either. `whole` are tokens that a complete piece of text is looked up in first
    (`ignore_merges`). The 256 bytes take ranks 0..255.

    Raises CheckpointError for merges of unknown tokens or in an impossible order, UnsupportedModel where whole-piece
    tokens would also be reached by merges that the list does not name.
    """
    known, ranks = set(tokens), dict(ALPHABET)
    parts = [(byte, byte) for byte in range(256)]
    pairs: dict[tuple[int, int], int] = {}
    early = []
    for left, right in merges:
        token = left + right
        if not left or not right or left not in known or right not in known or token not in known:
            raise CheckpointError("A merge names a token that is not in the vocabulary.", f"{left} {right}", FRESH_COPY)
        if token in ranks:
            continue
        a, b = ranks.get(left), ranks.get(right)
        if a is None or b is None:
            early.append((left, right))
        elif _pair_forms(a, b, parts, pairs):
            ranks[token] = pairs[a, b] = len(parts)
            parts.append((a, b))
    for left, right in early:
        if left + right not in ranks and left in ranks and right in ranks:
            raise CheckpointError("A merge comes before the merges that make its parts.", f"{left} {right}", FRESH_COPY)
    extra = [token for token in whole if token not in ranks]
    for token in extra:
        halves = ((ranks.get(token[:i]), ranks.get(token[i:])) for i in range(1, len(token)))
        if any(a is not None and b is not None and _pair_forms(a, b, parts, pairs) for a, b in halves):
            raise UnsupportedModel(
                "A token is found whole but must not be merged, which this tokenizer cannot do.", token,
                "Use a vocabulary whose list of merges is complete.",
            )
    return ranks | {token: len(parts) + n for n, token in enumerate(dict.fromkeys(extra))}
