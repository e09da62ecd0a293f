"""Intervals of shares and paired comparisons, against hand numbers and the binomial distribution."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.shares import paired, wilson


def test_the_interval_of_a_share_by_hand():
    assert wilson(1.0, 1) == pytest.approx((0.20655, 1.0), abs=1e-4)  # 1 / (1 + z^2) for the lower end
    assert wilson(0.5, 100) == pytest.approx((0.40383, 0.59617), abs=1e-4)
    assert all(map(math.isnan, wilson(math.nan, 0)))


@given(st.integers(1, 300), st.data())
def test_the_ends_of_the_interval_are_where_the_score_test_is_just_kept(n, data):
    """Wilson's ends solve |share - p| = z sqrt(p (1 - p) / n)."""
    share = data.draw(st.integers(0, n)) / n
    for p in wilson(share, n):
        assert (share - p) ** 2 * n == pytest.approx(1.959964**2 * p * (1 - p), abs=1e-9)
    low, high = wilson(share, n)
    assert 0 <= low <= share + 1e-12 and share - 1e-12 <= high <= 1


def test_mcnemar_by_hand():
    first, second = [True] * 6 + [False] * 4, [False] * 5 + [True] + [False] * 4
    found = paired(first, second)
    assert (found.only_first, found.only_second) == (5, 0)
    assert found.p == pytest.approx(2 / 32) and not found.clear  # five coins that all fall the same way
    assert paired([True] * 6, [False] * 6).p == pytest.approx(2 / 64) and paired([True] * 6, [False] * 6).clear
    assert paired(first, first).p == 1.0 and not paired(first, first).clear
    assert paired([], []).p == 1.0


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40))
def test_mcnemar_is_the_exact_binomial_test_and_has_no_side(answers):
    first, second = ([pair[at] for pair in answers] for at in (0, 1))
    b, c = answers.count((True, False)), answers.count((False, True))
    found, back = paired(first, second), paired(second, first)
    assert (found.only_first, found.only_second) == (b, c) == (back.only_second, back.only_first)
    # The probability of all outcomes that are no likelier than the one seen.
    n = b + c
    weights = [Fraction(math.comb(n, k), 2**n) for k in range(n + 1)]
    assert found.p == back.p == pytest.approx(float(sum(w for w in weights if w <= weights[b])))


def test_answers_of_different_questions_are_refused():
    with pytest.raises(ValueError, match="same questions"):
        paired([True], [True, False])
