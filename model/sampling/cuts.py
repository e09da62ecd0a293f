"""Cuts: warps that exclude some tokens, setting their logits to -inf, and leave the others unchanged.

Rules for every cut. Excluded tokens stay excluded, the others keep their logits, and at least one token stays: the most
likely, except in `typical`. Equal logits are treated alike, except where `top_p` has to choose between them. Logits are
float32, so probabilities are only known to float32: a threshold on logits is rounded to float32 before the comparison,
and a sum of probabilities counts as having reached p at p (1 - 2^-23). Everything else is computed in float64, relative
to the largest logit.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from model.sampling.pipeline import Context, Step

LOWEST = torch.finfo(torch.float32).min
REACHED = 1 - torch.finfo(torch.float32).eps
LIKELY = 1e-4  # of the largest probability: so likely tokens nearly always reach p, and all need not be sorted


def cut_below(logits: Tensor, gap: float) -> Tensor:
    """Exclude tokens more than `gap` below the largest, and never the largest. logits float32 [V] -> [V]"""
    largest = float(logits.max())
    edge = np.float32(max(largest - max(gap, 0.0), LOWEST))
    return logits.masked_fill(logits < float(edge), -torch.inf)


def below_largest(logits: Tensor) -> tuple[np.ndarray, float]:
    """Return the logits of the n remaining tokens minus the largest, float64 [n], and ln sum exp of these:
    -ln p_max.
    """
    inside = logits.numpy()
    shifted = inside[inside > -np.inf].astype(np.float64)
    shifted -= shifted.max()
    return shifted, float(np.log(np.exp(shifted).sum()))


def entropy_of(shifted: np.ndarray, least: float) -> float:
    """Compute -sum p ln p, in nats, from the two results of `below_largest`."""
    return least - float((np.exp(shifted - least) * shifted).sum())


def top_k(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep the k largest, and ties with the smallest of them. Fan et al. 2018, section 5.

    More than k remain only by such a tie, fewer only if fewer were left before. 0 changes nothing, as in
    transformers' `generate`, llama.cpp and vLLM.
    """
    if values["k"] == 0:
        return logits.clone()
    k = min(int(values["k"]), logits.shape[-1])
    return logits.masked_fill(logits < logits.topk(k).values[-1], -torch.inf)


def top_p(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep the smallest set of the most likely tokens with sum p_i >= p. Holtzman et al. 2020, section 3.1, eq. 2.

    Ties at the threshold are broken by the smaller ids. p = 1 changes nothing; p = 0 keeps one token, as in
    transformers and llama.cpp (vLLM refuses it).
    """
    if values["p"] >= 1:
        return logits.clone()
    array = logits.numpy()
    shares = logits.double().sub_(float(array.max())).exp_().numpy()  # of the largest one's; -inf gives exactly 0
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
    """Keep p_i >= min_p max_j p_j: logits at most -ln(min_p) below the largest. Nguyen et al. 2024.

    A token exactly at the threshold stays. 0 changes nothing.
    """
    return cut_below(logits, -_ln(values["min_p"]))


def typical(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep the fewest tokens with sum p_i >= mass, in the order of the distance of -ln p_i from the entropy H.

    Locally typical sampling: Meister et al. 2023, the optimization problem of the set C(y_<t). Ties with the last kept
    token stay. Where H is far from every likely token's -ln p, even the most likely token can be excluded: this is the
    only cut that does not always keep it. mass = 1 changes nothing.
    """
    if values["mass"] >= 1:
        return logits.clone()
    shifted, least = below_largest(logits)
    surprisal = least - shifted  # -ln p
    distance = np.abs(surprisal - entropy_of(shifted, least))
    nearest_first = np.argsort(distance)
    reached = np.exp(-surprisal[nearest_first]).cumsum()
    last = nearest_first[np.searchsorted(reached, values["mass"] * REACHED * reached[-1])]
    keep = np.zeros(logits.shape[-1], bool)
    keep[logits.numpy() > -np.inf] = distance <= distance[last]
    return logits.masked_fill(torch.from_numpy(~keep), -torch.inf)


def epsilon(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep p_i >= epsilon. Hewitt et al. 2022, epsilon sampling.

    A token exactly at the threshold stays. Where all are below, the most likely stays, with its ties. 0 changes
    nothing.
    """
    return cut_below(logits, -_ln(values["epsilon"]) - below_largest(logits)[1])


def eta(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep p_i >= min(epsilon, sqrt(epsilon) exp(-H)), with epsilon = the value "eta". Hewitt et al. 2022.

    H is the entropy in nats: the flatter the distribution, the lower the threshold. A token exactly at the threshold
    stays; where all are below, the most likely stays, with its ties. 0 changes nothing.
    """
    shifted, least = below_largest(logits)
    surprisal = -_ln(values["eta"])  # of a token at the threshold, where the entropy does not lower it
    return cut_below(logits, max(surprisal, surprisal / 2 + entropy_of(shifted, least)) - least)


def top_n_sigma(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep logits >= max - n sigma, sigma their standard deviation. Tang et al. 2024.

    Over the remaining tokens, divided by their number, as in llama.cpp. A token exactly at the threshold stays. A
    temperature before it scales max and sigma alike, so that the same tokens stay.
    """
    inside = logits.numpy()
    sigma = float(inside[inside > -np.inf].std(dtype=np.float64))
    return cut_below(logits, values["n"] * sigma)


def mirostat(logits: Tensor, values: Mapping[str, float], context: Context, step: Step) -> Tensor:
    """Keep surprisals -log2 p_i <= mu, in bits; mu is the memory, 2 tau at the first token.

    Mirostat, version 2: the feedback of Basu et al. 2021, Algorithm 1, with a cut by surprisal instead of k, as in
    llama.cpp. A token exactly at the threshold stays. Where all are above, the most likely stays, with its ties.
    """
    mu = 2 * values["tau"] if context.memory is None else context.memory
    return cut_below(logits, mu * math.log(2) - below_largest(logits)[1])


def mirostat_memory(values: Mapping[str, float], memory: float | None, probability: float) -> float:
    """Return the next mu: mu - rate (observed - tau), observed = -log2 of the drawn token's probability.

    Basu et al. 2021, Algorithm 1, uses the model's own probability; llama.cpp the one after the cut, which is used
    here, where the cut is the last step: `probability` is that of the distribution that was drawn from. Raises
    ValueError for a token that could not be drawn.
    """
    if not 0 < probability < 1 + 1e-9:
        raise ValueError(f"a drawn token has a probability above 0 and at most 1, got {probability}")
    mu = 2 * values["tau"] if memory is None else memory
    return mu - values["rate"] * (-math.log2(probability) - values["tau"])


def _ln(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
