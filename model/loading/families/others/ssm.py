"""Shared parts of the families with Mamba 2 layers: limits of the step sizes, names of weights, and the convolution."""

import math
from collections.abc import Mapping

from torch import Tensor

from model.errors import CheckpointError
from model.gpt.config import ModelConfig
from model.loading.convert import Into, Names
from model.loading.families.common import check_keys, flag, integer, real

SSM_KEYS = frozenset(
    {
        f"mamba_{name}"
        for name in ("n_heads", "d_head", "n_groups", "d_state", "d_conv", "expand", "conv_bias", "proj_bias")
    }
    | {"time_step_limit"}
)


def ssm_fields(hf: Mapping, channels: int) -> dict:
    """Return the fields about Mamba 2 layers from the keys of SSM_KEYS. Raises UnsupportedModel unless the heads have
    this number of channels together.
    """
    heads = integer(hf, "mamba_n_heads", 128)
    width = channels // max(heads, 1) if hf.get("mamba_d_head", "auto") == "auto" else integer(hf, "mamba_d_head")
    check_keys({"mamba_n_heads x mamba_d_head": heads * width}, (), {"mamba_n_heads x mamba_d_head": (channels,)})
    return limits(hf) | {
        "ssm_heads": heads,
        "d_ssm_head": width,
        "ssm_groups": integer(hf, "mamba_n_groups", 1),
        "ssm_bias": flag(hf, "mamba_proj_bias", False),
        "ssm_conv_bias": flag(hf, "mamba_conv_bias", True),
        "d_state": integer(hf, "mamba_d_state", 256),
        "d_conv": integer(hf, "mamba_d_conv", 4),
    }


def squeeze(weight: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Drop the axis of size 1 of a convolution over single channels. [I, 1, K] -> [I, K]"""
    return (weight.squeeze(1),)


def mixer_names(theirs: str, ours: str = "blocks.{i}.attn") -> Names:
    """Return the names of a Mamba 2's weights, which begin with `theirs` in the file."""
    names: Names = {f"{theirs}.{name}": f"{ours}.{name}" for name in ("dt_bias", "A_log", "D")}
    for old, new in (("in_proj", "in_proj"), ("out_proj", "o"), ("conv1d", "conv"), ("norm", "norm")):
        names |= {f"{theirs}.{old}.{kind}": f"{ours}.{new}.{kind}" for kind in ("weight", "bias")}
    del names[f"{theirs}.norm.bias"]
    return names | {f"{theirs}.conv1d.weight": Into((f"{ours}.conv.weight",), squeeze)}


def limits(hf: Mapping, key: str = "time_step_limit") -> dict:
    """Return dt_min and dt_max for a ModelConfig. Raises CheckpointError unless they are two numbers."""
    given = hf.get(key)
    if given is None:
        return {}
    if not isinstance(given, list) or len(given) != 2:
        raise CheckpointError(
            "The limits of the step sizes must be two numbers.", f"{key} = {given!r}"[:80], "Correct the config."
        )
    # Older versions of transformers write {"__float__": "Infinity"} for infinity, which JSON lacks.
    unlimited = given[1] in (math.inf, {"__float__": "Infinity"})
    numbers = {"dt_min": given[0]} if unlimited else {"dt_min": given[0], "dt_max": given[1]}
    return {name: real(numbers, name) for name in numbers}
