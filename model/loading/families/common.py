"""Strict reading of a config.json: every key is used, known to be irrelevant, or rejected by name."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from model.errors import CheckpointError, UnsupportedModel, say
from model.gpt.config import ModelConfig
from model.loading.convert import MAX_LAYERS, Layout
from model.loading.families.neutral_keys import EVERY_FAMILY, NEUTRAL_VALUES, keys_of

T = TypeVar("T")


@dataclass(frozen=True)
class Family:
    """One architecture on the Hub: the conversion of its config.json, and its weight names.

    `to_hf` is the inverse of `to_config`: values of a config.json in transformers' newest spelling. For a config that
    the family cannot express, it returns values that `to_config` rejects or reads as another config. `layout_of`
    returns the layout where it depends on values that the ModelConfig does not have.
    """

    label: str
    to_config: Callable[[dict], ModelConfig]
    layout: Layout
    to_hf: Callable[[ModelConfig], dict] | None = None
    layout_of: Callable[[dict], Layout] | None = None

    def layout_for(self, values: dict) -> Layout:
        """Return the layout of a checkpoint with this config.json, which `to_config` accepts."""
        return self.layout if self.layout_of is None else self.layout_of(values)


# transformers' names of the activations; gelu_fast differs from gelu_tanh only in the rounding of a constant, 3e-7.
ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "relu": "relu",
}
IGNORED = keys_of(EVERY_FAMILY)
_COMPARED = bool | int | float | str | dict
GATED_ACTIVATIONS = {"silu": "swiglu", "swish": "swiglu"} | {
    name: {"gelu": "geglu", "gelu_tanh": "geglu_tanh"}[ours]
    for name, ours in ACTIVATIONS.items()
    if ours in ("gelu", "gelu_tanh")
}


def check_keys(values: Mapping, known: Collection[str], accepted: Mapping[str, tuple]) -> None:
    """Reject unknown keys, and values other than the accepted ones.

    Keys set to null and those of `neutral_keys` are accepted. `accepted` maps additional keys to the values that have
    no effect. Raises CheckpointError with the names of unknown keys, and UnsupportedModel for another value and for
    quantized weights.
    """
    accepted = NEUTRAL_VALUES | dict(accepted)
    present = {key for key, value in values.items() if value is not None}
    if "quantization_config" in present:
        stored = values["quantization_config"]
        method = stored.get("quant_method") if isinstance(stored, Mapping) else None
        raise UnsupportedModel(
            "The weights of this checkpoint are quantized.",
            f"quant_method = {method!r}"[:80],
            "Use a checkpoint that is not quantized, or a .gguf file.",
        )
    if unknown := sorted(present - set(known) - IGNORED - set(accepted)):
        hint = "They may change the forward pass, which does not read them. If not, remove them from config.json."
        raise CheckpointError("The config has unknown keys.", ", ".join(unknown), hint)
    for key, allowed in accepted.items():
        # An array in GGUF metadata has no single truth value when compared.
        if key in present and not (isinstance(values[key], _COMPARED) and values[key] in allowed):
            names = " or ".join(map(repr, allowed))
            raise UnsupportedModel(
                "The model uses a feature that is not supported.",
                f"{key} = {values[key]!r}",
                say("Supported: {}.", names),
            )


def integer(values: Mapping, key: str, default: int | None = None) -> int:
    """Return an integer. Raises CheckpointError if it is missing (or null) and there is no default, or if it has
    another type.
    """
    return _typed(values, key, default, (int,), "a whole number")


def real(values: Mapping, key: str, default: float | None = None) -> float:
    """Return a number. Raises CheckpointError if it is missing (or null) and there is no default, or if it is not a
    finite number.
    """
    value = _typed(values, key, default, (int, float), "a number")
    if not abs(value) <= sys.float_info.max:  # an integer may exceed the float range, and a float may be NaN
        got = f"{key} = {value}"[:80]
        raise CheckpointError("A number of the config is not finite.", got, "Correct the config.")
    return float(value)


def flag(values: Mapping, key: str, default: bool) -> bool:
    """Return a boolean. Raises CheckpointError for a value of another type."""
    return _typed(values, key, default, (bool,), "true or false")


def choice(values: Mapping, key: str, table: Mapping[str, T], default: str) -> T:
    """Return the table's entry for the value of `key`. Raises UnsupportedModel for a value that is not in the table."""
    name = values.get(key, default)
    if not isinstance(name, str) or name not in table:
        hint = say("Supported: {}.", ", ".join(table))
        raise UnsupportedModel("The model uses a feature that is not supported.", f"{key} = {name!r}", hint)
    return table[name]


