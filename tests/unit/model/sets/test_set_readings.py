"""The logit lens, attribution and steering over a set: each pair equals the function of one run."""

from dataclasses import replace

import numpy as np
import pytest

from model.attention.targets import Target, metric
from model.errors import InputError
from model.predictions.attribution import attribute, components
from model.predictions.gradients import affordable, gradients
from model.sets.aligned import AlignedPair, prompt_set
from model.sets.effects import CALIBRATED, EFFECTS, set_cost, set_effects, usable
from model.sets.readings import ATTRIBUTIONS, random_answers
from model.sets.statistics import EXACT, TESTABLE, least_p, sign_flips
from model.sets.steered import FACTORS, directions, set_vectors, steered_metric
from model.sets.templates import Pair
from model.steering.vectors import steering_edit, stream_at
from model.tracing.logit_lens import read_layers

PAIRS = [Pair("abcab", "abdab", "1", "2"), Pair("xyzxy", "xyaxy", "3", "1"), Pair("abcabcab", "abdabdab", "5", "4")]
OTHERS = [Pair("mnomn", "mnpmn", "1", "2"), Pair("qrsqr", "qrtqr", "2", "1")]


@pytest.fixture(scope="module")
def pairs(lm) -> tuple[AlignedPair, ...]:
    made = prompt_set(lm, PAIRS, calibration=0).pairs
    return tuple(sorted(made, key=lambda each: PAIRS.index(each.pair)))


@pytest.fixture(scope="module")
def others(lm) -> tuple[AlignedPair, ...]:
    made = prompt_set(lm, OTHERS, calibration=0).pairs
    return tuple(sorted(made, key=lambda each: OTHERS.index(each.pair)))


def test_the_lens_ends_at_the_metric_and_is_the_lens_of_one_run(lm, pairs):
    found = set_effects(lm, pairs, "lens")
    assert found.values.shape == found.control.shape == (3, lm.config.n_layer + 1, 1)
    assert np.allclose(found.values[:, -1, 0], found.clean, atol=1e-5)
    shares = set_effects(lm, pairs, "lens", measured="probability").values
    for row, share, pair in zip(found.values, shares, pairs, strict=True):
        reading = read_layers(lm.trace(pair.clean), [-1], candidates=[pair.target, pair.distractor]).shares[:, 0]
        assert np.allclose(share[:, 0], reading[:, 0] - reading[:, 1], atol=1e-6)
        assert np.allclose(row[:, 0], np.log(reading[:, 0] / reading[:, 1]), atol=1e-4)


def test_the_control_of_the_lens_reads_two_answers_of_the_set():
    answers, rng = [(1, 2), (3, 1)], np.random.default_rng(0)
    drawn = {random_answers(answers, rng) for _ in range(200)}
    assert drawn == {(a, b) for a in (1, 2, 3) for b in (1, 2, 3) if a != b}


def test_attribution_is_that_of_one_run_exactly_and_adds_up(lm, pairs):
    found = {effect: set_effects(lm, pairs, effect) for effect in ATTRIBUTIONS}
    assert found["slots"].numbers == (0, 1)  # positions compare at one length only
    for number, pair in enumerate(pairs):
        run = lm.trace(pair.clean)
        own = attribute(components(run), run.model, pair.target, pair.distractor)
        assert np.array_equal(found["direct_heads"].values[number], own.heads.astype(np.float32))
        rest = own.parts().query("kind in ('embedding', 'position', 'final_bias', 'head_bias')")["value"].sum()
        layers = found["direct_layers"].values[number]
        assert layers.sum() + rest == pytest.approx(found["direct_layers"].clean[number], abs=1e-3)
        assert not np.allclose(layers[:, 0], own.heads.sum(1), atol=1e-3)  # a sublayer's bias is its own
        if number < 2:
            integrated = gradients(run, -1, pair.target, pair.distractor, affordable(5)).integrated
            assert np.array_equal(found["slots"].values[number, 0], integrated.astype(np.float32))
    with pytest.raises(InputError, match="not a probability"):
        set_effects(lm, pairs, "slots", measured="probability")


