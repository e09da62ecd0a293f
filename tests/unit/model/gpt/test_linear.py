"""Whichever product runs, the numbers are those of F.linear to float32 rounding."""

import pytest
import torch
import torch.nn.functional as F

from model.gpt import linear
from model.gpt.linear import Linear, tune
from model.kernels import remembered
from model.kernels.products import PRODUCTS, ROW_CLASSES
from tests.support.models.helpers import VARIANTS, D, M, V, assert_close, randn, random_ids, tiny_model
from tests.support.models.rounding import logits_within, of_linear, sums


def broken(x, weight, bias):
    raise RuntimeError("not on this CPU")


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
            assert_close(y, F.linear(x, layer.weight, layer.bias), of_linear(x, layer.weight, layer.bias))
        assert layer(randn(0, 5, 48)).shape == (0, 5, 100)


def test_the_layer_uses_the_product_of_its_rows():
    layer = Linear(4, 3, False)
    layer.products = tuple(
        lambda x, weight, bias, i=i: torch.full((*x.shape[:-1], 3), float(i)) for i in range(len(ROW_CLASSES))
    )
    with torch.inference_mode():
        assert [layer(randn(rows, 4))[0, 0].item() for rows in (1, 3, 8, 32, 128, 512)] == [0, 1, 2, 3, 4, 5]
        assert layer(randn(4, 8, 4))[0, 0, 0] == 3, "rows are counted over all leading axes"
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
        assert_close(model(ids), before, logits_within(model, ids))


@pytest.mark.parametrize("name", PRODUCTS)
def test_logits_with_each_product_everywhere(name: str):
    model, ids = tiny_model(VARIANTS["gqa"]), random_ids(2, 19)
    with torch.no_grad():
        before = model(ids)
        for module in model.modules():
            if isinstance(module, Linear):
                module.products = (PRODUCTS[name],) * len(ROW_CLASSES)
        assert_close(model(ids), before, logits_within(model, ids))


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


def test_gradients_flow_through_a_tuned_layer():
    layer = Linear(6, 3, True)
    layer.weight.data, layer.bias.data = randn(3, 6), randn(3)
    layer.products = (broken,) * len(ROW_CLASSES)
    x = randn(2, 4, 6, seed=1).requires_grad_()
    layer(x).sum().backward()
    assert_close(layer.bias.grad, [8.0, 8.0, 8.0], 0, "bias")
    seen = x.detach()
    assert_close(layer.weight.grad, seen.sum((0, 1)).expand(3, 6), sums(8, seen.abs().sum((0, 1))), "weight")
    assert_close(x.grad, layer.weight.sum(0).expand(2, 4, 6), sums(3, layer.weight.abs().sum(0)), "input")
    with torch.no_grad(), pytest.raises(RuntimeError, match="not on this CPU"):
        layer(x)


def test_meta_and_double_weights_are_not_tuned():
    with torch.device("meta"):
        assert tune(Linear(4, 3, True)) == {}
    assert tune(Linear(4, 3, True).double()) == {}


def seen(model):
    """Names of the layers that a forward runs, by the products that are called."""
    ran = []
    for name, module in model.named_modules():
        layers = [(name, module)] if isinstance(module, Linear) else []
        layers += [(f"{name}.joint", joint) for joint in getattr(module, "joint", ())]
        for path, layer in layers:

            def product(x, weight, bias, path=path):
                ran.append(path.split(".", 2)[-1])
                return F.linear(x, weight, bias)

            layer.products = (product,) * len(ROW_CLASSES)
    return ran


@pytest.mark.parametrize("name", VARIANTS)
def test_joined_layers_give_the_same_logits_and_hold_nothing_twice(name: str):
    model, ids = tiny_model(VARIANTS[name]), random_ids(2, 19)
    names = [key for key, _ in model.named_parameters()]
    with torch.no_grad():
        before = model(ids)
        model.join()
        after = model(ids)
    assert_close(after, before, logits_within(model, ids))
    assert [key for key, _ in model.named_parameters()] == names
    for block in model.blocks:
        for module in (block.attn, block.mlp):
            for joint in module.joint:
                held = joint.weight.untyped_storage().data_ptr()
                assert {part.weight.untyped_storage().data_ptr() for part in module.parts()} == {held}
                assert torch.equal(joint.weight, torch.cat([part.weight for part in module.parts()]))


