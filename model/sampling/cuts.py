"""Cuts: warps that exclude some tokens by setting their logits to -inf, and leave the others unchanged.

These rules hold for every cut. Excluded tokens stay excluded, the others keep their logits, and at least one token
remains: the most likely, except in `typical` and `xtc`. Equal logits are treated alike, except where `top_p` has to
choose between them. Logits are float32, so probabilities are only accurate to float32: a threshold on logits is rounded
to float32 before the comparison, and a sum of probabilities counts as having reached p at p (1 - 2^-23). Everything
else is computed in float64, relative to the largest logit.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from model.sampling.pipeline import Context, Step

LOWEST = torch.finfo(torch.float32).min
REACHED = 1 - torch.finfo(torch.float32).eps
# relative to the largest probability: tokens above this nearly always reach p, so the others need not be sorted
LIKELY = 1e-4
BINS = 16  # rings per nat of distance from the entropy


def cut_below(logits: Tensor, gap: float) -> Tensor:
    """Exclude tokens whose logits are more than `gap` below the largest. logits float32 [V] -> [V]"""
    largest = float(logits.max())
    edge = np.float32(max(largest - max(gap, 0.0), LOWEST))
    return logits.masked_fill(logits < float(edge), -torch.inf)


def below_largest(logits: Tensor) -> tuple[np.ndarray, float]:
    """Return the logits of the n remaining tokens minus the largest, float64 [n], and their log-sum-exp, which is -ln
    p_max.
    """
    inside = logits.numpy()
    shifted = inside[inside > -np.inf].astype(np.float64)
    shifted -= shifted.max()
    return shifted, float(np.log(np.exp(shifted).sum()))


def entropy_of(shifted: np.ndarray, least: float) -> float:
    """Compute -sum p ln p, in nats, from the two results of `below_largest`."""
    return least - float((np.exp(shifted - least) * shifted).sum())


def top_k(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep the k tokens with the largest logits, and ties with the smallest of them. Fan et al. 2018, section 5.

    More than k tokens remain only because of such ties, and fewer only if fewer remained before. 0 changes nothing, as
    in transformers' `generate`, llama.cpp and vLLM.
    """
    if values["k"] == 0:
        return logits.clone()
    k = min(int(values["k"]), logits.shape[-1])
    return logits.masked_fill(logits < logits.topk(k).values[-1], -torch.inf)


