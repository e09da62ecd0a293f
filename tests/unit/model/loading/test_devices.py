"""Products on other devices: which layer lies where, and the numbers of the CPU on every device of this machine."""

import pytest
import torch

from model.api import load_model
from model.checks.registry import run_checks
from model.checks.result import subject_of
from model.checks.roundoff import bounds
from model.errors import CheckpointError, InputError
from model.gpt.linear import linears
from model.loading import devices
from model.loading.checkpoint import build
from model.loading.devices import KINDS, available, placed, places, streamed
from model.loading.halves import DTYPES, UNIT, HalfLinear, halved, unit
from model.loading.stored import StoredLinear
from tests.support.models.checked import OURS, not_agreed
from tests.support.models.helpers import VARIANTS, L, random_ids, tiny_model

IDS = random_ids(2, 13)


@pytest.mark.parametrize(
    ("sizes", "room", "expected"),
    [
        ([10, 10], {}, ["cpu", "cpu"]),
        ([10, 10], {"a": 100}, ["a", "a"]),
        ([45, 45, 1], {"a": 100}, ["a", "a", "cpu"]),  # a tenth stays free
        ([45, 46, 1], {"a": 100, "b": 100}, ["a", "b", "b"]),
        ([45, 46, 45, 10], {"a": 100, "b": 100}, ["a", "b", "cpu", "cpu"]),  # neighbors stay together
        ([200, 10], {"a": 100, "b": 50}, ["cpu", "cpu"]),
        ([], {"a": 100}, []),
    ],
)
def test_one_device_is_filled_after_the_other(sizes, room, expected):
    assert places(sizes, room) == expected


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", available())
@pytest.mark.parametrize("dtype", DTYPES)
def test_on_every_device_of_this_machine_the_numbers_are_those_of_the_cpu(kind, dtype, variant):
    model, where = placed(tiny_model(VARIANTS[variant]), kind, DTYPES[dtype])
    assert where.startswith(kind)
    assert all(type(layer) is HalfLinear for layer in linears(model))
    assert {layer._parameters["weight"].device.type for layer in linears(model)} == {kind}
    known = halved(tiny_model(VARIANTS[variant]), DTYPES[dtype])
    limit = bounds(known, IDS, draws=2)["logits", L]
    with torch.no_grad():
        ours, theirs = model(IDS), known(IDS)
    assert ours.device.type == "cpu" and ours.dtype == torch.float32
    assert ((ours - theirs).abs().amax(-1) <= limit).all()
    assert unit(model) == torch.finfo(DTYPES[dtype]).eps / 2 and (dtype != "float32" or unit(model) == UNIT)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", available())
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("room", [0, 1 << 40])
def test_weights_that_stay_in_their_files_give_the_same_on_every_device(monkeypatch, kind, dtype, variant, room):
    """Those that go there at each product, where there is no room, and those that are copied there."""
    own = tiny_model(VARIANTS[variant]).bfloat16()
    known = halved(build(own.config, own.state_dict()), DTYPES[dtype])
    monkeypatch.setattr(devices, "free", lambda kind: {} if kind == "cpu" else {kind: room})
    model, where = streamed(own, kind, DTYPES[dtype])
    kinds = {type(layer) for layer in linears(model)}
    assert where == kind and kinds == {HalfLinear if room and kind != "cpu" else StoredLinear}
    limit = bounds(known, IDS, draws=2)["logits", L]
    with torch.no_grad():
        ours, theirs = model(IDS), known(IDS)
    assert ours.device.type == "cpu" and ours.dtype == torch.float32 and unit(model) == unit(known)
    assert ((ours - theirs).abs().amax(-1) <= limit).all()


