"""Architectures with LayerNorm, most with parallel blocks, learned positions or ALiBi."""

from collections.abc import Mapping

from model.errors import UnsupportedModel
from model.loading.architectures.common import FUSED_QKV, NAMES, POSITIONS, QK_NORM, Architecture, flat
from model.loading.architectures.metadata import layers_with_window
from model.loading.convert import Into, Layout, Names, both
from model.loading.families.common import check_keys, flag, real
from model.loading.families.layernorm.cohere import QK_NORM as QK_NORM_EACH
from model.loading.gguf_file import GgufFile

_LEARNED = {"norm": "layernorm", "positions": "learned", "mlp": "gelu_tanh"}
_ROTARY = _LEARNED | {"positions": "rope"}
_ONE_NORM = {"parallel_residual": True, "shared_norm": True}
_FUSED = NAMES | FUSED_QKV
_COHERE = _ROTARY | _ONE_NORM | {"mlp": "swiglu", "rope_pairs": "adjacent"}
_FALCON = _ROTARY | {"mlp": "gelu", "parallel_residual": True}
_QK_NORM: Names = {theirs: Into((str(ours),), flat) for theirs, ours in QK_NORM.items()}
_FALCON_READS = ("tensor_data_layout",)


def _parallel(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    return {"parallel_residual": flag(meta, "use_parallel_residual", True)}


def _one_norm(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return whether blocks are parallel, which is so if they have one norm; the key of old files may be wrong."""
    found = {} if "blk.0.ffn_norm.weight" in file.tensors else _ONE_NORM
    return found | _qk_norms(file, meta, fields)


def _qk_norms(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the norm of each head's q and k, which some models have."""
    return QK_NORM_EACH if "blk.0.attn_q_norm.weight" in file.tensors else {}


def _alibi(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the kind of positions. Raises UnsupportedModel for slopes other than the usual ones."""
    bias = real(meta, "attention.max_alibi_bias", 0.0)
    check_keys({"attention.max_alibi_bias": bias}, (), {"attention.max_alibi_bias": (0.0, 8.0)})
    return {"positions": "alibi" if bias else "learned"}


def _one_key(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Raise UnsupportedModel for several key heads, since the converter leaves those interleaved."""
    if fields["n_kv_head"] != 1:
        got = f"attention.head_count_kv = {fields['n_kv_head']}"
        raise UnsupportedModel(
            "The model uses a feature that is not supported.", got, "Use the safetensors files of this model."
        )
    return {}


def _full_layers(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the layers with full attention, which do not rotate."""
    local = layers_with_window(meta, fields["n_layer"], 4)
    return {"unrotated": tuple(layer for layer, windowed in enumerate(local) if not windowed)}


OLDER: dict[str, Architecture] = {
    # The matrices of Conv1D are transposed to [out, in].
    "gpt2": Architecture("GPT-2", _LEARNED, Layout(_FUSED | POSITIONS)),
    # q, k and v of each head are reordered to all of q, then k, then v. The published models have exact GELU.
    "gptneox": Architecture(
        "GPT-NeoX (Pythia)", _ROTARY | {"mlp": "gelu"}, Layout(_FUSED), ("use_parallel_residual",), more=_parallel
    ),
    "gptj": Architecture("GPT-J", _ROTARY | _ONE_NORM | {"rope_pairs": "adjacent"}, Layout(NAMES)),
    # q, k and v of each head are reordered as in GPT-NeoX.
    "bloom": Architecture(
        "BLOOM",
        _LEARNED | {"positions": "alibi", "embed_norm": True},
        Layout(_FUSED | both("token_embd_norm", "embed_norm")),
    ),
    "mpt": Architecture(
        "MPT",
        _LEARNED | {"mlp": "gelu"},
        Layout(_FUSED | POSITIONS),
        ("attention.max_alibi_bias", "attention.clamp_kqv"),
        more=_alibi,
    ),
    "starcoder": Architecture("StarCoder", _LEARNED, Layout(_FUSED | POSITIONS), more=_one_key),
    "starcoder2": Architecture("StarCoder2", _ROTARY, Layout(NAMES), ("attention.sliding_window",)),
    # Two norms: that of attention is attn_norm_2. q, k and v of each group are reordered to all of q, then k, then v.
    "falcon": Architecture(
        "Falcon",
        _FALCON | {"shared_norm": True},
        Layout(_FUSED),
        _FALCON_READS,
        with_tensor={
            "blk.0.attn_norm_2.weight": Architecture(
                "Falcon",
                _FALCON,
                Layout(
                    _FUSED
                    | both("blk.{i}.attn_norm", "blocks.{i}.norm2")
                    | both("blk.{i}.attn_norm_2", "blocks.{i}.norm1")
                ),
                _FALCON_READS,
            )
        },
    ),
    "phi2": Architecture("Phi", _ROTARY | _ONE_NORM, Layout(_FUSED)),
    # The gains of each head's q and k, where there are some, are stacked.
    "stablelm": Architecture(
        "StableLM", _ROTARY | {"mlp": "swiglu"}, Layout(NAMES | _QK_NORM), ("use_parallel_residual",), more=_one_norm
    ),
    "jais2": Architecture("Jais 2", _ROTARY | {"mlp": "relu2"}, Layout(NAMES)),
    "orion": Architecture("Orion", _ROTARY | {"mlp": "swiglu"}, Layout(NAMES)),
    # The gain is 1 + weight; the converter adds the 1.
    "nemotron": Architecture("Nemotron", _ROTARY | {"mlp": "relu2"}, Layout(NAMES)),
    "command-r": Architecture(
        "Cohere (Command R)", _COHERE, Layout(NAMES | _QK_NORM), ("logit_scale",), more=_qk_norms
    ),
    "cohere2": Architecture(
        "Cohere 2",
        _COHERE,
        Layout(NAMES),
        ("logit_scale", "attention.sliding_window", "attention.sliding_window_pattern"),
        4,
        more=_full_layers,
    ),
}
