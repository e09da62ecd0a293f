"""Mamba: layers of selective state spaces alone, without attention and without MLPs."""

import math

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import Family, check_keys, flag, integer, real, sizes
from model.loading.families.others.ssm import squeeze

SIZES = {"vocab_size": "vocab_size", "hidden_size": "d_model", "num_hidden_layers": "n_layer"}
KNOWN = {
    *SIZES,
    *("state_size", "conv_kernel", "expand", "time_step_rank", "layer_norm_epsilon", "tie_word_embeddings"),
    *("intermediate_size", "d_inner"),
    *neutral_keys.keys_of(neutral_keys.MAMBA),
}
ACCEPTED = {"use_bias": (False,), "use_conv_bias": (True,), "hidden_act": ("silu",)}
N_CTX = 2048  # tokens; the architecture has no limit, and its models were trained on texts of this length
GROUP = 64  # channels that the views show as one head, if the number of channels permits


def grouped(channels: int) -> dict[str, int]:
    """Return the number of groups of channels that the views show as heads, and the channels of each."""
    heads = math.gcd(channels, max(channels // GROUP, 1))
    return {"n_head": heads, "d_head": channels // heads}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Mamba config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    fields = sizes(hf, SIZES)
    expand, width = integer(hf, "expand", 2), fields["d_model"]
    channels = expand * width
    for name in ("intermediate_size", "d_inner"):
        check_keys({name: hf.get(name, channels)}, (), {name: (channels,)})
    return make_config(
        fields
        | grouped(channels)
        | {
            "n_ctx": N_CTX,
            "mixer": "mamba",
            "mlp": "none",
            "norm": "rmsnorm",
            "norm_bias": False,
            "norm_eps": real(hf, "layer_norm_epsilon", 1e-5),
            "positions": "none",
            "expand": expand,
            "d_state": integer(hf, "state_size", 16),
            "d_conv": integer(hf, "conv_kernel", 4),
            "dt_rank": None if hf.get("time_step_rank", "auto") == "auto" else integer(hf, "time_step_rank"),
            "tie_embeddings": flag(hf, "tie_word_embeddings", True),
        }
    )


NAMES = {
    "embeddings.weight": "embed.weight",
    "embedding.weight": "embed.weight",  # in files of 2023
    "layers.{i}.norm.weight": "blocks.{i}.norm1.weight",
    "layers.{i}.mixer.in_proj.weight": "blocks.{i}.attn.in_proj.weight",
    "layers.{i}.mixer.conv1d.weight": Into(("blocks.{i}.attn.conv.weight",), squeeze),
    "layers.{i}.mixer.conv1d.bias": "blocks.{i}.attn.conv.bias",
    "layers.{i}.mixer.x_proj.weight": "blocks.{i}.attn.x_proj.weight",
    "layers.{i}.mixer.dt_proj.weight": "blocks.{i}.attn.dt_proj.weight",
    "layers.{i}.mixer.dt_proj.bias": "blocks.{i}.attn.dt_proj.bias",
    "layers.{i}.mixer.A_log": "blocks.{i}.attn.A_log",
    "layers.{i}.mixer.D": "blocks.{i}.attn.D",
    "layers.{i}.mixer.out_proj.weight": "blocks.{i}.attn.o.weight",
    "norm_f.weight": "final_norm.weight",
    "lm_head.weight": "unembed.weight",
}

MAMBA = Family("Mamba", to_config, Layout(NAMES, prefix="backbone."))
