"""Qwen2 (Llama with biases on q, k and v) and Qwen3 (with RMSNorm over each head's q and k), also with experts."""

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Layout, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import (
    Family,
    check_keys,
    depth,
    flag,
    integer,
    layer_kinds,
    mixers,
    mixers_told,
    optional,
)
from model.loading.families.experts import expert_fields, expert_names, experts_told

WINDOW = {"use_sliding_window", "sliding_window", "max_window_layers"}
KNOWN = llama.COMMON | WINDOW
ACCEPTED = {"partial_rotary_factor": (1.0,)}
QKV_BIASES = {"q_bias": True, "k_bias": True, "v_bias": True}


def qwen2_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Qwen2 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    return make_config(llama.swiglu_fields(hf, kv=32) | QKV_BIASES | _windows(hf))


def qwen3_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Qwen3 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN | {"attention_bias"}, ACCEPTED)
    if hf.get("head_dim") is None:  # Qwen3 does not derive the head size; its default is 128
        hf = {**hf, "head_dim": 128}
    return make_config(llama.swiglu_fields(hf, kv=32) | _qwen3_fields(hf) | _windows(hf))


def _qwen3_fields(hf: dict) -> dict:
    bias = flag(hf, "attention_bias", False)
    return {f"{name}_bias": bias for name in "qkvo"} | {"qk_norm": True}


def _window(hf: dict) -> int | None:
    return optional(hf, "sliding_window", 4096) if flag(hf, "use_sliding_window", False) else None


def _windows(hf: dict) -> dict:
    """Return mixer and window: without layer_types, the first max_window_layers layers have full attention."""
    window, first = _window(hf), _count(hf, "max_window_layers", 28)
    slides = [window is not None and layer >= first for layer in range(depth(hf))]
    return mixers(layer_kinds(hf, ["sliding_attention" if each else "full_attention" for each in slides]), window)


def _count(hf: dict, key: str, default: int) -> int:
    count = integer(hf, key, default)
    if count < 0:
        raise CheckpointError("The config is invalid.", f"{key} = {count}", "Correct the config.")
    return count


def qwen2_hf(c: ModelConfig) -> dict:
    """Return the values of a Qwen2 config.json, the inverse of `qwen2_config`."""
    return llama.swiglu_told(c) | mixers_told(c) | {"use_sliding_window": "sliding_window" in c.mixers}


def qwen3_hf(c: ModelConfig) -> dict:
    """Return the values of a Qwen3 config.json, the inverse of `qwen3_config`."""
    return qwen2_hf(c) | {"attention_bias": c.q_bias}


# --- with experts ---

_EXPERTS = {"moe_intermediate_size", "num_experts_per_tok", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"}
QWEN2_MOE_KEYS = KNOWN | _EXPERTS | {"num_experts", "shared_expert_intermediate_size", "qkv_bias"}
QWEN2_MOE_KEYS |= neutral_keys.keys_of(neutral_keys.EXPERTS)
QWEN3_MOE_KEYS = KNOWN | _EXPERTS | {"num_experts", "num_local_experts", "attention_bias"}
QWEN3_MOE_KEYS |= neutral_keys.keys_of(neutral_keys.EXPERTS)


def qwen2_moe_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Qwen2-MoE config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, QWEN2_MOE_KEYS, ACCEPTED)
    window, last = _window(hf), _count(hf, "max_window_layers", 28)
    slides = [flag(hf, "use_sliding_window", False) and layer % 2 == 0 and layer < last for layer in range(depth(hf))]
    kinds = layer_kinds(hf, ["sliding_attention" if each else "full_attention" for each in slides])
    bias = flag(hf, "qkv_bias", True)
    fields = llama.swiglu_fields(hf, kv=16) | {f"{name}_bias": bias for name in "qkv"} | mixers(kinds, window)
    experts = expert_fields(hf, "num_experts", 60, 4, False, integer(hf, "moe_intermediate_size", 1408))
    shared = {"d_shared": integer(hf, "shared_expert_intermediate_size", 5632), "shared_gate": True}
    return make_config(fields | experts | shared | dense_layers(hf))


