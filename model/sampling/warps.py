"""The warps by name, and pipelines of them.

Their numbers have the same ranges wherever they are entered: on the page, in links, endpoints and strategies. A number
at the end of a range means what the common tools agree on. Where they differ, one convention is adopted:

- temperature 0 is greedy: llama.cpp, vLLM. transformers rejects it and suggests `do_sample=False`.
- top_k 0 is off: transformers' `generate`, llama.cpp, vLLM. vLLM and llama.cpp also accept -1, transformers does not.
- top_p 0 keeps one token: transformers, llama.cpp with `min_keep` 1. vLLM rejects it.
- min_p 0 is off: transformers, llama.cpp, vLLM.
- epsilon 0, eta 0 and no_repeat_ngram 0 are off: transformers' `generate`. The others have no such warps.
- repetition_penalty below 1 rewards repetition, and 0 has no meaning: transformers, llama.cpp, vLLM.
- presence and frequency penalties range from -2 to 2 and reward repetition below 0: OpenAI, vLLM.
- typical does not accept 0: transformers rejects it. Neither does top_n_sigma: 0 is off in llama.cpp, greedy by the
  paper's formula.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from model.errors import InputError
from model.public import public, unchecked
from model.sampling.cuts import (
    LOWEST,
    epsilon,
    eta,
    min_p,
    mirostat,
    mirostat_memory,
    top_k,
    top_n_sigma,
    top_p,
    typical,
)
from model.sampling.penalties import (
    frequency_penalty,
    logit_bias,
    no_repeat_ngram,
    presence_penalty,
    repetition_penalty,
)
from model.sampling.pipeline import Context, Parameter, Shaped, Step, Warp, checked


def temperature(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Divide the logits by T, which sharpens the distribution below 1 and flattens it above. At 0, only the largest
    logit remains, ties by the smaller id.

    Ackley et al. 1985. Softmax depends on differences only: if a quotient does not fit in float32, the largest logit
    is subtracted first and lower values are clamped, so that nothing is excluded.
    """
    if values["temperature"] == 0:
        result = torch.full_like(logits, -torch.inf)
        largest = int(logits.numpy().argmax())
        result[largest] = logits[largest]
        return result
    result = logits / values["temperature"]
    if np.array_equal(np.isfinite(result.numpy()), np.isfinite(logits.numpy())):
        return result
    result = ((logits.double() - logits.max()) / values["temperature"]).clamp(min=LOWEST).float()
    return result.masked_fill(logits == -torch.inf, -torch.inf)


WARPS: dict[str, Warp] = {
    "temperature": Warp(temperature, "scale", "Ackley et al. 1985", (Parameter("temperature", 0, 3, 0.8, 0.01),)),
    "top_k": Warp(top_k, "cut", "Fan et al. 2018, section 5", (Parameter("k", 0, 1000, 40, 1, whole=True),)),
    "top_p": Warp(top_p, "cut", "Holtzman et al. 2020, section 3.1", (Parameter("p", 0, 1, 0.9, 0.01),)),
    "min_p": Warp(min_p, "cut", "Nguyen et al. 2024, arXiv 2407.01082", (Parameter("min_p", 0, 1, 0.05, 0.01),)),
    "typical": Warp(typical, "cut", "Meister et al. 2023, arXiv 2202.00666", (Parameter("mass", 0.01, 1, 0.9, 0.01),)),
    "epsilon": Warp(
        epsilon, "cut", "Hewitt et al. 2022, arXiv 2210.15191", (Parameter("epsilon", 0, 0.1, 0.001, 0.0001),)
    ),
    "eta": Warp(eta, "cut", "Hewitt et al. 2022, arXiv 2210.15191", (Parameter("eta", 0, 0.1, 0.002, 0.0001),)),
    "top_n_sigma": Warp(top_n_sigma, "cut", "Tang et al. 2024, arXiv 2411.07641", (Parameter("n", 0.05, 5, 1, 0.05),)),
    "mirostat": Warp(
        mirostat,
        "cut",
        "Basu et al. 2021, Algorithm 1; version 2 as in llama.cpp",
        (Parameter("tau", 0.1, 10, 5, 0.1), Parameter("rate", 0.01, 1, 0.1, 0.01)),
        remember=mirostat_memory,
    ),
    "repetition_penalty": Warp(
        repetition_penalty,
        "penalty",
        "Keskar et al. 2019, section 4.1; logits below 0 as in transformers",
        (Parameter("penalty", 0.01, 2, 1.2, 0.01),),
    ),
    "presence_penalty": Warp(
        presence_penalty, "penalty", "OpenAI API reference", (Parameter("presence", -2, 2, 0.5, 0.1),)
    ),
    "frequency_penalty": Warp(
        frequency_penalty, "penalty", "OpenAI API reference", (Parameter("frequency", -2, 2, 0.5, 0.1),)
    ),
    "no_repeat_ngram": Warp(
        no_repeat_ngram, "penalty", "Paulus et al. 2018, section 2.5", (Parameter("ngram", 0, 10, 3, 1, whole=True),)
    ),
    "logit_bias": Warp(logit_bias, "penalty", "OpenAI API reference", takes_tokens=True),
}


NOTHING = Context()  # no text so far


def values_of(step: Step) -> dict[str, float]:
    """Return all settings of a step, with defaults for missing ones."""
    return {parameter.name: step.get(parameter) for parameter in WARPS[step.warp].parameters}


def checked_logits(logits: Tensor | np.ndarray) -> Tensor:
    """Convert one position's logits to float32 [V]. Raises InputError unless they are numbers, with -inf for an
    excluded token, and at least one is finite.
    """
    values = torch.as_tensor(logits).float()
    if values.ndim != 1 or not len(values):
        raise InputError("These are not the logits of one position.", str(tuple(values.shape)), "Give one row.")
    largest = float(values.max())  # NaN if any value is NaN
    if not math.isfinite(largest):
        hint = "Each must be a number or -inf, and at least one must be finite."
        raise InputError("These logits do not define a distribution.", f"{largest:g}", hint)
    return values


@public(steps=unchecked)
def shape(logits: Tensor | np.ndarray, steps: tuple[Step, ...], context: Context = NOTHING) -> Shaped:
    """Run the steps in order on one position's logits [V] and store every stage.

    Raises InputError if the logits have no distribution, or if a step is unknown or out of range.
    """
    stages = [checked_logits(logits)]
    for step in checked(steps, WARPS, len(stages[0])):
        stages.append(WARPS[step.warp].apply(stages[-1], values_of(step), context, step))
    return Shaped(steps, torch.stack(stages))


def remembered(steps: tuple[Step, ...], memory: float | None, probability: float) -> float | None:
    """Compute the memory of a warp after a token with the given probability after all steps."""
    for step in steps:
        if (remember := WARPS[step.warp].remember) is not None:
            memory = remember(values_of(step), memory, probability)
    return memory


@public(steps=unchecked)
def final(logits: Tensor | np.ndarray, steps: tuple[Step, ...], context: Context = NOTHING) -> Tensor:
    """Compute the result of the last step only. [V] -> [V]. Raises the same errors as `shape`."""
    values = checked_logits(logits)
    return run_steps(values, checked(steps, WARPS, len(values)), context)


def run_steps(logits: Tensor, steps: tuple[Step, ...], context: Context = NOTHING) -> Tensor:
    """Run the steps as `final` does, without checking: a text's steps are checked once, not at every token."""
    logits = logits.float()
    for step in steps:
        logits = WARPS[step.warp].apply(logits, values_of(step), context, step)
    return logits
