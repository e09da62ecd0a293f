"""Llama and models with its architecture, such as SmolLM2: RMSNorm, RoPE, SwiGLU, grouped-query attention.

Also close kin: Arcee (an MLP without a gate), Helium (RoPE on adjacent pairs), SmolLM3 (layers without RoPE).
"""

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Layout, both, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import (
    GATED_ACTIVATIONS,
    Family,
    check_keys,
    choice,
    depth,
    flag,
    integer,
    layer_kinds,
    mixers,
    mixers_told,
    name_of,
    optional,
    real,
    sizes,
    told,
)
from model.loading.families.rope import ROPE_KEYS, rope, rope_told

SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "d_model",
    "intermediate_size": "d_mlp",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_ctx",
}
COMMON = {
    *SIZES,
    *ROPE_KEYS,
    "num_key_value_heads",
    "head_dim",
    "hidden_act",
    "rms_norm_eps",
    "tie_word_embeddings",
    "layer_types",
}
KNOWN = COMMON | {"attention_bias", "mlp_bias"} | neutral_keys.keys_of(neutral_keys.LLAMA)
ACCEPTED = {
    "rope_interleaved": (False,),
    "partial_rotary_factor": (1.0,),
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Llama config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    return make_config(swiglu_fields(hf) | _biases(hf) | full(hf))


def _biases(hf: dict) -> dict:
    attention_bias, mlp_bias = flag(hf, "attention_bias", False), flag(hf, "mlp_bias", False)
    return {f"{name}_bias": attention_bias for name in "qkvo"} | {"mlp_bias": mlp_bias}


def swiglu_fields(
    hf: dict,
    *,
    kv: int | None = None,
    eps: float = 1e-6,
    tied: bool = False,
    theta: float = 10_000.0,
    rotary: dict | None = None,
    act: str = "hidden_act",
) -> dict:
    """Return the fields common to all families of this kind, without biases.

    The other arguments are the family's defaults for a missing key: the number of KV heads, None for as many as query
    heads; epsilon; whether the head is tied; the base of RoPE. `rotary` replaces what `rope` reads, and `act` is the
    key of the activation.
    """
    fields = sizes(hf, SIZES)
    head = {"d_head": integer(hf, "head_dim")} if hf.get("head_dim") is not None else {}
    if rotary is None:
        rotary = rope(hf, default_theta=theta)
        # The families differ in which part of a head would be rotated, so partial rotation is rejected.
        check_keys({"partial_rotary_factor": rotary["rotary_fraction"]}, (), {"partial_rotary_factor": (1.0,)})
    given = "num_key_value_heads" in hf or kv is None
    return (
        fields
        | head
        | rotary
        | {
            "n_kv_head": integer(hf, "num_key_value_heads", fields["n_head"] if given else kv),
            "norm": "rmsnorm",
            "norm_bias": False,
            "norm_eps": real(hf, "rms_norm_eps", eps),
            "positions": "rope",
            "mlp": choice(hf, act, GATED_ACTIVATIONS, "silu"),
            "tie_embeddings": flag(hf, "tie_word_embeddings", tied),
        }
        | dict.fromkeys(("q_bias", "k_bias", "v_bias", "o_bias", "mlp_bias"), False)
    )


def full(hf: dict) -> dict:
    """Return mixer and window of a family without sliding windows, which does not read layer_types."""
    return mixers(layer_kinds(hf, ["full_attention"] * depth(hf), ignored=True), None)


def windowed(hf: dict, window: int | None) -> dict:
    """Return mixer and window of a family that has the same window in all layers, and does not read layer_types."""
    kind = "full_attention" if window is None else "sliding_attention"
    return mixers(layer_kinds(hf, [kind] * depth(hf), ignored=True), window)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a Llama config.json, the inverse of `to_config`."""
    return swiglu_told(c) | {"attention_bias": c.q_bias, "mlp_bias": c.mlp_bias}


def swiglu_told(c: ModelConfig) -> dict:
    """Return the values common to all families of this kind, the inverse of `swiglu_fields`."""
    return (
        told(c)
        | {theirs: getattr(c, ours) for theirs, ours in SIZES.items()}
        | {
            "rope_parameters": rope_told(c),
            "hidden_act": name_of(GATED_ACTIVATIONS, c.mlp),
            "num_key_value_heads": c.n_kv_head,
            "head_dim": c.d_head,
            "rms_norm_eps": c.norm_eps,
        }
    )


# --- Arcee ---

_ARCEE = {"relu2": "relu2", "relu": "relu", "silu": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh"}


def arcee_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from an Arcee config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    fields = swiglu_fields({**hf, "hidden_act": "silu"}, eps=1e-5)
    return make_config(fields | _biases(hf) | full(hf) | {"mlp": choice(hf, "hidden_act", _ARCEE, "relu2")})


def arcee_hf(c: ModelConfig) -> dict:
    """Return the values of an Arcee config.json, the inverse of `arcee_config`."""
    return to_hf(c) | {"hidden_act": name_of(_ARCEE, c.mlp)}


# --- Helium ---


def helium_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a Helium config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    fields = swiglu_fields({"head_dim": 128, **hf}, kv=20, eps=1e-8, theta=100_000.0)
    return make_config(fields | _biases(hf) | {"o_bias": False, "rope_pairs": "adjacent"} | full(hf))


# --- SmolLM3 ---

_SMOLLM3 = KNOWN | {"no_rope_layers", "no_rope_layer_interval", "use_sliding_window", "sliding_window"}
_SMOLLM3 |= neutral_keys.keys_of(neutral_keys.SMOLLM3)


def smollm3_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a SmolLM3 config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, _SMOLLM3, ACCEPTED)
    n_layer, window = depth(hf), optional(hf, "sliding_window", None)
    rotates = hf.get("no_rope_layers")  # 1 for layers with RoPE
    if rotates is None:
        interval = integer(hf, "no_rope_layer_interval", 4)
        rotates = [int((layer + 1) % max(interval, 1) != 0) for layer in range(n_layer)]
    if not isinstance(rotates, list) or len(rotates) != n_layer or not set(map(str, rotates)) <= {"0", "1"}:
        got = f"no_rope_layers = {rotates!r}"[:80]
        raise CheckpointError("no_rope_layers must be a list with 0 or 1 for each layer.", got, "Correct the config.")
    slides = flag(hf, "use_sliding_window", False) and window is not None
    kinds = ["sliding_attention" if slides and not each else "full_attention" for each in rotates]
    fields = swiglu_fields(hf, kv=4, tied=True, theta=2_000_000.0) | _biases(hf)
    unrotated = tuple(layer for layer, each in enumerate(rotates) if not each)
    return make_config(fields | mixers(layer_kinds(hf, kinds), window) | {"unrotated": unrotated})


def smollm3_hf(c: ModelConfig) -> dict:
    """Return the values of a SmolLM3 config.json, the inverse of `smollm3_config`."""
    rotates = [int(c.rotates(layer)) for layer in range(c.n_layer)]
    more = {"no_rope_layers": rotates, "use_sliding_window": "sliding_window" in c.mixers}
    return to_hf(c) | mixers_told(c) | more


# --- names ---


NAMES = {
    "embed_tokens.weight": "embed.weight",
    "layers.{i}.input_layernorm.weight": "blocks.{i}.norm1.weight",
    **both("layers.{i}.self_attn.q_proj", "blocks.{i}.attn.q"),
    **both("layers.{i}.self_attn.k_proj", "blocks.{i}.attn.k"),
    **both("layers.{i}.self_attn.v_proj", "blocks.{i}.attn.v"),
    **both("layers.{i}.self_attn.o_proj", "blocks.{i}.attn.o"),
    "layers.{i}.post_attention_layernorm.weight": "blocks.{i}.norm2.weight",
    **both("layers.{i}.mlp.gate_proj", "blocks.{i}.mlp.gate"),
    **both("layers.{i}.mlp.up_proj", "blocks.{i}.mlp.up"),
    **both("layers.{i}.mlp.down_proj", "blocks.{i}.mlp.down"),
    "norm.weight": "final_norm.weight",
    "lm_head.weight": "unembed.weight",
    # Buffer of the RoPE frequencies in old files.
    "layers.{i}.self_attn.rotary_emb.inv_freq": None,
}
QK_NORMS = {
    "layers.{i}.self_attn.q_norm.weight": "blocks.{i}.attn.q_norm.weight",
    "layers.{i}.self_attn.k_norm.weight": "blocks.{i}.attn.k_norm.weight",
}
LAYOUT = Layout(NAMES, prefix="model.")

LLAMA = Family("Llama", to_config, LAYOUT, to_hf)
ARCEE = Family("Arcee", arcee_config, LAYOUT, arcee_hf)
HELIUM = Family("Helium", helium_config, LAYOUT, to_hf)
SMOLLM3 = Family("SmolLM3", smollm3_config, LAYOUT, smollm3_hf)
