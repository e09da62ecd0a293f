"""Sums by turn on attention that was built by hand."""

import numpy as np
import pytest

from model.attention.turns import by_turn

TURNS = np.array([-1, 0, 0, -1, 1, -1])
ROWS = np.array([[0.5, 0.1, 0.2, 0.0, 0.15, 0.05], [0, 0, 0, 0, 1, 0]])


def test_each_turn_has_the_sum_of_its_tokens():
    found = by_turn(ROWS, TURNS, 3)
    np.testing.assert_allclose(found, [[0.3, 0.15, 0, 0.55], [0, 1, 0, 0]], atol=1e-15)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-15)
    np.testing.assert_allclose(by_turn(ROWS[0], TURNS, 2), [0.3, 0.15, 0.55], atol=1e-15)
    assert by_turn(-ROWS, TURNS, 2).tolist() == (-by_turn(ROWS, TURNS, 2)).tolist()


def test_without_a_template_or_without_turns():
    assert by_turn(ROWS[1], np.zeros(6, int), 1).tolist() == [1, 0]
    assert by_turn(ROWS[1], np.full(6, -1), 0).tolist() == [1]


@pytest.mark.parametrize(("turns", "count"), [(TURNS[:5], 2), (TURNS, 1), (TURNS - 1, 2)])
def test_turns_that_are_not_of_these_values(turns, count):
    with pytest.raises(ValueError, match="turns"):
        by_turn(ROWS, turns, count)
