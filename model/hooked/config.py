"""The sizes of a model that is run by another library: what is known of it, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from model.errors import InputError, UnsupportedModel, say

# The names of a size in the configs of transformers; the first one that a config has counts.
_NAMES = {
    "n_layer": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "n_head": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "d_model": ("hidden_size", "n_embd", "d_model", "dim"),
    "n_ctx": ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length"),
    "vocab_size": ("vocab_size",),
}
_GROUPS = ("num_key_value_heads", "num_kv_heads")
UNLIMITED = 2048  # tokens, for a model without a maximum length, as with ALiBi
WEIGHTS_HINT = "Choose a model of a supported family, such as TinyGPT."


@dataclass(frozen=True)
class HookedConfig:
    """The sizes of a hooked model. Any other field of a ModelConfig is unknown, and raises InputError."""

    name: str  # of the model
    hint: str  # what to do so that its weights are read; "" if nothing helps
    n_layer: int
    n_head: int
    d_model: int
    n_ctx: int  # maximum number of tokens of a sequence
    vocab_size: int
    group_size: int = 1  # number of query heads that share one KV head

    @property
    def two_way(self) -> bool:
        """False: the attention of a hooked model is causal (model.hooked.trace refuses any other)."""
        return False

    def is_attention(self, layer: int) -> bool:
        """Return True: every layer of a hooked model gives attention weights."""
        return True

    def mixer_of(self, layer: int) -> str:
        """Return "hooked": our own mixers have other names."""
        return "hooked"

    def __getattr__(self, name: str) -> NoReturn:
        missing(self, name)


def missing(config: HookedConfig, name: str) -> NoReturn:
    """Raise InputError for a part of a model that only our own forward pass has. Python's own names do not exist."""
    if name.startswith("_") or "hint" not in vars(config):
        raise AttributeError(name)
    raise needs_weights(config)


def needs_weights(config: HookedConfig) -> InputError:
    """Build the error for what cannot be computed from the attention, hidden states and logits alone."""
    what = say(
        "This needs a model's weights; only the attention, hidden states and logits of {} are read.", config.name
    )
    return InputError(what, "", config.hint if config.hint else WEIGHTS_HINT)


def no_lens(config: HookedConfig, why: str) -> InputError:
    """Build the error for a lens of a model without one."""
    return InputError(say("There is no lens of {}.", config.name), why, "The other views of Predictions work.")


def config_of(values: Mapping[str, Any], name: str, hint: str) -> HookedConfig:
    """Return the sizes in the values of a config. Raises UnsupportedModel for one without them."""
    # models of text and images keep the part that reads text in a config of its own
    text = values.get("text_config")
    own = {**values, **text} if isinstance(text, Mapping) else values
    found: dict[str, int] = {}
    for field, names in _NAMES.items():
        value = next((own[name] for name in names if _is_size(own.get(name))), None)
        if value is None and field != "n_ctx":
            hint = say("Its config needs one of: {}.", ", ".join(names))
            raise UnsupportedModel("The config of the model lacks a size.", field, hint)
        found[field] = UNLIMITED if value is None else value
    groups = next((own[key] for key in _GROUPS if _is_size(own.get(key))), found["n_head"])
    shared = found["n_head"] // groups if found["n_head"] % groups == 0 else 1
    return HookedConfig(name=name, hint=hint, group_size=shared, **found)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
