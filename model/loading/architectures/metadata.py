"""The metadata of a GGUF file as fields of a ModelConfig: windows, experts and RoPE."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from model.errors import CheckpointError, UnsupportedModel
from model.gpt.layers import rope_frequencies
from model.gpt.rope_scaling import RopeScaling
from model.loading.architectures.common import ROPE_FACTORS, ROPE_LONG, ROPE_SHORT, Architecture
from model.loading.convert import make_config
from model.loading.families.common import check_keys, choice, flag, integer, real
from model.loading.gguf_file import GgufFile

# Key after "<architecture>." -> field of ModelConfig; 0 means that the model does not have it.
NUMBERS = {
    "attn_logit_softcapping": "score_cap",
    "final_logit_softcapping": "logit_cap",
    "attention.clamp_kqv": "qkv_limit",
    "attention.scale": "score_multiplier",
    "embedding_scale": "embed_multiplier",
    "residual_scale": "residual_multiplier",
    "logit_scale": "logit_multiplier",
}
WINDOW, PATTERN = "attention.sliding_window", "attention.sliding_window_pattern"
EXPERT_KEYS = (
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_weights_norm",
    "leading_dense_block_count",  # seen from the tensors, too
)
ROPE_KEYS = (
    "rope.freq_base",
    "rope.dimension_count",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",  # informational; llama.cpp prints it
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scale_linear",  # name of the factor in 2023
)
# Published Llama 3.x models differ only in `factor`; GGUF stores only the resulting factor of each frequency.
LLAMA3_LOW, LLAMA3_HIGH, LLAMA3_N_CTX = 1.0, 4.0, 8192
_UNROTATED = 1e20  # factors of pairs that are not rotated; llama.cpp writes 1e30


def as_written(value: float) -> float:
    """Return the shortest decimal number that rounds to the same float32: 9.999999747378752e-06 -> 1e-05."""
    return float(str(np.float32(value)))


def number_fields(meta: Mapping, architecture: Architecture) -> dict[str, float]:
    """Return the fields of `NUMBERS` that the architecture reads and the file has."""
    values = {ours: real(meta, key, 0.0) for key, ours in NUMBERS.items() if key in architecture.reads}
    return {ours: as_written(value) for ours, value in values.items() if value}


# --- windows ---------------------------------------------------------------------------------------


def layers_with_window(meta: Mapping, n_layer: int, full_every: int) -> list[bool]:
    """Return whether each layer has a sliding window, by the file's list or period, or by that of the architecture."""
    pattern = meta.get(PATTERN, full_every)
    if isinstance(pattern, np.ndarray):
        if len(pattern) < n_layer:
            got = f"{PATTERN}: {len(pattern)} values, {n_layer} layers"
            raise CheckpointError("The file gives two values for the same thing.", got, "Fetch the file again.")
        return [bool(each) for each in pattern[:n_layer]]
    period = integer({PATTERN: pattern}, PATTERN)
    return [period == 0 or (layer + 1) % period != 0 for layer in range(n_layer)]


def window_fields(meta: Mapping, n_layer: int, full_every: int) -> dict:
    """Return window and mixer; {} if no layer has a window."""
    window, local = integer(meta, WINDOW, 0), layers_with_window(meta, n_layer, full_every)
    if window == 0 or not any(local):
        return {}
    names = tuple("sliding_window" if each else "softmax" for each in local)
    return {"window": window, "mixer": names if len(set(names)) > 1 else names[0]}


# --- experts ---------------------------------------------------------------------------------------


