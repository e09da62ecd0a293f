"""Layers with gates: the gated delta rule by hand, a short convolution, and attention whose output has a gate."""

import numpy as np
import pytest
import torch

from model.attention.cell import explain
from model.attention.find_heads import rank_heads
from model.attention.measures import gate_rows, measure
from model.errors import InputError
from model.gpt.edits import Edit
from model.gpt.mixers import delta
from model.predictions.attribution import attribute, by_source, components
from model.tracing.trace import run
from tests.support.models.helpers import D, E, H, assert_close, random_ids, tiny_config, tiny_model, tokens_of

T = 17
SIZES = {"n_delta_head": 2 * H, "n_delta_key": H, "d_delta_key": 10, "d_delta_value": 6, "d_conv": 3}
GATED = {
    "norm": "rmsnorm",
    "norm_bias": False,
    "positions": "rope",
    "qk_norm": True,
    "output_gate": True,
    "mixer": ("softmax", "gated_delta", "short_conv"),
    "short_conv_bias": True,
    **SIZES,
}


@pytest.fixture(scope="module")
def trace():
    return run(tiny_model(GATED), tokens_of(random_ids(1, T)[0]))


# --- the mixers, a token and a head at a time ----------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def convolved(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Each channel's weighted sum of the last tokens. weight [I, K], x [T, I] -> [T, I]"""
    K = weight.shape[1]
    before = np.concatenate((np.zeros((K - 1, x.shape[1])), x))
    return np.stack([(weight.T * before[t : t + K]).sum(0) for t in range(len(x))])


def delta_by_hand(mixer, x: np.ndarray) -> np.ndarray:
    """What a layer of the gated delta rule writes for the stream x [T, D]."""
    w = {name: weight.detach().double().numpy() for name, weight in mixer.named_parameters()}
    qkv = convolved(w["conv.weight"], x @ w["qkv.weight"].T)
    qkv = qkv * sigmoid(qkv)
    out = np.zeros_like(x)
    for head in range(2 * H):
        shared, S = head // 2, np.zeros((10, 6))
        for t, token in enumerate(x):
            q, k = (qkv[t, at + 10 * shared : at + 10 * shared + 10] for at in (0, 10 * H))
            q, k = (each / np.sqrt(each @ each + 1e-6) for each in (q, k))
            v = qkv[t, 20 * H + 6 * head : 20 * H + 6 * head + 6]
            pace = np.log1p(np.exp(w["forget.weight"][head] @ token + w["dt_bias"][head]))
            S = np.exp(-np.exp(w["A_log"][head]) * pace) * S
            S = S + sigmoid(w["beta.weight"][head] @ token) * np.outer(k, v - k @ S)
            y = q @ S / np.sqrt(10)
            y = y / np.sqrt((y * y).mean() + 1e-5) * w["out_norm.weight"]
            gate = w["gate.weight"][6 * head : 6 * head + 6] @ token
            out[t] += w["o.weight"][:, 6 * head : 6 * head + 6] @ (y * gate * sigmoid(gate))
    return out


def conv_by_hand(mixer, x: np.ndarray) -> np.ndarray:
    """What a layer of the gated short convolution writes for the stream x [T, D]."""
    w = {name: weight.detach().double().numpy() for name, weight in mixer.named_parameters()}
    before, after, u = np.split(x @ w["in_proj.weight"].T + w["in_proj.bias"], 3, axis=1)
    mixed = convolved(w["conv.weight"], before * u) + w["conv.bias"]
    return (after * mixed) @ w["o.weight"].T + w["o.bias"]


