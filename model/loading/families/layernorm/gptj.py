"""GPT-J and CodeGen: RoPE on adjacent pairs of a part of each head, attention and MLP in parallel behind one norm."""

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Layout, both, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import ACTIVATIONS, Family, check_keys, choice, integer, name_of, told
from model.loading.families.fused import join_blocks, qkv, split_blocks
from model.loading.families.keys import Keys, biases, fraction_of, renamed

KEYS = Keys(
    sizes={"vocab_size": "vocab_size", "n_embd": "d_model", "n_layer": "n_layer", "n_head": "n_head"},
    others={
        "n_positions": ("n_ctx", 2048),
        "layer_norm_epsilon": ("norm_eps", 1e-5),
        "tie_word_embeddings": ("tie_embeddings", False),
    },
)
ALIASES = {
    "max_position_embeddings": "n_positions",
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}
KNOWN = {
    *KEYS.names,
    "rotary_dim",
    "n_inner",
    "activation_function",
    *neutral_keys.keys_of(neutral_keys.GPT2 | neutral_keys.GPTJ),
}
ACCEPTED = {
    "rotary": (True,),
    "scale_attn_weights": (True,),
    "rope_scaling": ({"rope_type": "gptj"},),  # another project's name for adjacent pairs
}
_FIXED = {
    "positions": "rope",
    "rope_pairs": "adjacent",
    "parallel_residual": True,
    "shared_norm": True,
    "head_bias": True,
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a GPT-J config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    hf = renamed(hf, ALIASES)
    check_keys(hf, KNOWN, ACCEPTED)
    fields = KEYS.read(hf)
    more = {
        "d_mlp": integer(hf, "n_inner", 4 * fields["d_model"]),
        "mlp": choice(hf, "activation_function", ACTIVATIONS, "gelu_new"),
        "rotary_fraction": fraction_of(integer(hf, "rotary_dim", 64), fields["d_model"] // max(fields["n_head"], 1)),
    }
    return make_config(fields | _FIXED | biases(False) | more)


def codegen_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a CodeGen config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    config = to_config(hf)
    if config.n_head % 4:
        hint = "CodeGen stores its heads in four blocks."
        raise CheckpointError("The config is invalid.", f"n_head {config.n_head}", hint)
    return config


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a GPT-J config.json, the inverse of `to_config`."""
    more = {
        "rotary_dim": c.d_rotary,
        "n_inner": c.d_mlp,
        "activation_function": name_of(ACTIVATIONS, c.mlp),
    }
    return told(c) | KEYS.told(c) | more


_SHARED = {
    "wte.weight": "embed.weight",
    **both("h.{i}.ln_1", "blocks.{i}.norm1"),
    "h.{i}.attn.out_proj.weight": "blocks.{i}.attn.o.weight",
    **both("h.{i}.mlp.fc_in", "blocks.{i}.mlp.up"),
    **both("h.{i}.mlp.fc_out", "blocks.{i}.mlp.down"),
    **both("ln_f", "final_norm"),
    **both("lm_head", "unembed"),
    # Buffers of the causal mask in old files.
    "h.{i}.attn.bias": None,
    "h.{i}.attn.masked_bias": None,
    "h.{i}.attn.causal_mask": None,
}
NAMES = _SHARED | {f"h.{{i}}.attn.{part}_proj.weight": f"blocks.{{i}}.attn.{part}.weight" for part in "qkv"}
CODEGEN_NAMES = _SHARED | {"h.{i}.attn.qkv_proj.weight": qkv("weight", split_blocks, join_blocks)}

GPTJ = Family("GPT-J", to_config, Layout(NAMES, prefix="transformer."), to_hf)
CODEGEN = Family("CodeGen", codegen_config, Layout(CODEGEN_NAMES, prefix="transformer."), to_hf)
