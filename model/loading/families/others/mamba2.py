"""Mamba 2: layers of its state spaces alone, without attention and without MLPs."""

from model.gpt.config import ModelConfig
from model.loading.convert import Layout, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import Family, check_keys, flag, integer, real, sizes
from model.loading.families.others.mamba import N_CTX
from model.loading.families.others.ssm import limits, mixer_names

SIZES = {"vocab_size": "vocab_size", "hidden_size": "d_model", "num_hidden_layers": "n_layer"}
KNOWN = {
    *SIZES,
    *("num_heads", "head_dim", "state_size", "n_groups", "conv_kernel", "expand", "layer_norm_epsilon"),
    *("use_bias", "use_conv_bias", "time_step_limit", "tie_word_embeddings"),
    *neutral_keys.keys_of(neutral_keys.MAMBA),
    *neutral_keys.keys_of(neutral_keys.MAMBA2),
}
ACCEPTED = {"hidden_act": ("silu", "swish")}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Mamba 2 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    fields = sizes(hf, SIZES)
    heads, width, expand = integer(hf, "num_heads", 128), integer(hf, "head_dim", 64), integer(hf, "expand", 2)
    channels = expand * fields["d_model"]
    check_keys({"num_heads x head_dim": heads * width}, (), {"num_heads x head_dim": (channels,)})
    return make_config(
        fields
        | limits(hf)
        | {
            "n_ctx": N_CTX,
            "n_head": heads,
            "d_head": width,
            "mixer": "mamba2",
            "mlp": "none",
            "norm": "rmsnorm",
            "norm_bias": False,
            "norm_eps": real(hf, "layer_norm_epsilon", 1e-5),
            "positions": "none",
            "expand": expand,
            "d_state": integer(hf, "state_size", 128),
            "d_conv": integer(hf, "conv_kernel", 4),
            "ssm_groups": integer(hf, "n_groups", 8),
            "ssm_bias": flag(hf, "use_bias", False),
            "ssm_conv_bias": flag(hf, "use_conv_bias", True),
            "tie_embeddings": flag(hf, "tie_word_embeddings", False),
        }
    )


NAMES = {
    "embeddings.weight": "embed.weight",
    "embedding.weight": "embed.weight",  # in files of the authors
    "layers.{i}.norm.weight": "blocks.{i}.norm1.weight",
    **mixer_names("layers.{i}.mixer"),
    "norm_f.weight": "final_norm.weight",
    "lm_head.weight": "unembed.weight",
}

MAMBA2 = Family("Mamba 2", to_config, Layout(NAMES, prefix="backbone."))
