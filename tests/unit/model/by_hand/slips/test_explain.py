"""Slips: each of them is found from its own number, the right result is called right, and bad inputs are named."""

import numpy as np
import pytest
import torch

from model.by_hand.claims.arrays import cells
from model.by_hand.slips.explain import CALCULATIONS, explain_number
from model.errors import InputError


def names(calculation, typed, **inputs):
    """The slips that give a result."""
    return [each.name for each in explain_number(calculation, inputs, typed).found]


KNOWN = [
    ("softmax", "0.105, 0.141, 0.191, 0.258, 0.305", {}, []),
    ("softmax", "0.058, 0.096, 0.158, 0.260, 0.429", {}, []),
    ("softmax", "0.090, 0.245, 0.665", {"z": "1000, 1000.1, 1000.2", "T": "1"}, ["ranks"]),
    ("softmax", "0.844, 0.114, 0.042", {"z": "2 1 0.5", "T": "2"}, ["t_multiplied"]),
    ("softmax", "0.867, 0.117, 0.016", {"z": "2, 1, 0", "T": "2"}, ["t_multiplied"]),
    ("layer_norm", "[0, 0.33, 0.67, 1]", {}, ["min_max"]),
    ("layer_norm", "-1.16, -0.39, 0.39, 1.16", {}, ["sample"]),
    ("std", "84.32", {"x": "0.1, 0.3, 98.5, 123.7, 0.2, 201.3"}, ["sample"]),
    ("attention", "0.50, 0.25, 0.25", {}, ["mask_zero"]),
    ("attention", "0.510, 0.490, 0", {}, ["not_scaled"]),
    ("attention", "0.366, 0.312, 0.322", {}, ["future_seen"]),
    ("entropy", "1.75", {}, ["log2"]),
    ("cross_entropy", "0.202", {}, ["log10"]),
    ("flops", "16.8M", {}, ["no_factor_two"]),
    ("linear", "2,359,296", {}, ["no_bias"]),
    ("memory", "13.04", {}, ["gib"]),
    ("cache_size", "0.268", {}, ["no_factor_two", "no_bytes"]),
    ("price", "0.315", {}, ["prices_swapped"]),
    ("position", "0.0175, 0.9998, 0.0002, 1.0000", {}, ["degrees"]),
]


@pytest.mark.parametrize(("calculation", "typed", "inputs", "slips"), KNOWN)
def test_the_slip_of_a_known_number(calculation, typed, inputs, slips):
    assert names(calculation, typed, **inputs) == slips


NORMED = torch.tensor([1.0, 2, 3, 4])

# What pages print, the slip that it is known to be, and the value of that slip from NumPy or PyTorch.
PUBLISHED = [
    # a chapter on layers: "LayerNorm(x_in) = [0.0, 0.33, 0.67, 1.0]"
    ("layer_norm", {"x": "1.0, 2.0, 3.0, 4.0"}, "[0.0, 0.33, 0.67, 1.0]", "min_max", (NORMED - 1) / 3),
    # a lesson on numerical stability: F.softmax(torch.tensor([1000.0, 1000.1, 1000.2])) "# [0.0900, 0.2447, 0.6652]"
    (
        "softmax",
        {"z": "1000.0, 1000.1, 1000.2", "T": "1"},
        "[0.0900, 0.2447, 0.6652]",
        "ranks",
        torch.arange(3.0).softmax(-1),
    ),
    # The Annotated Transformer: (x - mean) / x.std(-1), and PyTorch's std divides by n - 1
    (
        "layer_norm",
        {"x": "1, 2, 3, 4"},
        "-1.1619, -0.3873, 0.3873, 1.1619",
        "sample",
        (NORMED - NORMED.mean()) / NORMED.std(),
    ),
    # "7B parameters in fp16 take 13 GB": 2^30 bytes
    ("memory", {"params": "7B", "bytes": "2"}, "13", "gib", torch.tensor([14e9 / 2**30])),
]


@pytest.mark.parametrize(("calculation", "inputs", "printed", "slip", "value"), PUBLISHED)
def test_the_slip_of_a_published_number(calculation, inputs, printed, slip, value):
    (found,) = explain_number(calculation, inputs, printed).found
    assert found.name == slip
    np.testing.assert_allclose([float(x) for x in cells(found.value)], value.numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("calculation", CALCULATIONS)
def test_what_is_shown_on_arrival_is_a_slip(calculation):
    told = explain_number(calculation, {}, CALCULATIONS[calculation].typed)
    assert not told.right and len(told.found) == 1 and len(told.steps) >= 1


@pytest.mark.parametrize("calculation", CALCULATIONS)
def test_each_slip_is_found_and_the_right_result_is_right(calculation):
    told = explain_number(calculation, {}, "123456.789")
    assert not told.right and not told.found and told.tried == len(CALCULATIONS[calculation].slips)
    right = ", ".join(f"{x:.6f}" for x in cells(told.steps[-1].value))
    again = explain_number(calculation, {}, right)
    assert again.right and not again.found
    fields = CALCULATIONS[calculation].fields
    for name, slip in CALCULATIONS[calculation].slips.items():
        inputs = {key: field.usual for key, field in fields.items()} | OTHER.get(calculation, {})
        value = slip.value(_read(inputs, fields))
        typed = ", ".join(f"{x:.9f}" for x in cells(value))
        assert name in names(calculation, typed, **inputs)


# inputs at which every slip differs from the right way
OTHER = {
    "softmax": {"z": "1, 2.5, 4"},
    "flops": {"tokens": "7", "d_out": "1024"},
    "price": {"unit": "500"},
    "memory": {"bytes": "2"},
    "cross_entropy": {"target": "2"},
}


def _read(inputs, fields):
    from model.by_hand.slips.explain import _input

    return {name: _input(name, field, inputs[name]) for name, field in fields.items()}


@pytest.mark.parametrize(
    ("calculation", "inputs", "typed"),
    [
        ("none", {}, "1"),
        ("softmax", {}, ""),
        ("softmax", {}, "abc"),
        ("softmax", {}, "1/2"),
        ("softmax", {"z": "1"}, "1"),
        ("softmax", {"z": "x, y"}, "1"),
        ("softmax", {"T": "0"}, "1"),
        ("softmax", {"T": "1, 2"}, "1"),
        ("softmax", {"z": "1, " * 99}, "1"),
        ("softmax", {"z": "1e99, 2"}, "1"),
        ("entropy", {"p": "-1, 2"}, "1"),
        ("linear", {"d_in": "1.5"}, "1"),
        ("attention", {"Q": "1 0; 0 1"}, "1"),
        ("attention", {"Q": "1 0; 0"}, "1"),
        ("cross_entropy", {"target": "9"}, "1"),
        ("position", {"d": "4000"}, "1"),
    ],
)
def test_inputs_that_cannot_be_read_are_named(calculation, inputs, typed):
    with pytest.raises(InputError) as told:
        explain_number(calculation, inputs, typed)
    assert told.value.what and told.value.hint


def test_numbers_in_any_notation():
    for typed in ("0, 0.33, 0.67, 1", "[0 0.33 0.67 1]", "(0; 0.33; 0.67; 1)", "０，0.33，0.67，1"):
        assert names("layer_norm", typed) == ["min_max"]
    assert names("layer_norm", "-0.39") == ["sample"]  # one number, anywhere in the list