def qwen3_moe_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Qwen3-MoE config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    # Left from Qwen2-MoE's code; not read.
    left = {"qkv_bias": (False,), "shared_expert_intermediate_size": (0,), "use_qk_norm": (True,)}
    check_keys(hf, QWEN3_MOE_KEYS, ACCEPTED | left)
    counts = {hf[key] for key in ("num_experts", "num_local_experts") if isinstance(hf.get(key), int)}
    if len(counts) > 1:
        got = f"num_experts {hf['num_experts']}, num_local_experts {hf['num_local_experts']}"
        raise CheckpointError("The config gives two values for the same thing.", got, "Correct the config.")
    count = "num_experts" if hf.get("num_experts") is not None else "num_local_experts"
    experts = expert_fields(hf, count, 128, 8, False, integer(hf, "moe_intermediate_size", 768))
    fields = llama.swiglu_fields(hf, kv=4) | _qwen3_fields(hf) | llama.windowed(hf, _window(hf))
    return make_config(fields | experts | dense_layers(hf))


def dense_layers(hf: dict) -> dict:
    """Return the layers with a single MLP: those of mlp_only_layers, and all but every decoder_sparse_step-th."""
    n_layer, step, only = depth(hf), integer(hf, "decoder_sparse_step", 1), hf.get("mlp_only_layers") or []
    if step < 1 or not isinstance(only, list) or any(type(layer) is not int for layer in only):
        got = f"decoder_sparse_step = {step}, mlp_only_layers = {only!r}"[:120]
        raise CheckpointError("The config is invalid.", got, "Correct the config.")
    return {"dense": tuple(layer for layer in range(n_layer) if layer in only or (layer + 1) % step)}


def qwen2_moe_hf(c: ModelConfig) -> dict:
    """Return the values of a Qwen2-MoE config.json, the inverse of `qwen2_moe_config`."""
    more = {"qkv_bias": c.q_bias, "shared_expert_intermediate_size": c.d_shared}
    return qwen2_hf(c) | qwen_experts_told(c) | more


def qwen3_moe_hf(c: ModelConfig) -> dict:
    """Return the values of a Qwen3-MoE config.json, the inverse of `qwen3_moe_config`."""
    told = {key: value for key, value in qwen3_hf(c).items() if key != "layer_types"}
    return told | qwen_experts_told(c)


def qwen_experts_told(c: ModelConfig) -> dict:
    """Return the values about experts that all of them share."""
    more = {"moe_intermediate_size": c.d_expert, "norm_topk_prob": c.divide_weights, "mlp_only_layers": list(c.dense)}
    return experts_told(c, "num_experts") | more


_PARTS = ("gate_proj", "up_proj", "down_proj")
QWEN3_NAMES = llama.NAMES | llama.QK_NORMS
QWEN2_MOE_NAMES = {
    **llama.NAMES,
    **expert_names(_PARTS),
    **{
        f"layers.{{i}}.mlp.shared_expert.{part}.weight": f"blocks.{{i}}.mlp.shared.{part.removesuffix('_proj')}.weight"
        for part in _PARTS
    },
    "layers.{i}.mlp.shared_expert_gate.weight": "blocks.{i}.mlp.shared_gate.weight",
}
QWEN3_MOE_NAMES = QWEN3_NAMES | expert_names(_PARTS)

QWEN2 = Family("Qwen2", qwen2_config, llama.LAYOUT, qwen2_hf)
QWEN3 = Family("Qwen3", qwen3_config, Layout(QWEN3_NAMES, prefix="model."), qwen3_hf)
QWEN2_MOE = Family("Qwen2-MoE", qwen2_moe_config, Layout(QWEN2_MOE_NAMES, prefix="model."), qwen2_moe_hf)
QWEN3_MOE = Family("Qwen3-MoE", qwen3_moe_config, Layout(QWEN3_MOE_NAMES, prefix="model."), qwen3_moe_hf)
