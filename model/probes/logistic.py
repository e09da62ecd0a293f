"""Logistic regression with an L2 penalty by Newton's method, for many labelings of the same examples at once.

The minimum of sum over examples of log(1 + exp(-s f)) + penalty / 2 |w|², with f = w . z + b and s = 1 or -1, where z
are the features minus their mean, divided by their standard deviation. Newton's method: Hastie, Tibshirani & Friedman
2009, section 4.4.1. With more features than examples, the weights lie in the span of the examples (Kimeldorf & Wahba
1971), so the equations are solved there.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.errors import InputError, say
from model.public import above, array, public

PENALTY = 1.0
_LEVEL = 1e-6  # penalty of b / 2 b², so that labels of one class only have a minimum
_STEPS, _HALVINGS, _CLOSE = 60, 12, 1e-8  # Newton steps, halvings of a step, and the largest gradient at the end


@dataclass(frozen=True, eq=False)
class Fitted:
    """Weights of B probes on the same examples: the logit of features x [D] is x . weights[b] + levels[b]."""

    weights: np.ndarray  # [B, D] float64
    levels: np.ndarray  # [B] float64

    def logits(self, features: np.ndarray) -> np.ndarray:
        """Return the logit of every example under every probe. features [N, D] -> [B, N]"""
        return self.weights @ features.astype(np.float64).T + self.levels[:, None]


@public(features=array("N D"), labels=array("B N"), penalty=above(0.0))
@torch.inference_mode()
def fit_logistic(features: np.ndarray, labels: np.ndarray, penalty: float = PENALTY) -> Fitted:
    """Fit a logistic regression to each labeling. features [N, D], labels [B, N] of 0 and 1

    The result equals that of scikit-learn's LogisticRegression(C=1 / penalty) on standardized features; a feature
    without variance has the weight 0. Raises InputError for features that are not finite, labels other than 0 and 1,
    and different numbers of examples.
    """
    x = torch.from_numpy(features.astype(np.float64))
    if labels.shape[1] != len(x):
        hint = "Give one label for each example."
        got = f"features {len(x)}, labels {labels.shape[1]}"
        raise InputError("The labels do not fit the examples.", got, hint)
    if not np.isin(labels, (0, 1)).all():
        raise InputError("A label must be 0 or 1.", str(np.unique(labels)[:4].tolist()), "Number the two classes.")
    mean, scale = x.mean(0), x.std(0, correction=0)
    scale = torch.where(scale > 1e-12, scale, torch.inf)
    z, basis = (x - mean) / scale, None
    if len(z) < z.shape[1]:
        left, size, basis = torch.linalg.svd(z, full_matrices=False)
        z = left * size
    z = torch.cat([z, torch.ones(len(z), 1, dtype=z.dtype)], 1)
    strength = torch.full((z.shape[1],), penalty, dtype=z.dtype)
    strength[-1] = _LEVEL
    found = _newton(z, torch.from_numpy(labels.astype(np.float64)) * 2 - 1, strength)
    weights = (found[:, :-1] if basis is None else found[:, :-1] @ basis) / scale
    return Fitted(weights.numpy(), (found[:, -1] - weights @ mean).numpy())


def loss_of(z: Tensor, signs: Tensor, strength: Tensor, weights: Tensor) -> Tensor:
    """Compute the penalized loss of each probe. z [N, R], signs [B, N] of 1 and -1, weights [B, R] -> [B]"""
    fit = torch.nn.functional.softplus(-signs * (weights @ z.T)).sum(1)
    return fit + (strength * weights.square()).sum(1) / 2


def gradient_of(z: Tensor, signs: Tensor, strength: Tensor, weights: Tensor) -> Tensor:
    """Compute the gradient of `loss_of`. [B, R]"""
    return (-signs * torch.sigmoid(-signs * (weights @ z.T))) @ z + strength * weights


def _newton(z: Tensor, signs: Tensor, strength: Tensor) -> Tensor:
    """Minimize `loss_of` for each row of signs; a step is halved until the loss falls. [B, R]"""
    weights = torch.zeros(len(signs), z.shape[1], dtype=z.dtype)
    for _ in range(_STEPS):
        slope = gradient_of(z, signs, strength, weights)
        open_ = (slope.abs().amax(1) > _CLOSE * len(z)).nonzero()[:, 0]
        if not len(open_):
            return weights
        now, here = weights[open_], signs[open_]
        p = torch.sigmoid(now @ z.T)
        curve = _curves(z, p * (1 - p))
        curve.diagonal(dim1=1, dim2=2).add_(strength)
        step = torch.cholesky_solve(slope[open_, :, None], torch.linalg.cholesky(curve))[..., 0]
        before, size = loss_of(z, here, strength, now), torch.ones(len(now), 1, dtype=z.dtype)
        for _ in range(_HALVINGS):
            worse = loss_of(z, here, strength, now - size * step) > before + 1e-12 * before.abs()
            if not worse.any():
                break
            size[worse] /= 2
        weights[open_] = now - size * step
    hint = say("Give a penalty above {}.", "0.01")
    raise InputError("The probe does not converge.", f"{_STEPS} steps", hint)


def _curves(z: Tensor, weight: Tensor) -> Tensor:
    """Return z^T diag(weight) z of each probe. weight [B, N] -> [B, R, R]"""
    return torch.stack([(z * row[:, None]).T @ z for row in weight])
