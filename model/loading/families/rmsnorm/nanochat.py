"""nanochat: norms without weights, also of the embeddings and of each head's q and k, ReLU squared, capped logits."""

from collections.abc import Sequence

from torch import Tensor

from model.gpt.config import ModelConfig
from model.loading.convert import Into, Layout, both, make_config
from model.loading.families.common import ACTIVATIONS, Family, check_keys, choice, flag, integer, name_of, real, told
from model.loading.families.keys import Keys, biases, whole_rope
from model.loading.families.rope import ROPE_KEYS, rope_told

KEYS = Keys(
    sizes={
        "vocab_size": "vocab_size",
        "hidden_size": "d_model",
        "intermediate_size": "d_mlp",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
    },
    others={
        "max_position_embeddings": ("n_ctx", 2048),
        "rms_norm_eps": ("norm_eps", 1e-6),
        "tie_word_embeddings": ("tie_embeddings", False),
    },
)
KNOWN = {
    *KEYS.names,
    *ROPE_KEYS,
    "num_key_value_heads",
    "hidden_act",
    "final_logit_softcapping",
    "attention_bias",
}
ACCEPTED = {"partial_rotary_factor": (1.0,)}
_ACTIVATIONS = {"relu2": "relu2", **ACTIVATIONS}
_FIXED = {
    "positions": "rope",
    "norm": "rmsnorm",
    "norm_weight": False,
    "norm_bias": False,
    "qk_norm": True,
    "embed_norm": True,
    "mlp_bias": False,
}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a nanochat config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    check_keys(hf, KNOWN, ACCEPTED)
    fields = KEYS.read(hf)
    capped = "final_logit_softcapping" not in hf or hf["final_logit_softcapping"] is not None  # null: no cap
    more = {
        "n_kv_head": integer(hf, "num_key_value_heads", fields["n_head"]),
        "mlp": choice(hf, "hidden_act", _ACTIVATIONS, "relu2"),
        "logit_cap": real(hf, "final_logit_softcapping", 15.0) if capped else None,
    }
    return make_config(fields | whole_rope(hf) | _FIXED | biases(flag(hf, "attention_bias", False)) | more)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a nanochat config.json, the inverse of `to_config`."""
    more = {
        "rope_parameters": rope_told(c),
        "num_key_value_heads": c.n_kv_head,
        "hidden_act": name_of(_ACTIVATIONS, c.mlp),
        "final_logit_softcapping": c.logit_cap,
        "attention_bias": c.q_bias,
    }
    return told(c) | KEYS.told(c) | more


def swap_halves(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Swap the halves of each head of q or k, since nanochat rotates backward: with the halves swapped, that is
    forward. The norm of q and k has no weight, so it does not see the order. [n * E, ...]
    """
    return (tensor.unflatten(0, (-1, 2, config.d_head // 2)).flip(1).flatten(0, 2),)


def swap_back(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Swap the halves again. [n * E, ...]"""
    return swap_halves(parts[0], config)[0]


def _turned(part: str) -> dict[str, Into]:
    names = {f"layers.{{i}}.self_attn.{part}_proj.{kind}": kind for kind in ("weight", "bias")}
    return {
        theirs: Into((f"blocks.{{i}}.attn.{part}.{kind}",), swap_halves, swap_back) for theirs, kind in names.items()
    }


NAMES = {
    "embed_tokens.weight": "embed.weight",
    **_turned("q"),
    **_turned("k"),
    **both("layers.{i}.self_attn.v_proj", "blocks.{i}.attn.v"),
    **both("layers.{i}.self_attn.o_proj", "blocks.{i}.attn.o"),
    "layers.{i}.mlp.fc1.weight": "blocks.{i}.mlp.up.weight",
    "layers.{i}.mlp.fc2.weight": "blocks.{i}.mlp.down.weight",
    "lm_head.weight": "unembed.weight",
}

NANOCHAT = Family("nanochat", to_config, Layout(NAMES, prefix="model."), to_hf)
