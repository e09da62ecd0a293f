"""Strict reading of a config.json: every key is used, known to be irrelevant, or rejected by name."""

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from model.errors import CheckpointError, UnsupportedModel, say
from model.gpt.config import ModelConfig, RopeScaling
from model.loading.convert import Layout
from model.loading.families.neutral_keys import EVERY_FAMILY, NEUTRAL_VALUES, keys_of

T = TypeVar("T")


@dataclass(frozen=True)
class Family:
    """One architecture on the Hub: the conversion of its config.json, and its weight names."""

    label: str
    to_config: Callable[[dict], ModelConfig]
    layout: Layout


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
ROPE_KEYS = frozenset(
    {
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "rotary_emb_base",
        "rotary_pct",
        "partial_rotary_factor",
    }
)
_COMPARED = bool | int | float | str | dict
LLAMA3_KEYS = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


def check_keys(values: Mapping, known: Collection[str], accepted: Mapping[str, tuple]) -> None:
    """Reject unknown keys, and values other than the accepted ones.

    Keys set to null and those of `neutral_keys` are accepted. `accepted` maps additional keys to the values that have
    no effect. Raises CheckpointError with the names of unknown keys, and UnsupportedModel for another value.
    """
    accepted = NEUTRAL_VALUES | dict(accepted)
    present = {key for key, value in values.items() if value is not None}
    if unknown := sorted(present - set(known) - IGNORED - set(accepted)):
        hint = "They may change what the model computes, so the checkpoint is not loaded."
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


def check_layer_types(hf: Mapping) -> None:
    """Raise UnsupportedModel unless every layer has full attention, and CheckpointError for an invalid list."""
    kinds, n_layer = hf.get("layer_types"), hf.get("num_hidden_layers")
    if kinds is None:
        return
    if not isinstance(kinds, list) or len(kinds) != n_layer:
        got = f"layer_types = {kinds!r}"[:80]
        raise CheckpointError("layer_types must be a list with one entry for each layer.", got, "Correct the config.")
    for kind in kinds:
        if kind != "full_attention":
            what, hint = "The model uses a feature that is not supported.", "Supported: full_attention."
            raise UnsupportedModel(what, f"layer_types: {kind!r}", hint)


def rope(hf: Mapping, default_fraction: float = 1.0) -> dict:
    """Return rope_theta, rotary_fraction and rope_scaling for a ModelConfig.

    Older files have rope_theta beside rope_scaling, and newer ones have everything in rope_parameters; the values of
    files with both must agree. Raises UnsupportedModel for a scaling other than Llama 3's, and CheckpointError for
    unknown or missing keys.
    """
    values: dict = {}
    for key in ("rope_scaling", "rope_parameters"):
        inner = hf.get(key)
        if inner is None:
            continue
        if not isinstance(inner, Mapping):
            raise CheckpointError(say("{} must be an object.", key), repr(inner), "Correct the config.")
        for name, value in inner.items():
            if value is not None:
                _put(values, {"type": "rope_type"}.get(name, name), value)
    for name in ("rope_theta", "rotary_emb_base", "rotary_pct", "partial_rotary_factor"):
        if hf.get(name) is not None:
            aliases = {"rotary_emb_base": "rope_theta", "rotary_pct": "partial_rotary_factor"}
            _put(values, aliases.get(name, name), hf[name])
    if values.get("rope_type") == "linear" and values.get("factor") == 1:  # no effect
        values = {key: value for key, value in values.items() if key not in ("rope_type", "factor")}
    scaled = choice(values, "rope_type", {"default": False, "llama3": True}, "default")
    known = {"rope_type", "rope_theta", "partial_rotary_factor", *(LLAMA3_KEYS if scaled else ())}
    check_keys(values, known, {})
    return {
        "rope_theta": real(values, "rope_theta", 10_000.0),
        "rotary_fraction": real(values, "partial_rotary_factor", default_fraction),
        "rope_scaling": _llama3(values) if scaled else None,
    }


def _put(values: dict, name: str, value: object) -> None:
    if values.setdefault(name, value) != value:
        got = f"{name}: {values[name]!r} and {value!r}"
        raise CheckpointError("The config gives two values for the same thing.", got, "Correct the config.")


def _llama3(values: Mapping) -> RopeScaling:
    factor, low, high = (real(values, key) for key in LLAMA3_KEYS[:3])
    original = integer(values, LLAMA3_KEYS[3])
    if not (factor > 0 and 0 < low < high and original > 0):
        got = f"factor {factor}, low {low}, high {high}, original context {original}"
        raise CheckpointError("The RoPE scaling is invalid.", got, "Correct the config.")
    return RopeScaling(factor=factor, low_freq_factor=low, high_freq_factor=high, original_n_ctx=original)
