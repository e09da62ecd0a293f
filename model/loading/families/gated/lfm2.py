"""LFM2: layers of gated short convolutions, with full attention in some of them."""

from collections.abc import Mapping

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, Names, both, make_config
from model.loading.families import llama, neutral_keys
from model.loading.families.common import Family, check_keys, depth, flag, integer, layer_kinds, mixers, name_of, real
from model.loading.families.gated.qwen3_next import unsqueeze
from model.loading.families.keys import renamed, whole_rope
from model.loading.families.others.mamba import squeeze

KINDS = {"full_attention": "softmax", "conv": "short_conv"}
_ALIASES = {"block_ff_dim": "intermediate_size", "tie_embedding": "tie_word_embeddings"}
KNOWN = llama.COMMON | {"norm_eps", "conv_bias", "conv_L_cache", "full_attn_idxs", "block_auto_adjust_ff_dim"}
KNOWN |= {"block_multiple_of", "block_ffn_dim_multiplier"} | neutral_keys.keys_of(neutral_keys.LFM2)
ACCEPTED = {"block_use_swiglu": (True,)}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an LFM2 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    hf = _renamed(hf)
    width = integer(hf, "hidden_size")
    check_keys(hf, KNOWN, ACCEPTED | {"conv_dim": (width,), "conv_dim_out": (width,), "hidden_act": ("silu",)})
    full = hf.get("full_attn_idxs")
    where = range(depth(hf)) if full is None else full if isinstance(full, list) else ()
    kinds = ["full_attention" if layer in where else "conv" for layer in range(depth(hf))]
    given = {**hf, "intermediate_size": _width(hf), "rms_norm_eps": hf.get("norm_eps")}
    return make_config(
        llama.swiglu_fields(given, kv=8, eps=1e-5, tied=True, rotary=whole_rope(hf, 1_000_000.0))
        | mixers(layer_kinds(hf, kinds, names=KINDS), None, names=KINDS)
        | {"qk_norm": True, "d_conv": integer(hf, "conv_L_cache", 3), "short_conv_bias": flag(hf, "conv_bias", False)}
    )


def _renamed(hf: Mapping) -> dict:
    """Return the config under the names that transformers writes; of an alias and its name, the alias counts."""
    return renamed({key: value for key, value in hf.items() if key not in map(_ALIASES.get, hf)}, _ALIASES)


def _width(hf: Mapping) -> int:
    """Return the width of the MLP: two thirds of the key's, times a factor, rounded up, unless it is exact."""
    width = integer(hf, "intermediate_size", 12288)
    if not flag(hf, "block_auto_adjust_ff_dim", True):
        return width
    width = int(2 * width / 3)
    if hf.get("block_ffn_dim_multiplier", 1.0) is None:
        return width
    multiple = max(integer(hf, "block_multiple_of", 256), 1)
    return multiple * -(-int(real(hf, "block_ffn_dim_multiplier", 1.0) * width) // multiple)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of an LFM2 config.json, the inverse of `to_config`."""
    values = llama.swiglu_told(c)
    values["norm_eps"] = values.pop("rms_norm_eps")
    exact = {"block_auto_adjust_ff_dim": False, "conv_bias": c.short_conv_bias, "conv_L_cache": c.d_conv}
    return values | exact | {"layer_types": [name_of(KINDS, name) for name in c.mixers]}


_AT, _CONV = "blocks.{i}.attn", "layers.{i}.conv"
NAMES: Names = {
    "embed_tokens.weight": "embed.weight",
    "layers.{i}.operator_norm.weight": "blocks.{i}.norm1.weight",
    **{f"layers.{{i}}.self_attn.{name}_proj.weight": f"{_AT}.{name}.weight" for name in "qkv"},
    "layers.{i}.self_attn.out_proj.weight": f"{_AT}.o.weight",
    **{f"layers.{{i}}.self_attn.{name}_layernorm.weight": f"{_AT}.{name}_norm.weight" for name in "qk"},
    **both(f"{_CONV}.in_proj", f"{_AT}.in_proj"),
    **both(f"{_CONV}.out_proj", f"{_AT}.o"),
    f"{_CONV}.conv.weight": Into((f"{_AT}.conv.weight",), squeeze, unsqueeze),
    f"{_CONV}.conv.bias": f"{_AT}.conv.bias",
    "layers.{i}.ffn_norm.weight": "blocks.{i}.norm2.weight",
    **{
        f"layers.{{i}}.feed_forward.{theirs}.weight": f"blocks.{{i}}.mlp.{ours}.weight"
        for theirs, ours in {"w1": "gate", "w3": "up", "w2": "down"}.items()
    },
    "embedding_norm.weight": "final_norm.weight",
    "lm_head.weight": "unembed.weight",
}

LFM2 = Family("LFM2", to_config, Layout(NAMES, prefix="model."), to_hf)
