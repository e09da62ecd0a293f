"""Architectures with Mamba layers, or with Mamba 2 layers alone, among layers of attention or beside them.

A file says A = -exp(A_log), and has axes of size 1. Which kind a layer is, its tensors say.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from model.errors import UnsupportedModel
from model.gpt.config import ModelConfig
from model.loading.architectures.common import EXPERTS, NAMES, OFFSET, PERMUTED, SWIGLU, Architecture, flat
from model.loading.architectures.llama_like import GRANITE_KEYS, divided
from model.loading.convert import Into, Layout, Names, both
from model.loading.families.common import check_keys, flag, integer
from model.loading.families.others.mamba import N_CTX, grouped
from model.loading.gguf_file import GgufFile

SSM_KEYS = tuple(f"ssm.{name}" for name in ("conv_kernel", "inner_size", "state_size", "time_step_rank", "group_count"))


def log_rates(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Return A_log of A = -exp(A_log). [J, 1] -> [J]"""
    return ((-tensor.flatten()).log(),)


def _log_rates_of_states(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Return A_log of A = -exp(A_log). [I, N]"""
    return ((-tensor).log(),)


_MAMBA: Names = {
    **NAMES,
    "blk.{i}.ssm_in.weight": "blocks.{i}.attn.in_proj.weight",
    **both("blk.{i}.ssm_conv1d", "blocks.{i}.attn.conv"),
    "blk.{i}.ssm_x.weight": "blocks.{i}.attn.x_proj.weight",
    **both("blk.{i}.ssm_dt", "blocks.{i}.attn.dt_proj"),
    "blk.{i}.ssm_a": Into(("blocks.{i}.attn.A_log",), _log_rates_of_states),
    "blk.{i}.ssm_d": "blocks.{i}.attn.D",
    "blk.{i}.ssm_out.weight": "blocks.{i}.attn.o.weight",
}


def _mamba(file: GgufFile, meta: Mapping, fields: Mapping) -> dict[str, Any]:
    """Return the fields of a model of Mamba, whose file has 0 heads, MLPs of width 0 and a context without meaning."""
    channels, width = integer(meta, "ssm.inner_size"), fields["d_model"]
    expand = max(channels // max(width, 1), 1)
    check_keys({"ssm.inner_size": channels}, (), {"ssm.inner_size": (expand * width,)})
    return grouped(channels) | {
        "n_kv_head": None,
        "d_mlp": None,
        "n_ctx": N_CTX,
        "expand": expand,
        "d_state": integer(meta, "ssm.state_size"),
        "d_conv": integer(meta, "ssm.conv_kernel"),
        "dt_rank": integer(meta, "ssm.time_step_rank"),
    }


def ssm_names(ours: str = "blocks.{i}.attn") -> Names:
    """Return the names of a Mamba 2."""
    return {
        **both("blk.{i}.ssm_in", f"{ours}.in_proj"),
        **both("blk.{i}.ssm_conv1d", f"{ours}.conv"),
        **both("blk.{i}.ssm_out", f"{ours}.o"),
        "blk.{i}.ssm_dt.bias": f"{ours}.dt_bias",
        "blk.{i}.ssm_a": Into((f"{ours}.A_log",), log_rates),
        "blk.{i}.ssm_d": Into((f"{ours}.D",), flat),
        "blk.{i}.ssm_norm.weight": Into((f"{ours}.norm.weight",), flat),
    }


def _ssm(file: GgufFile, meta: Mapping, fields: Mapping) -> dict[str, Any]:
    """Return the fields about Mamba 2."""
    heads, has = integer(meta, "ssm.time_step_rank"), {name.split(".", 2)[-1] for name in file.tensors}
    return {
        "ssm_heads": heads,
        "d_ssm_head": integer(meta, "ssm.inner_size") // max(heads, 1),
        "ssm_groups": integer(meta, "ssm.group_count"),
        "d_state": integer(meta, "ssm.state_size"),
        "d_conv": integer(meta, "ssm.conv_kernel"),
        "ssm_bias": "ssm_in.bias" in has,
        "ssm_conv_bias": "ssm_conv1d.bias" in has,
        "ssm_norm": "after_gate" if "ssm_norm.weight" in has else "none",
    }


def _alone(file: GgufFile, meta: Mapping, fields: Mapping) -> dict[str, Any]:
    """Return the fields of a model of Mamba 2 alone, whose file has 0 heads and MLPs of width 0."""
    ssm = _ssm(file, meta, fields)
    return ssm | {"n_head": ssm["ssm_heads"], "n_kv_head": None, "d_head": ssm["d_ssm_head"], "d_mlp": None}


def _has(file: GgufFile, layer: int, part: str) -> bool:
    return f"blk.{layer}.{part}.weight" in file.tensors


def _mixers(file: GgufFile, layers: range) -> tuple[str, ...]:
    return tuple("mamba2" if _has(file, layer, "ssm_in") else "softmax" for layer in layers)


def _granite(file: GgufFile, meta: Mapping, fields: Mapping) -> dict[str, Any]:
    """Return the fields of Granite 4.0. Raises UnsupportedModel for a file with RoPE, as of Bamba."""
    if flag(meta, "rope.scaling.finetuned", False):
        what = "The model uses a feature that is not supported."
        raise UnsupportedModel(what, "rope.scaling.finetuned = True", "Use the published folder.")
    up = file.tensors.get("blk.0.ffn_up.weight")
    width = {} if up is None else {"d_mlp": up.shape[0]}
    mixers = {"mixer": _mixers(file, range(fields["n_layer"])), "positions": "none"}
    return _ssm(file, meta, fields) | divided(file, meta, fields) | mixers | width


_MLPS = {"mlp": "ffn_up", "experts": "ffn_up_exps"}


def _sublayers(file: GgufFile) -> list[str]:
    """Return the kind of each layer of a Nemotron-H file: "mamba2", "softmax", "mlp" or "experts"."""
    layers = range(sum(name.endswith(".attn_norm.weight") for name in file.tensors))
    mlps = [next((kind for kind, part in _MLPS.items() if _has(file, layer, part)), "") for layer in layers]
    return [mlp or kind for mlp, kind in zip(mlps, _mixers(file, layers), strict=True)]


def _nemotron(file: GgufFile, meta: Mapping, fields: Mapping) -> dict[str, Any]:
    """Return the fields of Nemotron-H, whose files count mixers and MLPs as layers (model.loading.families.others)."""
    kinds = _sublayers(file)
    followed = [after for kind, after in zip(kinds, [*kinds[1:], ""], strict=True) if kind not in _MLPS]
    check_keys({"block_count": fields["n_layer"]}, (), {"block_count": (len(kinds),)})
    width = file.tensors[f"blk.{kinds.index('mlp')}.ffn_up.weight"].shape[0] if "mlp" in kinds else fields["d_mlp"]
    return _ssm(file, meta, fields) | {
        "n_layer": len(followed),
        "d_mlp": width,
        "mixer": tuple(kind for kind in kinds if kind not in _MLPS),
        "without_mlp": tuple(layer for layer, after in enumerate(followed) if after not in _MLPS),
        "dense": tuple(layer for layer, after in enumerate(followed) if after == "mlp" and "experts" in kinds),
    }


def _nemotron_names(file: GgufFile) -> Layout:
    """Return the names of Nemotron-H's weights, with the numbers of the file's layers."""
    names: Names = {name: ours for name, ours in NAMES.items() if "{i}" not in name}
    inside, layer = NAMES | PERMUTED | OFFSET | ssm_names(), -1
    for place, kind in enumerate(_sublayers(file)):
        layer += kind not in _MLPS
        norm = "norm2" if kind in _MLPS else "norm1"
        for name, rule in (inside | both("blk.{i}.attn_norm", f"blocks.{{i}}.{norm}")).items():
            if "{i}" in name and rule is not None:
                ours = tuple(
                    each.replace("{i}", str(layer)) for each in ([rule] if isinstance(rule, str) else rule.names)
                )
                names[name.replace("{i}", str(place))] = ours[0] if isinstance(rule, str) else Into(ours, rule.change)
    return Layout(names)


_PLAIN = {"norm": "rmsnorm", "positions": "none"}
_NEMOTRON = Architecture(
    "Nemotron-H",
    _PLAIN | {"mlp": "relu2"},
    Layout(NAMES),
    SSM_KEYS,
    by_layer=("attention.head_count_kv", "feed_forward_length"),
    more=_nemotron,
    layout_of=_nemotron_names,
)
HYBRIDS: dict[str, Architecture] = {
    "mamba": Architecture(
        "Mamba", _PLAIN | {"mixer": "mamba", "mlp": "none"}, Layout(_MAMBA), SSM_KEYS[:4], more=_mamba
    ),
    "mamba2": Architecture(
        "Mamba 2", _PLAIN | {"mixer": "mamba2", "mlp": "none"}, Layout(NAMES | ssm_names()), SSM_KEYS, more=_alone
    ),
    # All multipliers are folded into the weights; q and k are as in the folder.
    "falcon-h1": Architecture(
        "Falcon-H1",
        SWIGLU | {"ssm_beside": True},
        Layout(NAMES | ssm_names("blocks.{i}.attn.beside") | {"blk.{i}.ffn_norm": "blocks.{i}.norm2.weight"}),
        SSM_KEYS,
        more=_ssm,
    ),
    # q and k are permuted, although they are not rotated.
    "granitehybrid": Architecture(
        "Granite 4.0",
        SWIGLU | {"positions": "none"},
        Layout(NAMES | PERMUTED | EXPERTS | ssm_names()),
        (*GRANITE_KEYS, *SSM_KEYS),
        by_layer=("attention.head_count_kv",),
        more=_granite,
    ),
    "nemotron_h": _NEMOTRON,
    # What the weights of the experts are computed from is not stored.
    "nemotron_h_moe": replace(
        _NEMOTRON,
        label="Nemotron 3",
        fields=_NEMOTRON.fields | {"router_scores": "sigmoid"},
        reads=(*SSM_KEYS, "expert_gating_func", "expert_weights_scale"),
    ),
}
