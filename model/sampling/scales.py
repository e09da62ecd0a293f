"""Scales: warps that change all logits, depending on one number or on the distribution itself. Nothing is excluded,
except at a temperature of 0.
"""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from model.sampling.cuts import LOWEST, below_largest, entropy_of
from model.sampling.pipeline import Context, Step


def temperature(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Divide the logits by T, which sharpens the distribution below 1 and flattens it above. At 0, only the largest
    logit remains, ties by the smaller id.

    Ackley et al. 1985. Softmax depends on differences only: if a quotient does not fit in float32, the largest logit
    is subtracted first and lower values are clamped, so that nothing is excluded.
    """
    return divided(logits, values["temperature"])


def divided(logits: Tensor, t: float) -> Tensor:
    """Divide the logits by a temperature, as in `temperature`."""
    if t == 0:
        result = torch.full_like(logits, -torch.inf)
        largest = int(logits.numpy().argmax())
        result[largest] = logits[largest]
        return result
    result = logits / t
    if np.array_equal(np.isfinite(result.numpy()), np.isfinite(logits.numpy())):
        return result
    result = ((logits.double() - logits.max()) / t).clamp(min=LOWEST).float()
    return result.masked_fill(logits == -torch.inf, -torch.inf)


def dynamic_temperature(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Divide the logits by low + (high - low) (H / ln n)^exponent: the flatter the distribution, the higher it is.

    Entropy-based dynamic temperature, kalomaze 2023; as `dynatemp_range` in llama.cpp. H is the entropy in nats and n
    the number of remaining tokens, so that H / ln n is 0 for one certain token and 1 for n equally likely ones. low is
    T - range, but at least 0, and high is T + range. A range of 0 is a temperature; one remaining token stays as it is.
    """
    t, spread = values["dynamic"], values["spread"]
    if spread == 0:
        return divided(logits, t)
    return divided(logits, dynamic_value(logits, values)) if int(torch.isfinite(logits).sum()) > 1 else logits.clone()


def dynamic_value(logits: Tensor, values: Mapping[str, float]) -> float:
    """Compute the temperature that `dynamic_temperature` divides by; more than one token must remain."""
    shifted, least = below_largest(logits)
    certainty = min(max(entropy_of(shifted, least) / np.log(len(shifted)), 0.0), 1.0)
    low, high = max(0.0, values["dynamic"] - values["spread"]), values["dynamic"] + values["spread"]
    return float(low + (high - low) * certainty ** values["exponent"])


def smoothing(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Replace each logit by max - k f d^2 + s f d^3, where d = logit - max, k = (3 - curve) / 2, s = (curve - 1) / 2.

    Quadratic sampling with a smoothing factor f and a smoothing curve, kalomaze 2024; as in text-generation-webui. Near
    the top, differences shrink, so that good tokens become alike; far below, they grow. With curve 1 it is quadratic,
    with 3 cubic; above 3, tokens just below the top overtake it. A factor of 0 changes nothing.
    """
    f, curve = values["factor"], values["curve"]
    if f == 0:
        return logits.clone()
    largest = float(logits.max())
    d = logits.double() - largest
    after = largest - (3 - curve) / 2 * f * d**2 + (curve - 1) / 2 * f * d**3
    return torch.where(logits > -torch.inf, after.clamp(LOWEST, -LOWEST).float(), -torch.inf)
