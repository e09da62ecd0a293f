"""Claims about attention weights, averaged over all heads of all layers: numbers of one text."""

import numpy as np

from model.claims import kinds_of_tokens as kinds
from model.claims.reading import Reading

NEAR = 8  # tokens that count as near, the token itself included


def late(weights: np.ndarray) -> np.ndarray:
    """Return the rows of the second half of the text, where many keys compete. [..., T, T] -> [..., T / 2, T]"""
    return weights[..., weights.shape[-1] // 2 :, :]


def first_token(text: Reading) -> float:
    """Compute the mean weight on the first token, from the second half of the text. Fraction of 1"""
    return float(late(text.weights)[:, 0].mean())


def previous(text: Reading) -> float:
    """Compute the mean weight on the token just before, from the second half of the text. Fraction of 1"""
    T = len(text.pieces)
    return float(text.weights.diagonal(-1)[T // 2 - 1 :].mean())


def local(text: Reading) -> float:
    """Compute the mean weight on the last NEAR tokens, from the second half of the text. Fraction of 1"""
    T = len(text.pieces)
    near = np.tri(T, dtype=bool) & ~np.tri(T, k=-NEAR, dtype=bool)
    return float(late(text.weights * near).sum(-1).mean())


def fades(text: Reading) -> float:
    """Divide the mean weight at distances 2 and 3 by that at distances 10 to 15; the first token is left out."""

    def at(distances: range) -> float:
        return float(np.mean([text.weights.diagonal(-d)[1:].mean() for d in distances]))

    return at(range(2, 4)) / at(range(10, 16)) if len(text.pieces) > 18 else np.nan


def preference(weights: np.ndarray, chosen: np.ndarray, others: np.ndarray) -> float:
    """Divide the mean weight on a chosen key by that on another key, over queries that see both kinds.

    weights, chosen and others [T, T]; the masks are cut to keys between the first token and the query. NaN if no query
    sees both.
    """
    T = len(weights)
    seen = np.tri(T, k=-1, dtype=bool)
    seen[:, 0] = False
    chosen, others = chosen & seen, others & seen
    n, m = chosen.sum(-1), others.sum(-1)
    both = (n > 0) & (m > 0)
    if not both.any():
        return np.nan
    on_chosen, on_others = (weights * chosen).sum(-1)[both] / n[both], (weights * others).sum(-1)[both] / m[both]
    return float(on_chosen.sum() / on_others.sum())


def _keys(text: Reading, chosen: np.ndarray, others: np.ndarray | None = None) -> float:
    """Compare keys of one kind with keys of another, or with all others, whatever the query."""
    rest = ~chosen if others is None else others
    T = len(text.pieces)
    return preference(text.weights, np.broadcast_to(chosen, (T, T)), np.broadcast_to(rest, (T, T)))


def punctuation(text: Reading) -> float:
    """Divide the mean weight on a punctuation mark by that on any other key. Ratio"""
    return _keys(text, kinds.punctuation(text.pieces))


def names(text: Reading) -> float:
    """Divide the mean weight on a name by that on any other key. Ratio"""
    return _keys(text, kinds.names(text.pieces))


def content(text: Reading) -> float:
    """Divide the mean weight on the start of a content word by that on a function word. Ratio"""
    return _keys(text, kinds.content_words(text.pieces), kinds.one_of(text.pieces, kinds.FUNCTION_WORDS))


def copies(text: Reading) -> float:
    """Divide the mean weight on an earlier copy of the token by that on any other earlier key. Ratio"""
    same = text.ids[:, None] == text.ids[None]
    return preference(text.weights, same, ~same)


def pronoun(text: Reading) -> float:
    """Divide the mean weight of he, she, him or her on an earlier name by that on any other key. Ratio"""
    query = kinds.one_of(text.pieces, kinds.PRONOUNS)[:, None]
    name = kinds.names(text.pieces)[None]
    return preference(text.weights, query & name, query & ~name)


def verb(text: Reading) -> float:
    """Subtract the usual weight on the previous token from that of the word after I, you, he, she, we or they.
    Difference of weights
    """
    after = kinds.one_of(text.pieces, kinds.SUBJECTS)[1:-1]  # the first token is left out as a key
    weight = text.weights.diagonal(-1)[1:]
    return float(weight[after].mean() - weight[~after].mean()) if after.any() and not after.all() else np.nan
