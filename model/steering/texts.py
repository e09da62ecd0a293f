"""Texts under several factors of a steering vector, all with the same random numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.api import LanguageModel
from model.errors import InputError
from model.generation.strategies import Strategy
from model.gpt.edits import MAX_FACTOR, STREAM_SITES
from model.progress import Progress, silent
from model.public import MOST_SEED, array, between, nonempty, one_of, public, unchecked, whole
from model.steering.vectors import steering_edit

WRITING = "Writing texts"
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")


@dataclass(frozen=True)
class SteeredText:
    """A continuation under one factor: its text, token ids, share of the listed words, and its cost."""

    factor: float
    text: str
    ids: tuple[int, ...]
    share: float  # of its words that are in the list; NaN for a text without words
    surprise: float  # mean -ln p of its tokens in the model without steering, in nats; NaN for an empty text


@public(
    ids=nonempty,
    vector=array("D"),
    factors=between(-MAX_FACTOR, MAX_FACTOR),
    words=unchecked,
    tokens=whole(1, 512),
    site=one_of(STREAM_SITES),
    seed=whole(0, MOST_SEED),
)
def steered_texts(
    lm: LanguageModel,
    ids: Sequence[int],
    vector: np.ndarray,
    layer: int,
    factors: Sequence[float],
    *,
    words: Sequence[str] = (),
    site: str = "resid_post",
    positions: str | None = None,
    strategy: str | Strategy = "temperature",
    tokens: int = 24,
    seed: int = 0,
    progress: Progress = silent,
) -> tuple[SteeredText, ...]:
    """Continue a prompt of token ids once for each factor, with the same random numbers at each step.

    So a factor of 0 gives the text of `lm.generate(ids, strategy, tokens, seed)`, and texts differ only through the
    vector. `words` are counted in any case. `progress(texts done, texts, label)` may raise an exception to cancel.
    Raises InputError as `lm.generate` and `steering_edit` do, and for a list without factors.
    """
    if not len(factors):
        raise InputError("An argument is empty.", "factors", "Give at least one entry.")
    listed, made = {word.lower() for word in words}, []
    for at, factor in enumerate(factors):
        progress(at, len(factors), WRITING)
        edit = steering_edit(vector, layer, float(factor), site=site, positions=positions)
        ticks = lm.generate(ids, strategy, tokens, seed, edits=[edit] if factor else [])
        new = tuple(token.id for tick in ticks for token in tick.changes[0].made)
        text = lm.decode(new)
        found = [word.lower() for word in _WORD.findall(text)]
        share = sum(word in listed for word in found) / len(found) if found else float("nan")
        made.append(SteeredText(float(factor), text, new, share, _surprise(lm, ids, new)))
    progress(len(factors), len(factors), WRITING)
    return tuple(made)


def _surprise(lm: LanguageModel, ids: Sequence[int], new: Sequence[int]) -> float:
    """Return the mean -ln p of the new tokens after the prompt, without edits, in nats."""
    if not new:
        return float("nan")
    logits = lm.trace([*ids, *new]).logits[len(ids) - 1 : -1].astype(np.float64)
    top = logits.max(1, keepdims=True)
    chance = logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))
    return float(-chance[np.arange(len(new)), new].mean())
