"""MLPs of equal size: functions by their formulas, exact counts, and a training that is the project's own."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from model.design import block_trials, mlp_trials
from model.design.mlp_trials import (
    KINDS,
    MlpTrial,
    config_of,
    cost,
    curves,
    equal_width,
    gated,
    guessed,
    train_mlps,
    verdict,
)
from model.loading.convert import skeleton
from model.training.loop import from_model, steps

TEXT = "\n<|endoftext|>\n".join(f"{n} times {m} is {n * m}, as everybody knows." for n in range(40) for m in range(9))


@pytest.fixture(scope="module")
def data():
    return block_trials.data_of(TEXT)


# --- functions ---


def by_formula(name, x):
    normal = 0.5 * (1 + math.erf(x / math.sqrt(2)))
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return {
        "relu": max(x, 0.0),
        "gelu": x * normal,
        "gelu_tanh": 0.5 * x * (1 + math.tanh(inner)),
        "silu": x / (1 + math.exp(-x)),
    }[name]


@pytest.mark.parametrize("name", mlp_trials.FUNCTIONS)
def test_functions_and_derivatives(name):
    x, found = curves(points=81)
    values, slopes = found[name]
    np.testing.assert_allclose(values, [by_formula(name, each) for each in x], atol=1e-12)
    h = 1e-6
    central = [(by_formula(name, each + h) - by_formula(name, each - h)) / (2 * h) for each in x]
    kink = name == "relu"
    at = np.abs(x) > 1e-9 if kink else np.ones(len(x), bool)
    np.testing.assert_allclose(slopes[at], np.array(central)[at], atol=1e-8)
    assert not kink or slopes[~at] == 0


def test_a_gate_is_a_product():
    x, values = gated(points=9)  # -4, -3 .. 4
    assert x.tolist() == [-4, -3, -2, -1, 0, 1, 2, 3, 4]
    silu = x / (1 + np.exp(-x))
    np.testing.assert_allclose(values[5], silu, atol=1e-12)  # up = 1
    np.testing.assert_allclose(values[4], 0, atol=1e-12)
    np.testing.assert_allclose(values[2], -2 * silu, atol=1e-12)


# --- sizes ---


@pytest.mark.parametrize(("wide", "narrow"), [(384, 256), (192, 128), (256, 171), (11008 * 3 // 2, 11008), (1, 1)])
def test_two_thirds(wide, narrow):
    assert equal_width(wide) == narrow


@pytest.mark.parametrize("D", [1, 5, 96])
@pytest.mark.parametrize("wide", range(1, 40))
def test_counts_agree_as_well_as_whole_widths_can(D, wide):
    gap = 3 * D * equal_width(wide) - 2 * D * wide
    assert abs(gap) <= max(1.5 * D, D if wide == 1 else 0)
    assert gap == 0 or wide % 3


def test_all_kinds_have_the_same_number_of_parameters():
    counts = {}
    for kind in KINDS:
        model = skeleton(config_of(kind, 257))
        counts[kind] = sum(p.numel() for p in model.parameters())
        found = cost(config_of(kind, 257))
        assert found.params == counts[kind]
        assert found.mlp_params == sum(p.numel() for p in model.blocks[0].mlp.parameters()) == 2 * 96 * 384
    assert len(set(counts.values())) == 1


def test_operations_by_hand():
    """V 10, D 8, 2 blocks, 2 heads of 4, M 6: 4 * 64 + 2 * 48 a block, 80 at the end; 3 tokens see 1, 2 and 3."""
    base = config_of("gelu", 10)
    config = dataclasses.replace(base, d_model=8, n_head=2, n_kv_head=2, d_head=4, d_mlp=6)
    found = cost(config, length=3)
    products = 2 * (2 * (4 * 64 + 2 * 48) + 80)
    mean_seen = (1 + 2 + 3) / 3
    attention = 2 * 2 * 2 * mean_seen * 8  # layers, scores and mixing, 2 a product, H E = 8
    assert found.mlp_flops == 2 * 2 * 48
    assert found.train_flops == 3 * (products + attention)


# --- training ---


def test_every_kind_is_trained_by_the_projects_code(data):
    trial = MlpTrial("glorot", 1e-3, 3)
    found = train_mlps(data, trial)
    assert found.losses.shape == (3, 3, 3) and found.held_out.shape == (3, 3, 3) and found.moments == (1, 2, 3)
    assert np.isfinite(found.losses).all() and (found.seconds > 0).all() and found.tokens > 100
    for k, kind in enumerate(KINDS):
        model = block_trials.initialized(config_of(kind, data.vocab_size), 2, "glorot")
        recipe = mlp_trials.recipe_of(trial, 2)
        alone = [report.loss for report in steps(from_model(model, recipe), recipe, data.train)]
        np.testing.assert_allclose(found.losses[k, 2], alone, rtol=1e-4)
        total, count = 0.0, 0
        for at, batch in enumerate(data.held_out(16, block_trials.LENGTH)):
            if at == 16:
                break
            with torch.no_grad():
                logs = model(torch.from_numpy(batch.ids)).double().log_softmax(-1)
            scored = torch.from_numpy(batch.targets >= 0)
            wanted = torch.from_numpy(batch.targets)[scored]
            total -= float(logs[scored].gather(-1, wanted[:, None]).sum())
            count += int(scored.sum())
        assert found.tokens == count
        assert found.held_out[k, 2, -1] == pytest.approx(total / count, rel=1e-4)


def test_seeds_share_data_between_kinds_and_differ_from_one_another(data):
    found = train_mlps(data, MlpTrial(steps=2))
    assert len({round(float(each), 6) for each in found.losses[:, :, 0].ravel()}) == 9
    assert mlp_trials.recipe_of(MlpTrial(), 1).seed == 1


def test_who_knows_frequencies_only(data):
    tokens = np.concatenate([batch.targets[batch.targets >= 0] for batch in list(data.held_out(16, 32))[:16]])
    assert guessed(data) == pytest.approx(-data.log_share[tokens].mean())


def test_training_can_be_stopped_and_leaves_random_numbers_alone(data):
    torch.manual_seed(4)
    before, told = torch.get_rng_state(), []

    def progress(done, total, what):
        told.append((done, total))
        if done == 10:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train_mlps(data, MlpTrial(steps=2), progress)
    assert told == [(n, 18) for n in range(11)]
    assert torch.equal(torch.get_rng_state(), before)


def test_a_run_that_goes_astray_ends_and_the_others_go_on(data, monkeypatch):
    whole = mlp_trials.steps

    def broken(run, recipe, source):
        for report in whole(run, recipe, source):
            bad = run.model.config.mlp == "relu" and recipe.seed == 1
            yield dataclasses.replace(report, loss=math.nan if bad else report.loss)

    monkeypatch.setattr(mlp_trials, "steps", broken)
    found = train_mlps(data, MlpTrial(steps=2))
    assert np.isnan(found.losses[2, 1]).all() and np.isnan(found.held_out[2, 1]).all()
    assert np.isfinite(found.losses[:2]).all() and np.isfinite(found.held_out[2, 0]).all()
    assert math.isnan(verdict(*found.held_out[1:, :, -1]).difference)


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ([1.0, 1.1, 1.2], [2.0, 2.1, 2.3], (-1.0333333, 0.3, True)),
        ([2.0, 2.1, 2.3], [1.0, 1.1, 1.2], (1.0333333, 0.3, True)),
        ([1.0, 1.5, 1.4], [1.2, 1.3, 1.4], (0.0, 0.5, False)),
        ([1.0, 1.0, 1.6], [1.5, 1.7, 1.6], (-0.4, 0.6, False)),
    ],
)
def test_a_difference_beside_the_spread(first, second, wanted):
    found = verdict(np.array(first), np.array(second))
    assert (found.difference, found.spread, found.apart) == pytest.approx(wanted)
