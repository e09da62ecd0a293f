"""Norms by hand against PyTorch."""

import numpy as np
import torch

from tests.support.sheets import of


def test_norms_are_pytorchs():
    n = of("norms", "three_tokens", norm="all")
    x = torch.tensor(n["X"])
    assert np.allclose(n["result_layer"], torch.nn.functional.layer_norm(x, (4,), eps=1e-5), atol=1e-13)
    assert np.allclose(n["result_rms"], torch.nn.functional.rms_norm(x, (4,), eps=1e-5), atol=1e-13)
    batch = torch.nn.functional.batch_norm(x, None, None, training=True, eps=1e-5)
    assert np.allclose(n["result_batch"], batch, atol=1e-13)
    assert np.allclose(of("norms", "one_to_four")["scaled_layer"], [[-1.3416, -0.4472, 0.4472, 1.3416]], atol=1e-4)
    assert np.allclose(of("norms", "six_numbers")["spread_layer"], 76.97, atol=0.005)
    undone = of("norms", "undone")
    assert np.array_equal(undone["result_layer"], undone["X"])
