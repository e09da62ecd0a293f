"""A whole layer by hand against PyTorch."""

import numpy as np
import pytest
import torch

from tests.support.sheets import of


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_whole_layer_is_pytorchs(placement):
    n = of("block", "three_tokens", placement=placement)
    x, F = torch.tensor(n["X"]), torch.nn.functional

    def attention(x):
        q, k, v = (x @ torch.tensor(n[name]) for name in ("W_Q", "W_K", "W_V"))
        return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0] @ torch.tensor(n["W_O"])

    def mlp(x):
        return F.gelu(x @ torch.tensor(n["W_1"])) @ torch.tensor(n["W_2"])

    def norm(x):
        return F.layer_norm(x, (4,), eps=1e-5)

    if placement == "pre":
        middle = x + attention(norm(x))
        theirs = middle + mlp(norm(middle))
    else:
        middle = norm(x + attention(x))
        theirs = norm(middle + mlp(middle))
    assert np.allclose(n["y" if placement == "pre" else "result_2"], theirs, atol=1e-12)


def test_a_layer_with_typed_parts_adds_them():
    assert np.allclose(of("block", "typed")["y"], [[1.18, 2.35, 3.27, 4.45]], atol=1e-14)
    assert np.allclose(of("block", "sum")["y"], [[1.1, 2.2, 3.15]], atol=1e-14)
