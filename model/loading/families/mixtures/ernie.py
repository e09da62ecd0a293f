"""ERNIE 4.5 with experts: RoPE on adjacent pairs, and an offset for the choice of experts."""

from collections.abc import Sequence

from torch import Tensor

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import Family, check_keys, depth, flag, integer
from model.loading.families.experts import expert_fields, expert_names
from model.loading.families.keys import biases, renamed
from model.loading.families.mixtures.dots import PARTS, SHARED

KNOWN = llama.COMMON | {"use_bias", "moe_intermediate_size", "moe_k", "moe_num_experts", "moe_num_shared_experts"}
KNOWN |= {"moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval"}
KNOWN |= neutral_keys.keys_of(neutral_keys.EXPERTS) | neutral_keys.keys_of(neutral_keys.ERNIE_MOE)
ACCEPTED = {"partial_rotary_factor": (1.0,), "compression_ratio": (1.0,), "moe_use_aux_free": (True,)}
ACCEPTED |= {"moe_gate": ("topk", "top2_fused"), "moe_gate_act": ("softmax",), "use_rmsnorm": (True,)}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an ERNIE 4.5 config.json with experts. Raises CheckpointError or UnsupportedModel with
    the name of the key.
    """
    hf = renamed(hf, {"moe_num_experts": "num_experts", "moe_k": "num_experts_per_tok"})
    check_keys(hf, KNOWN | {"num_experts", "num_experts_per_tok"}, ACCEPTED)
    n_layer, width, bias = depth(hf), integer(hf, "moe_intermediate_size", 1536), flag(hf, "use_bias", False)
    first, last = integer(hf, "moe_layer_start_index", 1), integer(hf, "moe_layer_end_index", -1)
    step, shared = integer(hf, "moe_layer_interval", 1), integer(hf, "moe_num_shared_experts", 2)
    if step < 1 or shared < 0:
        got = f"moe_layer_interval = {step}, moe_num_shared_experts = {shared}"
        raise CheckpointError("The config is invalid.", got, "Correct the config.")
    last = n_layer - 1 if last == -1 else last
    more = {
        "mlp_bias": bias,
        "head_bias": bias,
        "rope_pairs": "adjacent",
        "router_offset": True,
        "expert_bias": False,
        "dense": tuple(layer for layer in range(n_layer) if not first <= layer <= last or (layer + 1) % step),
        "d_shared": width * shared or None,
    }
    fields = llama.swiglu_fields(hf, kv=4, eps=1e-5, tied=True, theta=500_000.0) | biases(bias) | llama.full(hf)
    return make_config(fields | expert_fields(hf, "num_experts", 64, 6, None, width) | more)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of an ERNIE 4.5 config.json with experts, the inverse of `to_config`."""
    return llama.swiglu_told(c) | {
        "use_bias": c.q_bias,
        "moe_intermediate_size": c.d_expert,
        "moe_num_experts": c.n_expert,
        "moe_k": c.experts_per_token,
        "moe_num_shared_experts": (c.d_shared or 0) // c.d_expert,
        "moe_layer_start_index": next((layer for layer in range(c.n_layer) if layer not in c.dense), c.n_layer),
    }


def _row(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Return the offsets of the experts. [1, N] -> [N]"""
    return (tensor.flatten(),)


def _column(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Return the offsets as they are stored, the inverse of `_row`."""
    return parts[0][None]


_OFFSET = Into(("blocks.{i}.mlp.offset",), _row, _column)
NAMES = {
    **llama.NAMES,
    **expert_names(PARTS),
    **SHARED,
    **{name.replace(".weight", ".bias"): ours.replace(".weight", ".bias") for name, ours in SHARED.items()},
    "lm_head.bias": "unembed.bias",
    "layers.{i}.mlp.gate.moe_statics.e_score_correction_bias": _OFFSET,  # in memory
    "layers.{i}.mlp.moe_statics.e_score_correction_bias": _OFFSET,
}

MTP = ("model.mtp_", "mtp_")

ERNIE_MOE = Family("ERNIE 4.5 with experts", to_config, Layout(NAMES, prefix="model.", beside=MTP), to_hf)