def test_what_has_no_room_on_a_device_goes_there_at_each_product(monkeypatch):
    model = tiny_model().bfloat16()
    first = [layer for path, layer in model.named_modules() if path.startswith("blocks.0.") and _linear(layer)]
    block = 2 * sum(layer.weight.nbytes for layer in first)  # in float32
    monkeypatch.setattr(devices, "check", lambda kind: None)
    monkeypatch.setattr(devices, "free", lambda kind: {"meta": block * 25 // 10})
    model, where = streamed(model, "meta", torch.float32)
    assert where == "meta"
    for path, layer in model.named_modules():
        if _linear(layer):
            there = path.startswith(("blocks.0.", "blocks.1."))
            assert type(layer) is (HalfLinear if there else StoredLinear), path
            weight = layer._parameters["weight"]
            assert (weight.device.type, weight.dtype) == (
                ("meta", torch.float32) if there else ("cpu", torch.bfloat16)
            ), path
            assert (layer.device, layer.dtype) == ("meta", torch.float32)
            with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
                layer(torch.zeros(2, weight.shape[1]))


@pytest.mark.parametrize("kind", available())
def test_the_checks_agree_on_every_device_of_this_machine(kind):
    lm = load_model("tinygpt", dtype="float32", device=kind)
    assert lm.device.startswith(kind)
    prompt = "One day, Tom and Lily went to the park."
    assert not not_agreed(run_checks(subject_of(lm, lm.trace(prompt), prompt), OURS))


def test_a_product_goes_to_its_matrix_and_comes_back():
    """Nothing is computed on the device "meta", so that what comes back from it cannot be had: there it is refused."""
    layer = HalfLinear(torch.nn.Parameter(torch.empty(3, 4, device="meta"), requires_grad=False), None)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        layer(torch.zeros(2, 4))
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        _ = layer.weight
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        layer.state_dict()  # from which others build models that compute on the CPU


@pytest.mark.parametrize("variant", ["gpt2", "llama", "qwen3"])
def test_layers_lie_where_they_were_placed(monkeypatch, variant):
    """Two devices that have no numbers: what fits on neither is on the CPU, tables and norms always."""
    model = tiny_model(VARIANTS[variant])
    first = [layer for path, layer in model.named_modules() if path.startswith("blocks.0.") and _linear(layer)]
    block = sum(layer.weight.nbytes for layer in first)
    monkeypatch.setattr(devices, "check", lambda kind: None)
    monkeypatch.setattr(devices, "free", lambda kind: {"meta": block * 25 // 10})
    model, where = placed(model, "meta", torch.float32)
    assert where == "meta, cpu"
    on = {path: layer._parameters["weight"].device.type for path, layer in model.named_modules() if _linear(layer)}
    assert {device for path, device in on.items() if path.startswith(("blocks.0.", "blocks.1."))} == {"meta"}
    assert {device for path, device in on.items() if path.startswith(("blocks.2.", "unembed"))} == {"cpu"}
    assert model.embed._parameters["weight"].device.type == "cpu"
    rest = [parameter for name, parameter in model.named_parameters() if "norm" in name or name.endswith("bias")]
    assert rest and all(parameter.device.type == "cpu" for parameter in rest)
    joints = [joint for b in model.blocks for joint in (*b.attn.joint, *getattr(b.mlp, "joint", ()))]
    assert joints and {joint._parameters["weight"].device.type for joint in joints} == {"meta", "cpu"}


def _linear(module) -> bool:
    return isinstance(module, torch.nn.Module) and type(module).__name__ in ("Linear", "HalfLinear", "StoredLinear")


def test_a_device_that_is_not_there_or_is_full_is_told(monkeypatch):
    missing = [kind for kind in (*KINDS, "tpu") if kind not in available()]
    for kind in missing:
        with pytest.raises(InputError, match="not find this device") as caught:
            load_model("tinygpt", device=kind)
        assert caught.value.got == f"device: {kind}" and "cpu" in caught.value.hint

    def full(*_):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(devices, "halved", full)
    with pytest.raises(CheckpointError, match="do not fit on the device"):
        placed(tiny_model(), "cpu", torch.bfloat16)
    monkeypatch.setattr(devices, "places", lambda sizes, room: ["cuda:0"] * len(sizes))
    monkeypatch.setattr(devices, "HalfLinear", full)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *_: self)
    with pytest.raises(CheckpointError, match="do not fit on the device"):
        streamed(tiny_model(), "cpu", torch.float32)
