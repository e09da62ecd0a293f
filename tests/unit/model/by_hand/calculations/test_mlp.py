"""MLPs and activation functions by hand against PyTorch and NumPy."""

import numpy as np
import pytest
import torch

from tests.support.sheets import of


@pytest.mark.parametrize(
    ("kind", "theirs"),
    [
        ("gelu", torch.nn.functional.gelu),
        ("gelu_tanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
        ("gelu_sigmoid", lambda x: x * torch.sigmoid(1.702 * x)),
        ("relu", torch.nn.functional.relu),
        ("silu", torch.nn.functional.silu),
    ],
)
def test_activations_are_pytorchs(kind, theirs):
    n = of("mlp", "curve", activation=kind)
    assert np.allclose(n["a"], theirs(torch.tensor(n["h"])), atol=1e-14)


def test_mlps_by_hand():
    n = of("mlp", "mlp", activation="relu")
    assert np.allclose(n["y"], n["x"] + np.maximum(n["x"] @ n["W_1"] + n["b_1"], 0) @ n["W_2"] + n["b_2"])
    n = of("mlp", "swiglu", activation="relu")
    gate = n["x"] @ n["W_G"]
    assert np.allclose(n["f"], (gate / (1 + np.exp(-gate)) * (n["x"] @ n["W_1"])) @ n["W_2"])
    assert np.array_equal(of("mlp", "linear")["y"], [[12.5, 5, 7]])