def test_a_pair_whose_answers_are_exchanged_points_the_other_way(lm, others):
    assert directions(others) == [1, -1]
    vectors = set_vectors(lm, others)
    first, second = ([lm.trace(ids) for ids in (pair.clean, pair.corrupt)] for pair in others)
    for layer in range(lm.config.n_layer):
        a, b, c, d = (stream_at(run, layer)[-1] for run in (*first, *second))
        assert np.allclose(vectors[layer], ((a - b) + (d - c)) / 2, atol=1e-5)
    with pytest.raises(InputError, match="calibration"):
        set_effects(lm, others, "steer")


@pytest.mark.parametrize(("measured", "near"), [("difference", 1e-4), ("probability", 1e-6)])
def test_steering_is_the_edit_at_the_last_token_of_the_corrupt_prompt(lm, pairs, others, measured: str, near: float):
    turned = replace(pairs[0], target=pairs[0].distractor, distractor=pairs[0].target)
    pairs = (*pairs[1:], turned)  # its answers are those of the calibration pairs, exchanged
    found = set_effects(lm, pairs, "steer", calibration=others, measured=measured)
    vectors, ways = set_vectors(lm, others), directions((*others, *pairs))[2:]
    assert found.values.shape == (3, lm.config.n_layer, len(FACTORS))
    for row, pair, way in zip(found.values, pairs, ways, strict=True):
        target = Target(measured, -1, pair.target, pair.distractor if measured == "difference" else None)
        run = lm.trace(pair.corrupt)
        for layer, factor in ((0, -1.0), (1, 4.0), (2, 1.0)):
            edit = steering_edit(way * vectors[layer], layer, factor, positions=str(len(pair.corrupt) - 1))
            change = metric(run.edit(edit), target) - metric(run, target)
            assert row[layer, FACTORS.index(factor)] == pytest.approx(change, abs=near)
    assert np.abs(found.values).max() > 100 * near and not np.allclose(found.values, found.control, atol=100 * near)


def test_a_factor_of_zero_changes_nothing_and_the_control_has_the_length(lm, pairs):
    run, pair = lm.trace(pairs[0].corrupt), pairs[0]
    target = Target("difference", -1, pair.target, pair.distractor)
    vectors = np.random.default_rng(2).normal(size=(lm.config.n_layer, lm.config.d_model)).astype(np.float32)
    own, random = steered_metric(run, target, vectors, (0.0, 0.0))
    assert np.abs(own).max() < 1e-5 and np.abs(random).max() < 1e-5
    _, other = steered_metric(run, target, 2 * vectors, (1.0,), seed=5)
    _, twice = steered_metric(run, target, vectors, (2.0,), seed=5)
    assert np.allclose(other, twice, atol=1e-3) and np.abs(other).max() > 0.01


@pytest.mark.parametrize("effect", EFFECTS)
def test_every_effect_has_a_cost_that_grows_with_the_pairs(lm, effect: str):
    kept = [6] * 4 if effect in CALIBRATED else []
    one, two = (set_cost(lm.config, effect, [8] * n, kept) for n in (1, 2))
    assert 0 < one[0] < two[0] and 0 < one[1] < two[1]


def test_which_pairs_an_effect_can_use(pairs, others):
    assert usable(pairs, "zero") == (0, 1, 2) and usable(pairs, "slots") == usable(pairs, "mlp_out") == (0, 1)
    assert usable(pairs, "resample", others) == (0, 1) and usable(pairs, "steer", others) == (0, 1, 2)
    assert usable((), "slots") == ()


@pytest.mark.parametrize("n", [1, 3, TESTABLE - 1, TESTABLE, 11])
def test_no_p_is_below_the_least_one(n: int):
    p, _, _ = sign_flips(1 + np.random.default_rng(0).random((n, 5)))
    assert p.min() >= least_p(n) and (n > EXACT or p.min() == least_p(n))
    assert (least_p(n) < 0.05) == (n >= TESTABLE)
