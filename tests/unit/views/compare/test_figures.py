"""Two runs beside each other: alignment, differences, and their figures."""

import numpy as np
import pytest

from tests.support.helpers import tokens_of
from viz.charts.heatmap import PatternWords
from viz.views.compare.runs.figures import (
    HeadWords,
    align,
    alignment_payload,
    difference,
    divergence,
    gaps,
    heads_figure,
    largest,
    likely,
    map_figure,
    merged,
    nearest,
    patch_figure,
    shares_of,
)

WORDS = PatternWords("query", "key", "weight", "largest of {n}")
HOSTILE = "<b>&\u202e\x00</b>"


def array(z):
    if isinstance(z, list):
        return np.array([[np.nan if v is None else v for v in row] for row in z], np.float32)
    import base64

    shape = [int(n) for n in z["shape"].split(",")]
    return np.frombuffer(base64.b64decode(z["bdata"]), dtype=z["dtype"]).reshape(shape)


# --- alignment ---


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
    rows = alignment_payload(found, a, b)
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


def test_likeliest_and_divergence_by_hand():
    p, q = np.array([0.5, 0.25, 0.25, 0]), np.array([0.25, 0.5, 0.125, 0.125])
    assert likely(p, 3) == [0, 1, 2] and likely(q, 2) == [1, 0]
    assert divergence(p, q) == pytest.approx(0.5 * np.log(2) - 0.25 * np.log(2) + 0.25 * np.log(2))
    assert divergence(p, p) == 0 and divergence(q, p) == np.inf
    np.testing.assert_allclose(shares_of(np.array([1000.0, 1000.0 + np.log(3)], np.float32)), [0.25, 0.75], rtol=1e-4)


# --- figures ---


def test_two_maps_share_the_end_of_their_scale():
    a, b = np.tril(np.full((3, 3), 2.0)), np.tril(np.full((2, 2), 5.0))
    top = largest(a, b)
    found = [map_figure(z, tokens_of(range(len(z))), WORDS, "size", top).layout.coloraxis for z in (a, b)]
    assert top == 5 and {(axis.cmin, axis.cmax) for axis in found} == {(0, 5)}
    signed = map_figure(-a, tokens_of(range(3)), WORDS, "signed", top).layout.coloraxis
    assert (signed.cmin, signed.cmax) == (-5, 5)
    assert largest(np.zeros((2, 2))) == largest(np.full((2, 2), np.nan)) == 1


def test_heads_figure_has_layers_across_and_both_numbers():
    a, b = np.array([[1.0, 2.0, np.nan], [4.0, 5.0, 6.0]]), np.array([[1.0, 4.0, 2.0], [0.0, 5.0, 6.5]])
    figure = heads_figure(a - b, (a, b), HeadWords("layer", "head", "entropy", "A − B"))
    heat = figure.data[0]
    np.testing.assert_array_equal(np.array(heat.z), (a - b).T)
    assert heat.customdata[1][0] == [2, 4] or list(heat.customdata[1][0]) == [2, 4]
    assert figure.layout.coloraxis.cmin == -figure.layout.coloraxis.cmax == -4
    assert figure.layout.meta["heads"]
    assert heads_figure(a, None, HeadWords("layer", "head", "", "gap")).layout.coloraxis.cmin == 0


def test_patch_figure_selects_tokens_and_is_centred_on_zero():
    effects_of = np.array([[0.0, 3.0], [-1.5, 0.0], [0.0, 0.0]])
    figure = patch_figure(
        effects_of / 3, effects_of, tokens_of([1, 2], ("x", HOSTILE)), HeadWords("l", "t", "raw", "share")
    )
    heat = figure.data[0]
    assert heat.customdata[0][1] == {"tokens": [1], "raw": 3.0} and heat.customdata[1][0]["raw"] == -1.5
    assert figure.layout.coloraxis.cmin == -1 and figure.layout.coloraxis.cmax == 1
    assert "<b>" not in figure.to_json() and "\\u003cb\\u003e" not in figure.to_json()
