"""Weights that were changed or replaced are the ones that a trace and the next text are computed from."""

import pytest
import torch
from torch import nn

from model.gpt import decode_step, linear
from model.gpt.cache import KVCache
from model.gpt.decode_step import PLAIN, WAYS, step_of
from model.gpt.linear import joined, tune
from model.gpt.tap import identity
from tests.support.models.helpers import VARIANTS, assert_close, random_ids, tiny_model
from tests.support.models.rounding import logits_within
from tests.support.models.steps import prepared

T = 6
NAMES = ("attn.q", "attn.k", "attn.v", "attn.o", "mlp.up", "mlp.down")


def fresh(model, ids):
    """The logits of another model with the same weights, which was never joined. [B, T, V]"""
    other = type(model)(model.config).eval()
    other.load_state_dict(model.state_dict())
    with torch.inference_mode():
        return other(ids)


def decoded(model, ids, how=None):
    """The logits of a text that begins and goes on token by token. [B, T, V]"""
    cache = KVCache.empty(model.config, len(ids), ids.shape[1])
    with torch.inference_mode():
        first = model(ids[:, :1], cache=cache)
        if how is not None and (step := step_of(model)):
            step.fastest.update(dict.fromkeys((1, 2, 4, 8, 16), how))
        return torch.cat([first, *(model(each, cache=cache) for each in ids[:, 1:].split(1, 1))], 1)


def check(model, ids, how, what=""):
    """A trace with and without a tap, and a text, are those of the weights that are there now."""
    known, bound = fresh(model, ids), logits_within(model, ids)
    with torch.inference_mode():
        assert_close(model(ids), known, bound, f"forward {what}")
        assert_close(model(ids, tap=identity), known, bound, f"trace {what}")
    assert_close(decoded(model, ids, how), known, bound, f"text {what}")


def _assigned(layer):
    layer.weight = nn.Parameter(1.5 * layer.weight.detach(), requires_grad=False)


def _data(layer):
    layer.weight.data = layer.weight.detach().flip(0).clone()


def _loaded(layer):
    state = {name: -2 * tensor for name, tensor in layer.state_dict().items()}
    layer.load_state_dict(state, assign=True)


def _turned(layer):
    """The same address with other strides, where the matrix is square; else other numbers."""
    square = layer.weight.shape[0] == layer.weight.shape[1]
    layer.weight.data = layer.weight.data.t() if square else layer.weight.detach() * 3


REPLACED = {"assigned": _assigned, "data": _data, "loaded": _loaded, "turned": _turned}


def with_codes():
    """A model of bfloat16's numbers, whose steps can be read by their codes."""
    model = tiny_model(
        {**VARIANTS["llama"], "d_model": 64, "d_mlp": 96, "vocab_size": 160, "d_head": 16, "n_kv_head": 2}
    )
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16().float()
    model.tie()
    decode_step.take_bfloat16(model)
    model.join()
    tune(model)
    return model


def layer_of(model, name):
    return model.blocks[1].get_submodule(name)


@pytest.mark.parametrize("name", ["gpt2", "llama", "neox"])
@pytest.mark.parametrize("how", PLAIN)
@pytest.mark.parametrize("way", REPLACED)
def test_a_replaced_parameter_is_used(name, how, way):
    model, ids = prepared(name, how), random_ids(1, T)
    check(model, ids, how, "before")
    for layer in NAMES:
        REPLACED[way](layer_of(model, layer))
        check(model, ids, how, layer)
    model.join()
    assert all(joined(block.attn) for block in model.blocks)
    check(model, ids, how, "joined again")
    assert (step_of(model) is not None) == (way != "turned"), "compiled again, unless the loops cannot read a weight"


def test_gains_biases_and_heads_that_were_replaced_are_used():
    model, ids = prepared("gpt2", "alone"), random_ids(1, T)
    decoded(model, ids)
    for layer in (
        model.blocks[0].norm1,
        model.blocks[2].norm2,
        model.final_norm,
        model.unembed,
        model.blocks[0].attn.o,
    ):
        layer.weight = nn.Parameter(1.25 * layer.weight.detach(), requires_grad=False)
        model.embed.weight = model.unembed.weight
        check(model, ids, "alone")
    for layer in (model.blocks[0].attn.k, model.blocks[0].mlp.up, model.blocks[1].norm1):
        layer.bias.data = layer.bias.detach() + 0.5
        check(model, ids, "alone")
    model.blocks[1].attn.v.bias = None
    assert joined(model.blocks[1].attn) is None and joined(model.blocks[2].attn) is not None


def test_a_step_of_numbers_that_no_loop_can_read_is_not_built():
    model = prepared("gpt2")
    for shape in ((5,), (2 * model.config.d_model,)):
        other = prepared("gpt2")
        other.blocks[0].norm1.weight = nn.Parameter(torch.ones(*shape))
        decode_step.look_again(other)
        assert step_of(other) is None, shape
    model.blocks[0].norm1.weight.data = torch.ones(2 * model.config.d_model)[::2]
    check(model, random_ids(1, T), "alone", "strided gain")
    assert step_of(model) is None
    model = prepared("gpt2")
    model.blocks[0].mlp.down.weight = nn.Parameter(torch.ones(model.config.d_model, 3))
    decode_step.look_again(model)
    assert step_of(model) is None, "a row of three numbers"


CHANGES = {
    "signs of odd columns": lambda w: w[:, 1::2].neg_(),
    "signs of two odd columns": lambda w: w[:, 1:4:2].neg_(),
    "sign": lambda w: w.neg_(),
    "columns swapped": lambda w: w.copy_(w[:, [2, 3, 0, 1, *range(4, w.shape[1])]]),
    "rows swapped": lambda w: w.copy_(w.flip(0)),
    "scale": lambda w: w.mul_(2),
    "zero": lambda w: w.zero_(),
}


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("change", CHANGES)
def test_weights_changed_in_place_are_used(how, change):
    """Make weights that bfloat16 holds exactly, so that the compiled steps read codes."""
    model, ids = with_codes(), random_ids(1, T)
    check(model, ids, how, "before")
    for layer in ("attn.q", "attn.o", "mlp.down"):
        with torch.no_grad():
            CHANGES[change](layer_of(model, layer).weight.data)
        check(model, ids, how, layer)


@pytest.mark.parametrize("way", REPLACED)
def test_a_replaced_parameter_is_not_read_by_codes(way):
    model, ids = with_codes(), random_ids(1, T)
    assert step_of(model).ways() == WAYS
    check(model, ids, "codes alone", "before")
    for layer in ("attn.o", "mlp.down", "attn.q"):
        REPLACED[way](layer_of(model, layer))
        check(model, ids, "codes alone", layer)


IN_PLACE = {
    "in place": lambda layer: layer.weight.neg_(),
    "in place of its data": lambda layer: layer.weight.data.neg_(),
}


@pytest.mark.parametrize("way", [*REPLACED, *IN_PLACE])
def test_reordered_weights_are_not_used_once_they_are_others(way, monkeypatch):
    monkeypatch.setattr(linear, "packing_pays", lambda *shape: True)
    model, ids = prepared("gpt2", "torch"), random_ids(1, T)  # so many rows go by the reordered weights
    assert linear.pack(model) > 0
    check(model, ids, "torch", "before")
    for layer in NAMES[2:]:
        with torch.no_grad():
            (REPLACED | IN_PLACE)[way](layer_of(model, layer))
        if way == "in place of its data":
            assert linear.pack(model) > 0, "seen as a text begins"
        check(model, ids, "torch", layer)
