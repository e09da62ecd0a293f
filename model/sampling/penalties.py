"""Penalties: warps that change the logits of single tokens, because of the text so far or because somebody says so.

What is out stays out. A logit that no longer fits in float32 stops at the largest that does, so that a penalty never
puts a token out; only `no_repeat_ngram` does, and never the last one.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from model.sampling.pipeline import Context, Step

LARGEST = torch.finfo(torch.float32).max


def repetition_penalty(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Logits of tokens in the text, prompt included: divided by the penalty, multiplied where they are negative.

    Keskar et al. 2019, section 4.1, divides only; multiplying the negative ones, as in transformers, makes these less
    likely as well. How often a token occurred does not matter, and a logit of 0 does not change. 1 changes nothing.
    """
    ids, _ = _counted(context.ids, len(logits))
    before = logits[ids]
    after = torch.where(before < 0, before * values["penalty"], before / values["penalty"])
    return _replaced(logits, ids, after)


def presence_penalty(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Logits of tokens that were written after the prompt: minus the penalty, however often they were written.

    The presence penalty of the OpenAI API and of vLLM: logit - presence [count > 0]. A negative one invites repeats.
    """
    ids, _ = _counted(context.ids[context.prompt :], len(logits))
    return _replaced(logits, ids, logits[ids] - values["presence"])


def frequency_penalty(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Logits of tokens that were written after the prompt: minus the penalty for each time they were written.

    The frequency penalty of the OpenAI API and of vLLM: logit - frequency count. A negative one invites repeats.
    """
    ids, counts = _counted(context.ids[context.prompt :], len(logits))
    return _replaced(logits, ids, logits[ids] - values["frequency"] * counts)


def no_repeat_ngram(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Put out each token that would complete a sequence of n tokens that the text, prompt included, already has.

    Paulus et al. 2018, section 2.5, for any n; as in transformers. With n = 1 every token of the text goes. Where
    nothing would be left, nothing is put out.
    """
    n, text = int(values["ngram"]), np.asarray(context.ids)
    if len(text) < n:
        return logits.clone()
    sequences = np.lib.stride_tricks.sliding_window_view(text, n)
    ending = sequences[:, -1][(sequences[:, :-1] == text[len(text) - n + 1 :]).all(-1)]
    left = logits.clone()
    left[torch.from_numpy(ending[ending < len(logits)])] = -torch.inf
    return left if torch.isfinite(left).any() else logits.clone()


def logit_bias(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Add the number given for a token to its logit; numbers given for the same token add up.

    The `logit_bias` of the OpenAI API. The odds of the token against any other grow by exp(number).
    """
    ids = torch.tensor([token for token, _ in step.tokens], dtype=torch.long)
    left = logits.clone()
    return left.index_add_(0, ids, torch.tensor([number for _, number in step.tokens], dtype=torch.float32))


def _counted(ids: Sequence[int], size: int) -> tuple[Tensor, Tensor]:
    """The different tokens of a text that have a logit, and how often each occurs. [n], [n]"""
    tokens, counts = np.unique(np.asarray(ids, dtype=np.int64), return_counts=True)
    return torch.from_numpy(tokens[tokens < size]), torch.from_numpy(counts[tokens < size])


def _replaced(logits: Tensor, ids: Tensor, after: Tensor) -> Tensor:
    """The logits with those of ids [n] replaced by after [n], within float32's range; what is out stays out."""
    left = logits.clone()
    left[ids] = torch.where(logits[ids] > -torch.inf, after.clamp(-LARGEST, LARGEST), -torch.inf)
    return left
