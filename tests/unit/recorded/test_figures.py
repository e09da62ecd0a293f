"""Figures of attention given as arrays: the numbers that they draw, and their axes."""

import numpy as np

from viz.recorded import figures
from viz.words import words

WORDS = words("en")
A = np.random.default_rng(0).dirichlet(np.ones(5), (2, 3, 4)).astype(np.float32)  # [2, 3, 4, 5]


def test_maps_have_the_weights_with_queries_down_and_keys_across():
    drawn = figures.maps(A, [(4, 2), (3, 0)], list("abcd"), list("vwxyz"), WORDS, first_layer=3)
    assert np.array_equal(drawn.data[0].z, A[1, 2]) and np.array_equal(drawn.data[1].z, A[0, 0])
    assert drawn.data[0].name == "Head 4.2"
    assert list(drawn.data[0].y) == ["0 a", "1 b", "2 c", "3 d"] and drawn.data[0].x[4] == "4 z"


def test_the_overview_has_every_head_in_its_place():
    drawn = figures.overview(A, WORDS, first_layer=3)
    z = np.array(drawn.data[0].z, float)
    assert z.shape == (2 * 6 - 2, 3 * 7 - 2)
    assert np.array_equal(z[6:10, 14:19], A[1, 2]) and np.isnan(z[4:6]).all() and np.isnan(z[:, 5:7]).all()
    assert drawn.data[0].customdata[9][18] == "Head 4.2"
    assert list(drawn.layout.yaxis.ticktext) == ["3", "4"] and list(drawn.layout.xaxis.tickvals) == [2, 9, 16]


def test_a_long_head_is_pooled_to_its_largest_weights():
    long = np.zeros((1, 1, 100, 100), np.float32)
    long[0, 0, 99, 1] = 0.7
    z = np.array(figures.overview(long, WORDS).data[0].z)
    assert z.shape == (34, 34) and z[33, 0] == np.float32(0.7)


def test_a_number_is_drawn_with_layers_down():
    values = np.arange(6.0).reshape(2, 3)
    drawn = figures.number(values, "entropy", "", WORDS, first_layer=3)
    assert np.array_equal(drawn.data[0].z, values) and list(drawn.data[0].y) == [3, 4]
