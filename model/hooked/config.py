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
UNLIMITED = 2048  # tokens, for a model without a maximum length, as with ALiBi
WEIGHTS_HINT = "Choose a model of a supported family, such as TinyGPT."


@dataclass(frozen=True)
class HookedConfig:
    """The sizes of a hooked model. Any other field of a ModelConfig is unknown, and raises InputError."""

    name: str  # the model_type
    n_layer: int
    n_head: int
    d_model: int
    n_ctx: int  # maximum number of tokens of a sequence
    vocab_size: int

    def is_attention(self, layer: int) -> bool:
        """Return True: every layer of a hooked model gives attention weights."""
        return True

    def mixer_of(self, layer: int) -> str:
        """Return "hooked", which is none of model.gpt.mixers.names.MIXERS."""
        return "hooked"

    def __getattr__(self, name: str) -> NoReturn:
        missing(self.__dict__.get("name", ""), name)


def missing(model: str, name: str) -> NoReturn:
    """Raise InputError for a part of a model that only our own forward pass has. Python's own names do not exist."""
    if name.startswith("__") or name == "_":
        raise AttributeError(name)
    raise needs_weights(model)


def needs_weights(model: str) -> InputError:
    """Build the error for what cannot be computed from the attention, hidden states and logits alone."""
    what = say("This needs the weights of {}, whose architecture this program does not know.", model)
    return InputError(what, "", WEIGHTS_HINT)


def config_of(values: Mapping[str, Any]) -> HookedConfig:
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
    return HookedConfig(name=str(values.get("model_type", "model")), **found)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
