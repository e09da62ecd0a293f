"""Claims about norms, activations and embeddings."""

import numpy as np

from model.claims.reading import Reading


def mean_matters(text: Reading) -> float:
    """Return the fraction of the mean square of the norms' inputs that subtracting the mean removes."""
    x = text.norm_inputs
    return float((x.mean(-1) ** 2 / np.square(x).mean(-1)).mean())


def massive_dims(text: Reading) -> float:
    """Return the fraction of the squared norm of the stream after each layer in its largest 1% of dimensions.

    The first token is left out. Sun et al. 2024
    """
    squares = np.sort(np.square(text.stream[1:, 1:]), -1)
    most = max(round(squares.shape[-1] / 100), 1)
    return float((squares[..., -most:].sum(-1) / squares.sum(-1)).mean())


def massive_first(text: Reading) -> float:
    """Divide the norm of the first token by the median norm of the others, halfway through the layers. Ratio"""
    norms = np.linalg.norm(text.stream[(len(text.stream) - 1) // 2], axis=-1)
    return float(norms[0] / np.median(norms[1:]))


def silent(text: Reading) -> float:
    """Return the fraction of neurons whose activation function gets an input below 0."""
    return float((text.mlp_pre < 0).mean())


def sparse(text: Reading) -> float:
    """Return the smallest fraction of a layer's neurons that holds 90% of the squared activations of a token."""
    squares = -np.sort(-np.square(text.mlp_post), -1)
    share = squares.cumsum(-1) / np.maximum(squares.sum(-1, keepdims=True), 1e-20)
    return float(((share < 0.9).sum(-1) + 1).mean() / squares.shape[-1])


def forgotten(text: Reading) -> float:
    """Average the cosine of a token's last residual stream and its embedding, tokens but the first. -1 to 1"""
    a, b = text.stream[-1, 1:], text.embedding[1:]
    return float(((a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))).mean())


def positions(text: Reading) -> float:
    """Divide the median norm of the position vectors by that of the token vectors. Ratio"""
    position, token = (np.median(np.linalg.norm(x, axis=-1)) for x in (text.positions, text.embedding))
    return float(position / token)


def similar_embeddings(text: Reading) -> float:
    """Subtract the mean cosine of two words of the text from that of a word and its variant with a capital letter or
    without a space. Difference of cosines
    """
    unit, ids = text.bench.unit_embeddings, np.unique(text.ids)
    pairs = [(token, other) for token in ids.tolist() if (other := text.bench.variant(token)) is not None]
    if len(pairs) < 2:
        return np.nan
    words, variants = (unit[list(side)].numpy() for side in zip(*pairs, strict=True))
    among = words @ words.T
    unequal = ~np.eye(len(words), dtype=bool)
    return float((words * variants).sum(-1).mean() - among[unequal].mean())
