"""Measures of claims on attention, vectors and probabilities made by hand, where the right number is known."""

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from model.claims import attention, heads, layers, prediction, sampling, vectors

T = 20


def uniform(rows=T):
    """Attention in which every row is even. [T, T]"""
    return np.tril(np.ones((rows, rows))) / np.arange(1, rows + 1)[:, None]


def to_key(key, rows=T):
    """Attention in which every row puts all its weight on one key; `key` maps the query to it. [T, T]"""
    weights = np.zeros((rows, rows))
    for query in range(rows):
        weights[query, max(key(query), 0)] = 1
    return weights


def text(weights=None, **fields):
    pieces = fields.pop("pieces", [" a"] * T)
    return SimpleNamespace(weights=weights, pieces=pieces, **fields)


def test_weight_on_the_first_the_previous_and_recent_tokens():
    first, before = to_key(lambda query: 0), to_key(lambda query: query - 1)
    assert attention.first_token(text(first)) == 1 and attention.first_token(text(before)) == 0
    assert attention.previous(text(before)) == 1 and attention.previous(text(first)) == 0
    assert attention.local(text(to_key(lambda query: query - 7))) == 1
    assert attention.local(text(to_key(lambda query: query - 8))) == 0
    late = np.arange(T // 2, T) + 1
    assert attention.first_token(text(uniform())) == pytest.approx((1 / late).mean())
    assert attention.local(text(uniform())) == pytest.approx((8 / late).mean())


def test_even_attention_prefers_nothing():
    pieces = [" cat", ",", " Tom", " the", " ran", ".", " He", " sat"] * 3
    even = text(uniform(24), pieces=pieces, ids=np.arange(24) % 8)
    for measure in (attention.punctuation, attention.names, attention.content, attention.copies, attention.pronoun):
        assert measure(even) == pytest.approx(1, abs=0.15), measure
    assert abs(attention.verb(even)) < 0.05


def test_preference_divides_the_mean_weights_of_keys():
    weights = np.zeros((4, 4))
    weights[3] = [0.4, 0.3, 0.1, 0.2]
    chosen = np.zeros((4, 4), bool)
    chosen[:, [0, 1, 3]] = True  # the first token and the query itself do not count
    assert attention.preference(weights, chosen, ~chosen) == pytest.approx(3)
    assert math.isnan(attention.preference(weights, ~np.zeros((4, 4), bool), np.zeros((4, 4), bool)))


def test_a_marked_kind_of_key_gets_the_ratio_that_was_put_there():
    pieces = ["x", ",", " b", ",", " c", " d"]
    weights = np.zeros((6, 6))
    weights[5] = [0.2, 0.2, 0.1, 0.2, 0.1, 0.2]
    assert attention.punctuation(text(weights, pieces=pieces)) == pytest.approx(2)
    weights[5, 2] = 0.3
    same = text(weights, pieces=pieces, ids=np.array([0, 1, 9, 1, 2, 9]))
    assert attention.copies(same) == pytest.approx(0.3 / np.mean([0.2, 0.2, 0.1]))


def test_a_verb_gets_the_weight_above_the_usual():
    pieces, weights = [" So", " she", " ran", " to", " it"], np.zeros((5, 5))
    weights[2, 1], weights[3, 2], weights[4, 3] = 0.9, 0.2, 0.4
    assert attention.verb(text(weights, pieces=pieces)) == pytest.approx(0.9 - 0.3)


def test_distances_fade():
    weights = 1 / (1 + np.abs(np.arange(T)[:, None] - np.arange(T)[None])) * np.tri(T)
    near, far = np.mean([1 / 3, 1 / 4]), np.mean([1 / (1 + d) for d in range(10, 16)])
    assert attention.fades(text(weights)) == pytest.approx(near / far)


def test_evenness_is_1_for_even_rows_and_0_for_one_key():
    both = np.stack([uniform(), to_key(lambda query: 0)])
    assert heads.evenness(both) == pytest.approx([1, 0])
    assert heads.peaked_last(SimpleNamespace(pattern=both[:, None])) == pytest.approx(-1)


def test_heads_of_a_layer_overlap_fully_or_not_at_all():
    first, before = to_key(lambda query: 0), to_key(lambda query: query)
    assert heads.different(SimpleNamespace(pattern=np.stack([first, first])[None])) == 1
    assert heads.different(SimpleNamespace(pattern=np.stack([first, before])[None])) == 0
    half = (first + before) / 2
    assert heads.different(SimpleNamespace(pattern=np.stack([first, half])[None])) == pytest.approx(0.5)


def test_the_previous_token_head_is_found_with_its_depth():
    pattern = np.broadcast_to(to_key(lambda query: 0), (3, 2, T, T)).copy()
    pattern[1, 0] = to_key(lambda query: query - 1)
    one = SimpleNamespace(pattern=pattern)
    assert heads.previous_head(one) == 1 and heads.previous_low(one) == 0.5
    assert heads.resting(one) == pytest.approx(5 / 6)


def test_divergence_is_0_only_for_equal_predictions():
    p = np.log(np.array([[0.5, 0.5], [0.9, 0.1]]))
    q = np.log(np.array([[0.5, 0.5], [0.1, 0.9]]))
    assert heads.divergence(p, p) == 0
    assert heads.divergence(p, q) == pytest.approx(0.8 * math.log(9) / 2)


def test_late_layers_look_farther_by_the_distance_that_was_put_there():
    pattern = np.stack([to_key(lambda query: max(query - 1, 1)), to_key(lambda query: max(query - 4, 1))])[:, None]
    rows = np.arange(T - 1)
    expected = np.minimum(rows, 4).mean() - np.minimum(rows, 1).mean()
    assert layers.far_late(SimpleNamespace(pattern=pattern)) == pytest.approx(expected)


def test_growth_direction_and_writes_of_a_stream():
    step = np.array([1.0, 0, 0])
    stream = np.stack([np.tile(step * scale, (5, 1)) for scale in (1, 2, 4)])
    growing = SimpleNamespace(stream=stream)
    assert layers.grows(growing) == 4 and layers.direction(growing) == 1 and layers.neighbors(growing) == 1
    turned = SimpleNamespace(stream=np.stack([stream[0], stream[0] + [0, 1, 0], stream[0] + [0, 0, 0]]))
    assert layers.direction(turned) == pytest.approx(1 / math.sqrt(2)) and layers.neighbors(turned) == -1
    wrote = SimpleNamespace(mlp_out=np.ones((2, 5, 3)) * 6, attn_out=np.ones((2, 5, 3)) * 2)
    assert layers.mlp_more(wrote) == pytest.approx(3)


def test_the_decision_is_the_depth_from_which_the_top_token_stays():
    tops = np.array([[1, 7, 3], [2, 7, 9], [1, 7, 3], [1, 7, 3], [1, 7, 4]])  # [L + 1, positions]
    assert layers.late_decision(SimpleNamespace(lens_tops=tops)) == pytest.approx(np.mean([0.5, 0, 1]))
    assert layers.middle_answer(SimpleNamespace(lens_tops=tops)) == pytest.approx(2 / 3)


def test_the_extra_loss_of_a_layer_is_asked_for_by_its_order():
    orders = []

    def through(order):
        orders.append(list(order))
        return np.full(4, 2.0 + (0 not in order))

    one = SimpleNamespace(stream=np.zeros((5, 5, 2)), loss=np.ones(4), changed=SimpleNamespace(through=through))
    assert layers.skip_middle(one) == 1 and layers.first_layer(one) == 1 and layers.swap(one) == 1
    assert orders == [[0, 1, 3], [1, 2, 3], [0, 1, 3], [0, 2, 1, 3]]


def test_norms_and_activations():
    x = np.zeros((3, 4, 200))
    x[..., 0], x[..., 1], x[..., 2:] = 30, 30, 0.5
    fields = {"stream": x, "norm_inputs": x}
    share = 1800 / (1800 + 198 * 0.25)
    assert vectors.massive_dims(SimpleNamespace(**fields)) == pytest.approx(share)
    mean = (60 + 99) / 200
    assert vectors.mean_matters(SimpleNamespace(**fields)) == pytest.approx(mean**2 / ((1800 + 49.5) / 200))
    x = np.ones((3, 4, 10))
    x[1, 0] *= 12
    assert vectors.massive_first(SimpleNamespace(stream=x)) == pytest.approx(12)
    assert vectors.silent(SimpleNamespace(mlp_pre=np.array([[[-1.0, -2, 3, -4]]]))) == 0.75
    assert vectors.sparse(SimpleNamespace(mlp_post=np.array([[[3.0, 0, 0, 0, 0]]]))) == pytest.approx(0.2)
    assert vectors.sparse(SimpleNamespace(mlp_post=np.ones((1, 1, 10)))) == pytest.approx(0.9)


def test_embeddings_at_the_end_and_beside_positions():
    up, right = np.tile([0.0, 2], (4, 1)), np.tile([5.0, 0], (4, 1))
    assert vectors.forgotten(SimpleNamespace(stream=np.stack([up, right]), embedding=up)) == 0
    assert vectors.forgotten(SimpleNamespace(stream=np.stack([up, up]), embedding=up)) == pytest.approx(1)
    assert vectors.positions(SimpleNamespace(positions=up, embedding=right)) == pytest.approx(0.4)


def predicted(probs, ids):
    probs = np.array(probs)
    log_probs = np.log(probs)
    loss = -log_probs[np.arange(len(ids) - 1), ids[1:]]
    entropy = -(probs * log_probs).sum(-1)
    fields = {"probs": probs, "log_probs": log_probs, "ranked": -np.sort(-probs, -1), "ids": np.array(ids)}
    return SimpleNamespace(loss=loss, entropy=entropy, **fields)


def test_numbers_of_a_distribution():
    one = predicted([[0.75, 0.2, 0.05], [0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], [0, 0, 2])
    assert sampling.top_half(one) == pytest.approx((0.75 + 0.5 + 0.8) / 3) and sampling.top40(one) == pytest.approx(1)
    assert sampling.nucleus(one.ranked).tolist() == [2, 3, 2] and sampling.top_p(one) == 2
    assert sampling.calibrated(one) == pytest.approx(0.625 - 0.5)  # right once in two
    assert sampling.nucleus_holds(one) == 1  # 0.8 lies before the token that reaches 0.9
    assert prediction.perplexity(one) == pytest.approx(one.entropy[:2].mean() - one.loss.mean())


def test_temperature_leaves_an_even_distribution_even_and_sharpens_others():
    even = predicted([[0.25] * 4] * 3, [0, 1, 2])
    assert sampling.temp07(even) == pytest.approx(1)
    p = np.array([0.6, 0.3, 0.1])
    sharp = p ** (1 / 0.7) / (p ** (1 / 0.7)).sum()
    expected = (sharp * np.log(sharp)).sum() / (p * np.log(p)).sum()
    assert sampling.temp07(predicted([p] * 3, [0, 1, 2])) == pytest.approx(expected)


def test_a_loop_is_a_run_that_comes_twice():
    assert sampling.loops(np.array([1, 2, 3, 1, 2, 3]), 3) and not sampling.loops(np.array([1, 2, 3, 1, 2, 4]), 3)
    assert sampling.loops(np.ones(9), 8) and not sampling.loops(np.ones(8), 8)


def test_losses_of_kinds_of_tokens():
    pieces = [" The", " cat", "tle", ",", " Ran", ".", " She", " sat"]
    loss = np.array([5.0, 1, 0.5, 4, 0.7, 6, 3])  # at all tokens but the first
    one = SimpleNamespace(pieces=pieces, loss=loss, ids=np.arange(8), entropy=np.array([3.0, 1, 1, 1, 2, 1, 2, 2]))
    assert prediction.word_start(one) == pytest.approx(np.mean([5, 4, 6, 3]) - 1)
    assert prediction.punctuation_easier(one) == pytest.approx(np.mean([5, 4, 3]) - np.mean([0.5, 0.7]))
    assert prediction.sentence_start(one) == pytest.approx(6 - np.mean([5, 4, 3]))
    assert prediction.after_the(one) == pytest.approx(3 - 2)
    assert prediction.context(one) == pytest.approx(3 - 4.5)
    one.bench = SimpleNamespace(counts=Counter({1: 9, 2: 9, 3: 9, 4: 9, 5: 1, 6: 1, 7: 1}))
    assert prediction.rare(one) == pytest.approx(np.mean([0.7, 6, 3]) - np.mean([5, 1, 0.5, 4]))


def test_changes_of_a_text_are_compared_with_the_text_itself():
    changed = SimpleNamespace(
        repeated=np.array([4.0, 4, 9, 1, 1]),
        shuffled=np.array([5.0, 7]),
        recent_only=lambda: np.array([2.0, 3]),
        without_first=lambda: np.array([9.0, 8]),
        alone=np.array([0, 1, 0]),
        int8=np.log([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]),
        written=lambda: (np.ones(9, int), np.full(9, -0.5)),
    )
    one = predicted([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], [0, 0, 1])
    one.loss, one.changed = np.array([1.0, 3]), changed
    assert prediction.repeat(one) == 3  # the token between the copies does not count
    assert prediction.shuffle(one) == 4 and prediction.last_ten(one) == 0.5 and prediction.hide_first(one) == 5
    assert prediction.last_word(one) == 0 and prediction.int8(one) == pytest.approx(2 / 3)
    assert sampling.greedy_loops(one) == 1


def test_knowing_is_the_correlation_of_entropy_and_loss():
    assert prediction.knows(SimpleNamespace(entropy=np.array([1.0, 2, 3, 9]), loss=np.array([2.0, 4, 6]))) == 1
    assert prediction.knows(SimpleNamespace(entropy=np.array([1.0, 2, 3, 9]), loss=np.array([6.0, 4, 2]))) == -1
