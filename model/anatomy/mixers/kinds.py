"""The kinds of layers of a model: what mixes the tokens, whether an MLP follows, and their sizes."""

from collections.abc import Iterable
from dataclasses import dataclass

from model.errors import InputError
from model.gpt.config import ModelConfig
from model.gpt.mixers.names import LINEAR

# The parts of model.anatomy.blueprint that not every kind of layer has.
_PROJECTED = ("q", "k", "v", "v_norm", "qk_norm", "rope", "o")
_ATTENTION = (*_PROJECTED, "borrowed", "scores", "cap", "alibi", "window", "sinks", "softmax", "mix", "gate_o")
_STATE = ("in_proj", "conv", "rates", "state", "state_gate", "out_proj")
_EXPERTS = ("router", "gate", "up", "act", "down", "shared")
_MLP = ("norm2", *_EXPERTS, "dense", "after2", "add2")


@dataclass(frozen=True)
class Kind:
    """Layers with the same mixer and sizes, which are drawn once."""

    mixer: str  # "attention", or the name of a mixer without a softmax
    mlp: bool
    layers: tuple[int, ...]
    shares: bool = False  # whether they use the keys and values of an earlier layer


def kinds(config: ModelConfig) -> tuple[Kind, ...]:
    """Return the kinds of a model's layers in the order of their first layers."""
    found: dict[tuple[str, bool, bool, object], list[int]] = {}
    for layer in range(config.n_layer):
        mixer = "attention" if config.is_attention(layer) else config.mixer_of(layer)
        sizes = config.at(layer), config.keys_as_values and config.mixer_of(layer) == "softmax"
        kind = mixer, config.has_mlp(layer), config.kv_source(layer) != layer, sizes
        found.setdefault(kind, []).append(layer)
    return tuple(Kind(mixer, mlp, tuple(layers), shares) for (mixer, mlp, shares, _), layers in found.items())


def state_mixers(config: ModelConfig) -> list[str]:
    """Return the mixers without a softmax of a model's layers, in place of attention or beside it."""
    names = {kind.mixer for kind in kinds(config)} - {"attention"}
    return sorted(names | {"mamba2"} if config.ssm_beside else names)


def state_mixer(config: ModelConfig) -> str | None:
    """Return the mixer without a softmax of a model's layers; None if every layer has attention alone. Raises
    InputError for several such mixers.
    """
    names = state_mixers(config)
    if len(names) > 1:
        what = "This is defined only for models with one kind of mixer besides attention."
        raise InputError(what, ", ".join(names), "Use another model.")
    return names[0] if names else None


def attention_layers(config: ModelConfig) -> list[int]:
    """Return the layers with scores and a softmax over them."""
    return [layer for layer in range(config.n_layer) if config.is_attention(layer)]


def keys_of(config: ModelConfig, kind: Kind, keys: Iterable[str]) -> list[str]:
    """Return those of a model's parts that a kind of layer has, and those outside the layers."""
    absent = set(() if kind.mlp else _MLP)
    if kind.mixer == "attention":
        absent |= set() if config.ssm_beside else set(_STATE)
    else:
        absent |= set(_ATTENTION)
        absent -= {*_PROJECTED} - {"v_norm"} if kind.mixer in LINEAR else set()
    absent |= {"k", "v", "v_norm"} if kind.shares else {"borrowed"}
    if not any(config.mixer_of(layer) == "sliding_window" for layer in kind.layers):
        absent |= {"window"}
    if config.n_expert > 1:
        dense = [layer in config.dense for layer in kind.layers]
        absent |= set(_EXPERTS) if all(dense) else set() if any(dense) else {"dense"}
    return [key for key in keys if key not in absent]


def layers_with(config: ModelConfig, key: str) -> list[int]:
    """Return the layers that have a part of the blocks."""
    return sorted(layer for kind in kinds(config) if key in keys_of(config, kind, [key]) for layer in kind.layers)
