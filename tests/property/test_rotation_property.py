"""What must hold for every query, key and RoPE: turning keeps lengths, and only the distance counts."""

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.design.positions import (
    PRECISIONS,
    QKPair,
    angles,
    contributions,
    decay_bound,
    frequencies,
    kernel,
    scores_at,
    shift_bound,
    shift_errors,
)
from model.gpt.config import ModelConfig
from model.gpt.layers import rotate
from model.gpt.rope_scaling import RopeScaling

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, database=None)


@st.composite
def ropes(draw) -> ModelConfig:
    """Any RoPE: size, theta, share of the dimensions that turn, Llama 3's scaling."""
    pairs, rest = draw(st.integers(1, 40)), 2 * draw(st.integers(0, 10))
    d_head = 2 * pairs + rest
    scaling = RopeScaling(
        factor=draw(st.floats(1.5, 32)),
        low_freq_factor=1.0,
        high_freq_factor=draw(st.floats(1.5, 8)),
        original_n_ctx=draw(st.integers(16, 8192)),
    )
    return ModelConfig(
        vocab_size=5,
        n_ctx=64,
        n_layer=1,
        d_model=8,
        n_head=1,
        d_head=d_head,
        positions="rope",
        rotary_fraction=(2 * pairs + 0.5) / d_head if rest else 1.0,
        rope_theta=draw(st.floats(10, 1e6)),
        rope_scaling=draw(st.sampled_from([None, scaling])),
    )


@st.composite
def turned(draw) -> QKPair:
    """A query and a key of any size at any positions."""
    config, query = draw(ropes()), draw(st.integers(0, 8192))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = 10.0 ** draw(st.integers(-3, 3))
    q, k = (size * rng.normal(size=(2, config.d_head))).astype(np.float32)
    return QKPair(q, k, query, draw(st.integers(0, query)), config, True, math.nan)


@SETTINGS
@given(turned(), st.lists(st.integers(0, 1 << 20), min_size=1, max_size=20))
def test_a_shift_of_both_moves_the_score_by_rounding_only(pair, shifts):
    for precision in PRECISIONS:
        errors, bound = shift_errors(pair, shifts, precision), shift_bound(pair, shifts, precision)
        assert (errors <= bound).all(), (precision, errors, bound)


@SETTINGS
@given(turned(), st.lists(st.integers(0, 1 << 20), min_size=1, max_size=20))
def test_turning_keeps_lengths(pair, positions):
    for precision, dtype in PRECISIONS.items():
        q = torch.from_numpy(pair.q).to(dtype).expand(len(positions), -1)
        found = rotate(q, *angles(pair.config, torch.tensor(positions), precision))
        n = pair.config.d_rotary // 2
        close = 1e-5 if precision == "float32" else 1e-13
        assert torch.allclose(found.norm(dim=-1), q.norm(dim=-1), rtol=close, atol=0)
        before, after = (torch.hypot(x[:, :n], x[:, n : 2 * n]) for x in (q, found))  # of each pair
        assert torch.allclose(after, before, rtol=close, atol=0)
        assert torch.equal(found[:, 2 * n :], q[:, 2 * n :])  # what is not turned stays


@SETTINGS
@given(turned())
def test_pairs_add_up_to_the_score_at_any_distance(pair):
    d = torch.tensor([0, 1, 17, 4096])
    total = contributions(pair, d.tolist()).sum(1)
    scale = np.abs(contributions(pair, [0])).sum() + float(np.abs(pair.q) @ np.abs(pair.k))
    assert np.abs(scores_at(pair, d, torch.zeros_like(d), "float64") - total).max() <= 1e-9 * scale


@SETTINGS
@given(ropes(), st.lists(st.integers(0, 1 << 17), min_size=1, max_size=30))
def test_the_kernel_stays_within_its_bound(config, distances):
    theta = frequencies(config, "rope")
    found, bound = kernel(theta, distances), decay_bound(theta, distances)
    assert (np.abs(found) <= bound + 1e-9).all() and (np.abs(found) <= 1 + 1e-12).all()
