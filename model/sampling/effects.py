"""Effects of a step on each token: logit and probability before and after, and the reason where the step has one."""

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from model.public import public, unchecked, whole
from model.sampling.dry import repeats
from model.sampling.penalties import last_tokens
from model.sampling.pipeline import Context, Step, softmax
from model.sampling.warps import NOTHING, WARPS, final, values_of


@dataclass(frozen=True)
class Reason:
    """Why a step changed a token: a number, or the tokens of the text (and the phrase) that led to it."""

    kind: str  # "count", "repeat", "ngram", "bias" or "banned"
    number: float = 0
    ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class TokenEffect:
    """The effect of a step on one token."""

    id: int
    logits: tuple[float, float]  # before and after; -inf for an excluded token
    probabilities: tuple[float, float]
    reason: Reason | None = None


@public(step=unchecked, most=whole(1))
def effects(logits: Tensor, step: Step, context: Context = NOTHING, most: int = 12) -> tuple[TokenEffect, ...]:
    """Return the tokens that a step changed the most, by the probability that they lost or gained.

    A penalty's tokens are only those whose own logits it changed; other steps change all. A token that was excluded
    before has no effect.
    """
    after = final(logits, (step,), context)
    before, now = softmax(logits.numpy()), softmax(after.numpy())
    changed = logits.isfinite().numpy()
    if WARPS[step.warp].kind == "penalty":
        changed &= (logits != after).numpy()
    ids = np.flatnonzero(changed)
    ids = ids[np.lexsort((ids, -before[ids], -np.abs(now - before)[ids]))][:most].tolist()
    why = reasons(step, context, ids)
    return tuple(
        TokenEffect(
            n,
            (float(logits[n]), float(after[n])),
            (float(before[n]), float(now[n])),
            why.get(n),
        )
        for n in ids
    )


def reasons(step: Step, context: Context, ids: list[int]) -> dict[int, Reason]:
    """Find the reasons of a penalty for the given tokens; {} for other steps."""
    values = values_of(step)
    text = last_tokens(context.ids, values.get("window", 0))
    if step.warp in ("presence_penalty", "frequency_penalty") and not values["window"]:
        text = context.ids[context.prompt :]
    if step.warp in ("repetition_penalty", "presence_penalty", "frequency_penalty"):
        return {n: Reason("count", text.count(n)) for n in ids}
    if step.warp == "no_repeat_ngram":
        before = int(values["ngram"]) - 1
        return {n: Reason("ngram", ids=(*(text[-before:] if before else ()), n)) for n in ids}
    if step.warp == "dry":
        found = zip(*repeats(text, step.phrases, int(values["allowed"]), len(text)), strict=True)
        lengths = {int(token): int(length) for token, length in found}
        return {n: Reason("repeat", lengths[n], tuple(text[len(text) - lengths[n] :])) for n in ids if n in lengths}
    if step.warp == "logit_bias":
        return {n: Reason("bias", math.fsum(number for token, number in step.tokens if token == n)) for n in ids}
    if step.warp == "banned_words":
        return {n: Reason("banned", ids=_phrase(step, context, n)) for n in ids}
    return {}


def _phrase(step: Step, context: Context, token: int) -> tuple[int, ...]:
    """Return the longest phrase that the token would complete."""
    ending = (*context.ids, token)
    return max((each for each in step.phrases if ending[-len(each) :] == each), key=len, default=())