def expert_fields(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the fields of a mixture of experts; {} for a dense model. Raises UnsupportedModel for other routing."""
    count = integer(meta, "expert_count", 0)
    if count == 0:
        return {}
    scores = fields.get("router_scores", "softmax")
    check_keys(meta, meta.keys(), {"expert_gating_func": (0, 2) if scores == "sigmoid" else (0, 1, 3)})
    used = integer(meta, "expert_used_count")
    divide = flag(meta, "expert_weights_norm", fields.get("divide_weights", True))
    if divide and used == 1:  # weights of 1 for every token
        raise UnsupportedModel(
            "The model uses a feature that is not supported.", "expert_used_count = 1", "Use another model."
        )
    routed = [layer for layer in range(fields["n_layer"]) if f"blk.{layer}.ffn_gate_inp.weight" in file.tensors]
    if not routed:
        raise CheckpointError("The checkpoint lacks weights.", "blk.0.ffn_gate_inp.weight", "Fetch the file again.")
    block = f"blk.{routed[0]}"
    shared = file.tensors.get(f"{block}.ffn_up_shexp.weight")
    width = file.tensors.get(f"{block}.ffn_up_exps.weight")
    return {
        "n_expert": count,
        "experts_per_token": used,
        "d_expert": fields["d_mlp"] if width is None else width.shape[-2 if len(width.shape) > 1 else 0],
        "dense": tuple(layer for layer in range(fields["n_layer"]) if layer not in routed),
        "divide_weights": divide,
        "router_bias": f"{block}.ffn_gate_inp.bias" in file.tensors,
        "router_offset": f"{block}.exp_probs_b.bias" in file.tensors,
        "expert_multiplier": as_written(real(meta, "expert_weights_scale", 1.0)) or 1.0,
        "expert_bias": f"{block}.ffn_up_exps.bias" in file.tensors,
        "d_shared": None if shared is None else shared.shape[0],
        "shared_gate": fields.get("shared_gate", False) and shared is not None,
    }


# --- RoPE ------------------------------------------------------------------------------------------


def rope_fields(file: GgufFile, meta: Mapping, fields: dict, architecture: Architecture) -> dict:
    """Return rope_theta, rotary_fraction and rope_scaling."""
    width = integer(meta, "rope.dimension_count", fields["d_head"])
    fraction = width / max(fields["d_head"], 1)
    if int(fields["d_head"] * fraction) < width:  # the quotient was rounded down
        fraction = math.nextafter(fraction, 2.0)
    rope = {"rope_theta": as_written(real(meta, "rope.freq_base", 10_000.0)), "rotary_fraction": fraction}
    if ROPE_LONG in file.tensors:
        return rope | {"rope_scaling": _longrope(file, meta, fields["n_ctx"])}
    if ROPE_FACTORS in file.tensors:
        return rope | {"rope_scaling": _by_pair(file.read(ROPE_FACTORS), fields | rope)}
    return rope | {"rope_scaling": _scaling(meta, fields["n_ctx"], architecture.whole_pairs)}


def _scaling(meta: Mapping, n_ctx: int, whole_pairs: bool) -> RopeScaling | None:
    """Return the scaling by rope.scaling.*; without a type, a factor is linear, as in llama.cpp."""
    old = real(meta, "rope.scale_linear", 1.0)
    factor = as_written(real(meta, "rope.scaling.factor", old)) or 1.0
    kind = choice(meta, "rope.scaling.type", {name: name for name in ("none", "linear", "yarn")}, "linear")
    usual = 0.1 * math.log(factor) + 1 if kind == "yarn" and factor > 1 else 1.0
    for key in ("rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"):
        given = real(meta, key, 1.0)  # of YaRN's own factor, or that factor itself
        if min(abs(given - 1), abs(given - usual)) > 1e-4:
            check_keys({key: given}, (), {key: (1.0,)})
    if factor == 1 or kind == "none":
        return None
    if kind == "linear":
        return RopeScaling(kind="linear", factor=factor)
    return RopeScaling(
        kind="yarn",
        factor=factor,
        original_n_ctx=integer(meta, "rope.scaling.original_context_length", n_ctx),
        beta_fast=as_written(real(meta, "rope.scaling.yarn_beta_fast", 32.0)),
        beta_slow=as_written(real(meta, "rope.scaling.yarn_beta_slow", 1.0)),
        whole_pairs=whole_pairs,
        amplitude=usual,
    )


def _longrope(file: GgufFile, meta: Mapping, n_ctx: int) -> RopeScaling:
    if ROPE_SHORT not in file.tensors:
        raise CheckpointError("The checkpoint lacks weights.", ROPE_SHORT, "Fetch the file again.")
    original = integer(meta, "rope.scaling.original_context_length", n_ctx)
    factor = n_ctx / max(original, 1)
    usual = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 and original > 1 else 1.0
    short, long = (tuple(map(float, file.read(name))) for name in (ROPE_SHORT, ROPE_LONG))
    return RopeScaling(
        kind="longrope",
        factor=factor,
        original_n_ctx=original,
        short_factors=short,
        long_factors=long,
        amplitude=as_written(real(meta, "rope.scaling.attn_factor", usual)),
    )


def _by_pair(factors: Tensor, fields: dict) -> RopeScaling | None:
    """Return the scaling that divides each frequency by its factor: None, Llama 3's, that of Gemma 4, which does not
    rotate the last pairs, or the factors as they are.
    """
    rotated = int((factors < _UNROTATED).sum())
    if 0 < rotated < len(factors) and (factors[:rotated] == 1).all() and (factors[rotated:] >= _UNROTATED).all():
        return RopeScaling(kind="proportional", factor=1.0, rotated=rotated / len(factors))
    known = RopeScaling(
        factor=as_written(factors.max().item()),
        low_freq_factor=LLAMA3_LOW,
        high_freq_factor=LLAMA3_HIGH,
        original_n_ctx=LLAMA3_N_CTX,
    )
    plain = make_config(fields)
    for scaling in (None, known):
        config = make_config(fields | {"rope_scaling": scaling})
        expected = rope_frequencies(plain) / rope_frequencies(config)
        if expected.shape == factors.shape and torch.allclose(factors, expected, rtol=1e-5, atol=0):
            return scaling
    each = tuple(map(float, factors))
    if len(each) != plain.d_rotary // 2:
        got = f"{ROPE_FACTORS}: {len(each)} factors, {plain.d_rotary // 2} pairs"
        raise CheckpointError("A weight has the wrong shape.", got, "Fetch the checkpoint again.")
    return RopeScaling(kind="longrope", factor=1.0, original_n_ctx=plain.n_ctx, short_factors=each, long_factors=each)
