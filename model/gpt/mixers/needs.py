"""Errors of functions that require attention, for layers with another mixer."""

from model.arguments import check_layer
from model.errors import InputError, say
from model.gpt.config import ModelConfig


def need_scores(config: ModelConfig, layer: int) -> None:
    """Raise InputError unless the layer exists and has scores and a softmax over them."""
    check_layer(layer, config.n_layer)
    if not config.is_attention(layer):
        what = "This layer has no attention scores: it passes a state from token to token."
        others = _others(config)
        hint = say("Choose a layer with attention: {}.", others) if others else "Choose a model with attention."
        raise InputError(what, f"layer {layer}: {config.mixer_of(layer)}", hint)


def need_qkv(config: ModelConfig, layer: int) -> None:
    """Raise InputError unless the layer exists and has queries, keys and values."""
    check_layer(layer, config.n_layer)
    if config.mixer_of(layer) == "mamba":
        what = "This layer has no queries and keys: it passes a state from token to token."
        others = _others(config)
        hint = say("Choose a layer with attention: {}.", others) if others else "Choose a model with attention."
        raise InputError(what, f"layer {layer}: {config.mixer_of(layer)}", hint)


def _others(config: ModelConfig) -> str:
    """Return the indices of the layers with attention as a string, "" for a model without attention."""
    return ", ".join(str(layer) for layer in range(config.n_layer) if config.is_attention(layer))


def need_attention(config: ModelConfig) -> None:
    """Raise InputError unless every layer has full attention, for functions that replace, restrict or share it."""
    other = [layer for layer, name in enumerate(config.mixers) if name != "softmax"]
    if other:
        raise InputError(
            "This is defined only for models with full attention in every layer.",
            f"layer {other[0]}: {config.mixer_of(other[0])}",
            "Choose a model with them.",
        )


def need_rewinding(config: ModelConfig) -> None:
    """Raise InputError unless the cache can be rewound, which a recurrent state or a sliding window does not allow."""
    if config.stateful:
        raise InputError(
            "This model's state does not keep every token, so tokens cannot be removed from it again.",
            f"layer {config.stateful[0]}: {config.mixer_of(config.stateful[0])}",
            "Choose a model with full attention in every layer.",
        )
