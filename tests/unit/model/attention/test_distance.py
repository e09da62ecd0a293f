"""Scores by distance, on matrices small enough to do by hand, and the parts of a score that positions explain."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from model.attention.distance import (
    buckets,
    by_distance,
    first_layer_parts,
    layer_weights,
    near,
    over_buckets,
    position_score,
    share_of_distance,
    sink_scores,
    uniform_weight,
)
from model.gpt.edits import Edit
from model.gpt.layers import rope_table, rotate
from model.tracing.trace import run
from tests.support.models.helpers import (
    ALL_VARIANTS,
    VARIANTS,
    E,
    H,
    L,
    assert_close,
    random_ids,
    tiny_model,
    tokens_of,
)
from tests.support.models.rounding import within

NAN = math.nan
SCORES = np.array([[1, NAN, NAN, NAN], [2, 3, NAN, NAN], [4, 5, 6, NAN], [7, 8, 9, 10]])
PATTERN = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.5, 0], [0.1, 0.2, 0.3, 0.4]])


def traced(variant, T=23):
    return run(tiny_model(ALL_VARIANTS[variant]), tokens_of(random_ids(1, T)[0].numpy()))


def test_distances_are_pooled_without_a_gap():
    assert buckets(4) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    # 16 times the fourth root of 2, again and again: 19.03, 22.6, 26.9, 32, 38.05
    assert buckets(40)[16:] == [(16, 19), (20, 22), (23, 26), (27, 31), (32, 38), (39, 39)]
    for T in (1, 15, 16, 17, 100, 1024):
        for whole in (4, 16, T):
            groups = buckets(T, whole)
            assert groups[0][0] == 0 and groups[-1][1] == T - 1
            assert all(b[0] == a[1] + 1 and a[0] <= a[1] for a, b in pairwise(groups))
    assert len(buckets(1024)) < 45


def test_by_hand_with_the_first_token():
    found = by_distance(SCORES, PATTERN, buckets(4), first=True)
    assert found.pairs.tolist() == [4, 3, 2, 1]
    assert_close(found.mean, [(1 + 3 + 6 + 10) / 4, (2 + 5 + 9) / 3, (4 + 8) / 2, 7], 1e-12)
    assert_close(found.median, [4.5, 5, 6, 7], 1e-12)
    assert_close(found.low, [1 + 0.3 * 2, 2 + 0.2 * 3, 4.4, 7], 1e-12)
    assert_close(found.high, [6 + 0.7 * 4, 5 + 0.8 * 4, 7.6, 7], 1e-12)
    assert_close(found.weight, [2.4 / 4, (0.5 + 0.25 + 0.3) / 3, (0.25 + 0.2) / 2, 0.1], 1e-12)


def test_by_hand_without_the_first_token():
    found = by_distance(SCORES, PATTERN, [(0, 0), (1, 2), (3, 3)])
    assert found.pairs.tolist() == [3, 3, 0]
    assert_close(found.median, [6, 8, NAN], 1e-12)  # 5, 9 and 8 at distances 1 and 2
    assert_close(found.weight, [1.4 / 3, (0.25 + 0.3 + 0.2) / 3, NAN], 1e-12)
    assert sink_scores(SCORES).tolist() == [1, 2, 4, 7]


def test_blocked_keys_do_not_count():
    scores = SCORES.copy()
    scores[3, 2] = NAN
    found = by_distance(scores, PATTERN, buckets(4), first=True)
    assert found.pairs.tolist() == [4, 2, 2, 1] and found.mean[1] == 3.5


def test_matrices_of_two_prompts_are_refused():
    with pytest.raises(ValueError, match=r"\(4, 4\) and \(3, 3\)"):
        by_distance(SCORES, PATTERN[:3, :3], buckets(4))


def test_weight_near_by():
    assert near(PATTERN, 0) == pytest.approx(2.4 / 4)
    assert near(PATTERN, 1) == pytest.approx((2.4 + 1.05) / 4)
    assert near(PATTERN) == pytest.approx(1)


def test_share_of_distance():
    """Scores that are a function of distance: all of it. Noise: none of it."""
    T = 60
    offset = np.arange(T)[:, None] - np.arange(T)
    hidden = offset < 0
    decided = np.where(hidden, NAN, -0.3 * offset)
    noise = np.where(hidden, NAN, np.random.default_rng(0).normal(size=(T, T)))
    assert share_of_distance(decided) == pytest.approx(1)
    assert share_of_distance(noise) < 0.02
    spread = np.nanvar((-0.3 * offset)[~hidden])
    both = share_of_distance(decided + noise, first=True)
    assert both == pytest.approx(spread / (spread + 1), abs=0.02)
    assert math.isnan(share_of_distance(np.full((1, 1), 2.0)))
    assert math.isnan(share_of_distance(np.where(hidden, NAN, 1.0)))  # nothing varies
    equal = np.where(hidden, NAN, 100.1).astype(np.float32)
    equal[::2] = np.nextafter(equal[::2], np.float32(np.inf))  # by rounding alone
    assert math.isnan(share_of_distance(equal))


def test_reading_all_alike():
    found = uniform_weight(4, [(0, 0), (1, 1), (2, 3)], first=True)
    half, third, quarter = 1 / 2, 1 / 3, 1 / 4
    expected = [(1 + half + third + quarter) / 4, (half + third + quarter) / 3, (third + quarter + quarter) / 3]
    assert_close(found, expected, 1e-12)
    found = uniform_weight(4, buckets(4))
    assert_close(found, [(1 / 2 + 1 / 3 + 1 / 4) / 3, (1 / 3 + 1 / 4) / 2, 1 / 4, NAN], 1e-12)
    assert over_buckets(np.array([1.0, 3, NAN, NAN]), [(0, 1), (1, 2), (3, 3)])[:2].tolist() == [2, 3]


# --- of a model -------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_layer_is_its_heads(variant, first):
    trace, groups = traced(variant), buckets(23)
    rows = layer_weights(trace, 1, groups, first=first)
    assert rows.shape == (H, len(groups))
    off = within(trace.model, torch.from_numpy(trace.tokens.ids)[None], sites=["pattern"])["pattern", 1]
    for head in range(H):
        expected = by_distance(trace.scores(1, head), trace.pattern(1, head), groups, first=first).weight
        assert_close(rows[head], expected, off[0, head].max())


def test_a_layer_of_an_edited_run():
    trace, groups = traced("llama").edit(Edit("zero", 1, 2)), buckets(23)
    expected = by_distance(trace.scores(1, 2), trace.pattern(1, 2), groups).weight
    off = within(trace.model, torch.from_numpy(trace.tokens.ids)[None], trace.tap, ["pattern"])["pattern", 1]
    assert_close(layer_weights(trace, 1, groups)[2], expected, off[0, 2].max())


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("variant", ["llama", "qwen3", "neox", "post-rope", "mqa", "oss", "gptj", "bloom"])
def test_position_alone_is_the_mean_over_all_pairs(variant, first):
    """Every query against every key, each pair turned as if d apart: worked out pair by pair."""
    trace, T = traced(variant, 9), 9
    config, layer, head, start = trace.config, 2 if variant == "gptj" else 1, 3, 0 if first else 1
    at = trace.sites(layer, ["q", "k"])  # before rotation
    q, k = at["q"][0, head, start:], at["k"][0, head // config.group_size, start:]
    found = position_score(trace, layer, head, first=first)
    for d in range(T):
        turned = rotate(q, *rope_table(config, d, 1), config.rope_pairs) if config.positions == "rope" else q
        bias = d * 2**-8 if config.positions == "alibi" else 0  # the last of four slopes
        assert_close(found[d], (turned @ k.T / math.sqrt(config.d_head)).mean() - bias, 2e-5)
    if config.positions == "none":
        assert np.ptp(found) == 0


def test_without_content_positions_alone_are_the_scores():
    """A prompt of one token over and over has the same content everywhere in layer 0: the line is the scores."""
    trace = run(tiny_model(VARIANTS["llama"]), tokens_of([7] * 12))
    found, scores = position_score(trace, 0, 1, first=True), trace.scores(0, 1)
    for d in range(12):
        assert_close(np.diagonal(scores, -d), np.full(12 - d, found[d]), 1e-5)
    assert share_of_distance(scores) > 0.999


@pytest.mark.parametrize("variant", ["gpt2", "gqa", "post"])
def test_the_parts_of_the_first_layer_add_up(variant):
    trace = traced(variant)
    off = within(trace.model, torch.from_numpy(trace.tokens.ids)[None], sites=["scores"])["scores", 0]
    for head in range(H):
        found = first_layer_parts(trace, head)
        assert_close(found.content + found.mixed + found.position, trace.scores(0, head), off[0, head])


@pytest.mark.parametrize("variant", ["gpt2", "gqa", "post"])
def test_each_part_knows_only_what_it_is_of(variant):
    """Without position vectors and biases only content is left; without embeddings only positions are."""
    model = tiny_model(VARIANTS[variant])
    tokens = tokens_of(random_ids(1, 11)[0].numpy())
    with torch.no_grad():
        model.embed.weight.zero_()
    found = first_layer_parts(run(model, tokens), 2)
    hidden = np.isnan(found.content)
    assert np.abs(found.content[~hidden]).max() < 1e-6 and np.abs(found.mixed[~hidden]).max() < 1e-5
    assert np.ptp(found.position[~hidden]) > 0.01
    model = tiny_model(VARIANTS[variant] | {"positions": "learned"})
    with torch.no_grad():
        model.pos_embed.weight.zero_()
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    found = first_layer_parts(run(model, tokens), 2)
    assert np.abs(found.position[~hidden]).max() < 1e-6 and np.abs(found.mixed[~hidden]).max() < 1e-5
    assert np.ptp(found.content[~hidden]) > 0.01


def test_what_cannot_be_separated_is_not():
    assert position_score(traced("gpt2"), 0, 0) is None and position_score(traced("post"), 1, 0) is None
    assert first_layer_parts(traced("llama"), 0) is None and first_layer_parts(traced("mqa"), 0) is None
    assert first_layer_parts(traced("gpt2").edit(Edit("zero", 1, 2)), 0) is None
    assert position_score(traced("llama", 1), 0, 0) is None  # nothing but the first token
    assert position_score(traced("llama", 1), 0, 0, first=True).shape == (1,)
    assert L > 1 and E > 1
