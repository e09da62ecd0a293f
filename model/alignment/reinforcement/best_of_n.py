"""Best of n, the baseline without training: of n texts of the reference, the one with the highest reward is kept."""

import math

import numpy as np

from model.errors import InputError


def kl_bound(n: int) -> float:
    """Compute an upper bound on KL(best of n || reference), in nats per text: ln n - (n - 1) / n.

    Stiennon et al. 2020, appendix G.3. It is attained if no two texts have the same reward (Beirami et al. 2024).
    """
    return math.log(n) - (n - 1) / n


def expected_best(rewards: np.ndarray, n: int) -> float:
    """Compute an unbiased estimate of the expected highest reward of n texts: the mean over all n-subsets of each group
    of N.

    The i-th smallest of N is the highest in C(i - 1, n - 1) of the C(N, n) subsets. Nakano et al. 2021, "WebGPT".
    rewards [groups, N]. Raises InputError if a group has fewer than n texts.
    """
    N = rewards.shape[1]
    if not 1 <= n <= N:
        raise InputError("There are too few texts to choose between.", f"{N} texts, the best of {n}", "Generate more.")
    shares = np.array([math.comb(i, n - 1) for i in range(N)], np.float64) / math.comb(N, n)
    return float((np.sort(rewards, axis=1) @ shares).mean())
