"""Architectures with gated short convolutions between layers of attention."""

from collections.abc import Mapping

from model.loading.architectures.common import NAMES, OFFSET, QK_NORM, ROUTING, SWIGLU, Architecture
from model.loading.convert import Layout, both
from model.loading.families.common import integer
from model.loading.gguf_file import GgufFile

_CACHE = "shortconv.l_cache"


def _mixers(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the mixer of each layer, seen from its tensors, and the width and the biases of the convolutions."""
    at = [f"blk.{layer}.shortconv.in_proj" for layer in range(min(fields["n_layer"], len(file.tensors)))]
    mixer = tuple("short_conv" if f"{name}.weight" in file.tensors else "softmax" for name in at)
    biased = any(f"{name}.bias" in file.tensors for name in at)
    return {"mixer": mixer, "d_conv": integer(meta, _CACHE), "short_conv_bias": biased}


_OUR = "blocks.{i}.attn"
# The convolution loses its axis of size 1; the norm before the head has the name of one after the embedding.
_NAMES = {
    **NAMES,
    **QK_NORM,
    **both("blk.{i}.shortconv.in_proj", f"{_OUR}.in_proj"),
    **both("blk.{i}.shortconv.conv", f"{_OUR}.conv"),
    **both("blk.{i}.shortconv.out_proj", f"{_OUR}.o"),
    "token_embd_norm.weight": "final_norm.weight",
}
CONVOLUTIONS: dict[str, Architecture] = {
    "lfm2": Architecture(
        "LFM2",
        SWIGLU | {"qk_norm": True},
        Layout(_NAMES),
        (_CACHE,),
        more=_mixers,
        by_layer=("attention.head_count_kv",),
    ),
    "lfm2moe": Architecture(
        "LFM2-MoE",
        SWIGLU | {"qk_norm": True, "router_scores": "sigmoid", "divide_eps": 1e-6},
        Layout(_NAMES | OFFSET),
        (_CACHE, *ROUTING),
        more=_mixers,
        by_layer=("attention.head_count_kv",),
    ),
}
