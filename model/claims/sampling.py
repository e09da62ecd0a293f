"""Claims about the distribution of the next token and about the text that is drawn from it."""

import numpy as np

from model.claims.bench import BEGUN
from model.claims.reading import Reading

LOOP = 8  # tokens that occur twice in a row of text for it to count as a loop


def top_half(text: Reading) -> float:
    """Return the mean probability of the most likely token. Fraction of 1"""
    return float(text.ranked[:, 0].mean())


def top40(text: Reading) -> float:
    """Return the mean probability of the 40 most likely tokens together. Fraction of 1"""
    return float(text.ranked[:, :40].sum(-1).mean())


def nucleus(ranked: np.ndarray, p: float = 0.9) -> np.ndarray:
    """Count the most likely tokens that reach probability p together. ranked [T, V] -> [T]. Holtzman et al. 2020"""
    return (ranked.cumsum(-1) < p).sum(-1) + 1


def top_p(text: Reading) -> float:
    """Return the median number of tokens that top-p 0.9 keeps. Tokens"""
    return float(np.median(nucleus(text.ranked)))


def _entropy_at(text: Reading, temperature: float) -> float:
    """Compute the mean entropy of the predictions at a temperature. Nats"""
    scaled = text.log_probs / temperature
    scaled = scaled - scaled.max(-1, keepdims=True)
    p = np.exp(scaled)
    total = p.sum(-1, keepdims=True)
    return float((np.log(total[:, 0]) - (p / total * scaled).sum(-1)).mean())


def temp07(text: Reading) -> float:
    """Divide the mean entropy at temperature 0.7 by that at temperature 1. Ratio"""
    return _entropy_at(text, 0.7) / _entropy_at(text, 1.0)


def nucleus_holds(text: Reading) -> float:
    """Return how often the real next token is among those that top-p 0.9 keeps. Fraction of positions"""
    real = np.exp(-text.loss)
    before = np.where(text.ranked[:-1] > real[:, None], text.ranked[:-1], 0).sum(-1)
    return float((before < 0.9).mean())


def calibrated(text: Reading) -> float:
    """Subtract how often the most likely token is right from its mean probability. Difference of fractions"""
    right = text.log_probs[:-1].argmax(-1) == text.ids[1:]
    return float(text.ranked[:-1, 0].mean() - right.mean())


def loops(ids: np.ndarray, length: int = LOOP) -> bool:
    """Return whether a run of `length` tokens occurs twice in a text. ids [T]"""
    runs = [tuple(ids[n : n + length].tolist()) for n in range(len(ids) - length + 1)]
    return len(set(runs)) < len(runs)


def greedy_loops(text: Reading) -> float:
    """Return 1 if greedy decoding repeats a run of LOOP tokens within 60 tokens, else 0."""
    return float(loops(text.changed.written()[0]))


def greedy_likelier(text: Reading) -> float:
    """Subtract the mean log-probability of the text's own tokens from that of greedy decoding. Nats per token"""
    return float(text.changed.written()[1].mean() + text.loss[BEGUN - 1 :].mean())
