"""Two token lists side by side, and differences of matrices over them."""

import numpy as np
import pytest

from tests.support.models.helpers import tokens_of
from viz.views.compare.alignment import align, by_position, difference, gaps, merged, nearest
from viz.views.compare.runs.parts import steps_of

HOSTILE = "<b>&\u202e\x00</b>"


def kinds(a, b):
    return "".join({"same": "=", "replaced": "/", "only_a": "-", "only_b": "+"}[s.kind] for s in align(a, b).steps)


@pytest.mark.parametrize(
    ("a", "b", "signs"),
    [
        ("abc", "abc", "==="),
        ("abc", "axc", "=/="),
        ("abc", "ac", "=-="),
        ("ac", "abc", "=+="),
        ("ab", "xyz", "--+++"),
        ("abcd", "xbyd", "/=/="),
        ("", "ab", "++"),
        ("ab", "", "--"),
        ("", "", ""),
        ("a", "a", "="),
        ("a", "b", "/"),
        ("aab", "ab", "=-="),
        ("abab", "baba", "+===-"),
    ],
)
def test_alignment_by_hand(a, b, signs):
    assert kinds(a, b) == signs


def test_pairs_are_equal_or_replaced_tokens():
    assert align("abc", "axc").pairs == [(0, 0), (1, 1), (2, 2)]
    assert align("abc", "axyc").pairs == [(0, 0), (2, 3)]


@pytest.mark.parametrize("seed", range(20))
def test_alignment_holds_every_token_once_in_order_and_as_many_equal_ones_as_can_be(seed):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 4, rng.integers(0, 13)).tolist() for _ in range(2))
    found = align(a, b)
    assert [s.a for s in found.steps if s.a is not None] == list(range(len(a)))
    assert [s.b for s in found.steps if s.b is not None] == list(range(len(b)))
    assert all((a[s.a] == b[s.b]) for s in found.steps if s.kind == "same")

    def most(i, j):  # the definition, by recursion
        if i == len(a) or j == len(b):
            return 0
        return max(most(i + 1, j), most(i, j + 1), 1 + most(i + 1, j + 1) if a[i] == b[j] else 0)

    assert found.count("same") == most(0, 0)


def test_aligning_repetitive_thousands_is_bounded():
    a, b = [1, 2] * 512, [2, 1, 1] * 341
    found = align(a, b)
    row = [0] * (len(b) + 1)  # the textbook table, a row at a time
    for x in a:
        before, row = row, [0]
        for j, y in enumerate(b):
            row.append(before[j] + 1 if x == y else max(before[j + 1], row[j]))
    assert len([s for s in found.steps if s.a is not None]) == 1024 and found.count("same") == row[-1]


def test_alignment_shows_hostile_tokens_as_visible_text():
    a, b = tokens_of([1, 2], ("x", HOSTILE)), tokens_of([1, 3], ("x", "\n"))
    found = align(a.ids.tolist(), b.ids.tolist())
    rows = steps_of(found, a, b)
    assert rows[0] == ["same", 0, "x", 0, "x"]
    assert rows[1] == ["replaced", 1, "<b>&<U+202E><0x00></b>", 1, "↵"]
    assert "\u202e" not in merged(a, b, found).pieces[1]


# --- differences ---


def test_difference_is_a_minus_b_where_both_have_the_token_and_nan_elsewhere():
    a = np.arange(9, dtype=np.float32).reshape(3, 3)
    b = 10 * np.arange(4, dtype=np.float32).reshape(2, 2)
    z = difference(a, b, [(0, 0), (2, 1)])
    expected = np.array([[0 - 0, np.nan, 2 - 10], [np.nan] * 3, [6 - 20, np.nan, 8 - 30]], np.float32)
    np.testing.assert_array_equal(z, expected)
    assert np.isnan(difference(a, b, [])).all()


def test_gaps_is_the_mean_of_absolute_differences_of_cells_that_are_not_in_the_future():
    a, b = np.zeros((2, 2, 2), np.float32), np.zeros((2, 2, 2), np.float32)
    a[0] = [[1, 9], [0.25, 0.75]]
    b[0] = [[1, 0], [0.75, 0.25]]
    np.testing.assert_allclose(gaps(a, b, [(0, 0), (1, 1)]), [(0 + 0.5 + 0.5) / 3, 0])
    np.testing.assert_allclose(gaps(a, b, [(1, 0)]), [0.25, 0])
    assert np.isnan(gaps(a, b, [])).all()


def test_nearest_head_ignores_what_is_undefined():
    others = np.array([[[0.0, np.nan], [0.5, 0.4]], [[np.nan, np.nan], [0.2, np.nan]]])
    assert nearest(np.array([0.45, 0.9]), others) == (1, 1)
    assert nearest(np.array([0.49, 0.41]), others) == (0, 1)


def test_two_lists_of_one_length_place_by_place():
    found = by_position([1, 2, 3], [1, 4, 3])
    assert [step.kind for step in found.steps] == ["same", "replaced", "same"]
    assert found.pairs == [(0, 0), (1, 1), (2, 2)]
