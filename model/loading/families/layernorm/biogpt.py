"""BioGPT: learned positions from row 2 of their table, and embeddings times the root of their width."""

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, both, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import ACTIVATIONS, Family, check_keys, choice, flag, name_of, told
from model.loading.families.keys import Keys
from model.loading.families.layernorm.opt import with_offset, without_offset

KEYS = Keys(
    sizes={
        "vocab_size": "vocab_size",
        "hidden_size": "d_model",
        "intermediate_size": "d_mlp",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
    },
    others={"max_position_embeddings": ("n_ctx", 1024), "tie_word_embeddings": ("tie_embeddings", True)},
)
KNOWN = {*KEYS.names, "hidden_act", "scale_embedding", *neutral_keys.keys_of(neutral_keys.BIOGPT)}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a BioGPT config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, {})
    act = choice(hf, "hidden_act", ACTIVATIONS, "gelu")
    return make_config(KEYS.read(hf) | {"mlp": act, "embed_scale": flag(hf, "scale_embedding", True)})


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a BioGPT config.json, the inverse of `to_config`."""
    return told(c) | KEYS.told(c) | {"hidden_act": name_of(ACTIVATIONS, c.mlp), "scale_embedding": c.embed_scale}


NAMES = {
    "embed_tokens.weight": "embed.weight",
    "embed_positions.weight": Into(("pos_embed.weight",), without_offset, with_offset),
    **both("layers.{i}.self_attn_layer_norm", "blocks.{i}.norm1"),
    **both("layers.{i}.self_attn.q_proj", "blocks.{i}.attn.q"),
    **both("layers.{i}.self_attn.k_proj", "blocks.{i}.attn.k"),
    **both("layers.{i}.self_attn.v_proj", "blocks.{i}.attn.v"),
    **both("layers.{i}.self_attn.out_proj", "blocks.{i}.attn.o"),
    **both("layers.{i}.final_layer_norm", "blocks.{i}.norm2"),
    **both("layers.{i}.fc1", "blocks.{i}.mlp.up"),
    **both("layers.{i}.fc2", "blocks.{i}.mlp.down"),
    **both("layer_norm", "final_norm"),
    "output_projection.weight": "unembed.weight",
}

BIOGPT = Family("BioGPT", to_config, Layout(NAMES, prefix="biogpt."), to_hf)
