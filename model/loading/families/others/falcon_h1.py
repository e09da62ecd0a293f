"""Falcon-H1: in each layer, attention and Mamba 2 side by side, and an MLP; with multipliers of the embeddings, the
logits, and the inputs and outputs of every part.

The multipliers inside a layer are products with its weights, so they are folded into them.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Change, Into, Layout, Names, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import Family, check_keys, flag, integer, optional, real
from model.loading.families.keys import biases
from model.loading.families.others.ssm import SSM_KEYS, mixer_names, squeeze, ssm_fields

MULTIPLIERS = (
    *("attention_in_multiplier", "attention_out_multiplier", "key_multiplier"),
    *("ssm_in_multiplier", "ssm_out_multiplier"),
)
LISTS = {"mlp_multipliers": 2, "ssm_multipliers": 5}
KNOWN = {
    *(llama.COMMON - {"layer_types"}),
    *("attention_bias", "projectors_bias", "mlp_bias", "embedding_multiplier", "lm_head_multiplier"),
    *MULTIPLIERS,
    *LISTS,
    *SSM_KEYS,
    *("mamba_d_ssm", "mamba_rms_norm", "mamba_norm_before_gate"),
    *neutral_keys.keys_of(neutral_keys.FALCON_H1),
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Falcon-H1 config.json. Raises CheckpointError or UnsupportedModel with the name of
    the key.
    """
    check_keys(hf, KNOWN, {})
    for key in (*MULTIPLIERS, *LISTS):
        _numbers(hf, key)
    fields = llama.swiglu_fields(hf, kv=8, eps=1e-5)
    channels = optional(hf, "mamba_d_ssm", 1024)
    channels = integer(hf, "mamba_expand", 2) * fields["d_model"] if channels is None else channels
    gate = "before_gate" if flag(hf, "mamba_norm_before_gate", True) else "after_gate"
    ssm = ssm_fields(hf, channels)
    check_keys({"projectors_bias": flag(hf, "projectors_bias", False)}, (), {"projectors_bias": (ssm["ssm_bias"],)})
    return make_config(
        fields
        | biases(flag(hf, "attention_bias", False))
        | ssm
        | {
            "mlp_bias": flag(hf, "mlp_bias", False),
            "embed_multiplier": real(hf, "embedding_multiplier", 1.0),
            "logit_multiplier": real(hf, "lm_head_multiplier", 1.0),
            "ssm_beside": True,
            "ssm_norm": gate if flag(hf, "mamba_rms_norm", False) else "none",
        }
    )


def _numbers(hf: Mapping, key: str) -> tuple[float, ...]:
    """Return the multipliers of a key, 1 if it is missing. Raises CheckpointError for other values than numbers."""
    n, given = LISTS.get(key, 1), hf.get(key)
    given = [1.0] * n if given is None else given if key in LISTS else [given]
    if not isinstance(given, list) or len(given) != n:
        raise CheckpointError(
            "A key of the config has the wrong form.", f"{key} = {given!r}"[:80], "Correct the config."
        )
    return tuple(real({key: each}, key) for each in given)


def layout_of(hf: dict) -> Layout:
    """Return the names of the weights, which are multiplied by the config's multipliers as they are read."""
    (into,), (out,), (key,), (ssm_in,), (ssm_out,) = (_numbers(hf, name) for name in MULTIPLIERS)
    gate, down = _numbers(hf, "mlp_multipliers")
    parts = _numbers(hf, "ssm_multipliers")

    def rows(tensor: Tensor, c: ModelConfig, by: float = 1.0) -> tuple[Tensor, ...]:
        """Multiply the rows of the gate, x, B, C and the step sizes, each by its own multiplier."""
        sizes = (c.d_ssm, c.d_ssm, *(c.ssm_groups * c.d_state,) * 2, c.ssm_heads)
        factors = torch.cat([torch.full((n,), by * part) for n, part in zip(sizes, parts, strict=True)])
        return (tensor * (factors[:, None] if tensor.ndim == 2 else factors).to(tensor.dtype),)

    attn, mamba, mlp = "layers.{i}.self_attn", "layers.{i}.mamba", "layers.{i}.feed_forward"
    names: Names = {
        "embed_tokens.weight": "embed.weight",
        "layers.{i}.input_layernorm.weight": "blocks.{i}.norm1.weight",
        "layers.{i}.pre_ff_layernorm.weight": "blocks.{i}.norm2.weight",
        "final_layernorm.weight": "final_norm.weight",
        "lm_head.weight": "unembed.weight",
        **mixer_names(mamba, "blocks.{i}.attn.beside"),
        f"{mamba}.in_proj.weight": Into(("blocks.{i}.attn.beside.in_proj.weight",), lambda x, c: rows(x, c, ssm_in)),
        f"{mamba}.in_proj.bias": Into(("blocks.{i}.attn.beside.in_proj.bias",), rows),
        f"{mamba}.conv1d.weight": Into(("blocks.{i}.attn.beside.conv.weight",), squeeze),
    }
    for theirs, ours, weight, bias in (
        *((f"{attn}.{part}_proj", f"attn.{part}", into, 1.0) for part in "qv"),
        (f"{attn}.k_proj", "attn.k", into * key, key),
        (f"{attn}.o_proj", "attn.o", out, out),
        (f"{mamba}.out_proj", "attn.beside.o", ssm_out, ssm_out),
        (f"{mlp}.gate_proj", "mlp.gate", gate, gate),
        (f"{mlp}.up_proj", "mlp.up", 1.0, 1.0),
        (f"{mlp}.down_proj", "mlp.down", down, down),
    ):
        for kind, by in (("weight", weight), ("bias", bias)):
            names[f"{theirs}.{kind}"] = Into((f"blocks.{{i}}.{ours}.{kind}",), _times(by))
    return Layout(names, prefix="model.")


def _times(by: float) -> Change:
    """Return the change of a weight that multiplies it."""
    return lambda tensor, config: (tensor if by == 1 else tensor * by,)


FALCON_H1 = Family("Falcon-H1", to_config, layout_of({}), layout_of=layout_of)
