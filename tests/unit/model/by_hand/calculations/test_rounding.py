"""Rounding by hand against PyTorch and NumPy."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.by_hand.sheets import SHEETS, worked
from tests.support.sheets import of, small, typed


def test_rounding_is_pytorchs():
    n = of("rounding", "int8", scheme="affine")
    scale, zero = n["s"].item(), int(n["z"].item())
    theirs = torch.fake_quantize_per_tensor_affine(torch.tensor(n["x"][0]), scale, zero, 0, 255)
    assert np.allclose(n["x_q"][0], theirs, atol=1e-12)
    for scheme in ("affine", "symmetric"):
        n = of("rounding", "int4", scheme=scheme)
        assert n["w"].item() <= n["s"].item() / 2 + 1e-15
    assert of("rounding", "int8", scheme="affine")["e"][0, 2] == 0  # zero stays zero


def test_a_cast_wraps_around_as_in_numpy():
    n = of("rounding", "bytes", scheme="wrapped")
    assert np.array_equal(n["q"][0], np.array([0, 100, 127, 128, 200, 255]).astype(np.int8))
    assert of("rounding", "one_number", scheme="float16")["h"][0, 0] == np.float16(0.123456789)


@settings(max_examples=60, deadline=None)
@given(st.lists(small, min_size=1, max_size=8).filter(any), st.integers(2, 8), st.sampled_from(["affine", "symmetric"]))
def test_rounding_is_at_most_half_a_step_off(x, bits, scheme):
    _, steps = worked(SHEETS["rounding"], typed({"x": [x], "bits": [[bits]]}), {"scheme": scheme})
    by_name = {step.name: step.cells[0] for step in steps}
    assert by_name["w"][0].value <= by_name["s"][0].value / 2  # fractions: no tolerance
    low, high = (0, 2**bits - 1) if scheme == "affine" else (1 - 2 ** (bits - 1), 2 ** (bits - 1) - 1)
    assert all(low <= cell.value <= high and cell.value.denominator == 1 for cell in by_name["q"])
