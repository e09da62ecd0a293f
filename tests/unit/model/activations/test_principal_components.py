"""Principal components of the residual stream against numpy's singular values, and what cannot be drawn."""

import numpy as np
import pytest
import torch

from model.activations import principal_components
from model.activations.principal_components import principal, work
from model.errors import InputError
from model.gpt.edits import Edit
from model.tracing.trace import run
from tests.support.models.helpers import VARIANTS, D, L, assert_close, random_ids, tiny_model, tokens_of


def traced(variant="gpt2", length=15, edits=()):
    model = tiny_model(VARIANTS[variant])
    return run(model, tokens_of(random_ids(1, length)[0]), model_id="tiny", edits=edits)


def by_svd(states, scaled):
    """Coordinates, shares and directions from numpy's SVD. states [L + 1, T, D]"""
    x = states.reshape(-1, states.shape[-1]).astype(np.float64)
    if scaled:
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    x = x - x.mean(0)
    _, size, directions = np.linalg.svd(x, full_matrices=False)
    for direction in directions:
        direction *= np.sign(direction[np.abs(direction).argmax()])
    coordinates = (x @ directions.T).reshape(*states.shape[:2], -1)
    return coordinates, size**2 / (size**2).sum(), directions


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("length", [3, 15])  # fewer states than dimensions, and more
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_components_are_those_of_the_svd(variant, length, scaled, first):
    trace = traced(variant, length)
    found = principal(trace, scaled=scaled, first=first)
    assert ((L + 1) * (length - (not first)) < D) == (length == 3)
    states = trace.residuals.numpy()[:, 0 if first else 1 :]
    coordinates, shares, directions = by_svd(states, scaled)
    assert found.start == 1 - first and found.coordinates.shape == (*states.shape[:2], 3)
    assert_close(found.shares, shares[:3], 1e-10, "shares")
    assert_close(found.directions, directions[:3], 1e-5, "directions")
    size = np.abs(coordinates).max()
    assert_close(found.coordinates / size, coordinates[..., :3] / size, 1e-5, "coordinates")


def test_the_picture_of_points_on_a_line_by_hand():
    """States 0, 3 and 6 steps along (0, -0.6, 0.8, 0...): one component, its largest entry positive, the rest 0."""
    trace = traced(length=1)
    trace.residuals = torch.zeros(3, 1, D)
    trace.residuals[:, 0, 1:3] = torch.tensor([0.0, 3, 6])[:, None] * torch.tensor([-0.6, 0.8])
    found = principal(trace, scaled=False)
    assert found.coordinates[:, 0, 0].tolist() == pytest.approx([-3, 0, 3])
    assert found.shares.tolist() == pytest.approx([1, 0, 0]) and (found.coordinates[..., 1:] == 0).all()
    assert found.directions[0, :4].tolist() == pytest.approx([0, -0.6, 0.8, 0])
    assert (found.directions[1:] == 0).all()


def test_the_sign_does_not_depend_on_the_solver(monkeypatch):
    trace = traced(length=15)
    found = principal(trace)
    for name in ("many_states", "_few_states"):
        solve = getattr(principal_components, name)
        monkeypatch.setattr(
            principal_components, name, lambda *given, solve=solve: (solve(*given)[0], -solve(*given)[1])
        )
    turned = principal(trace)
    assert (turned.coordinates == found.coordinates).all() and (turned.directions == found.directions).all()
    largest = np.take_along_axis(found.directions, np.abs(found.directions).argmax(1)[:, None], 1)
    assert (largest > 0).all()


def test_shares_fall_and_the_total_is_that_of_all_states():
    trace = traced(length=15)
    found = principal(trace, scaled=False, components=D)
    assert (np.diff(found.shares) <= 0).all() and found.shares.sum() == pytest.approx(1)
    x = trace.residuals.double().reshape(-1, D)
    spread = (x - x.mean(0)).square().sum().item()
    assert np.square(found.coordinates, dtype=np.float64).sum() == pytest.approx(spread, rel=1e-5)
    assert_close(found.directions @ found.directions.T, np.eye(D), 1e-5)
    again = found.coordinates @ found.directions + found.mean
    assert_close(again, trace.residuals, 1e-4, "all components together are the states")


def test_scaled_states_do_not_depend_on_their_lengths():
    trace = traced(length=6)
    before = principal(trace)
    trace.residuals = trace.residuals * torch.linspace(0.5, 900, 6)[:, None]
    assert_close(principal(trace).coordinates, before.coordinates, 1e-5)
    assert not np.allclose(principal(trace, scaled=False).shares, principal(traced(length=6), scaled=False).shares)


def test_one_token_is_a_path_and_without_it_nothing_is_left():
    trace = traced(length=1)
    found = principal(trace)
    assert found.coordinates.shape == (L + 1, 1, 3) and found.shares[0] > 0
    with pytest.raises(InputError, match="Without the first token nothing is left"):
        principal(trace, first=False)


@pytest.mark.parametrize("value", [0.0, 0.3, 1e4])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("length", [2, 20])
def test_states_that_are_all_the_same_have_no_picture(value, scaled, length):
    trace = traced(length=length)
    trace.residuals = torch.full_like(trace.residuals, value) * torch.linspace(0.1, 1, D)
    with pytest.raises(InputError, match="are the same"):
        principal(trace, scaled=scaled)


def test_a_state_that_is_zero_stays_zero():
    trace = traced(length=4)
    trace.residuals = trace.residuals.clone()
    trace.residuals[0, 2] = 0
    found = principal(trace)
    assert np.isfinite(found.coordinates).all()
    assert_close(found.coordinates[0, 2], -found.mean @ found.directions.T, 1e-5)


def test_fewer_states_than_components():
    trace = traced(length=1)
    trace.residuals = trace.residuals[:2]
    found = principal(trace)
    assert found.shares.tolist() == pytest.approx([1, 0, 0]) and (found.coordinates[..., 1:] == 0).all()


def test_edits_reach_the_picture():
    assert not np.allclose(principal(traced(edits=(Edit("zero", 0, 1),))).coordinates, principal(traced()).coordinates)


def test_the_work_counts_the_smaller_side():
    assert work(L + 1, 15, D) == (L + 1) * 15 * D * D + 8 * D**3
    assert work(L + 1, 2, D) == ((L + 1) * 2) ** 2 * D + 8 * ((L + 1) * 2) ** 3
