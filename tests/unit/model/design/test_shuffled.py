"""The same tokens in another order: what is equal without positions, and what the mask changes."""

import numpy as np
import pytest

from model.design.shuffled import WAYS, new_order, relative, shuffled, ways_of
from model.errors import InputError
from model.tracing.trace import run
from tests.support.models.helpers import VARIANTS, assert_close, random_ids, tiny_model, tokens_of

T = 12
ROUNDING = 1e-12  # of float64, some thousand sums


@pytest.mark.parametrize("variant", VARIANTS)
def test_without_positions_the_first_block_is_blind_to_the_order_and_the_mask_tells_it_to_the_next(variant):
    model = tiny_model(VARIANTS[variant]).double()
    ids, order = random_ids(1, T)[0].tolist(), new_order(T, 0)
    off = shuffled(model, ids, order, "no_positions")
    assert off.gaps[0] < ROUNDING and off.distance[1] < ROUNDING  # the same weights, the same hidden state
    assert off.gaps[1] > 1e-3 and off.distance[2:].min() > 1e-3  # it reads what the mask has made different
    blind = shuffled(model, ids, order, "no_mask")
    assert blind.gaps.max() < ROUNDING and blind.distance.max() < ROUNDING  # in every block
    assert_close(blind.logits[0], blind.logits[1], 1e-5)
    if model.config.positions != "none":
        own = shuffled(model.float(), ids, order, "model")
        assert own.gaps[0] > 1e-3 and own.distance[1] > 1e-3


def test_one_block_without_positions_cannot_tell_orders_apart():
    model = tiny_model({**VARIANTS["llama"], "n_layer": 1}).double()
    off = shuffled(model, random_ids(1, T)[0].tolist(), new_order(T, 3), "no_positions")
    assert_close(off.logits[0], off.logits[1], 1e-5)
    assert off.distance[-1] < ROUNDING


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_model_as_it_is_gives_its_own_numbers_in_both_orders(variant):
    model = tiny_model(VARIANTS[variant])
    ids, order = random_ids(1, T)[0].tolist(), new_order(T, 1)
    found, last = shuffled(model, ids, order, "model"), []
    for n, each in enumerate((ids, [ids[at] for at in order])):
        trace = run(model, tokens_of(each))
        assert_close(found.logits[n], trace.logits[-1], 1e-4)
        for layer in range(model.config.n_layer):
            pattern = trace.pattern(layer, 1)[-1]
            assert_close(found.weights[n, layer, 1], pattern if n == 0 else pattern[np.argsort(order)], 1e-5)
        last.append(trace.hidden(model.config.n_layer)[-1].astype(float))
    assert found.distance[-1] == pytest.approx(np.linalg.norm(last[1] - last[0]) / np.linalg.norm(last[0]), rel=1e-4)


def test_the_order_keeps_the_last_token_and_the_first_ones_and_always_moves_something():
    for seed in range(50):
        order = new_order(5, seed, first=1)
        assert order[0] == 0 and order[-1] == 4 and sorted(order) == list(range(5))
        assert list(order) != list(range(5))
        assert new_order(3, seed).tolist() == [1, 0, 2]
    assert new_order(9, 4).tolist() == new_order(9, 4).tolist() != new_order(9, 5).tolist()
    for few in (2, 1):
        with pytest.raises(InputError):
            new_order(few, 0)
    with pytest.raises(InputError):
        new_order(3, 0, first=1)


def test_a_model_without_positions_has_none_to_switch_off_and_a_state_is_refused():
    assert ways_of(tiny_model({"positions": "none"}).config) == ("model", "no_mask")
    assert ways_of(tiny_model().config) == WAYS
    state = tiny_model({"mixer": "mamba"})
    with pytest.raises(InputError, match="full attention"):
        shuffled(state, [1, 2, 3], new_order(3, 0), "model")


def test_equal_vectors_are_not_apart_even_where_they_are_zero():
    assert relative(np.zeros(3), np.zeros(3)) == 0
    assert relative(np.array([3.0, 4.0]), np.array([3.0, 9.0])) == pytest.approx(1.0)