def name_of(table: Mapping[str, T], value: T) -> str:
    """Return the first name of a value in a table of names, the inverse of `choice`; "none" if it has no name."""
    return next((name for name, each in table.items() if each == value), "none")


def told(c: ModelConfig) -> dict:
    """Return the values that every family has; no token is special, so that generation never stops early."""
    special = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    return {"vocab_size": c.vocab_size, "tie_word_embeddings": c.tie_embeddings, **special}


def _typed(values: Mapping, key: str, default: T | None, types: tuple[type, ...], kind: str) -> T:
    value = values.get(key)
    if value is None:
        value = default
    if value is None:
        raise CheckpointError("The config lacks a key.", key, "Fetch the checkpoint again.")
    # bool is a subclass of int, but `true` is not a valid number of layers.
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise CheckpointError(say("A key of the config must be {}.", kind), f"{key} = {value!r}", "Correct the config.")
    return value


def depth(values: Mapping, key: str = "num_hidden_layers") -> int:
    """Return the number of layers. Raises CheckpointError for more than any model has."""
    n_layer = integer(values, key)
    if n_layer > MAX_LAYERS:
        raise CheckpointError("The config's sizes are implausible.", f"{key} {n_layer}"[:80], "Correct the config.")
    return n_layer


def sizes(values: Mapping, names: Mapping[str, str]) -> dict[str, int]:
    """Return {our name: number} of the keys in `names`, {their key: our name}. Raises CheckpointError for a key that is
    missing or of another type, and for more layers than any model has.
    """
    return {ours: (depth if ours == "n_layer" else integer)(values, theirs) for theirs, ours in names.items()}


def optional(values: Mapping, key: str, default: int | None) -> int | None:
    """Return an integer or None: a key that is null is None, and a missing one the default."""
    return None if values.get(key, default) is None else integer(values, key, default)


def layer_kinds(
    hf: Mapping, default: Sequence[str], *, ignored: bool = False, names: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return the entries of layer_types, or the default without this key.

    With `ignored`, for a family that does not read it, other entries than the default are rejected. `names` are the
    entries that the family knows. Raises
    UnsupportedModel for unknown entries, and CheckpointError for an invalid list.
    """
    kinds, names = hf.get("layer_types"), names or KINDS
    if kinds is None:
        return tuple(default)
    if not isinstance(kinds, list) or len(kinds) != len(default):
        got = f"layer_types = {kinds!r}"[:80]
        raise CheckpointError("layer_types must be a list with one entry for each layer.", got, "Correct the config.")
    for kind, own in zip(kinds, default, strict=True):
        if kind not in names or (ignored and kind != own):
            what, hint = (
                "The model uses a feature that is not supported.",
                say("Supported: {}.", own if ignored else ", ".join(names)),
            )
            raise UnsupportedModel(what, f"layer_types: {kind!r}", hint)
    return tuple(kinds)


def mixers(kinds: Sequence[str], window: int | None, names: Mapping[str, str] | None = None) -> dict:
    """Return mixer and window for a ModelConfig, with the mixers of `names`. Raises CheckpointError for layers with a
    window without its size.
    """
    if "sliding_attention" in kinds and window is None:
        raise CheckpointError("The config lacks a key.", "sliding_window", "Fetch the checkpoint again.")
    return {
        "mixer": tuple((names or KINDS)[kind] for kind in kinds),
        "window": window if "sliding_attention" in kinds else None,
    }


def mixers_told(c: ModelConfig) -> dict:
    """Return layer_types and sliding_window, the inverse of `layer_kinds` and `mixers`."""
    return {"layer_types": [name_of(KINDS, name) for name in c.mixers], "sliding_window": c.window}


KINDS = {"full_attention": "softmax", "sliding_attention": "sliding_window"}