def test_a_joined_model_runs_the_joint_layers_and_a_tap_sees_the_single_ones():
    model, ids = tiny_model(VARIANTS["llama"]), random_ids(1, 5)
    model.join()
    ran = seen(model)
    with torch.no_grad():
        plain = model(ids)
        assert set(ran) == {"attn.joint", "attn.o", "mlp.joint", "mlp.down", "unembed"}
        ran.clear()
        tapped = model(ids, tap=lambda site, layer, x: x)
    assert {"attn.q", "attn.k", "attn.v", "mlp.gate", "mlp.up"} <= set(ran) and "attn.joint" not in ran
    assert_close(plain, tapped, logits_within(model, ids))


def test_parts_with_and_without_bias_are_joined():
    parts = [Linear(48, 3, True), Linear(48, 5, False)]
    for seed, part in enumerate(parts):
        part.weight.data = randn(*part.weight.shape, seed=seed)
    parts[0].bias.data = randn(3, seed=7)
    x = randn(4, 48, seed=9)
    with torch.no_grad():
        before = torch.cat([part(x) for part in parts], -1)
        off = torch.cat([of_linear(x, part.weight, part.bias) for part in parts], -1)
        assert_close(linear.join(*parts)(x), before, off)
        assert_close(torch.cat([part(x) for part in parts], -1), before, off)
        parts[0].weight.fill_(0)
    assert parts[0].weight.abs().max() == 0


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_packed_weights_keep_the_logits_of_a_few_rows(name: str, fresh, monkeypatch):
    monkeypatch.setattr(linear, "packing_pays", lambda *shape: True)
    model, ids = tiny_model(VARIANTS[name]), random_ids(6, 1)
    model.join()
    tune(model)
    with torch.inference_mode():
        before = {rows: model(ids[:rows]) for rows in (1, 4, 6)}
        held = linear.pack(model)
        for rows, expected in before.items():
            assert_close(model(ids[:rows]), expected, logits_within(model, ids[:rows]))
    worked = linear.worked(model)
    assert all(layer.packed for layer in worked)
    assert held >= sum(4 * layer.weight.numel() for layer in worked) > 0
    assert not any(part.packed for block in model.blocks for part in block.attn.parts())
    assert linear.pack(model) == 0, "once is enough"


def test_nothing_is_packed_beyond_the_limit_or_where_it_does_not_pay(fresh, monkeypatch):
    model = tiny_model()
    tune(model)
    assert linear.pack(model, limit=1000) == 0
    assert not any(layer.packed for layer in linear.worked(model))
    monkeypatch.setattr(linear, "packing_pays", lambda *shape: False)
    before = [layer.products for layer in linear.worked(model)]
    assert linear.pack(model) == 0
    assert [layer.products for layer in linear.worked(model)] == before


# --- what is remembered ---


def measured_as(names, monkeypatch):
    """The shapes that are measured, each of which gets these products."""
    shapes = []

    def fastest(d_out, d_in, rows, threads):
        shapes.append((d_out, d_in))
        return names[ROW_CLASSES.index(rows)]

    monkeypatch.setattr(linear, "fastest", fastest)
    return shapes


def test_a_shape_is_measured_once_a_machine(tmp_path, monkeypatch):
    names = ("mv", "padded", "onednn", "F.linear", "F.linear", "onednn", "onednn")
    shapes = measured_as(names, monkeypatch)
    first = tune(Linear(48, 100, True), tmp_path)
    assert first == {(100, 48): names} and set(shapes) == {(100, 48)}
    shapes.clear()
    layer = Linear(48, 100, True)
    assert tune(torch.nn.ModuleList([layer, Linear(48, 7, False)]), tmp_path) == {(100, 48): names, (7, 48): names}
    assert set(shapes) == {(7, 48)}
    assert layer.products == tuple(PRODUCTS[name] for name in names)
    assert remembered.read(remembered.file_in(tmp_path)) == {(100, 48): names, (7, 48): names}
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"], "nothing else is left there"


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    measured_as(("F.linear",) * len(ROW_CLASSES), monkeypatch)
    tune(Linear(4, 3, False))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("chosen", [True, False])
def test_numpy_is_held_to_one_thread_where_it_was_chosen(chosen, monkeypatch):
    held = []
    monkeypatch.setattr(linear, "one_openblas_thread", lambda: held.append(1))
    measured_as(("numpy" if chosen else "mv", *["F.linear"] * (len(ROW_CLASSES) - 1)), monkeypatch)
    tune(Linear(4, 3, False))
    assert held == [1] * chosen
