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
- a window of 0 is without limit: text-generation-webui. In llama.cpp -1 is without limit and 0 off.
- dry with a multiplier of 0 is off: llama.cpp, SillyTavern. Its base starts at 1, below which llama.cpp turns it off.
- top_a 0 and smoothing with a factor of 0 are off: text-generation-webui, SillyTavern.
- xtc with a probability of 0 is off, and a threshold above 0.5 would be: llama.cpp. A threshold of 0, which would leave
  the least likely token alone, is not accepted.
- dynamic_temperature with a range of 0 is a temperature: llama.cpp.
- typical does not accept 0: transformers rejects it. Neither does top_n_sigma: 0 is off in llama.cpp, greedy by the
  paper's formula.
"""

import math

import numpy as np
import torch
from torch import Tensor

from model.errors import InputError
from model.public import public, unchecked
from model.sampling.cuts import (
    epsilon,
    eta,
    min_p,
    mirostat,
    mirostat_memory,
    top_a,
    top_k,
    top_n_sigma,
    top_p,
    typical,
    xtc,
)
from model.sampling.dry import dry
from model.sampling.fits import check_together, fits
from model.sampling.penalties import (
    banned_words,
    frequency_penalty,
    logit_bias,
    no_repeat_ngram,
    presence_penalty,
    repetition_penalty,
)
from model.sampling.pipeline import Context, Parameter, Shaped, Step, Warp, checked
from model.sampling.scales import dynamic_temperature, smoothing, temperature

WINDOW = Parameter("window", 0, 4096, 0, 1, whole=True, quiet=True)  # of the last n tokens; 0: no limit

WARPS: dict[str, Warp] = {
    "temperature": Warp(temperature, "scale", "Ackley et al. 1985", (Parameter("temperature", 0, 3, 0.8, 0.01),)),
    "dynamic_temperature": Warp(
        dynamic_temperature,
        "scale",
        "kalomaze 2023, entropy-based dynamic temperature; as in llama.cpp",
        (
            Parameter("dynamic", 0, 3, 1, 0.01),
            Parameter("spread", 0, 3, 0.5, 0.01),
            Parameter("exponent", 0.01, 10, 1, 0.01),
        ),
    ),
    "smoothing": Warp(
        smoothing,
        "scale",
        "kalomaze 2024, quadratic sampling; as in text-generation-webui",
        (Parameter("factor", 0, 10, 0.3, 0.01), Parameter("curve", 1, 10, 1, 0.01)),
    ),
    "top_k": Warp(top_k, "cut", "Fan et al. 2018, section 5", (Parameter("k", 0, 1000, 40, 1, whole=True),)),
    "top_p": Warp(top_p, "cut", "Holtzman et al. 2020, section 3.1", (Parameter("p", 0, 1, 0.9, 0.01),)),
    "min_p": Warp(min_p, "cut", "Nguyen et al. 2024, arXiv 2407.01082", (Parameter("min_p", 0, 1, 0.05, 0.01),)),
    "top_a": Warp(top_a, "cut", "BlinkDL 2022; as in KoboldAI", (Parameter("a", 0, 1, 0.2, 0.01),)),
    "typical": Warp(typical, "cut", "Meister et al. 2023, arXiv 2202.00666", (Parameter("mass", 0.01, 1, 0.9, 0.01),)),
    "epsilon": Warp(
        epsilon, "cut", "Hewitt et al. 2022, arXiv 2210.15191", (Parameter("epsilon", 0, 0.1, 0.001, 0.0001),)
    ),
    "eta": Warp(eta, "cut", "Hewitt et al. 2022, arXiv 2210.15191", (Parameter("eta", 0, 0.1, 0.002, 0.0001),)),
    "top_n_sigma": Warp(top_n_sigma, "cut", "Tang et al. 2024, arXiv 2411.07641", (Parameter("n", 0.05, 5, 1, 0.05),)),
    "xtc": Warp(
        xtc,
        "cut",
        "Weidmann 2024, text-generation-webui #6335; as in llama.cpp",
        (Parameter("threshold", 0.01, 0.5, 0.1, 0.01), Parameter("xtc_probability", 0, 1, 0.5, 0.01)),
        chance="xtc_probability",
    ),
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
        (Parameter("penalty", 0.01, 2, 1.2, 0.01), WINDOW),
    ),
    "presence_penalty": Warp(
        presence_penalty, "penalty", "OpenAI API reference", (Parameter("presence", -2, 2, 0.5, 0.1), WINDOW)
    ),
    "frequency_penalty": Warp(
        frequency_penalty, "penalty", "OpenAI API reference", (Parameter("frequency", -2, 2, 0.5, 0.1), WINDOW)
    ),
    "no_repeat_ngram": Warp(
        no_repeat_ngram,
        "penalty",
        "Paulus et al. 2018, section 2.5",
        (Parameter("ngram", 0, 10, 3, 1, whole=True), WINDOW),
    ),
    "dry": Warp(
        dry,
        "penalty",
        "Weidmann 2024, text-generation-webui #5677; as in llama.cpp",
        (
            Parameter("multiplier", 0, 5, 0.8, 0.01),
            Parameter("base", 1, 4, 1.75, 0.01),
            Parameter("allowed", 1, 20, 2, 1, whole=True),
            WINDOW,
        ),
        takes_phrases="breakers",
    ),
    "logit_bias": Warp(logit_bias, "penalty", "OpenAI API reference", takes_tokens=True),
    "banned_words": Warp(banned_words, "penalty", "as bad_words in vLLM and transformers", takes_phrases="banned"),
    "fits": Warp(fits, "cut", "Willard and Louf 2023, arXiv 2307.09702; Geng et al. 2023, section 3", takes_rule=True),
}


NOTHING = Context()  # no text so far


def values_of(step: Step) -> dict[str, float]:
    """Return all settings of a step, with defaults for missing ones."""
    return {parameter.name: step.get(parameter) for parameter in WARPS[step.warp].parameters}


def probabilities_of(steps: tuple[Step, ...]) -> tuple[float, ...]:
    """Return the probabilities of the steps that act by chance, in increasing order, each once.

    All of them read one random number: one that is less probable acts only if every more probable one does.
    """
    found = {values_of(step)[WARPS[step.warp].chance] for step in steps if WARPS[step.warp].chance}
    return tuple(sorted(found))


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
    checked(steps, WARPS, len(stages[0]))
    check_together(steps, context)
    for step in steps:
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
    check_together(steps, context)
    for step in steps:
        logits = WARPS[step.warp].apply(logits, values_of(step), context, step)
    return logits
