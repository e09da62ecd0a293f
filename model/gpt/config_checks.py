"""Validation of the values of a ModelConfig, which may come from a file."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any, get_args

from model.gpt.mixers.names import ATTENTION
from model.gpt.rope_scaling import check_scaling

Choices = Mapping[str, tuple[str, ...]]  # {field: its possible values}

GATED = ("swiglu", "geglu", "geglu_tanh", "swiglu_clamped")
LARGEST = (1 << 31) - 1  # maximum value of any size
SIZES = (
    *("vocab_size", "n_ctx", "n_layer", "d_model", "n_head", "n_kv_head", "d_head", "d_mlp", "window"),
    *("d_head_local", "n_kv_head_local", "d_mlp_shared", "n_shared_kv", "d_layer_input"),
    *("d_state", "d_conv", "expand", "dt_rank", "ssm_heads", "d_ssm_head", "ssm_groups"),
    *("n_delta_head", "n_delta_key", "d_delta_key", "d_delta_value"),
    *("n_expert", "d_expert", "d_shared", "n_segment", "segment_end"),
)
_POSITIVE = (
    *("norm_eps", "rope_theta_local", "capacity_factor", "score_cap", "logit_cap", "qkv_limit"),
    *("embed_multiplier", "residual_multiplier", "logit_multiplier", "score_multiplier"),
    "expert_multiplier",
)
LAYERS = ("unrotated", "unnormed", "without_mlp", "dense")  # tuples of layer numbers


def check_sizes(config: Any) -> None:
    """Raise ValueError for a size beyond LARGEST."""
    for name in SIZES:
        if (getattr(config, name) or 0) > LARGEST:
            raise ValueError(f"{name} must be at most {LARGEST}, got {getattr(config, name)}")


def check_types(config: Any, choices: Choices) -> None:
    """Raise ValueError for a field of the wrong type, since the values may come from a file."""
    for field in dataclasses.fields(config):
        if field.name == "mixer":  # checked by checked_mixer
            continue
        if field.name in LAYERS:
            object.__setattr__(config, field.name, _layers(config, field.name))
            continue
        value, kinds = getattr(config, field.name), get_args(field.type) or (field.type,)
        kinds = (str,) if field.name in choices else (*kinds, int) if float in kinds else kinds
        # True is an int in Python, but a boolean in a file is not a number.
        fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        if int in kinds and float not in kinds:
            if not fits or (value is not None and value < 1):
                raise ValueError(f"{field.name} must be a positive whole number, got {value!r}")
        elif not fits:
            names = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
            raise ValueError(f"{field.name} must be {names}, got {value!r}")
        elif float in kinds and value is not None:
            if abs(value) > sys.float_info.max:  # an integer may exceed the float range
                raise ValueError(f"{field.name} must be a finite number, got {value}")
            object.__setattr__(config, field.name, float(value))


def check_values(config: Any, choices: Choices) -> None:
    """Raise ValueError for values out of range, and for fields that do not go together."""
    if config.n_head % config.n_kv_head:
        raise ValueError(f"n_head {config.n_head} must be a multiple of n_kv_head {config.n_kv_head}")
    for name, known in choices.items():
        if getattr(config, name) not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {getattr(config, name)!r}")
    if not (0 <= config.rotary_fraction <= 1 and config.rope_theta > 0):
        got = f"{config.rotary_fraction} and {config.rope_theta}"
        raise ValueError(f"rotary_fraction must lie in 0 .. 1 and rope_theta be positive, got {got}")
    if config.positions == "rope" and (config.d_rotary % 2 or config.d_rotary == 0):
        raise ValueError(f"RoPE rotates pairs: d_head x rotary_fraction must be even, got {config.d_rotary}")
    if config.rope_scaling is not None:
        check_scaling(config.rope_scaling)
    if config.parallel_residual and config.norm_placement != "pre":
        raise ValueError("a parallel residual is defined for pre-norm blocks only")
    if config.mlp == "none" and (config.n_expert > 1 or config.head_dense or config.norm_placement != "pre"):
        raise ValueError("layers without an MLP are pre-norm, without experts and a dense layer before the head")
    if config.mlp == "xielu" and (config.n_expert > 1 or config.head_dense or config.d_layer_input):
        raise ValueError("xIELU is defined for a single MLP in each layer, and not before the head")
    if config.headless and not (
        config.two_way and config.tie_embeddings and not config.head_dense and not config.head_bias
    ):
        raise ValueError("only a model with two-way attention can be without a head, which has no weights then")
    if config.without_mlp and config.norm_placement != "pre":
        raise ValueError("layers without an MLP are defined for pre-norm blocks only")
    if config.ssm_beside and (config.mixer != "softmax" or config.two_way):
        raise ValueError("a Mamba 2 beside the attention is defined for full attention of earlier tokens")
    if config.alibi_rounded and (config.mixer != "softmax" or config.two_way):
        raise ValueError("rounded positions of ALiBi are defined for full attention of earlier tokens")
    if config.two_way and not all(name in ATTENTION for name in config.mixers):
        raise ValueError("two-way attention is defined for layers of attention only")
    if config.unnormed and config.norm_placement != "pre":
        raise ValueError("layers without a norm before the attention are defined for pre-norm blocks only")
    if config.shared_norm and not config.parallel_residual:
        raise ValueError("a shared norm is defined for parallel residuals only")
    if config.dt_min < 0 or (config.dt_max is not None and config.dt_max < config.dt_min):
        raise ValueError(f"step sizes lie between 0 and a maximum, got dt_min {config.dt_min} and {config.dt_max}")
    if config.experts_per_token > config.n_expert:
        raise ValueError(f"experts_per_token {config.experts_per_token} must be at most n_expert {config.n_expert}")
    if config.router_scores == "sparsemixer" and (config.divide_weights or config.router_offset):
        raise ValueError("weights of SparseMixer are not divided by their sum, and experts have no offset")
    if config.router_jitter < 0:
        raise ValueError(f"router_jitter must be at least 0, got {config.router_jitter}")
    if config.divide_eps < 0:
        raise ValueError(f"divide_eps must be at least 0, got {config.divide_eps}")
    _check_expert_norms(config)
    _check_sized(config)
    for name in _POSITIVE:
        if getattr(config, name) is not None and not getattr(config, name) > 0:
            raise ValueError(f"{name} must be positive, got {getattr(config, name)}")


def _check_expert_norms(config: Any) -> None:
    """Raise ValueError for gains and norms of experts that do not go with the norms of the layer."""
    if config.expert_norms and not (config.n_expert > 1 and config.d_shared and config.norm == "rmsnorm"):
        raise ValueError("norms of experts are defined for experts beside a shared MLP, with RMSNorm")
    if config.expert_norms and not (config.norm_weight and config.norm_placement in ("pre", "sandwich")):
        raise ValueError("norms of experts have gains, and need a norm before the MLP")
    if config.expert_norms and (config.dense or config.without_mlp or config.shared_norm):
        raise ValueError("norms of experts need experts and a norm before them in every layer")


def _check_sized(config: Any) -> None:
    """Raise ValueError for sizes of some layers, and keys and values shared by layers, that do not go together."""
    near = config.mixers.count("sliding_window")
    if (config.d_head_local or config.n_kv_head_local) and not near:
        raise ValueError("d_head_local and n_kv_head_local are sizes of layers with a sliding window; there are none")
    if config.n_kv_head_local and config.n_head % config.n_kv_head_local:
        raise ValueError(f"n_head {config.n_head} must be a multiple of n_kv_head_local {config.n_kv_head_local}")
    if config.d_head_local and config.positions == "rope":
        width = config.d_head_local * config.rotary_fraction
        if config.rope_theta_local is None or int(width) % 2 or int(width) == 0:
            raise ValueError(f"with RoPE, d_head_local needs rope_theta_local and must be even, got {width:g}")
    if not all(name in ATTENTION for name in config.mixers) and not config.alone:
        raise ValueError("layers with sizes or inputs of their own are defined for layers of attention only")
    if not config.alone and (config.two_way or config.norm_placement not in ("pre", "sandwich") or config.ssm_beside):
        raise ValueError("layers with sizes or inputs of their own are pre-norm or sandwich, and read left to right")
    if not config.alone and (config.output_gate or config.qk_norm_over == "all" or config.parallel_residual):
        raise ValueError("layers with sizes or inputs of their own have no output gate and no parallel residual")
    if config.d_mlp_shared and not config.n_shared_kv:
        raise ValueError("d_mlp_shared is the width in the layers of n_shared_kv, and there are none")
    if config.n_shared_kv:
        first = config.n_layer - config.n_shared_kv
        if first < 1 or not set(config.mixers[first:]) <= set(config.mixers[:first]):
            got = f"n_shared_kv {config.n_shared_kv} of {config.n_layer} layers"
            raise ValueError(f"each layer that shares keys and values needs one before them with its mixer, got {got}")


def _layers(config: Any, name: str) -> tuple[int, ...]:
    """Return a tuple of layer numbers in increasing order. Raises ValueError for anything else."""
    given = getattr(config, name)
    exist = isinstance(given, (tuple, list)) and all(type(each) is int and 0 <= each < config.n_layer for each in given)
    if not exist or len(set(given)) != len(given):
        raise ValueError(f"{name} must name layers from 0 to {config.n_layer - 1}, each once, got {given!r}")
    return tuple(sorted(given))
