"""Positions by hand: sinusoids, rotations, and biases by distance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.by_hand.sheets import SHEETS, worked
from model.errors import InputError
from tests.support.sheets import array, of, tables, typed


def test_positions_shift_by_a_map_and_both_layouts_agree():
    n = of("positions", "eight_wide")
    assert np.allclose(n["g"], n["t"], atol=1e-14) and np.allclose(n["g"], n["PE"][1], atol=1e-14)
    assert np.allclose(n["PE"][1, :4], [np.sin(1), np.cos(1), np.sin(0.1), np.cos(0.1)])
    n = of("positions", "rope")
    assert np.allclose(n["y_b"], n["y"], atol=1e-14)
    turned = (n["x"][0, ::2] + 1j * n["x"][0, 1::2]) * np.exp(1j * 2 * np.array([1, 0.01]))
    assert np.allclose(n["y"][0, ::2], turned.real) and np.allclose(n["y"][0, 1::2], turned.imag)


def test_biases_by_distance():
    n = of("positions", "alibi")  # Press et al. 2022: 1/2, 1/4 ... 1/256 for eight heads
    assert np.array_equal(n["slopes"][0], [1 / 2**h for h in range(1, 9)])
    assert n["B"][5, 2] == -1.5 and np.isneginf(n["B"][2, 5]) and n["B"][3, 3] == 0
    tables = {"N": [["16"]], "learned": [[str(i) for i in range(16)]], "far": [["128"]]}
    _, steps = worked(SHEETS["positions"], typed(tables))
    assert array(steps[0])[0].tolist() == [*range(8), 8, 8, 8, 8, 9, 9, 9, 9]
    with pytest.raises(InputError):
        worked(SHEETS["positions"], typed({"N": [["4"]], "heads": [["2"]], "head": [["3"]]}))
    with pytest.raises(InputError):
        worked(SHEETS["positions"], typed(tables | {"learned": [["1", "2", "3"]]}))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4).flatmap(lambda n: tables(1, 2 * n)), st.integers(0, 4096))
def test_layouts_agree_after_the_permutation_and_keep_the_length(x, m):
    _, steps = worked(SHEETS["positions"], typed({"x": x, "m": [[m]], "base": [[10000]]}))
    by_name = {step.name: array(step) for step in steps}
    assert np.allclose(by_name["y_b"], by_name["y"], atol=1e-14)
    assert np.isclose(np.linalg.norm(by_name["y"]), np.linalg.norm(x))
