"""Both products of 16-bit numbers round what they read and give to the type, and a trial chooses by its clock alone."""

import pytest
import torch

from model.kernels import half_products as kernels
from model.kernels.half_products import PRODUCTS, chosen, fastest, own
from tests.support.models.helpers import randn


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 7, 100])
@pytest.mark.parametrize("name", PRODUCTS)
def test_every_product_rounds_its_input_and_its_result(name, rows, dtype, monkeypatch):
    monkeypatch.setattr(kernels, "SLICE", 48 * 30)  # several slices, the last one shorter
    x, weight = randn(rows, 48), randn(100, 48, seed=1).to(dtype)
    with torch.inference_mode():
        y = PRODUCTS[name](x, weight, None)
    exact = x.to(dtype).double() @ weight.double().mT
    unit = torch.finfo(dtype).eps / 2
    assert y.dtype == torch.float32 and torch.equal(y.to(dtype).float(), y)  # a number of the type
    sums = 1e-6 * (x.double().abs() @ weight.double().abs().mT)  # of float32 sums; beyond it half a spacing of the type
    assert ((y - exact).abs() <= unit * exact.abs() * (1 + 2 * unit) + sums).all()
    assert (y - x.double() @ weight.double().mT).abs().max() > unit / 4  # the input was rounded


@pytest.mark.parametrize(("seconds", "name"), [(0.5, "widened"), (0.89, "widened"), (0.91, "own"), (3.0, "own")])
def test_the_clock_decides(monkeypatch, seconds, name):
    fastest.cache_clear()
    tried = []

    def times(products, x, weights, bias):
        tried.append((set(products), tuple(x.shape), weights[0].shape, weights[0].dtype, bias))
        return {"own": 1.0, "widened": seconds}

    monkeypatch.setattr(kernels, "times", times)
    weight = torch.zeros(96, 48, dtype=torch.bfloat16)
    assert chosen(weight, 5) is PRODUCTS[name] and chosen(weight, 15) is PRODUCTS[name]
    assert tried == [({"own", "widened"}, (4, 48), (96, 48), torch.bfloat16, None)]  # once for the whole class
    fastest.cache_clear()


def test_only_numbers_of_16_bits_on_a_cpu_are_tried(monkeypatch):
    monkeypatch.setattr(kernels, "times", None)
    assert chosen(torch.zeros(96, 48), 5) is own
    assert chosen(torch.zeros(96, 48, dtype=torch.bfloat16, device="meta"), 5) is own


def test_a_trial_names_a_product():
    assert fastest(64, 32, 3, torch.float16, torch.get_num_threads()) in PRODUCTS
