"""The warps by name, and a pipeline of them."""

from collections.abc import Mapping

import torch
from torch import Tensor

from model.sampling import Context, Parameter, Shaped, Step, Warp


def temperature(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Divide by T: below 1 sharper, above 1 flatter; at 0 only the largest stays, of equals the smaller id."""
    if values["temperature"] == 0:
        left = torch.full_like(logits, -torch.inf)
        left[logits.argmax()] = logits.max()
        return left
    return logits / values["temperature"]


def top_k(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """The k largest, and what equals the smallest of them."""
    k = min(int(values["k"]), logits.shape[-1])
    return logits.masked_fill(logits < logits.topk(k).values[-1], -torch.inf)


def top_p(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """The fewest largest whose probabilities reach p."""
    ids = logits.sort(descending=True, stable=True).indices
    before = logits[ids].softmax(-1).cumsum(-1).roll(1)
    before[0] = 0
    left = logits.clone()
    left[ids[before >= values["p"]]] = -torch.inf
    return left


WARPS: dict[str, Warp] = {
    "temperature": Warp(temperature, "scale", "Ackley et al. 1985, eq. 5",
                        (Parameter("temperature", 0, 3, 0.8, 0.01),)),
    "top_k": Warp(top_k, "cut", "Fan et al. 2018, section 5", (Parameter("k", 1, 1000, 40, 1, whole=True),)),
    "top_p": Warp(top_p, "cut", "Holtzman et al. 2020, section 3.1", (Parameter("p", 0.01, 1, 0.9, 0.01),)),
}  # fmt: skip


NOTHING = Context()  # known of the text so far


def values_of(step: Step) -> dict[str, float]:
    """All numbers of a step, defaults filled in."""
    return {parameter.name: step.get(parameter) for parameter in WARPS[step.warp].parameters}


def shape(logits: Tensor, steps: tuple[Step, ...], context: Context = NOTHING) -> Shaped:
    """One position's logits [V] through the steps in their order; every stage is kept."""
    stages = [logits.float()]
    for step in steps:
        stages.append(WARPS[step.warp].apply(stages[-1], values_of(step), context, step))
    return Shaped(steps, torch.stack(stages))


def final(logits: Tensor, steps: tuple[Step, ...], context: Context = NOTHING) -> Tensor:
    """The same without the stages between: what the last step leaves. [V] -> [V]"""
    logits = logits.float()
    for step in steps:
        logits = WARPS[step.warp].apply(logits, values_of(step), context, step)
    return logits
