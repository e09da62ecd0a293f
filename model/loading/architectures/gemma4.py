"""Gemma 4: layers differ in the size of heads, the number of KV heads and the width of the MLP."""

from collections.abc import Mapping

import numpy as np

from model.errors import UnsupportedModel
from model.loading.architectures.common import AFTER, EXPERTS, NAMES, QK_NORM, Architecture
from model.loading.architectures.metadata import PATTERN, WINDOW, as_written, layers_with_window
from model.loading.convert import Into, Layout, Names
from model.loading.families.common import check_keys, integer, real
from model.loading.families.experts import STACKED, join_gate, split_gate
from model.loading.gguf_file import GgufFile, Value

_SHARED, _HEADS, _WIDTH = "attention.shared_kv_layers", "attention.head_count_kv", "feed_forward_length"
_HEAD = "attention.key_length_swa"
_NAMES: Names = {
    **NAMES,
    **AFTER,
    **QK_NORM,
    "blk.{i}.layer_output_scale.weight": "blocks.{i}.scale",
    "blk.{i}.inp_gate.weight": "blocks.{i}.entry.gate.weight",
    "blk.{i}.proj.weight": "blocks.{i}.entry.up.weight",
    "blk.{i}.post_norm.weight": "blocks.{i}.entry.norm.weight",
    "per_layer_token_embd.weight": "entry_embed.weight",
    "per_layer_model_proj.weight": "entry_proj.weight",
    "per_layer_proj_norm.weight": "entry_norm.weight",
}
# Of models with experts, beside the names above; the norm before the MLP has no gain of its own then.
_WITH_EXPERTS: Names = EXPERTS | {
    **{f"blk.{{i}}.ffn_{name}.weight": f"blocks.{{i}}.mlp.shared.{name}.weight" for name in ("gate", "up", "down")},
    "blk.{i}.ffn_gate_up_exps.weight": Into(STACKED[:2], split_gate, join_gate),
    "blk.{i}.ffn_gate_inp.scale": "blocks.{i}.mlp.router_gain",
    "blk.{i}.ffn_down_exps.scale": "blocks.{i}.mlp.scales",
    "blk.{i}.ffn_norm.weight": "blocks.{i}.mlp.shared_gain",
    "blk.{i}.pre_ffw_norm_2.weight": "blocks.{i}.mlp.experts_gain",
    "blk.{i}.post_ffw_norm_1.weight": "blocks.{i}.mlp.shared_after.weight",
    "blk.{i}.post_ffw_norm_2.weight": "blocks.{i}.mlp.experts_after.weight",
}


def _kinds(meta: Mapping) -> tuple[list[bool], list[bool]]:
    """Return whether each layer has a window, and whether it uses keys and values of an earlier one."""
    n_layer = min(integer(meta, "block_count"), 1 << 16)
    first = n_layer - integer(meta, _SHARED, 0)
    return layers_with_window(meta, n_layer, 6), [layer >= first for layer in range(n_layer)]


def _of_each(key: str, value: Value, kinds: list[bool]) -> dict[bool, Value]:
    """Return the number of layers of either kind. Raises UnsupportedModel if those of one kind differ."""
    if not isinstance(value, np.ndarray):
        return {False: value, True: value}
    numbers = [each for each in value.tolist() if isinstance(each, int)]
    found = {kind: {x for x, each in zip(numbers, kinds, strict=False) if each == kind} for kind in (False, True)}
    if len(numbers) != len(kinds) or max(map(len, found.values())) > 1:
        got, hint = f"{key} = {value.tolist()}"[:80], "Use a published checkpoint."
        raise UnsupportedModel("The model uses a feature that is not supported.", got, hint)
    return {kind: next(iter(found[kind] or found[not kind]), 0) for kind in (False, True)}


def _numbers(meta: Mapping) -> dict[str, Value]:
    """Return the numbers of layers with full attention, and the width of those with keys and values of their own."""
    near, shares = _kinds(meta)
    lists = {key: (meta[key], kinds) for key, kinds in ((_HEADS, near), (_WIDTH, shares)) if key in meta}
    return {key: _of_each(key, *of)[False] for key, of in lists.items()}


def _sizes(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the sizes of layers with a window, those of the last layers, and the width of a token's vectors."""
    near, shares = _kinds(meta)
    head = integer(meta, _HEAD, fields["d_head"])
    for key in ("attention.value_length_swa", "rope.dimension_count_swa"):
        check_keys({key: meta.get(key, head)}, (), {key: (head,)})
    heads = integer({_HEADS: _of_each(_HEADS, meta.get(_HEADS, fields["n_head"]), near)[True]}, _HEADS)
    width = integer({_WIDTH: _of_each(_WIDTH, meta[_WIDTH], shares)[True]}, _WIDTH)
    own = [n for n, (local, shared) in enumerate(zip(near, shares, strict=True)) if not local and not shared]
    return {
        "d_head_local": head if any(near) and head != fields["d_head"] else None,
        "n_kv_head_local": heads if any(near) and heads != fields["n_kv_head"] else None,
        "n_shared_kv": integer(meta, _SHARED, 0) or None,
        "d_mlp_shared": width if any(shares) and width != fields["d_mlp"] else None,
        "d_layer_input": integer(meta, "embedding_length_per_layer_input", 0) or None,
        "keys_as_values": bool(own) and f"blk.{own[0]}.attn_v.weight" not in file.tensors,
        "rope_theta_local": as_written(real(meta, "rope.freq_base_swa", 10_000.0)),
        **(_experts(meta, fields) if fields.get("n_expert", 1) > 1 else {}),
    }


def _experts(meta: Mapping, fields: Mapping) -> dict:
    """Return the fields of experts beside an MLP with the width of a dense one."""
    width = integer(meta, "expert_feed_forward_length", fields["d_expert"])
    return {"d_expert": width, "d_shared": fields["d_mlp"], "expert_norms": True, "expert_scales": True}


def _layout(file: GgufFile) -> Layout:
    """Return the names. Files also have keys and values of the layers that use those of earlier ones."""
    told = {key.removeprefix("gemma4."): value for key, value in file.metadata.items()}
    _, shares = _kinds(told)
    last = [layer for layer, each in enumerate(shares) if each]
    return Layout(
        _NAMES | (_WITH_EXPERTS if integer(told, "expert_count", 0) else {}),
        beside=tuple(f"blk.{layer}.{name}." for layer in last for name in ("attn_k", "attn_v", "attn_k_norm")),
    )


_FIELDS = {
    "norm": "rmsnorm",
    "positions": "rope",
    "mlp": "geglu_tanh",
    "norm_placement": "sandwich",
    "qk_norm": True,
    "v_norm": True,
    "layer_scale": True,
    "embed_scale": True,
    "score_multiplier": 1.0,
}
# Factors of the frequencies say which pairs layers with full attention rotate.
GEMMA4: dict[str, Architecture] = {
    "gemma4": Architecture(
        "Gemma 4",
        _FIELDS,
        Layout(_NAMES),
        (
            *("final_logit_softcapping", WINDOW, PATTERN, "rope.freq_base_swa", "rope.dimension_count_swa"),
            *(_HEAD, "attention.value_length_swa", _SHARED, "embedding_length_per_layer_input"),
        ),
        6,
        more=_sizes,
        plain=_numbers,
        layout_of=_layout,
    ),
}
