"""From logits to probabilities, cuts and losses by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from model.by_hand.sheets import SHEETS, example, worked
from tests.support.sheets import array, of, typed


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("one_to_five", [0.058, 0.096, 0.158, 0.260, 0.429]),
        ("two_one_zero", [0.867, 0.117, 0.016]),
        ("four_scores", [0.557, 0.041, 0.250, 0.152]),
        ("thousand", [0.301, 0.332, 0.367]),
    ],
)
def test_temperature_by_hand(name, shares):
    n = of("logits", name)
    assert np.allclose(n["P"], shares, atol=6e-4)
    assert np.isclose(n["L"], -math.log(n["P"][0, 0])) and np.isclose(n["PPL"], 1 / n["P"][0, 0])


def test_top_k_then_top_p():
    n = of("logits", "cuts")
    p = torch.softmax(torch.tensor(n["z"][0]) / 0.8, 0).numpy()
    kept = p[:5] / p[:5].sum()
    before = np.cumsum(kept) - kept
    drawn = np.where(before < 0.8, kept, 0)
    assert np.allclose(n["D"][0], [*(drawn / drawn.sum()), 0, 0]) and 0 < (n["D"] > 0).sum() < 5


def test_a_text_is_a_product():
    n = of("logits", "text")
    assert np.isclose(n["W"][0, -1], 0.2 * 0.1 * 0.5 * 0.8) and np.isclose(n["s"], -math.log(n["W"][0, -1]))
    _, steps = worked(SHEETS["logits"], example(SHEETS["logits"], "text"))
    assert steps[0].cells[0][-1].value == Fraction(1, 125)


def test_probabilities_can_be_typed():
    n = of("logits", "probabilities")
    assert np.allclose(n["P"][0], [0.45, 0.25, 0.15, 0.08, 0.05, 0.01, 0.01]) and np.allclose(n["K"][0, 5:], 0)
    twice = {"shares": [["2", "1", "1"]], "k": [["8"]], "p": [["0.7"]]}
    _, steps = worked(SHEETS["logits"], typed(twice))
    assert np.allclose(array(steps[0]), [[0.5, 0.25, 0.25]]) and np.allclose(array(steps[-1]), [[2 / 3, 1 / 3, 0]])
