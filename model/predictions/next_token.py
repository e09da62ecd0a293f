"""The next-token distribution at several temperatures: all that a page needs to redraw it exactly without the model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from model.public import array, between, nonempty, public, unit, whole


@dataclass(frozen=True, eq=False)
class NextToken:
    """The most likely tokens of one prediction, and the normalizer of the softmax at each temperature.

    p_i(T) = exp(l_i / T - log_sums[T]) for the shifted logits l (Hinton et al. 2015, eq. 1). At T = 0, its limit, only
    the most likely token has probability.
    """

    ids: np.ndarray  # the most likely tokens in decreasing order of probability, ties by the smaller id, int64 [n]
    logits: np.ndarray  # logits of `ids` minus the largest logit, float64 [n]
    temperatures: np.ndarray  # nonnegative, float64 [K]
    log_sums: np.ndarray  # ln of the sum of exp(l / T) over the whole vocabulary; 0 at T = 0, float64 [K]
    drawn: np.ndarray  # the token whose interval of the cumulative distribution contains `u`, int64 [K]
    u: float  # a random number in [0, 1), the same for every temperature


@public(logits=array("V"), temperatures=between(0, 1e6), u=unit, top=whole(1))
def next_token(logits: np.ndarray, temperatures: Sequence[float], u: float, top: int = 10) -> NextToken:
    """Find the `top` most likely tokens of finite logits [V], and the token that `u` selects at each temperature.

    Raises ValueError if a temperature is negative, `top` is below 1, or `u` is outside [0, 1).
    """
    nonempty("temperatures", temperatures)
    values = torch.from_numpy(np.asarray(logits, dtype=np.float64))
    values = values - values.max()
    ranked, order = torch.sort(values, descending=True, stable=True)  # the order is the same at every temperature
    sums, drawn = [], []
    for T in temperatures:
        if T == 0:
            sums.append(0.0)
            drawn.append(int(order[0]))
            continue
        edges = torch.exp(ranked / T).cumsum(0)
        sums.append(math.log(edges[-1]))
        place = int(torch.searchsorted(edges, u * edges[-1], right=True))
        drawn.append(int(order[min(place, len(order) - 1)]))
    ids = order[: min(top, len(values))].numpy()
    return NextToken(
        ids, values.numpy()[ids], np.asarray(temperatures, dtype=np.float64), np.array(sums), np.array(drawn), u
    )
