"""How positions are written: vectors by hand, what they have in common by distance, and a query and key in pairs."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from model.design.positions import (
    PRECISIONS,
    QKPair,
    angles,
    as_rope,
    contributions,
    cosines,
    decay_bound,
    frequencies,
    head_qk,
    kernel,
    pair_of,
    polar,
    principal_shares,
    scores_at,
    shift_bound,
    shift_errors,
    similarity,
    sinusoidal_frequencies,
    spectrum,
    vectors,
    wavelengths,
)
from model.errors import InputError
from model.gpt.layers import rope_frequencies, rope_table, sinusoidal_positions
from model.gpt.rope_scaling import RopeScaling
from model.tracing.trace import run
from tests.support.models.helpers import (
    ALL_VARIANTS,
    VARIANTS,
    assert_close,
    random_ids,
    steer,
    tiny_config,
    tiny_model,
    tokens_of,
)

ROPE = [name for name, changes in VARIANTS.items() if changes.get("positions") == "rope"]
SCALED = {
    "positions": "rope",
    "d_head": 16,
    "rope_scaling": RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=64),
}


# Rotations that differ by layer, by length, in size, or in their pairs; texts of 11 tokens are longer than 8.
ROTATED = {
    name: {"positions": "rope", **changes}
    for name, changes in {
        "dynamic": {"rope_scaling": RopeScaling(kind="dynamic", factor=4.0, original_n_ctx=8)},
        "yarn": {
            "rope_scaling": RopeScaling(
                kind="yarn", factor=4.0, beta_fast=4.0, beta_slow=0.5, original_n_ctx=32, amplitude=1.3
            )
        },
        "longrope": {
            "rope_scaling": RopeScaling(
                kind="longrope",
                factor=2.0,
                short_factors=(1.0,) * 6,
                long_factors=(1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
                original_n_ctx=8,
                amplitude=1.2,
            )
        },
    }.items()
}


def traced(variant, T=11, **given):
    model = tiny_model((ALL_VARIANTS | ROTATED)[variant])
    return run(model, tokens_of(random_ids(1, T)[0].numpy()), **given)


# --- frequencies ---


def test_frequencies_by_hand():
    assert_close(sinusoidal_frequencies(4), [1.0, 0.01], 1e-15)
    assert_close(wavelengths(np.array([1.0, 0.01])), [2 * math.pi, 200 * math.pi], 1e-12)
    config = tiny_config({"positions": "rope", "d_head": 4, "rope_theta": 100.0})
    assert_close(frequencies(config, "rope"), [1.0, 0.1], 1e-8)
    assert len(sinusoidal_frequencies(5)) == 3
    with pytest.raises(ValueError, match="learned"):
        frequencies(config, "learned")


def test_what_rope_would_be():
    config = tiny_config({"rope_theta": 7.0})
    made = as_rope(config)
    assert (made.positions, made.rope_theta, made.d_rotary, made.rope_scaling) == ("rope", 10_000.0, 12, None)
    assert dataclasses.replace(made, positions="learned", rope_theta=7.0) == config
    for odd in range(3, 260, 2):  # a share of the dimensions that is rounded down to an even number
        assert as_rope(tiny_config({"d_head": odd})).d_rotary == odd - 1
    own = tiny_config(VARIANTS["neox"])
    assert as_rope(own) is own and own.d_rotary == 6
    with pytest.raises(InputError, match="no pairs"):
        as_rope(tiny_config({"d_head": 1}))


def test_scaled_frequencies_are_the_models():
    config = tiny_config(SCALED)
    assert_close(frequencies(config, "rope"), rope_frequencies(config), 0)
    plain = frequencies(dataclasses.replace(config, rope_scaling=None), "rope")
    ratio = plain / frequencies(config, "rope")
    assert ratio[0] == 1 and ratio[-1] == pytest.approx(8) and len(set(ratio.round(6))) > 2  # kept, slowed, between


# --- vectors ---


def test_vectors_by_hand():
    model = tiny_model({"positions": "rope", "d_head": 4, "rope_theta": 100.0})
    found = vectors(model, "rope", [0, 2])
    assert found.dtype == np.float32
    assert_close(found, [[1, 1, 0, 0], [math.cos(2), math.cos(0.2), math.sin(2), math.sin(0.2)]], 1e-7)
    assert_close(vectors(model, "none", range(3)), np.zeros((3, 48)), 0)
    with pytest.raises(InputError, match="no learned positions"):
        vectors(model, "learned", [0])


@pytest.mark.parametrize("d_model", [48, 50])
def test_sines_are_the_models(d_model):
    model = tiny_model({"positions": "sinusoidal", "d_model": d_model})
    assert_close(vectors(model, "sinusoidal", range(7, 30)), sinusoidal_positions(7, 23, d_model), 1e-5)


def test_sines_of_an_odd_width():
    model = tiny_model({"positions": "sinusoidal", "d_model": 7, "d_head": 4})
    assert_close(vectors(model, "sinusoidal", range(9)), sinusoidal_positions(0, 9, 7), 1e-5)


def test_learned_rows_are_those_of_the_weights():
    model = tiny_model(VARIANTS["gpt2"])
    assert_close(vectors(model, "learned", [3, 0, 39]), model.pos_embed.weight[[3, 0, 39]], 0)
    for wrong in (40, -1):
        with pytest.raises(InputError, match="position does not exist"):
            vectors(model, "learned", [0, wrong])


def test_cosines_by_hand():
    found = cosines(np.array([[2, 0], [3, 3], [0, 0]], dtype=np.float32))
    assert_close(found[:2, :2], [[1, math.sqrt(0.5)], [math.sqrt(0.5), 1]], 1e-6)
    assert np.isnan(found[2]).all() and np.isnan(found[:, 2]).all()


def test_similarity_by_hand():
    found = similarity(np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32))
    assert found.distance.tolist() == [0, 1, 2]
    assert_close(found.mean, [1, 0.5, 0], 1e-7)
    assert_close(found.low, [1, 0.1, 0], 1e-7)  # 10 % of the way from 0 to 1
    assert_close(found.high, [1, 0.9, 0], 1e-7)


@pytest.mark.parametrize("scheme", ["sinusoidal", "rope"])
@pytest.mark.parametrize("variant", ["post", *ROPE])
def test_of_formulas_only_the_distance_counts(variant, scheme):
    model = tiny_model(VARIANTS[variant])
    found = similarity(vectors(model, scheme, range(30)))
    expected = kernel(frequencies(model.config, scheme), range(30))
    for part in (found.mean, found.low, found.high):
        assert_close(part, expected, 1e-6)


def test_the_bound_by_hand_and_what_it_bounds():
    theta = np.array([math.pi, math.pi / 2])
    # d = 1: S_1 = -1, S_2 = -1 + i; d = 0: 1 and 2.
    assert_close(decay_bound(theta, [0, 1]), [1.5, (1 + math.sqrt(2)) / 2], 1e-12)
    assert_close(kernel(theta, [0, 1]), [1, -0.5], 1e-12)
    for variant in ROPE:
        theta, d = frequencies(tiny_config(VARIANTS[variant]), "rope"), np.arange(200)
        assert (np.abs(kernel(theta, d)) <= decay_bound(theta, d) + 1e-12).all()


def test_the_bound_holds_for_queries_and_keys():
    """|sum h_i exp(i d theta_i)| <= max |h_(i+1) - h_i| sum |S_j|, h complex and h_n = 0."""
    config, rng = tiny_config({"positions": "rope", "d_head": 16}), np.random.default_rng(0)
    theta, d = frequencies(config, "rope"), np.arange(300)
    n = len(theta)
    for _ in range(20):
        pair = pair_with(config, rng)
        q, k = (x[:n] + 1j * x[n:] for x in (pair.q.astype(float), pair.k.astype(float)))
        h = np.append(q * k.conj(), 0)
        most = np.abs(np.diff(h)).max()
        score = contributions(pair, d).sum(1) * math.sqrt(16) / n
        assert (np.abs(score) <= most * decay_bound(theta, d) + 1e-9).all()


def test_a_spectrum_finds_the_waves():
    p = np.arange(32)
    table = np.stack([3 * np.cos(2 * np.pi * p / 8) + 5, (-1.0) ** p], 1).astype(np.float32)
    found = spectrum(table)
    assert found.wavelength.tolist() == (32 / np.arange(1, 17)).tolist()
    assert found.strongest.tolist() == [8, 2]
    shares = dict(zip(found.wavelength, found.share, strict=True))
    assert shares[8] == pytest.approx(4.5 / 5.5) and shares[2] == pytest.approx(1 / 5.5)  # variances 9 / 2 and 1


@pytest.mark.parametrize("P", [2, 3, 8, 31])
def test_the_power_of_all_waves_is_the_variance(P):
    table = np.random.default_rng(P).normal(size=(P, 5)).astype(np.float32)
    found = spectrum(table)
    assert found.share.sum() == pytest.approx(1)
    power = np.abs(np.fft.fft(table - table.mean(0), axis=0)[1:]) ** 2  # of both halves
    largest = power.sum(1)[: P // 2].argmax()
    both = power.sum(1)[largest] * (1 if 2 * (largest + 1) == P else 2) / power.sum()
    assert found.share[largest] == pytest.approx(both)


def test_tables_without_a_spectrum():
    with pytest.raises(ValueError, match="two positions"):
        spectrum(np.ones((1, 3)))
    assert spectrum(np.ones((4, 3))).share.tolist() == [0, 0]
    assert principal_shares(np.ones((4, 3))).tolist() == [0, 0, 0]
    assert not principal_shares(np.full((7, 3), 100.1, np.float32)).any()


def test_principal_shares_by_hand():
    table = np.array([[3, 0], [-3, 0], [0, 1], [0, -1]], dtype=np.float32)
    assert_close(principal_shares(table), [0.9, 0.1], 1e-6)


# --- a query and a key ---


def pair_with(config, rng, query=9, key=4):
    q, k = rng.normal(size=(2, config.d_head)).astype(np.float32)
    return QKPair(q, k, query, key, config, True, math.nan)


def test_contributions_by_hand():
    config = tiny_config({"positions": "rope", "d_head": 6, "rotary_fraction": 0.67, "rope_theta": 100.0})
    # Pairs (0, 2) and (1, 3); dimensions 4 and 5 stay.
    q = np.array([1, 0, 0, 2, 1, 1], dtype=np.float32)
    k = np.array([1, 3, 0, 0, 2, -5], dtype=np.float32)
    found = contributions(QKPair(q, k, 5, 3, config, True, 0.0), [0, 2])
    # Pair 0: both along the first axis, |q| |k| = 1, theta 1. Pair 1: q ahead by 90 degrees, 6, theta 0.1.
    expected = [[1, 0, -3], [math.cos(2), 6 * math.cos(math.pi / 2 + 0.2), -3]]
    assert_close(found, np.array(expected) / math.sqrt(6), 1e-6)


@pytest.mark.parametrize("variant", [*VARIANTS, "gemma", "gptj", "oss", *ROTATED])
def test_pairs_add_up_to_the_models_score(variant):
    trace = traced(variant)
    for layer, head in ((0, 0), (1, 2), (2, 3)):
        found, own = head_qk(trace, layer, head), trace.config.rotates(layer)
        scores = found.q_used @ found.k_used.T / math.sqrt(trace.config.d_head)  # the model's, before any cap
        if trace.config.plain_scores:
            seen = np.tri(11, dtype=bool)
            assert_close(scores[seen], trace.scores(layer, head)[seen], 1e-4)
        for query, key in ((10, 3), (6, 6), (5, 0)):
            pair = pair_of(trace.config, found, query, key)
            assert pair.own == own and pair.distance == query - key
            assert pair.score == pytest.approx(scores[query, key], abs=1e-4)
            total = contributions(pair, [pair.distance if own else 0]).sum()
            assert total == pytest.approx(scores[query, key], abs=1e-4)
            if own:
                at = torch.tensor([query]), torch.tensor([key])
                assert scores_at(pair, *at, "float32")[0] == pytest.approx(scores[query, key], abs=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_q_and_k_are_the_runs(variant):
    trace = traced(variant)
    for head in range(4):
        found, used = head_qk(trace, 1, head), trace.qkv(1, head)
        assert_close(found.q_used, used.q, 1e-5)
        assert_close(found.k_used, used.k, 1e-5)
        if trace.config.positions == "rope":
            assert np.abs(found.q - found.q_used)[1:].max() > 1e-3  # before turning is something else
            assert_close(found.q[0], found.q_used[0], 0)  # position 0 turns nothing
        else:
            assert_close(found.q, found.q_used, 0)
    with pytest.raises(InputError, match="head does not exist"):
        head_qk(trace, 1, 4)


def test_q_and_k_of_an_edited_run():
    plain, moved = traced("llama"), traced("llama", tap=steer)
    assert np.abs(head_qk(moved, 1, 0).q - head_qk(plain, 1, 0).q).max() > 1e-3
    assert_close(head_qk(moved, 1, 0).k_used, moved.qkv(1, 0).k, 1e-5)


def test_one_block_is_run_and_no_more():
    trace, ran = traced("llama"), []
    for layer, block in enumerate(trace.model.blocks):
        block.register_forward_pre_hook(lambda *_, layer=layer: ran.append(layer))
    found = head_qk(trace, 2, 1)
    assert ran == [2] and found.nbytes == 4 * 11 * 12 * 4


def test_polar_by_hand():
    length, angle = polar(np.array([3, 0, 4, -2], dtype=np.float32), 2)
    assert_close(length, [5, 2], 1e-12)
    assert_close(angle, [math.atan2(4, 3), -math.pi / 2], 1e-12)


# --- only the distance counts ---


@pytest.mark.parametrize("variant", ROPE)
def test_angles_in_float32_are_the_models(variant):
    config = tiny_config(VARIANTS[variant])
    for start in (0, 37, 4095):
        for found, expected in zip(
            angles(config, torch.arange(start, start + 5), "float32"), rope_table(config, start, 5), strict=True
        ):
            assert torch.equal(found, expected)


def test_scores_at_positions_are_the_pairs_sums():
    config, rng = tiny_config({"positions": "rope", "d_head": 16, "rotary_fraction": 0.5}), np.random.default_rng(1)
    pair = pair_with(config, rng)
    d = torch.arange(40)
    found = scores_at(pair, d + 100, torch.full((40,), 100), "float64")
    assert found.dtype == np.float64
    assert_close(found, contributions(pair, range(40)).sum(1), 1e-12)
    assert scores_at(pair, d, d, "float32").dtype == np.float32


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "rope", "d_head": 64},
        SCALED,
        {"positions": "rope", "d_head": 16, "rotary_fraction": 0.25, "rope_theta": 500_000.0},
    ],
)
def test_a_shift_moves_the_score_by_rounding_only(changes):
    config, rng = tiny_config(changes), np.random.default_rng(2)
    shifts = [2**n for n in range(21)]
    for _ in range(5):
        pair = pair_with(config, rng)
        size = np.abs(contributions(pair, [0])).sum() + 1
        for precision in PRECISIONS:
            errors, bound = shift_errors(pair, shifts, precision), shift_bound(pair, shifts, precision)
            assert (errors <= bound).all()
            assert (np.diff(bound) > 0).all()
        assert errors.max() < 1e-8 * size  # float64
        assert shift_errors(pair, shifts, "float32")[-1] > 100 * errors[-1]  # a million positions cost digits


def test_no_shift_no_error():
    pair = pair_with(tiny_config({"positions": "rope"}), np.random.default_rng(3))
    assert shift_errors(pair, [0], "float32").tolist() == [0.0]
    assert shift_errors(pair, [], "float64").tolist() == []
