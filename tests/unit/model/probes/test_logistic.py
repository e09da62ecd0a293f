"""Logistic regression: by hand, against autograd and another optimizer, and many labelings at once."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.probes.logistic import fit_logistic, gradient_of, loss_of
from tests.support.models.helpers import assert_close


def data(N: int, D: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, D)) * rng.uniform(0.1, 9, D) + rng.normal(size=D)
    y = (x[:, 0] - x[:, 0].mean() + rng.normal(size=N) > 0).astype(np.int64)
    return x, y


def standardized(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(0)) / x.std(0)


def by_lbfgs(x: np.ndarray, y: np.ndarray, penalty: float) -> tuple[np.ndarray, float]:
    """Minimize the same loss by L-BFGS on standardized features. Returns weights and level in units of x."""
    z, signs = torch.tensor(standardized(x)), torch.tensor(2.0 * y - 1, dtype=torch.float64)
    w = torch.zeros(z.shape[1], dtype=torch.float64, requires_grad=True)
    b = torch.zeros((), dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([w, b], max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def closure():
        search.zero_grad()
        loss = torch.nn.functional.softplus(-signs * (z @ w + b)).sum() + penalty / 2 * w.square().sum()
        loss.backward()
        return loss

    search.step(closure)
    weights = w.detach().numpy() / x.std(0)
    return weights, float(b.detach()) - float(weights @ x.mean(0))


def test_two_points_give_the_minimum_that_a_hand_finds():
    """z = 1 and -1: w minimizes 2 log(1 + exp(-w)) + w² / 2, so w = 2 / (1 + exp(w)), about 0.6748."""
    fitted = fit_logistic(np.array([[3.0], [7.0]]), np.array([[0, 1], [1, 0]]))
    w = fitted.weights[0, 0] * 2  # the standard deviation is 2
    assert w == pytest.approx(2 / (1 + np.exp(w)), abs=1e-6) and w == pytest.approx(0.6748, abs=5e-4)
    assert fitted.levels[0] == pytest.approx(-5 * w / 2, abs=1e-6)
    assert_close(fitted.weights[1], -fitted.weights[0], 1e-9)


@pytest.mark.parametrize(("N", "D", "penalty"), [(60, 5, 1.0), (20, 50, 1.0), (60, 5, 0.05)])
def test_the_weights_are_those_of_another_optimizer(N, D, penalty):
    x, y = data(N, D)
    fitted = fit_logistic(x, np.stack([y, 1 - y]), penalty)
    weights, level = by_lbfgs(x, y, penalty)
    assert_close(fitted.weights[0], weights, 1e-4)
    assert fitted.levels[0] == pytest.approx(level, abs=1e-4)
    assert_close(fitted.logits(x)[1], -(x @ weights + level), 1e-4)


def test_the_gradient_is_that_of_autograd():
    x, y = data(30, 4)
    z, signs = torch.tensor(standardized(x)), torch.tensor(np.stack([y, 1 - y]) * 2.0 - 1)
    weights = torch.randn(2, 4, dtype=torch.float64, generator=torch.manual_seed(0)).requires_grad_()
    strength = torch.tensor([1.0, 2.0, 0.5, 1e-6], dtype=torch.float64)
    (grad,) = torch.autograd.grad(loss_of(z, signs, strength, weights).sum(), weights)
    assert_close(gradient_of(z, signs, strength, weights).detach(), grad, 1e-9)


def test_separable_and_one_sided_labels_end_with_finite_weights():
    x = np.array([[-2.0, 5], [-1, 5], [1, 5], [2, 5]])
    fitted = fit_logistic(x, np.array([[0, 0, 1, 1], [1, 1, 1, 1]]), 1e-3)
    assert ((fitted.logits(x)[0] > 0) == [False, False, True, True]).all()
    assert (fitted.logits(x)[1] > 5).all() and np.isfinite(fitted.weights).all()
    assert fitted.weights[0, 1] == 0  # without variance


def test_labels_that_do_not_fit_are_refused():
    x, y = data(6, 2)
    with pytest.raises(InputError, match="do not fit the examples"):
        fit_logistic(x, y[None, :5])
    with pytest.raises(InputError, match="must be 0 or 1"):
        fit_logistic(x, y[None] * 2 + 1)
