"""GPT-Neo, the architecture of TinyStories: learned positions, scores that are not divided, and layers with a window
between layers with full attention.
"""

from itertools import islice

from model.errors import CheckpointError, UnsupportedModel
from model.gpt.config import ModelConfig
from model.loading.convert import MAX_LAYERS, Layout, both, make_config
from model.loading.families import neutral_keys
from model.loading.families.common import ACTIVATIONS, Family, check_keys, choice, integer, name_of, told
from model.loading.families.keys import Keys, biases, renamed

KEYS = Keys(
    sizes={"vocab_size": "vocab_size", "hidden_size": "d_model", "num_layers": "n_layer", "num_heads": "n_head"},
    others={
        "max_position_embeddings": ("n_ctx", 2048),
        "layer_norm_epsilon": ("norm_eps", 1e-5),
        "tie_word_embeddings": ("tie_embeddings", True),
    },
)
ALIASES = {"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"}
KNOWN = {
    *KEYS.names,
    "attention_types",
    "attention_layers",
    "window_size",
    "intermediate_size",
    "activation_function",
    *neutral_keys.keys_of(neutral_keys.GPT2 | neutral_keys.GPT_NEO),
}
MIXERS = {"global": "softmax", "local": "sliding_window"}


def to_config(hf: dict) -> ModelConfig:
    """Return a ModelConfig from a GPT-Neo config.json. Raises CheckpointError or UnsupportedModel with the name of the
    key.
    """
    hf = renamed(hf, ALIASES)
    check_keys(hf, KNOWN, {})
    fields = KEYS.read(hf)
    more = {
        "d_mlp": integer(hf, "intermediate_size", 4 * fields["d_model"]),
        "mlp": choice(hf, "activation_function", ACTIVATIONS, "gelu_new"),
        "mixer": _mixers(hf, fields["n_layer"]),
        "window": integer(hf, "window_size", 256),
        "score_multiplier": 1.0,
    }
    return make_config(fields | biases(False, "qkv") | more)


def _mixers(hf: dict, n_layer: int) -> tuple[str, ...]:
    """Return the mixer of every layer. attention_types is a list of pairs: kinds of layers, and how often they repeat.

    Raises CheckpointError unless it names one for each layer, as attention_layers does.
    """
    wrong = "attention_types must name one kind for each layer."
    types = hf.get("attention_types") or [[["global", "local"], 12]]
    try:
        every = (kind for names, times in types for _ in range(times) for kind in names)
        kinds = list(islice(every, MAX_LAYERS + 1))
    except (TypeError, ValueError) as error:
        raise CheckpointError(wrong, f"{types!r}"[:80], "Correct the config.") from error
    layers = hf.get("attention_layers")
    if len(kinds) != n_layer or (layers is not None and layers != kinds):
        raise CheckpointError(wrong, f"attention_types = {types!r}"[:80], "Correct the config.")
    for kind in kinds:
        if kind not in MIXERS:
            what, hint = "The model uses a feature that is not supported.", "Supported: global, local."
            raise UnsupportedModel(what, f"attention_types: {kind!r}", hint)
    return tuple(MIXERS[kind] for kind in kinds)


def to_hf(c: ModelConfig) -> dict:
    """Return the values of a GPT-Neo config.json, the inverse of `to_config`."""
    kinds = [name_of(MIXERS, mixer) for mixer in c.mixers]
    more = {
        "intermediate_size": c.d_mlp,
        "activation_function": name_of(ACTIVATIONS, c.mlp),
        "attention_types": [[kinds, 1]],
        "window_size": c.window or 256,
    }
    return told(c) | KEYS.told(c) | more


NAMES = {
    "wte.weight": "embed.weight",
    "wpe.weight": "pos_embed.weight",
    **both("h.{i}.ln_1", "blocks.{i}.norm1"),
    **{f"h.{{i}}.attn.attention.{part}_proj.weight": f"blocks.{{i}}.attn.{part}.weight" for part in "qkv"},
    **both("h.{i}.attn.attention.out_proj", "blocks.{i}.attn.o"),
    **both("h.{i}.ln_2", "blocks.{i}.norm2"),
    **both("h.{i}.mlp.c_fc", "blocks.{i}.mlp.up"),
    **both("h.{i}.mlp.c_proj", "blocks.{i}.mlp.down"),
    **both("ln_f", "final_norm"),
    "lm_head.weight": "unembed.weight",
    # Buffers of the causal mask in old files.
    "h.{i}.attn.attention.bias": None,
    "h.{i}.attn.attention.masked_bias": None,
}

GPT_NEO = Family("GPT-Neo (TinyStories)", to_config, Layout(NAMES, prefix="transformer."), to_hf)
