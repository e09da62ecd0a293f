"""Phi-3 and Phi-4: Llama with one fused projection for q, k and v, and one for gate and up; LongRoPE for long texts."""

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import Family, check_keys, optional
from model.loading.families.experts import join_gate, split_gate
from model.loading.families.fused import join_qkv, split_qkv
from model.loading.families.mistral import mistral_hf
from model.loading.families.rope import rope

KNOWN = (llama.COMMON - {"head_dim"}) | {"sliding_window"} | neutral_keys.keys_of(neutral_keys.PHI3)
# Written by Microsoft's own code, at the values that transformers' has.
ACCEPTED = {
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "lm_head_bias": (False,),
    "full_attn_mod": (1,),
    "interpolate_factor": (1,),
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Phi-3 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    fields = llama.swiglu_fields(hf, eps=1e-5, rotary=rope({"original_max_position_embeddings": 4096, **_named(hf)}))
    return make_config(fields | llama.windowed(hf, optional(hf, "sliding_window", None)))


def _named(hf: dict) -> dict:
    """Return the config with LongRoPE under that name: early files of Phi-3 call it yarn."""
    inner = hf.get("rope_scaling")
    if isinstance(inner, dict) and inner.get("type") == "yarn" and "long_factor" in inner:
        return {**hf, "rope_scaling": {**inner, "type": "longrope"}}
    return hf


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a Phi-3 config.json, the inverse of `to_config`."""
    values = mistral_hf(c)
    if c.d_head * c.n_head == c.d_model:  # it is always derived
        del values["head_dim"]
    values["rope_parameters"] = {"partial_rotary_factor": 1.0} | values["rope_parameters"]
    original = None if c.rope_scaling is None else c.rope_scaling.original_n_ctx
    return values | {"original_max_position_embeddings": original or 4096}


NAMES = {
    **{
        theirs: ours
        for theirs, ours in llama.NAMES.items()
        if not any(part in theirs for part in (".q_proj", ".k_proj", ".v_proj", ".gate_proj", ".up_proj"))
    },
    "layers.{i}.self_attn.qkv_proj.weight": Into(
        tuple(f"blocks.{{i}}.attn.{part}.weight" for part in "qkv"), split_qkv, join_qkv
    ),
    "layers.{i}.mlp.gate_up_proj.weight": Into(
        ("blocks.{i}.mlp.gate.weight", "blocks.{i}.mlp.up.weight"), split_gate, join_gate
    ),
}

PHI3 = Family("Phi-3, Phi-4", to_config, Layout(NAMES, prefix="model."), to_hf)
