"""Edits of MLPs, neurons and directions are what module hooks on an untouched forward do."""

import numpy as np
import pytest
import torch

from model.gpt.edits import Edit
from model.tracing.trace import run
from tests.support.models.edited import IDS, T, tap_on, traced
from tests.support.models.helpers import VARIANTS, L, assert_close, tiny_model
from tests.support.models.rounding import logits_within

NEURON, TOKEN = 17, 5


def unit(model) -> torch.Tensor:
    row = model.unembed.weight[TOKEN].double()
    return (row / row.square().sum().sqrt()).float()


def at_neuron(x: torch.Tensor, new) -> torch.Tensor:
    x = x.clone()
    x[..., NEURON] = new(x[..., NEURON]) if callable(new) else new
    return x


BY_HOOK = {
    "mlp_zero": (Edit("mlp_zero", 1), "mlp", lambda x, model, mean: torch.zeros_like(x)),
    "mlp_mean": (Edit("mlp_mean", 1), "mlp", lambda x, model, mean: mean.expand_as(x)),
    "mlp_scale": (Edit("mlp_scale", 1, factor=-1.5), "mlp", lambda x, model, mean: -1.5 * x),
    "neuron_zero": (Edit("neuron_zero", 1, neuron=NEURON), "down", lambda x, model, mean: at_neuron(x, 0)),
    "neuron_scale": (
        Edit("neuron_scale", 1, neuron=NEURON, factor=-8.0),
        "down",
        lambda x, model, mean: at_neuron(x, lambda a: -8 * a),
    ),
    "neuron_value": (
        Edit("neuron_value", 1, neuron=NEURON, value=3.5),
        "down",
        lambda x, model, mean: at_neuron(x, 3.5),
    ),
    "project_out": (
        Edit("project_out", 1, token=TOKEN),
        "block",
        lambda x, model, mean: x - torch.einsum("btd,d,e->bte", x, unit(model), unit(model)),
    ),
    "add_direction": (
        Edit("add_direction", 1, token=TOKEN, factor=4.0),
        "block",
        lambda x, model, mean: x + 4 * unit(model),
    ),
}


@torch.no_grad()
def hooked(model, where: str, change) -> torch.Tensor:
    """Logits [T, V] of the plain forward with one hook in block 1 that replaces an output, or for "down" an input."""
    block, seen = model.blocks[1], []
    keep = block.mlp.register_forward_hook(lambda module, given, out: seen.append(out))
    model(IDS)
    keep.remove()
    mean = seen[0][0].mean(0)
    if where == "down":
        hook = block.mlp.down.register_forward_pre_hook(lambda module, given: (change(given[0], model, mean),))
    else:
        module = block.mlp if where == "mlp" else block
        hook = module.register_forward_hook(lambda module, given, out: change(out, model, mean))
    logits = model(IDS)[0]
    hook.remove()
    return logits


@pytest.mark.parametrize("kind", BY_HOOK)
@pytest.mark.parametrize("name", VARIANTS)
def test_an_edit_is_what_a_hook_on_the_module_does(name: str, kind: str):
    edit, where, change = BY_HOOK[kind]
    trace = traced(name)
    edited, model = trace.edit(edit), trace.model
    bound = logits_within(model, IDS, tap_on(model, [edit]))[0]
    assert_close(edited.logits, hooked(model, where, change), bound, kind)
    assert np.abs(edited.logits - trace.logits).max() > 1e-3
    assert torch.equal(edited.residuals[:2], trace.residuals[:2])


NOTHING = (Edit("mlp_scale", 1, factor=1.0), Edit("neuron_scale", 1, neuron=NEURON, factor=1.0),
           Edit("add_direction", 1, token=TOKEN, factor=0.0))  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_a_factor_that_changes_nothing_changes_nothing(name: str):
    trace = traced(name)
    same = trace.edit(*NOTHING)
    assert_close(same.logits, trace.logits, logits_within(trace.model, IDS)[0])
    none = trace.edit(Edit("mlp_scale", 1, factor=0.0), Edit("neuron_scale", 2, neuron=3, factor=0.0))
    off = trace.edit(Edit("mlp_zero", 1), Edit("neuron_zero", 2, neuron=3))
    assert np.array_equal(none.logits, off.logits)


@pytest.mark.parametrize("name", VARIANTS)
def test_an_mlp_that_is_off_is_a_down_projection_of_zeros(name: str):
    trace, other = traced(name), tiny_model(VARIANTS[name])
    with torch.no_grad():
        for parameter in other.blocks[1].mlp.down.parameters():
            parameter.zero_()
    edited = trace.edit(Edit("mlp_zero", 1))
    assert_close(edited.logits, run(other, trace.tokens).logits, logits_within(other, IDS)[0])


@pytest.mark.parametrize("name", VARIANTS)
def test_nothing_is_left_along_a_direction_that_was_projected_out(name: str):
    edited = traced(name, Edit("project_out", 1, token=TOKEN))
    stream, along = edited.hidden(2).astype(np.float64), unit(edited.model).detach().double().numpy()
    assert np.abs(stream @ along).max() < 1e-6 * np.linalg.norm(stream, axis=1).max()
    plain = traced(name).hidden(2).astype(np.float64)
    assert np.abs(plain @ along).max() > 1e-3
    assert_close(stream, plain - np.outer(plain @ along, along), 1e-5 * np.abs(plain).max())


def test_edits_of_the_stream_come_after_those_of_the_mlp_whatever_their_order():
    add, off = Edit("add_direction", L - 1, token=TOKEN, factor=4.0), Edit("mlp_zero", L - 1)
    head, neuron = Edit("zero", L - 1, 2), Edit("neuron_value", L - 1, neuron=3, value=2.0)
    one, other = traced("gpt2", add, off, neuron, head), traced("gpt2", head, neuron, off, add)
    assert np.array_equal(one.logits, other.logits) and one.key != other.key
    moved = one.hidden(L) - traced("gpt2", off, neuron, head).hidden(L)
    assert_close(moved, np.tile(4 * unit(one.model).detach().numpy(), (T, 1)), 1e-5)
    assert (one.sites(L - 1, ["mlp_out"])["mlp_out"] == 0).all()


def test_the_mean_is_the_unedited_runs():
    plain = traced("gqa")
    mean = plain.sites(1, ["mlp_out"])["mlp_out"][0].mean(0)
    edited = plain.edit(Edit("zero", 0, 1), Edit("mlp_scale", 1, factor=3.0)).edit(Edit("mlp_mean", 1))
    assert torch.equal(edited.sites(1, ["mlp_out"])["mlp_out"][0], mean.expand(T, -1))
