"""Bamba: a Llama whose layers have Mamba 2 in place of attention, except a few."""

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Layout, Names, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import Family, check_keys, depth, flag, integer
from model.loading.families.keys import biases
from model.loading.families.others.ssm import SSM_KEYS, mixer_names, ssm_fields
from model.loading.families.rope import rope

KNOWN = {
    *(llama.COMMON - {"layer_types", "head_dim"}),
    *("attention_bias", "mlp_bias", "attn_layer_indices"),
    *SSM_KEYS,
    *neutral_keys.keys_of(neutral_keys.BAMBA),
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Bamba config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, {})
    n_layer, full = depth(hf), hf.get("attn_layer_indices") or []
    if not isinstance(full, list) or not all(type(layer) is int for layer in full):
        got = f"attn_layer_indices = {full!r}"[:80]
        raise CheckpointError("A key of the config has the wrong form.", got, "Correct the config.")
    rotary = rope(hf, default_fraction=0.5)
    fields = llama.swiglu_fields(hf, kv=8, eps=1e-5, rotary=rotary)
    mixer = tuple("softmax" if layer in full else "mamba2" for layer in range(n_layer))
    return make_config(
        fields
        | biases(flag(hf, "attention_bias", False))
        | ssm_fields(hf, integer(hf, "mamba_expand", 2) * fields["d_model"])
        | {"mlp_bias": flag(hf, "mlp_bias", False), "mixer": mixer}
    )


NAMES: Names = {
    **{theirs: ours for theirs, ours in llama.NAMES.items() if ".mlp." not in theirs and "layernorm" not in theirs},
    **{
        f"layers.{{i}}.feed_forward.{part}_proj.{kind}": f"blocks.{{i}}.mlp.{part}.{kind}"
        for part in ("gate", "up", "down")
        for kind in ("weight", "bias")
    },
    "layers.{i}.input_layernorm.weight": "blocks.{i}.norm1.weight",
    "layers.{i}.pre_ff_layernorm.weight": "blocks.{i}.norm2.weight",
    "final_layernorm.weight": "final_norm.weight",
    **mixer_names("layers.{i}.mamba"),
}

BAMBA = Family("Bamba", to_config, Layout(NAMES, prefix="model."))
