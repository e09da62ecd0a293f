"""Architectures with RMSNorm, RoPE and a gated MLP, one norm before each sublayer or after it."""

import math
from collections.abc import Mapping
from dataclasses import replace

from model.loading.architectures.common import (
    AFTER,
    EXPERTS,
    FUSED_GATE,
    FUSED_QKV,
    NAMES,
    PERMUTED,
    QK_NORM,
    ROPE_LONG,
    ROPE_SHORT,
    SWIGLU,
    Architecture,
)
from model.loading.convert import Into, Layout
from model.loading.families.common import real
from model.loading.families.hub import baichuan
from model.loading.gguf_file import GgufFile


def _every_fourth(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the layers without rotation; the file does not store them."""
    return {"unrotated": tuple(range(3, fields["n_layer"], 4))}


def divided(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the multiplier of the logits, whose reciprocal is stored."""
    scale = real(meta, "logit_scale", 1.0)
    return {"logit_multiplier": 1 / scale} if scale > 0 else {}


def _unscaled_windows(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the base of layers with a window, which YaRN does not stretch in OLMo 3."""
    return {"rope_theta_local": fields["rope_theta"]} if fields.get("rope_scaling") else {}


def _full_unrotated(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the layers with full attention, which do not rotate in a model whose other layers have a window."""
    kinds = fields["mixer"] if isinstance(fields.get("mixer"), tuple) else ()
    return {"unrotated": tuple(layer for layer, kind in enumerate(kinds) if kind != "sliding_window")}


def _ministral3(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the context in which queries do not grow with the position, that of the first training (mistral.py), and
    YaRN's scaling with the divisor of its factor.
    """
    scaling = fields["rope_scaling"]
    if scaling is None or scaling.kind != "yarn":
        return {}
    grows = real(meta, "attention.temperature_scale", 0.0) != 0
    by = max(real(meta, "rope.scaling.yarn_log_multiplier", 0.0), 0.0)
    under = 0.1 * by * math.log(max(scaling.factor, 1.0)) + 1
    n_ctx = min(fields["n_ctx"], scaling.original_n_ctx) if grows else fields["n_ctx"]
    return {"n_ctx": n_ctx, "rope_scaling": replace(scaling, amplitude=scaling.amplitude / under)}


def _half(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the width of the MLP, twice which is stored for the first Qwen."""
    return {"d_mlp": fields["d_mlp"] // 2}


def _minicpm(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the multipliers; those of the published 1B and 2B models where an old file has none."""
    usual = {
        "embed_multiplier": 12.0,
        "residual_multiplier": 1.4 / max(fields["n_layer"], 1) ** 0.5,
        "logit_multiplier": 256 / max(fields["d_model"], 1),
    }
    return divided(file, meta, fields) | {name: value for name, value in usual.items() if name not in fields}


def _baichuan(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return ALiBi for models other than those with 7 billion parameters."""
    return {} if fields["d_model"] == baichuan.WITH_ROPE else {"positions": "alibi", "rope_scaling": None}


_WINDOW = ("attention.sliding_window", "attention.sliding_window_pattern")
_OLMO2 = SWIGLU | {"norm_placement": "output", "qk_norm": True, "qk_norm_over": "all"}
GRANITE_KEYS = ("attention.scale", "embedding_scale", "residual_scale", "logit_scale")
LLAMA_LIKE: dict[str, Architecture] = {
    # Also Mistral and Mixtral. q and k are permuted. Mixtral's experts are stacked, or one tensor each in 2023's files.
    "llama": Architecture(
        "Llama, Mistral, Mixtral", SWIGLU, Layout(NAMES | PERMUTED | EXPERTS), ("attention.sliding_window",)
    ),
    # q and k are permuted. Older files of Mistral Small 3 say llama.
    "mistral3": Architecture(
        "Mistral Small 3, Ministral 3",
        SWIGLU,
        Layout(NAMES | PERMUTED),
        ("attention.sliding_window", "attention.temperature_scale", "rope.scaling.yarn_log_multiplier"),
        more=_ministral3,
    ),
    # q, k and v stay fused.
    "qwen": Architecture("Qwen 1", SWIGLU, Layout(NAMES | FUSED_QKV), more=_half),
    "qwen2": Architecture("Qwen2", SWIGLU, Layout(NAMES)),
    "qwen3": Architecture("Qwen3", SWIGLU | {"qk_norm": True}, Layout(NAMES | QK_NORM)),
    # q and k are permuted, also in the layers that do not rotate.
    "smollm3": Architecture("SmolLM3", SWIGLU, Layout(NAMES | PERMUTED), more=_every_fourth),
    # q and k are permuted; the norms have no weights.
    "olmo": Architecture(
        "OLMo",
        SWIGLU | {"norm": "layernorm", "norm_weight": False},
        Layout(NAMES | PERMUTED),
        ("attention.clamp_kqv",),
    ),
    # Also OLMo 3, with a list of the layers that have a window.
    "olmo2": Architecture(
        "OLMo 2, OLMo 3", _OLMO2, Layout(NAMES | AFTER | QK_NORM), _WINDOW, 4, more=_unscaled_windows
    ),
    # q, k and v stay fused, and so do the gate and the linear branch, in this order.
    "phi3": Architecture(
        "Phi-3",
        SWIGLU,
        Layout(NAMES | FUSED_QKV | FUSED_GATE | {ROPE_SHORT: None, ROPE_LONG: None}),
        ("attention.sliding_window",),
    ),
    # q and k are permuted; logits are divided by the stored scale.
    "granite": Architecture("Granite", SWIGLU, Layout(NAMES | PERMUTED), GRANITE_KEYS, more=divided),
    "granitemoe": Architecture("Granite MoE", SWIGLU, Layout(NAMES | PERMUTED | EXPERTS), GRANITE_KEYS, more=divided),
    # q and k are permuted; logits are divided by the stored scale.
    "minicpm": Architecture(
        "MiniCPM",
        SWIGLU,
        Layout(NAMES | PERMUTED | {ROPE_SHORT: None, ROPE_LONG: None}),
        ("embedding_scale", "residual_scale", "logit_scale"),
        more=_minicpm,
    ),
    # q, k and v are split, and q and k permuted; the rows of Baichuan 2's head have their original lengths.
    "baichuan": Architecture(
        "Baichuan",
        SWIGLU,
        Layout(NAMES | PERMUTED | {"output.weight": Into(("unembed.weight",), baichuan.unit_rows)}),
        more=_baichuan,
    ),
    # q and k are permuted.
    "xverse": Architecture("XVERSE", SWIGLU, Layout(NAMES | PERMUTED)),
    # Pairs for rotation are adjacent in the model itself; the gate and the linear branch stay fused.
    "chatglm": Architecture("GLM", SWIGLU | {"rope_pairs": "adjacent"}, Layout(NAMES | FUSED_QKV | FUSED_GATE)),
    # q and k are permuted; the MLP has no gate.
    "arcee": Architecture("Arcee", SWIGLU | {"mlp": "relu2"}, Layout(NAMES | PERMUTED)),
    # The norm before the MLP has the name of one after attention.
    "seed_oss": Architecture(
        "Seed-OSS", SWIGLU, Layout(NAMES | {"blk.{i}.post_attention_norm.weight": "blocks.{i}.norm2.weight"})
    ),
    # Pairs for rotation are adjacent in the model itself.
    "ernie4_5": Architecture("ERNIE 4.5", SWIGLU | {"rope_pairs": "adjacent"}, Layout(NAMES)),
    # q, k and v of each group are split, and q and k permuted.
    "internlm2": Architecture("InternLM2", SWIGLU, Layout(NAMES | PERMUTED)),
    "exaone": Architecture("EXAONE 3", SWIGLU, Layout(NAMES)),
    "exaone4": Architecture(
        "EXAONE 4",
        SWIGLU | {"norm_placement": "output", "qk_norm": True},
        Layout(NAMES | AFTER | QK_NORM),
        _WINDOW,
        4,
        more=_full_unrotated,
    ),
}
