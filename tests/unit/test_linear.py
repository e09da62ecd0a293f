"""Whichever product runs, the numbers are those of F.linear to float32 rounding."""

import pytest
import torch
import torch.nn.functional as F

from model import linear
from model.linear import PRODUCTS, ROW_CLASSES, Linear, row_class, tune
from tests.helpers import VARIANTS, D, M, V, assert_close, random_ids, tiny_model


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def fresh():
    """No choice remembered from, or for, another test."""
    linear.fastest.cache_clear()
    yield
    linear.fastest.cache_clear()


def broken(x, weight, bias):
    raise RuntimeError("not on this CPU")


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("rows", [1, 7, 300])
@pytest.mark.parametrize("with_bias", [True, False])
def test_every_product_is_the_linear_map(name: str, rows: int, with_bias: bool):
    x, weight, bias = randn(rows, 48), randn(100, 48, seed=1), randn(100, seed=2) if with_bias else None
    with torch.inference_mode():
        y = PRODUCTS[name](x, weight, bias)
    expected = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    assert y.dtype == torch.float32
    # 48 products of size 1, each rounded to 2^-24 of a sum that stays below 64.
    assert_close(y, expected, 48 * 64 * 2**-24 / 4)
    assert_close(y, F.linear(x, weight, bias), 48 * 64 * 2**-24 / 4)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("with_bias", [True, False])
def test_a_tuned_layer_takes_inputs_of_any_shape(name: str, with_bias: bool):
    layer = Linear(48, 100, with_bias)
    layer.weight.data = randn(100, 48, seed=1)
    if with_bias:
        layer.bias.data = randn(100, seed=2)
    layer.products = (PRODUCTS[name],) * len(ROW_CLASSES)
    wide = randn(2, 5, 96)
    with torch.inference_mode():
        for x in (randn(48), randn(3, 48), randn(2, 5, 48), wide[..., ::2], randn(5, 2, 48).transpose(0, 1)):
            y = layer(x)
            assert y.shape == (*x.shape[:-1], 100)
            assert_close(y, F.linear(x, layer.weight, layer.bias), 2e-4)
        assert layer(randn(0, 5, 48)).shape == (0, 5, 100)


@pytest.mark.parametrize(("rows", "index"), [(0, 0), (1, 0), (3, 0), (4, 1), (47, 2), (48, 3), (767, 4), (10**6, 5)])
def test_row_classes(rows: int, index: int):
    assert row_class(rows) == index


def test_the_layer_uses_the_product_of_its_rows():
    layer = Linear(4, 3, False)
    layer.products = tuple(
        lambda x, weight, bias, i=i: torch.full((len(x), 3), float(i)) for i in range(len(ROW_CLASSES))
    )
    with torch.inference_mode():
        assert [layer(randn(rows, 4))[0, 0].item() for rows in (1, 8, 32, 128, 512)] == [0, 1, 2, 3, 4]
        assert layer(randn(4, 8, 4))[0, 0, 0] == 2, "rows are counted over all leading axes"
        assert layer.double()(randn(1, 4).double()).dtype == torch.float64, "other dtypes run F.linear"


@pytest.mark.parametrize("name", ["gpt2", "qwen3"])
def test_tune_sets_products_and_keeps_the_logits(name: str):
    model, ids = tiny_model(VARIANTS[name]), random_ids(2, 19)
    with torch.no_grad():
        before = model(ids)
    chosen = tune(model)
    layers = [module for module in model.modules() if isinstance(module, Linear)]
    assert all(len(layer.products) == len(ROW_CLASSES) for layer in layers)
    assert set(chosen) == {tuple(layer.weight.shape) for layer in layers}
    assert (M, D) in chosen and (V, D) in chosen
    assert all(name in PRODUCTS for names in chosen.values() for name in names)
    with torch.no_grad():
        assert_close(model(ids), before, 1e-5)


@pytest.mark.parametrize("name", PRODUCTS)
def test_logits_with_each_product_everywhere(name: str):
    model, ids = tiny_model(VARIANTS["gqa"]), random_ids(2, 19)
    with torch.no_grad():
        before = model(ids)
        for module in model.modules():
            if isinstance(module, Linear):
                module.products = (PRODUCTS[name],) * len(ROW_CLASSES)
        assert_close(model(ids), before, 1e-5)


@pytest.mark.parametrize("error", [RuntimeError, AttributeError, NotImplementedError])
def test_a_product_that_does_not_run_is_passed_over(error, monkeypatch: pytest.MonkeyPatch, fresh):
    def fails(x, weight, bias):
        raise error("not on this CPU")

    for name in set(PRODUCTS) - {"F.linear"}:
        monkeypatch.setitem(PRODUCTS, name, fails)
    model = tiny_model({"n_layer": 1})
    chosen = tune(model)
    assert {name for names in chosen.values() for name in names} == {"F.linear"}
    with torch.inference_mode():
        assert model(random_ids(1, 3)).isfinite().all()


@pytest.mark.parametrize(
    ("seconds", "winner"), [(0.5, "F.linear"), (0.89, "F.linear"), (0.91, "onednn"), (2.0, "onednn")]
)
def test_another_product_must_be_clearly_faster(seconds: float, winner: str, monkeypatch: pytest.MonkeyPatch, fresh):
    times = {PRODUCTS["onednn"]: 1.0, F.linear: seconds}
    monkeypatch.setattr(linear, "_time", lambda product, x, weights, bias: times.get(product, float("inf")))
    assert linear.fastest(48, 48, 8, 1) == winner


def test_gradients_flow_through_a_tuned_layer():
    layer = Linear(6, 3, True)
    layer.weight.data, layer.bias.data = randn(3, 6), randn(3)
    layer.products = (broken,) * len(ROW_CLASSES)
    x = randn(2, 4, 6, seed=1).requires_grad_()
    layer(x).sum().backward()
    assert_close(layer.bias.grad, [8.0, 8.0, 8.0], 0, "bias")
    assert_close(layer.weight.grad, x.detach().sum((0, 1)).expand(3, 6), 1e-5, "weight")
    assert_close(x.grad, layer.weight.sum(0).expand(2, 4, 6), 1e-6, "input")
    with torch.no_grad(), pytest.raises(RuntimeError, match="not on this CPU"):
        layer(x)


def test_meta_and_double_weights_are_not_tuned():
    with torch.device("meta"):
        assert tune(Linear(4, 3, True)) == {}
    assert tune(Linear(4, 3, True).double()) == {}
