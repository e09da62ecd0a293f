"""The test of claims on a model: one pass over the texts, which every claim's measure reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from model.api import LanguageModel
from model.claims.bench import LEAST_CONTEXT, Bench
from model.claims.reading import read
from model.claims.registry import CLAIMS, missing
from model.claims.texts import PASSAGES, spread
from model.errors import InputError, say
from model.progress import Progress, silent
from model.public import public, whole


@dataclass(frozen=True, eq=False)
class Study:
    """The numbers of claims on the same texts."""

    passages: tuple[int, ...]  # numbers of the texts, N
    tokens: int  # number of tokens of all texts
    values: Mapping[str, np.ndarray]  # by claim: float32 [N], NaN for a text without such a case
    reasons: Mapping[str, str]  # by claim that this model does not allow: the key of NEEDS that it lacks


@public(texts=whole(5, PASSAGES))
@torch.inference_mode()
def study(
    lm: LanguageModel, keys: Sequence[str] = tuple(CLAIMS), texts: int = PASSAGES, progress: Progress = silent
) -> Study:
    """Measure claims on the model: each text is run once with its sites recorded, and the measures read what they need.

    `keys` are keys of CLAIMS; `texts` passages are spread over the held-out chapter. `progress` may raise to cancel.
    Raises InputError for an unknown claim and for a context that is too short.
    """
    for key in keys:
        if key not in CLAIMS:
            raise InputError("No claim has this name.", key[:40], say("Choose one of: {}.", ", ".join(CLAIMS)))
    if lm.config.n_ctx < LEAST_CONTEXT:
        hint = say("At least {} tokens are needed.", LEAST_CONTEXT)
        raise InputError("The context of this model is too short to test claims on.", str(lm.config.n_ctx), hint)
    reasons = {key: reason for key in keys if (reason := missing(key, lm.config))}
    numbers, tokens = spread(texts), 0
    bench = Bench(lm, numbers)
    values = {key: np.full(texts, np.nan, np.float32) for key in keys if key not in reasons}
    for at, number in enumerate(numbers):
        progress(at, texts, "Testing claims")
        text = read(bench, number)
        tokens += len(text.ids)
        for key, found in values.items():
            found[at] = CLAIMS[key].measure(text)
    progress(texts, texts, "Testing claims")
    return Study(numbers, tokens, values, reasons)
