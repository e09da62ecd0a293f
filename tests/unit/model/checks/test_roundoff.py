"""What is measured of rounding covers what float32 does, for every wiring, and is not much more than that."""

import functools
import math

import pytest
import torch

from model.checks.path_checks import doubled
from model.checks.roundoff import (
    RESULTS,
    SAMPLES,
    STEP,
    UNIT,
    bounds,
    enough,
    moved,
    row_sizes,
    summed,
    terms,
    watched,
)
from model.gpt.tap import SITES, record
from tests.support.models.helpers import ALL_VARIANTS, VARIANTS, H, L, random_ids, tiny_config, tiny_model

T = 17
IDS = random_ids(2, T)
ONE_KEY = torch.tensor([[1.0, 0.0]])


@torch.no_grad()
def at_every_site(model, ids=IDS) -> dict:
    store: dict = {}
    model(ids, tap=record(SITES, store))
    return store


@pytest.mark.parametrize("name", ALL_VARIANTS)
def test_float64_lies_within_the_bound_of_every_site(name: str):
    model = tiny_model(ALL_VARIANTS[name])
    single, double = at_every_site(model), at_every_site(doubled(model))
    found = bounds(model, IDS, sites=SITES, draws=2)
    assert set(found) == set(single) - {("pos_embed", -1)}
    for (site, layer), bound in found.items():
        x, exact = single[site, layer], double[site, layer]
        assert bound.shape == x.shape[:-1] and bound.dtype == torch.float64
        apart = (x - exact).masked_fill(x.isneginf(), 0).abs().amax(-1)
        assert (apart <= bound).all(), (site, layer)
    apart = (single["logits", L] - double["logits", L]).abs().amax(-1)
    # One result; RESULTS of them are allowed for, and sums as float32 would make them one term after the other.
    assert (apart / found["logits", L]).max() > 0.02


@pytest.mark.parametrize("name", VARIANTS)
def test_what_is_allowed_is_a_millionth_or_so(name: str):
    """Deep in a model of three layers a row is moved by a hundred roundings, not by ten thousand."""
    model = tiny_model(VARIANTS[name])
    size = row_sizes("logits", at_every_site(model)["logits", L]).double()
    share = bounds(model, IDS)["logits", L] / size / UNIT
    assert share.min() > 2 * RESULTS and share.max() < 2000


def test_numbers_are_moved_by_their_own_size_and_that_of_their_row():
    config, x = tiny_config(), torch.tensor([[[3.0, 0.0, 0.0, -4.0], [1.0, 1.0, 1.0, 1.0]]])
    by = (moved("resid_mid", x, config, torch.Generator().manual_seed(0)) - x).abs() / STEP
    beside = 2.5  # the root mean square of the first row
    expected = torch.tensor([[[math.hypot(3, beside), beside, beside, math.hypot(4, beside)], [math.sqrt(2)] * 4]])
    assert torch.allclose(by, expected, rtol=1e-2)


def test_what_is_hidden_and_what_is_0_stays():
    config, made = tiny_config(), torch.Generator().manual_seed(0)
    scores = torch.tensor([[[[0.5, -torch.inf], [2.0, 1.0]]]])
    other = moved("scores", scores, config, made)
    assert torch.equal(other.isneginf(), scores.isneginf()) and (other != scores).sum() == 3
    pattern = torch.tensor([[[[1.0, 0.0], [0.25, 0.75]]]])
    by = (moved("pattern", pattern, config, made) - pattern).abs() / STEP
    assert torch.allclose(by, pattern * math.sqrt(2), rtol=1e-2)  # two terms of the softmax
    assert (moved("z", torch.zeros(1, 1, 2, 3), config, made) == 0).all()


def test_terms_are_those_of_the_sums():
    config = tiny_config()
    x = torch.zeros(2, H, 9, 16)
    assert [terms(site, x, config) for site in ("q", "scores", "pattern", "z", "attn_out", "mlp_out", "embed")] == [
        48,
        12,
        16,
        9,
        48,
        100,
        1,
    ]
    assert all(terms(site, x, config) >= 1 for site in set(SITES) - {"pos_embed"})


def test_rows_that_chance_moved_little_get_what_is_usual_for_their_size():
    """Many rows are moved by less than the root mean square of all; none is left with less than that."""
    model = tiny_model()
    size = row_sizes("scores", at_every_site(model)["scores", 1]).double()
    for share in (bounds(model, IDS, sites=["scores"], draws=1)["scores", 1] / size).unbind(1):  # of each head
        usual = share.min()
        assert share.numel() // 4 < int(torch.isclose(share, usual).sum()) < share.numel()
        assert usual <= share.square().mean().sqrt() < 2 * usual


def test_a_pattern_of_few_keys_is_perturbed_until_chance_counts_no_more():
    """Two keys move by one random number: other draws of the same change the bound by little, and none is near 0."""
    model, ids = tiny_model(), random_ids(1, 2)
    run = functools.partial(model, ids.repeat(enough(2) + 1, 1))
    found = [
        watched(lambda n, tap: run(tap=tap), model.config, ["pattern"], enough(2), seed)["pattern", 1][0, :, 1]
        for seed in range(6)
    ]
    assert (torch.stack(found).amin(0) > torch.stack(found).amax(0) / 4).all()
    assert (
        enough(1) == SAMPLES and enough(SAMPLES) == enough(500) == 1 and row_sizes("pattern", ONE_KEY).tolist() == [0]
    )


@torch.no_grad()
def test_two_float32_sums_stay_within_what_is_said_of_sums():
    """In two orders; and a mistake of one term in a thousand does not."""
    x = torch.randn(1000, 4096, generator=torch.Generator().manual_seed(0))
    apart = (x.sum(1) - x.flip(1).cumsum(1)[:, -1]).abs().double()
    size = x.double().square().sum(1).sqrt()  # of terms of either sign
    assert (apart <= summed(4096) * size).all() and apart.max() > 0.001 * summed(4096) * size.max()
    assert (x[:, 1:].sum(1) - x.sum(1)).abs().median() > summed(4096) * size.max()


def test_the_same_numbers_every_time_and_the_model_is_left_as_it_was():
    model = tiny_model()
    before, state = {key: value.clone() for key, value in model.state_dict().items()}, torch.random.get_rng_state()
    first, second = bounds(model, IDS)["logits", L], bounds(model, IDS)["logits", L]
    assert torch.equal(first, second) and first.shape == (2, T)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())
