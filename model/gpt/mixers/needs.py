"""Errors of functions that require attention, for layers with another mixer."""

from model.arguments import check_layer
from model.errors import InputError, say
from model.gpt.config import ModelConfig

_MASKED = "Predictions show each masked token. For this view, choose a model that writes text, such as TinyGPT."
_WRITES = "Choose a model that writes text, such as TinyGPT."


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
    if config.channels(layer) is not None:
        what = "This layer has no queries and keys: it passes a state from token to token."
        others = _others(config)
        hint = say("Choose a layer with attention: {}.", others) if others else "Choose a model with attention."
        raise InputError(what, f"layer {layer}: {config.mixer_of(layer)}", hint)


def _others(config: ModelConfig) -> str:
    """Return the indices of the layers with attention as a string, "" for a model without attention."""
    return ", ".join(str(layer) for layer in range(config.n_layer) if config.is_attention(layer))


def need_attention(config: ModelConfig) -> None:
    """Raise InputError unless every layer has full attention, and its weights are the softmax of q.k / sqrt(d_head)
    alone, for functions that replace, restrict or share it.
    """
    other = [layer for layer, name in enumerate(config.mixers) if name != "softmax"]
    if other:
        raise InputError(
            "This is defined only for models with full attention in every layer.",
            f"layer {other[0]}: {config.mixer_of(other[0])}",
            "Choose a model with them.",
        )
    need_nothing_beside(config)
    need_alone(config)
    if not config.plain_attention:
        rules = {"positions alibi": config.positions == "alibi", "sinks": config.sinks, "two_way": config.two_way}
        rules[f"score_cap {config.score_cap}"] = config.score_cap is not None
        rules["output_gate"] = config.output_gate
        raise InputError(
            "This is defined only where attention weights are the softmax of q.k / sqrt(d_head) alone.",
            ", ".join(name for name, given in rules.items() if given),
            "Use another model.",
        )


def need_nothing_beside(config: ModelConfig) -> None:
    """Raise InputError for a model with a Mamba 2 beside the attention of its layers."""
    if config.ssm_beside:
        what = "This is not defined for models with Mamba 2 beside attention."
        raise InputError(what, "ssm_beside", "Use another model.")


def need_alone(config: ModelConfig) -> None:
    """Raise InputError unless the layers are `alone`."""
    if not config.alone:
        raise not_alone("this model", config)


def not_alone(name: str, config: ModelConfig) -> InputError:
    """Build the error for what is defined only for models whose layers are `alone`."""
    fields = {
        "d_head_local": config.d_head_local,
        "n_shared_kv": config.n_shared_kv,
        "d_layer_input": config.d_layer_input,
    }
    got = ", ".join(f"{field} {value}" for field, value in fields.items() if value)
    what = say("This is not defined for {}, whose layers differ in size or do more than add to the stream.", name)
    return InputError(what, got, "Choose a model with layers of one kind, such as TinyGPT.")


def need_heads_alone(config: ModelConfig) -> None:
    """Raise InputError where the output of attention is more than the sum of its heads."""
    if config.ssm_beside:
        what = "Here the output of attention is not the sum of its heads: a Mamba 2 adds its own."
        raise InputError(what, "ssm_beside", "Use another model.")


def both_ways(name: str, masks: bool = False) -> InputError:
    """Build the error for what is defined only for models that read from left to right and predict the next token;
    `masks`: whether the model predicts masked tokens.
    """
    what = say("{} reads in both directions, so it has no next token.", name)
    return InputError(what, "", _MASKED if masks else _WRITES)


def need_next(config: ModelConfig) -> None:
    """Raise InputError for a model that reads in both directions."""
    if config.two_way:
        raise InputError("This model reads in both directions, so it has no next token.", "", _WRITES)


def need_causal(config: ModelConfig) -> None:
    """Raise InputError for a model whose tokens also attend to later ones."""
    if config.two_way:
        what = "This is defined only for models whose tokens do not attend to later ones."
        raise InputError(what, "two_way", _WRITES)


def need_directions(config: ModelConfig) -> None:
    """Raise InputError unless a token's logit is linear in the normalized stream, so that the token has a direction."""
    need_head(config)
    if config.head_dense:
        what = "A token has no direction in this model's stream: a dense layer stands before its output head."
        raise InputError(what, "head_dense", _WRITES)


def need_masks(config: ModelConfig) -> None:
    """Raise InputError for a model that does not predict masked tokens."""
    if not config.two_way:
        hint = "It predicts the next token. Choose a model such as BERT."
        raise InputError("This model reads from left to right, so it predicts no masked tokens.", "", hint)
    need_head(config)


def need_head(config: ModelConfig, name: str = "This model") -> None:
    """Raise InputError for a checkpoint without a head that predicts tokens."""
    if config.headless:
        raise headless(name)


def headless(name: str) -> InputError:
    """Build the error for what is defined only for models with a head that predicts tokens."""
    hint = "Load a checkpoint with it, such as one of the class BertForMaskedLM."
    return InputError(say("{} has no head that predicts tokens: its checkpoint holds only the layers.", name), "", hint)


def no_mask(name: str) -> InputError:
    """Build the error for a prediction of masked tokens without a token that masks one."""
    hint = "Put the tokenizer's files beside the weights: they name the mask token."
    return InputError(say("The vocabulary of {} has no mask token.", name), "", hint)


def need_rewinding(config: ModelConfig) -> None:
    """Raise InputError unless the cache can be rewound, which a recurrent state or a sliding window does not allow."""
    if not config.rewinds:
        raise InputError(
            "This model's state does not keep every token, so tokens cannot be removed from it again.",
            f"layer {config.stateful[0]}: {config.mixer_of(config.stateful[0])}" if config.stateful else "ssm_beside",
            "Choose a model with full attention in every layer.",
        )


def need_softmax(config: ModelConfig) -> None:
    """Raise InputError unless every layer has scores and a softmax over them, of all tokens or of a window, and no
    Mamba 2 beside it, and the layers are `alone`.
    """
    need_nothing_beside(config)
    need_alone(config)
    other = [layer for layer in range(config.n_layer) if not config.is_attention(layer)]
    if other:
        raise InputError(
            "This is defined only for models with attention in every layer.",
            f"layer {other[0]}: {config.mixer_of(other[0])}",
            "Choose a model with them.",
        )