@pytest.mark.parametrize(("layer", "by_hand"), [(1, delta_by_hand), (2, conv_by_hand)], ids=["delta", "convolution"])
def test_a_token_at_a_time_by_hand(exact, layer: int, by_hand):
    model = tiny_model(GATED)
    x = torch.randn(1, 80, D, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        found = model.blocks[layer].attn(x, layer, model.prepare(0, 80))
    assert_close(found[0], by_hand(model.blocks[layer].attn, x[0].numpy()), 1e-9)


def test_the_forms_of_the_gated_rule_are_the_same_numbers(exact):
    def noise(*shape: int, seed: int) -> torch.Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))

    q, k, v = noise(2, 3, 150, 5, seed=0), delta.directions(noise(2, 3, 150, 5, seed=1)), noise(2, 3, 150, 4, seed=2)
    beta, log_a = noise(2, 3, 150, seed=3).sigmoid(), -3 * noise(2, 3, 150, seed=4).sigmoid()
    empty, held = torch.zeros(2, 3, 5, 4), noise(2, 3, 5, 4, seed=5)
    assert_close(delta.matrix(q, k, beta, log_a) @ v, delta.recurrent(q, k, v, beta, empty, log_a)[0], 1e-11)
    for given, wanted in zip(
        delta.chunked(q, k, v, beta, held, log_a), delta.recurrent(q, k, v, beta, held, log_a), strict=True
    ):
        assert_close(given, wanted, 1e-11)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_delta_head": 6}, "n_delta_head 6 must be a multiple of n_head 4"),
        ({"n_delta_key": 3}, "n_delta_head 8 must be a multiple of n_delta_key 3"),
        ({"mixer": "short_conv", "n_head": 5, "n_kv_head": 5}, "48 channels of short_conv must divide into 5 heads"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(changes: dict, message: str):
    with pytest.raises(ValueError, match=message):
        tiny_config({**GATED, **changes})


# --- the gate of attention's output ----------------------------------------------------------------------


@torch.inference_mode()
def test_the_gate_multiplies_the_weighted_values(trace):
    at = trace.sites(0, ["mixed", "z", "norm1_out"])
    gates = trace.model.blocks[0].attn.gate(at["norm1_out"][0]).sigmoid()
    gates = gates.unflatten(-1, (H, E)).transpose(0, 1)
    assert_close(at["z"][0], at["mixed"][0] * gates, 1e-6)
    assert_close(gate_rows(trace, 0, [3, 9]), gates[:, [3, 9]], 1e-6)
    assert gate_rows(trace, 1, [3]) is None
    edited = trace.edit(Edit("zero", 0, 1))
    assert_close(gate_rows(edited, 0, range(T)), gates, 1e-6)


def test_contributions_of_source_tokens_add_up_to_the_head(trace):
    outputs = components(trace)
    parts = attribute(outputs, trace.model, 7)
    for head in range(H):
        each = by_source(trace, 0, head, outputs.position, parts.directions[0])
        assert_close(each.sum(), parts.heads[0, head], 1e-4)


@torch.inference_mode()
def test_lengths_and_one_cell_include_the_gate(trace):
    at, head, query, key = trace.sites(0, ["z", "v"]), 2, 11, 4
    o = trace.model.blocks[0].attn.o.weight[:, head * E : (head + 1) * E]
    gate = gate_rows(trace, 0, [query])[head, 0]
    written = (trace.pattern(0, head)[query, key] * at["v"][0, head // 2, key] * gate) @ o.T
    steps = explain(trace, 0, head, query, key)
    assert_close(steps.output, written, 1e-5)
    assert_close(steps.gate, gate, 1e-6)
    assert_close(steps.row_output_norm, (at["z"][0, head, query] @ o.T).norm(), 1e-5)
    assert_close(measure(trace, "value_weighted", 0, head)[query, key], written.norm(), 1e-5)
    assert_close(rank_heads(trace, [query], [key], "value_weighted")[0, head], written.norm(), 1e-5)


def test_what_needs_plain_attention_is_refused(trace):
    from model.gpt.mixers.needs import need_attention

    with pytest.raises(InputError, match="softmax of") as caught:
        need_attention(tiny_config({"output_gate": True}))
    assert caught.value.got == "output_gate"
    assert not tiny_config({"output_gate": True}).plain_attention
