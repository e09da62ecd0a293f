"""Claims about depth: how far layers look, what they write, when the prediction is made, and which can be left out."""

import numpy as np

from model.claims.heads import evenness
from model.claims.reading import Reading


def _late_minus_early(by_layer: np.ndarray) -> float:
    """Subtract the mean over the first third of the layers from that over the last third. by_layer [L]"""
    third = max(len(by_layer) // 3, 1)
    return float(by_layer[-third:].mean() - by_layer[:third].mean()) if len(by_layer) > 1 else np.nan


def far_late(text: Reading) -> float:
    """Compare the mean attention distance of the last and the first third of the layers, without the first token.
    Tokens
    """
    pattern = text.pattern[..., 1:, 1:]
    T = pattern.shape[-1]
    distance = np.arange(T)[:, None] - np.arange(T)[None]
    weight = np.maximum(pattern.sum(-1), 1e-9)
    return _late_minus_early(((pattern * distance).sum(-1) / weight).mean((1, 2)))


def entropy_depth(text: Reading) -> float:
    """Compare the evenness of attention in the last and the first third of the layers. Difference of fractions"""
    return _late_minus_early(evenness(text.pattern).mean(1))


def _cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute cosines along the last axis. [..., D] each -> [...]"""
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return (a * b).sum(-1) / np.maximum(norms, 1e-12)


def grows(text: Reading) -> float:
    """Divide the median norm of the last residual stream by that of the first; the first token is left out. Ratio"""
    first, last = (np.median(np.linalg.norm(x[1:], axis=-1)) for x in (text.stream[0], text.stream[-1]))
    return float(last / first)


def direction(text: Reading) -> float:
    """Average the cosine of the stream before and after a layer, over layers and tokens but the first. -1 to 1"""
    return float(_cosines(text.stream[:-1, 1:], text.stream[1:, 1:]).mean())


def mlp_more(text: Reading) -> float:
    """Divide the norm of what MLPs write by that of what attention writes, each averaged over tokens but the first;
    the mean over layers. Ratio
    """
    mlp, attn = (np.linalg.norm(x[:, 1:], axis=-1).mean(-1) for x in (text.mlp_out, text.attn_out))
    return float((mlp / attn).mean())


def neighbors(text: Reading) -> float:
    """Average the cosine of what a layer and the next one write, over tokens but the first. -1 to 1"""
    written = np.diff(text.stream[:, 1:], axis=0)
    return float(_cosines(written[:-1], written[1:]).mean()) if len(written) > 1 else np.nan


def late_decision(text: Reading) -> float:
    """Return the mean depth from which on the logit lens names the final top token: 0 before the first layer, 1 after
    the last.
    """
    same = text.lens_tops == text.lens_tops[-1]  # [L + 1, P]
    wrong = len(same) - np.argmax(~same[::-1], 0)  # points up to and including the last that disagrees
    decided = np.where(same.all(0), 0, wrong)
    return float((decided / (len(same) - 1)).mean())


def middle_answer(text: Reading) -> float:
    """Return the fraction of positions where the logit lens after half of the layers names the final top token."""
    middle = (len(text.lens_tops) - 1) // 2
    return float((text.lens_tops[middle] == text.lens_tops[-1]).mean())


def _without(text: Reading, layer: int) -> float:
    """Return the rise of the mean loss without one layer. Nats per token"""
    order = [each for each in range(len(text.stream) - 1) if each != layer]
    return float(text.changed.through(order).mean() - text.loss.mean())


def skip_middle(text: Reading) -> float:
    """Return the rise of the loss without the layer in the middle. Nats per token"""
    return _without(text, (len(text.stream) - 1) // 2)


def first_layer(text: Reading) -> float:
    """Subtract the rise of the loss without the middle layer from that without the first. Nats per token"""
    return _without(text, 0) - skip_middle(text)


def swap(text: Reading) -> float:
    """Return the rise of the loss if the middle layer and the next one change places. Nats per token"""
    order = list(range(len(text.stream) - 1))
    middle = (len(order) - 1) // 2
    if len(order) < 2:
        return np.nan
    order[middle : middle + 2] = [middle + 1, middle]
    return float(text.changed.through(order).mean() - text.loss.mean())
