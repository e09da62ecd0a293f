"""Attention by hand against PyTorch: whole, in heads, and with a float that overflows."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from tests.support.sheets import of


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_pytorchs(causal):
    n = of("attention", "cat_sat_on", causal=causal)
    q, k, v = (torch.tensor(n[name])[None] for name in "QKV")
    theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)[0]
    assert np.allclose(n["O"], theirs, atol=1e-14)


def test_the_worked_example_has_the_right_scores():
    n = of("attention", "cat_sat_on", scaled=False)
    assert np.allclose(n["S"], [[1.40, 1.08, 1.14], [1.24, 1.20, 1.17], [1.15, 1.00, 1.46]], atol=1e-12)


def test_heads_split_and_put_together_are_the_whole():
    """Two heads of block-diagonal work: each half on its own."""
    n = of("attention", "two_heads", heads=2)
    for h, columns in enumerate((slice(0, 2), slice(2, 4)), 1):
        q, k, v = (torch.tensor(n[name][:, columns])[None] for name in "QKV")
        theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[0]
        assert np.allclose(n[f"O_{h}"], theirs, atol=1e-14) and np.allclose(n["C"][:, columns], theirs, atol=1e-14)
    assert np.allclose(n["Y"], n["C"] @ n["W_O"], atol=1e-14)


def test_without_the_maximum_a_float_overflows():
    fine, broken = (of("attention", "overflow", kind="float32", stable=stable) for stable in (True, False))
    assert np.isfinite(fine["A"]).all() and np.allclose(fine["A"].sum(1), 1)
    assert np.isinf(broken["E"]).any() and np.isnan(broken["A"]).any()
    assert np.isfinite(of("attention", "overflow", stable=False)["A"]).all()  # exact numbers have no largest one


def test_widths_that_cannot_be_split_are_said():
    with pytest.raises(InputError, match="3 heads"):
        of("attention", "cat_sat_on", heads=3)
