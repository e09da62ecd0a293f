"""The gradient on its way back through a stack, against the chain rule by hand."""

import numpy as np
import pytest
import torch

from model.design.depth_gradients import ACTIVATIONS, NORMS, Stack, by_layer, drawn, gradients, layer, orthogonal


def test_nine_tenths_to_the_power_of_twelve():
    """0.9^12 = 0.2824, 0.9^11, ... 1: an orthogonal matrix keeps lengths, so that each draw gives it exactly."""
    found = by_layer(Stack(depth=12, gain=0.9))
    assert found.shape == (3, 13)
    assert np.allclose(found, 0.9 ** np.arange(12, -1, -1), rtol=1e-12)
    assert found[0, 0] == pytest.approx(0.2824295364810001, rel=1e-12)
    assert np.allclose(Stack(depth=12, gain=0.9).predicted, found[0], rtol=1e-12)


def test_a_linear_chain_by_hand():
    """Two layers of [[0, 2], [1, 0]] without residuals: (0, 1) comes back as W^T (0, 1) = (1, 0), then (0, 2).

    With a gain of 3 as 3 times and 9 times that; with residuals as (I + 3 W)^T: (0, 1) + (3, 0), then once more.
    """
    weights = [torch.tensor([[0.0, 2.0], [1.0, 0.0]], dtype=torch.float64)] * 2
    x, end = torch.ones(1, 2, dtype=torch.float64), torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    assert gradients(Stack(2, gain=3.0), weights, x, end).tolist() == [18, 3, 1]
    # (0, 1) -> (3, 1) -> (3, 1) + 3 (1, 6) = (6, 19)
    found = gradients(Stack(2, residual=True, gain=3.0), weights, x, end)
    assert found.tolist() == pytest.approx([np.hypot(6, 19), np.hypot(3, 1), 1], rel=1e-12)


def test_relu_lets_through_where_it_was_positive():
    """x = (1, -1), W = I, gain 2: only the first entry passes, doubled; with a residual the second passes, too."""
    weights, x = [torch.eye(2, dtype=torch.float64)], torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    end = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    assert gradients(Stack(1, activation="relu", gain=2.0), weights, x, end).tolist() == pytest.approx([1.2, 1])
    found = gradients(Stack(1, residual=True, activation="relu", gain=2.0), weights, x, end)
    assert found.tolist() == pytest.approx([np.hypot(1.8, 0.8), 1])


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_lengths_are_those_of_the_jacobians(activation: str, norm: str, residual: bool):
    """Against products of Jacobians that are computed one layer at a time, for one row."""
    stack = Stack(3, residual, norm, activation, 1.3)
    weights, x, end = drawn(3, seed=4)
    x, end = x[:1], end[:1]
    expected, at = [end[0]], [x]
    for weight in weights:
        at.append(layer(stack, weight, at[-1].detach()))
    for weight, read in zip(reversed(weights), reversed(at[:-1]), strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v, w=weight: layer(stack, w, v[None])[0], read[0].detach())
        expected.insert(0, jacobian.T @ expected[0])
    wanted = [each.norm().item() for each in expected]
    assert gradients(stack, weights, x.clone(), end).tolist() == pytest.approx(wanted, rel=1e-10)


def test_with_residuals_the_mean_square_grows_by_one_plus_the_gain_squared():
    """E||(I + g W)^T u||^2 = 1 + g^2 for a random orthogonal W, whose products with u have mean 0."""
    stack = Stack(depth=8, residual=True, gain=0.5)
    found = np.sqrt((by_layer(stack, seeds=12) ** 2).mean(0))
    assert np.abs(np.log(found / stack.predicted)).max() < 0.1
    assert stack.predicted[0] == pytest.approx(1.25**4)


def test_a_norm_takes_out_the_gain():
    """Without residuals a norm before the matrix divides by what the layer before multiplied with: of all gains one is
    left, that of layer 0, whose input has the length of a normed vector whatever the gain."""
    one, two = (by_layer(Stack(10, norm="pre", gain=gain)) for gain in (0.5, 1.0))
    assert np.allclose(one[:, 1:], two[:, 1:], rtol=1e-3) and np.allclose(2 * one[:, 0], two[:, 0], rtol=1e-3)
    assert Stack(norm="pre").predicted is None and Stack(activation="relu").predicted is None


def test_matrices_are_orthogonal_and_those_of_a_seed():
    q = orthogonal(np.random.default_rng(0), 16)
    assert torch.allclose(q @ q.T, torch.eye(16, dtype=torch.float64), atol=1e-12)
    assert np.array_equal(by_layer(Stack()), by_layer(Stack()))
    weights, _, end = drawn(5, 1)
    assert len(weights) == 5 and torch.allclose(end.norm(dim=-1), torch.ones(32, dtype=torch.float64))
