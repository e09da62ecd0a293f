"""DRY: a penalty for tokens that would continue a repetition, growing with its length."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from model.sampling.penalties import LARGEST, last_tokens, with_logits
from model.sampling.pipeline import Context, Step

_CHUNK = 64  # number of tokens that are compared at once
_LEAST_BASE = 1.000001  # with a smaller base the penalty does not grow, so that its exponent needs no bound


def dry(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Subtract multiplier base^(n - allowed) from the logit of each token that would continue a repetition of n tokens.

    Don't repeat yourself: Philipp Emanuel Weidmann 2024 (text-generation-webui pull request 5677); as in llama.cpp. n
    is the largest number of tokens at the end of the text that also stand before an earlier occurrence of the token;
    below `allowed` there is no penalty. The step's phrases are breakers: n does not reach back beyond the last one in
    the text, and a breaker of one token gets no penalty. A multiplier of 0 changes nothing; a base of 1 does not grow.
    """
    if values["multiplier"] == 0:
        return logits.clone()
    allowed, base = int(values["allowed"]), values["base"]
    most = int(math.log(LARGEST) / math.log(base)) if base > _LEAST_BASE else len(context.ids)
    ids, lengths = repeats(last_tokens(context.ids, values["window"]), step.phrases, allowed, allowed + most)
    inside = ids < len(logits)
    ids, lengths = torch.from_numpy(ids[inside]), torch.from_numpy(lengths[inside])
    penalty = values["multiplier"] * base ** (lengths - allowed).double()
    return with_logits(logits, ids, (logits[ids] - penalty).float())


def repeats(
    text: Sequence[int], breakers: tuple[tuple[int, ...], ...], allowed: int, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Find the tokens that would continue a repetition, and the lengths of the longest ones: ids [m], lengths [m].

    Lengths from `allowed` on are found, and counted up to `most`.
    """
    window = np.asarray(text, np.int64)
    limit = min(most, since_breaker(text, breakers))
    if len(window) <= allowed or limit < allowed:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    reach = _matches(window, limit)
    repeated = np.flatnonzero(reach >= allowed)
    ids, at = np.unique(window[repeated + 1], return_inverse=True)
    lengths = np.zeros(len(ids), np.int64)
    np.maximum.at(lengths, at, reach[repeated])
    heads = _heads(breakers)
    penalized = np.array([() not in heads.get(token, ()) for token in ids.tolist()], bool)
    return ids[penalized], lengths[penalized]


def _matches(window: np.ndarray, limit: int) -> np.ndarray:
    """Count, for each place but the last, how many tokens up to it equal those up to the last. [n] -> [n - 1]"""
    last = len(window) - 1
    reach = np.zeros(last, np.int64)
    padded = np.concatenate((np.full(limit, -1), window))
    places = np.flatnonzero(window[:-1] == window[-1])
    for done in range(0, limit, _CHUNK):
        size = min(_CHUNK, limit - done)
        pieces = np.lib.stride_tricks.sliding_window_view(padded, size)[places + limit - done - size + 1]
        differs = (pieces != padded[last + limit - done - size + 1 : last + limit - done + 1])[:, ::-1]
        reach[places] += np.where(differs.any(-1), differs.argmax(-1), size)
        places = places[~differs.any(-1)]
        if not len(places):
            break
    return reach


def since_breaker(text: Sequence[int], breakers: tuple[tuple[int, ...], ...]) -> int:
    """Count the tokens after the last breaker in the text; all of them without a breaker.

    As in llama.cpp, the breaker is the one that begins last, and the longest of those that begin with the same token.
    """
    heads, n = _heads(breakers), len(text)
    if not heads:
        return n
    for after in range(n):
        tails = heads.get(text[n - 1 - after])
        if tails is None:
            continue
        fitting = [len(tail) for tail in tails if len(tail) <= after and tail == _tail(text, n - after, len(tail))]
        if fitting:
            return after - max(fitting)
    return n


def _tail(text: Sequence[int], start: int, length: int) -> tuple[int, ...]:
    return tuple(text[start : start + length])


@lru_cache(8)
def _heads(breakers: tuple[tuple[int, ...], ...]) -> dict[int, set[tuple[int, ...]]]:
    """Group the breakers by their first token."""
    heads: dict[int, set[tuple[int, ...]]] = {}
    for phrase in breakers:
        heads.setdefault(phrase[0], set()).add(phrase[1:])
    return heads
