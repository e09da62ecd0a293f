"""Claims about single heads: what they attend to, and what is lost without them."""

import numpy as np

from model.claims.attention import late
from model.claims.reading import Reading


def evenness(pattern: np.ndarray) -> np.ndarray:
    """Compute each head's mean row entropy as a fraction of that of uniform attention, rows 1 .. T - 1.

    pattern [..., T, T] -> [...]; 0 for a single key, 1 for uniform weights.
    """
    T = pattern.shape[-1]
    entropy = -(pattern * np.log(np.where(pattern > 0, pattern, 1))).sum(-1)[..., 1:]
    return (entropy / np.log(np.arange(2, T + 1))).mean(-1)


def peaked_last(text: Reading) -> float:
    """Subtract the evenness of the first layer's heads from that of the last layer's. Difference of fractions"""
    even = evenness(text.pattern[[0, -1]]).mean(-1)
    return float(even[1] - even[0])


def different(text: Reading) -> float:
    """Average the overlap of two heads of a layer, the sum over keys of the smaller weight, over all pairs. Fraction"""
    H = text.pattern.shape[1]
    pairs = [(a, b) for a in range(H) for b in range(a)]
    if not pairs:
        return np.nan
    overlaps = [np.minimum(text.pattern[:, a, 1:], text.pattern[:, b, 1:]).sum(-1).mean() for a, b in pairs]
    return float(np.mean(overlaps))


def _previous(text: Reading) -> np.ndarray:
    """Compute each head's mean weight on the token just before. [L, H]"""
    return text.pattern.diagonal(-1, 2, 3)[..., 1:].mean(-1)


def _depth_of_best(scores: np.ndarray) -> float:
    """Return the depth of the layer with the largest score: 0 for the first layer, 1 for the last. scores [L, H]"""
    L, H = scores.shape
    return float(scores.argmax() // H / (L - 1)) if L > 1 else np.nan


def previous_head(text: Reading) -> float:
    """Return the largest mean weight of a head on the token just before. Fraction of 1"""
    return float(_previous(text).max())


def previous_low(text: Reading) -> float:
    """Return the depth of the head with the largest weight on the token just before. 0 to 1"""
    return _depth_of_best(_previous(text))


def induction_head(text: Reading) -> float:
    """Return the largest induction score of a head on the text written twice. Fraction of 1. Olsson et al. 2022"""
    return float(text.changed.induction.max())


def induction_high(text: Reading) -> float:
    """Return the depth of the head with the largest induction score. 0 to 1"""
    return _depth_of_best(text.changed.induction)


def resting(text: Reading) -> float:
    """Return the fraction of heads with over half of their weight on the first token, in the second half of a text."""
    return float((late(text.pattern)[..., 0].mean(-1) > 0.5).mean())


def one_head(text: Reading) -> float:
    """Return the mean KL divergence of the predictions without one random head from the model's. Nats"""
    return divergence(text.log_probs, text.changed.without_heads(1))


def half_heads(text: Reading) -> float:
    """Return the mean KL divergence of the predictions without a random half of all heads from the model's. Nats"""
    L, H = text.pattern.shape[:2]
    return divergence(text.log_probs, text.changed.without_heads(L * H // 2))


def divergence(log_p: np.ndarray, log_q: np.ndarray) -> float:
    """Compute KL(p || q), averaged over positions. [T, V] each, nats"""
    return float((np.exp(log_p) * (log_p - log_q)).sum(-1).mean())
