"""Each product is the linear map, and a trial chooses by its clock alone."""

import pytest
import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_info

from model.kernels import products as kernels
from model.kernels.products import PADDED, PRODUCTS, candidates, row_class
from tests.support.models.helpers import assert_close, randn
from tests.support.models.rounding import of_linear


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 300])
@pytest.mark.parametrize("with_bias", [True, False])
def test_every_product_is_the_linear_map(name: str, rows: int, with_bias: bool):
    x, weight, bias = randn(rows, 48), randn(100, 48, seed=1), randn(100, seed=2) if with_bias else None
    kept = (x.clone(), weight.clone(), None if bias is None else bias.clone())
    with torch.inference_mode():
        y = PRODUCTS[name](x, weight, bias)
    expected = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    assert y.dtype == torch.float32
    off = of_linear(x, weight, bias)
    assert_close(y, expected, off)
    assert_close(y, F.linear(x, weight, bias), off)
    assert torch.equal(x, kept[0]) and torch.equal(weight, kept[1]) and (bias is None or torch.equal(bias, kept[2]))


@pytest.mark.parametrize(
    ("rows", "index"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (47, 3), (48, 4), (767, 5), (10**6, 6)]
)
def test_row_classes(rows: int, index: int):
    assert row_class(rows) == index


def test_what_is_tried_for_a_number_of_rows():
    assert set(candidates(1)) == set(PRODUCTS)
    assert set(candidates(2)) == set(candidates(PADDED - 1)) == {"F.linear", "onednn", "padded", "parts"}
    assert set(candidates(PADDED)) == set(candidates(47)) == {"F.linear", "onednn", "parts"}
    assert set(candidates(48)) == {"F.linear", "onednn"}


@pytest.mark.parametrize(
    ("rows", "seconds", "winner"),
    [
        (8, {"F.linear": 0.5}, "F.linear"),
        (8, {"F.linear": 0.89}, "F.linear"),
        (8, {"F.linear": 0.91}, "onednn"),
        (8, {"F.linear": 2.0}, "onednn"),
        (1, {"F.linear": 1.0, "mv": 0.91}, "F.linear"),
        (1, {"F.linear": 1.0, "mv": 0.8}, "mv"),
        (1, {"F.linear": 1.0, "mv": 0.8, "numpy": 0.7}, "numpy"),
        (2, {"F.linear": 1.0, "padded": 0.5}, "padded"),
        (8, {"F.linear": 1.0, "parts": 0.5}, "parts"),
        (8, {"F.linear": 1.0, "padded": 0.5, "mv": 0.1}, "onednn"),
    ],
)
def test_another_product_must_be_clearly_faster(rows, seconds, winner, monkeypatch: pytest.MonkeyPatch, fresh):
    times = {PRODUCTS[name]: each for name, each in ({"onednn": 1.0} | seconds).items()}
    monkeypatch.setattr(kernels, "_time", lambda product, x, weights, bias: times.get(product, float("inf")))
    assert kernels.fastest(48, 48, rows, 1) == winner


def test_numpy_is_timed_on_one_thread_and_then_has_its_own_again(monkeypatch, fresh):
    def threads():
        return {each["num_threads"] for each in threadpool_info() if each["internal_api"] == "openblas"}

    during, before = [], threads()

    def clock(product, x, weights, bias):
        during.append(threads())
        return 1.0

    monkeypatch.setattr(kernels, "_time", clock)
    kernels.fastest(48, 48, 1, 1)
    assert during and all(each == {1} for each in during)
    assert threads() == before


def test_packing_that_a_torch_has_not_does_not_pay(fresh, monkeypatch):
    def absent(*arguments):
        raise NotImplementedError

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", absent)
    assert kernels.packing_pays(64, 48, 1) is False


def test_a_product_that_took_twice_as_long_is_not_timed_again(monkeypatch):
    seconds, timed = {F.linear: 1.0, torch.mv: 1.9, torch.mm: 2.1}, []
    monkeypatch.setattr(kernels, "_runs", lambda *_: True)
    monkeypatch.setattr(kernels, "_time", lambda product, *_: timed.append(product) or seconds[product])
    products = {"quick": F.linear, "near": torch.mv, "slow": torch.mm}
    assert kernels.times(products, randn(1, 4), [randn(4, 4)], None) == {"quick": 1.0, "near": 1.9, "slow": 2.1}
    assert timed == [F.linear, torch.mv, torch.mm, F.linear, torch.mv, F.linear, torch.mv]