def top_p(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep the smallest set of the most likely tokens with sum p_i >= p. Holtzman et al. 2020, section 3.1, eq. 2.

    Ties at the threshold are broken by the smaller id. p = 1 changes nothing; p = 0 keeps one token, as in
    transformers and llama.cpp (vLLM rejects it).
    """
    if values["p"] >= 1:
        return logits.clone()
    array = logits.numpy()
    # relative to the largest probability; -inf gives exactly 0
    shares = logits.double().sub_(float(array.max())).exp_().numpy()
    wanted = values["p"] * REACHED * shares.sum()
    for least in (LIKELY, 0.0):
        largest_first = np.sort(array[shares >= least])[::-1]
        reached = np.exp(largest_first.astype(np.float64) - largest_first[0]).cumsum()
        if reached[-1] >= wanted:
            break
    count = int(np.searchsorted(reached, wanted)) + 1
    edge = largest_first[count - 1]
    result = np.where(array >= edge, array, -np.inf)
    surplus = np.count_nonzero(array >= edge) - count
    if surplus:
        result[np.flatnonzero(array == edge)[-surplus:]] = -np.inf
    return torch.from_numpy(result)


def min_p(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep tokens with p_i >= min_p max_j p_j, whose logits are at most -ln(min_p) below the largest. Nguyen et al.
    2024.

    A token exactly at the threshold is kept. 0 changes nothing.
    """
    return cut_below(logits, -_ln(values["min_p"]))


def typical(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep the fewest tokens with sum p_i >= mass, in increasing order of |-ln p_i - H|, where H is the entropy.

    Locally typical sampling: Meister et al. 2023, the optimization problem of the set C(y_<t). Ties with the last kept
    token are kept. If H is far from -ln p of every likely token, even the most likely token can be excluded: this is
    the only cut that does not always keep it. mass = 1 changes nothing.
    """
    if values["mass"] >= 1:
        return logits.clone()
    shifted, least = below_largest(logits)
    surprisal = least - shifted  # -ln p
    distance = np.abs(surprisal - entropy_of(shifted, least))
    shares = np.exp(-surprisal)
    wanted = values["mass"] * REACHED * shares.sum()
    ring = np.minimum(BINS * distance, 1e4).astype(np.int64)  # only the ring in which the mass is reached is sorted
    mass = np.bincount(ring, shares)
    within = mass.cumsum()
    at = min(int(np.searchsorted(within, wanted)), len(mass) - 1)
    inside = np.flatnonzero(ring == at)
    inside = inside[np.argsort(distance[inside])]
    reached = within[at] - mass[at] + shares[inside].cumsum()
    last = inside[min(np.searchsorted(reached, wanted), len(inside) - 1)]
    keep = np.zeros(logits.shape[-1], bool)
    keep[logits.numpy() > -np.inf] = distance <= distance[last]
    return logits.masked_fill(torch.from_numpy(~keep), -torch.inf)


def epsilon(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep tokens with p_i >= epsilon. Hewitt et al. 2022, epsilon sampling.

    A token exactly at the threshold is kept. If all are below it, the most likely token is kept, with its ties. 0
    changes nothing.
    """
    return cut_below(logits, -_ln(values["epsilon"]) - below_largest(logits)[1])


def eta(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep tokens with p_i >= min(epsilon, sqrt(epsilon) exp(-H)), where epsilon is the value "eta". Hewitt et al.
    2022.

    H is the entropy in nats: the flatter the distribution, the lower the threshold. A token exactly at the threshold
    is kept; if all are below it, the most likely token is kept, with its ties. 0 changes nothing.
    """
    shifted, least = below_largest(logits)
    surprisal = -_ln(values["eta"])  # surprisal of a token at the threshold, unless the entropy lowers the threshold
    return cut_below(logits, max(surprisal, surprisal / 2 + entropy_of(shifted, least)) - least)


def top_a(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep tokens with p_i >= a (max_j p_j)^2: the more certain the model is, the higher the threshold. BlinkDL 2022.

    As in KoboldAI and text-generation-webui. A token exactly at the threshold is kept. 0 changes nothing, and 1 keeps
    more than one token unless the model is certain.
    """
    return cut_below(logits, below_largest(logits)[1] - _ln(values["a"]))


def xtc(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Exclude top choices: of the tokens with p_i >= threshold, keep only the least likely; with the given probability.

    Philipp Emanuel Weidmann 2024 (text-generation-webui pull request 6335); as in llama.cpp. It acts if the step's
    second random number `context.chance` is below the probability, and not without one. With fewer than two tokens
    above the threshold nothing is excluded, so it spares what the model is certain of. Ties with the token that is kept
    are kept; llama.cpp keeps one of them. Tokens below the threshold keep their logits.
    """
    if context.chance is None or not context.chance < values["xtc_probability"]:
        return logits.clone()
    gap = -_ln(values["threshold"]) - below_largest(logits)[1]
    edge = float(np.float32(max(float(logits.max()) - gap, LOWEST)))
    top = logits[logits >= edge]
    if gap < 0 or len(top) < 2:
        return logits.clone()
    return logits.masked_fill(logits > top.min(), -torch.inf)


def top_n_sigma(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep tokens with logits >= max - n sigma, where sigma is the standard deviation of the logits. Tang et al. 2024.

    As in llama.cpp, sigma is computed over the remaining tokens, divided by their number. A token exactly at the
    threshold is kept. An earlier temperature step scales max and sigma alike, so the same tokens remain.
    """
    inside = logits.numpy()
    sigma = float(inside[inside > -np.inf].std(dtype=np.float64))
    return cut_below(logits, values["n"] * sigma)


def mirostat(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep tokens with surprisal -log2 p_i <= mu, in bits; mu is the warp's memory, 2 tau at the first token.

    Mirostat, version 2: the feedback of Basu et al. 2021, Algorithm 1, with a cut by surprisal instead of k, as in
    llama.cpp. A token exactly at the threshold is kept. If all are above it, the most likely token is kept, with its
    ties.
    """
    mu = 2 * values["tau"] if context.memory is None else context.memory
    return cut_below(logits, mu * math.log(2) - below_largest(logits)[1])


def mirostat_memory(values: Mapping[str, float], memory: float | None, probability: float) -> float:
    """Compute the next mu: mu - rate (observed - tau), where observed is -log2 of the drawn token's probability.

    Basu et al. 2021, Algorithm 1, uses the model's own probability, and llama.cpp uses the one after the cut. Here,
    where the cut is the last step, `probability` is that of the distribution that was drawn from. Raises ValueError
    for a token that could not be drawn.
    """
    if not 0 < probability < 1 + 1e-9:
        raise ValueError(f"a drawn token has a probability above 0 and at most 1, got {probability}")
    mu = 2 * values["tau"] if memory is None else memory
    return mu - values["rate"] * (-math.log2(probability) - values["tau"])


def _ln(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
