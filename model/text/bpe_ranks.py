"""Conversion of a list of merges to tiktoken's ranks: GPT-2's byte alphabet, and a check that both give the same
tokens.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from model.errors import CheckpointError, UnsupportedModel

FRESH_COPY = "Download the vocabulary again from the model's publisher."
# maximum number of neighbor pairs to examine, which takes a few seconds; Llama 3's vocabulary needs a tenth of it
_MOST_WORK = 1 << 26


def _byte_alphabet() -> dict[str, int]:
    """Map GPT-2's visible characters to the bytes they stand for, 256 entries."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(b): b for b in visible} | {chr(256 + n): b for n, b in enumerate(hidden)}


ALPHABET = _byte_alphabet()
_TO_LATIN1 = {ord(char): byte for char, byte in ALPHABET.items()}


def bytes_of(token: str) -> bytes:
    """Decode a token in the byte alphabet to bytes."""
    return token.translate(_TO_LATIN1).encode("latin-1")


def _pair_forms(a: int, b: int, parts: list[tuple[int, int]], pairs: dict[tuple[int, int], int]) -> bool:
    """Return whether merging the bytes of tokens a and b passes through exactly the two tokens (a, b).

    Undoes the merges on both sides of the seam, latest first. If an earlier merge would have crossed the seam at any
    of these points, the pair never occurs on its own. With equal ranks, the left one happened first.
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


def _affordable(work: int) -> None:
    """Raise UnsupportedModel if a vocabulary would take too long: the cost grows with the square of a token's
    length.
    """
    if work > _MOST_WORK:
        what = "The vocabulary has too many long tokens to be checked."
        raise UnsupportedModel(what, f"{work} steps of at most {_MOST_WORK}", FRESH_COPY)


def _last_parts(token: str, ranks: Mapping[str, int]) -> tuple[str, ...]:
    """Find the parts of `token` before the last merge of its bytes."""
    parts = list(token)
    while len(parts) > 2:
        joined = [ranks.get(left + right) for left, right in pairwise(parts)]
        best = min((rank for rank in joined if rank is not None), default=None)
        if best is None:
            break
        i = joined.index(best)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return tuple(parts)


def _in_order(merges: list[tuple[str, str]]) -> dict[str, int]:
    """Return {token: index of the merge that produces it}, for tokens whose parts are produced earlier in the list."""
    ids, places = dict(ALPHABET), {}
    parts = [(byte, byte) for byte in range(256)]
    pairs: dict[tuple[int, int], int] = {}
    for place, (left, right) in enumerate(merges):
        token = left + right
        a, b = ids.get(left), ids.get(right)
        if token not in ids and a is not None and b is not None and _pair_forms(a, b, parts, pairs):
            ids[token] = pairs[a, b] = len(parts)
            parts.append((a, b))
            places[token] = place
    return places


def _out_of_order(merges: list[tuple[str, str]], places: dict[str, int]) -> dict[str, int]:
    """Compute `places` for a list in which some merges precede the merges of their parts, as in Llama 3.

    Only tokens that contain a misplaced token can be affected; these are actually merged.
    """
    place_of = {pair: place for place, pair in enumerate(merges)}
    first: dict[str, int] = {}
    for pair, place in place_of.items():
        first.setdefault("".join(pair), place)
    late = first.keys() - places.keys()
    places = first | places
    lengths = sorted({len(token) for token in late})
    reachable = dict(places)
    _affordable(sum(len(token) * max(len(token), len(lengths)) for token in places))
    for token in places:
        if not any(token[i : i + n] in late for n in lengths for i in range(len(token) - n + 1)):
            continue
        parts = _last_parts(token, places)
        if len(parts) > 2:
            del reachable[token]  # never produced
        elif parts in place_of:
            reachable[token] = place_of[parts]
        else:
            raise UnsupportedModel("A token needs a merge that is not in the list.", token, FRESH_COPY)
    if sorted(reachable, key=reachable.get) != sorted(reachable, key=places.get):
        raise UnsupportedModel("The merges are in an impossible order.", "", FRESH_COPY)
    return reachable


def merge_ranks(tokens: Iterable[str], merges: Iterable[tuple[str, str]], direct: Iterable[str] = ()) -> dict[str, int]:
    """Compute ranks of tokens (in the byte alphabet) such that merging by the lowest rank follows the list of merges.

    A list of merges names pairs; tiktoken joins any two neighbors whose joined bytes are a token. The two agree if and
    only if each ranked token is reached through a pair in the list, because the parts of two neighbors do not depend
    on the surrounding text. A token that no listed pair can reach is therefore omitted; the list never produces it
    either. `direct` are tokens that are matched against a complete piece of text before merging (`ignore_merges`). The
    256 bytes have ranks 0..255.

    Raises CheckpointError if merges repeat or name unknown tokens, UnsupportedModel if no ranks can reproduce the
    list.
    """
    merges, known = list(merges), set(tokens)
    for left, right in merges:
        if not left or not right or left not in known or right not in known or left + right not in known:
            raise CheckpointError("A merge names a token that is not in the vocabulary.", f"{left} {right}", FRESH_COPY)
    if len(set(merges)) != len(merges):
        raise CheckpointError("The list of merges names a pair twice.", "", FRESH_COPY)
    places = _in_order(merges)
    mergeable = {left + right for left, right in merges} | ALPHABET.keys()
    unreached = [(place, part) for place, pair in enumerate(merges) if "".join(pair) not in places for part in pair]
    if any(
        part in mergeable and part not in ALPHABET and places.get(part, len(merges)) > place
        for place, part in unreached
    ):
        places = _out_of_order(merges, places)
    ranks = ALPHABET | {token: 256 + n for n, token in enumerate(sorted(places, key=places.get))}
    extra = [token for token in dict.fromkeys(direct) if token not in ranks]
    _affordable(sum(len(token) ** 2 for token in extra))
    for token in extra:
        if len(_last_parts(token, ranks)) == 2:
            raise UnsupportedModel("A token can only be matched whole, yet no merge produces it.", token, FRESH_COPY)
    return ranks | {token: len(ranks) + n for n, token in enumerate(extra)}
