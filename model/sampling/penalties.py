"""Penalties: warps that change the logits of individual tokens, depending on the text so far or on a user's list.

Excluded tokens stay excluded. A logit beyond the range of float32 is clamped to it, so that a penalty never excludes a
token. Only `no_repeat_ngram` and `banned_words` exclude tokens, and never the last one remaining.

A window of n limits a penalty to the last n tokens of the text, prompt included, as `repeat_last_n` in llama.cpp and
the penalty range of text-generation-webui. A window of 0 has no limit, as in text-generation-webui: repeats are counted
in the whole text, presence and frequency after the prompt, as in the OpenAI API and vLLM. In llama.cpp, -1 is the
whole text and 0 is off.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from model.sampling.pipeline import Context, Step

LARGEST = torch.finfo(torch.float32).max


def repetition_penalty(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Divide the logits of all tokens in the text, prompt included, by the penalty; negative logits are multiplied by
    it.

    Keskar et al. 2019, section 4.1, only divides. Multiplying negative logits, as in transformers, makes these tokens
    less likely as well. The number of occurrences does not matter, and a logit of 0 does not change. 1 changes
    nothing; a number between 0 and 1 makes tokens of the text more likely, as in transformers, llama.cpp and vLLM.
    """
    ids, _ = _token_counts(last_tokens(context.ids, values["window"]), len(logits))
    before = logits[ids]
    after = torch.where(before < 0, before * values["penalty"], before / values["penalty"])
    return with_logits(logits, ids, after)


def presence_penalty(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Subtract the penalty once from the logit of each distinct token generated after the prompt, or in the window.

    The presence penalty of the OpenAI API and of vLLM: logit - presence [count > 0]. A negative one encourages
    repetition.
    """
    ids, _ = _token_counts(_penalized(context, values["window"]), len(logits))
    return with_logits(logits, ids, logits[ids] - values["presence"])


def frequency_penalty(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Subtract the penalty from a token's logit once for each time it was generated after the prompt, or in the window.

    The frequency penalty of the OpenAI API and of vLLM: logit - frequency count. A negative one encourages repetition.
    """
    ids, counts = _token_counts(_penalized(context, values["window"]), len(logits))
    return with_logits(logits, ids, logits[ids] - values["frequency"] * counts)


def no_repeat_ngram(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Exclude each token that would complete an n-gram that already occurs in the text, prompt included.

    Paulus et al. 2018, section 2.5, for any n; as in transformers. With n = 1, every token of the text is excluded. If
    that would leave no token, nothing is excluded. n = 0 changes nothing, as in transformers' `generate`.
    """
    n, text = int(values["ngram"]), np.asarray(last_tokens(context.ids, values["window"]))
    if n == 0 or len(text) < n:
        return logits.clone()
    sequences = np.lib.stride_tricks.sliding_window_view(text, n)
    ending = sequences[:, -1][(sequences[:, :-1] == text[len(text) - n + 1 :]).all(-1)]
    result = logits.clone()
    result[torch.from_numpy(ending[ending < len(logits)])] = -torch.inf
    return result if torch.isfinite(result).any() else logits.clone()


def banned_words(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Exclude each token that would complete one of the step's phrases: its last token, if the text ends in the others.

    As `bad_words_ids` in transformers and `bad_words` in vLLM. A phrase of one token is always excluded. The same
    letters cut into other tokens are not recognized. If that would leave no token, nothing is excluded.
    """
    ending = {
        phrase[-1]
        for phrase in step.phrases
        if len(phrase) == 1 or tuple(context.ids[-len(phrase) + 1 :]) == tuple(phrase[:-1])
    }
    result = logits.clone()
    result[torch.tensor(sorted(id for id in ending if id < len(logits)), dtype=torch.long)] = -torch.inf
    return result if torch.isfinite(result).any() else logits.clone()


def logit_bias(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Add the given number to the logit of each listed token; numbers for the same token add up.

    The `logit_bias` of the OpenAI API. The odds of the token against any other are multiplied by exp(number). Where it
    is typed, a word of several tokens biases each of them, as in llama.cpp's server.
    """
    ids = torch.tensor([token for token, _ in step.tokens], dtype=torch.long)
    result = logits.clone()
    return result.index_add_(0, ids, torch.tensor([number for _, number in step.tokens], dtype=torch.float32))


def last_tokens(ids: Sequence[int], window: float) -> Sequence[int]:
    """Return the last tokens of a text that a window covers; 0 covers all."""
    return ids[-int(window) :] if window else ids


def _penalized(context: Context, window: float) -> Sequence[int]:
    return last_tokens(context.ids, window) if window else context.ids[context.prompt :]


def _token_counts(ids: Sequence[int], size: int) -> tuple[Tensor, Tensor]:
    """Return the distinct tokens of a text that have a logit, and their counts. [n], [n]"""
    tokens, counts = np.unique(np.asarray(ids, dtype=np.int64), return_counts=True)
    return torch.from_numpy(tokens[tokens < size]), torch.from_numpy(counts[tokens < size])


def with_logits(logits: Tensor, ids: Tensor, after: Tensor) -> Tensor:
    """Replace the logits of ids [n] by after [n], clamped to float32; excluded tokens stay excluded."""
    result = logits.clone()
    result[ids] = torch.where(logits[ids] > -torch.inf, after.clamp(-LARGEST, LARGEST), -torch.inf)
    return result
