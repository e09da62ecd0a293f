"""Encoders: BERT and its kin, and ModernBERT. The converter drops the head that predicts masked tokens."""

from collections.abc import Mapping

from model.loading.architectures.common import FUSED_GATE, FUSED_QKV, NAMES, POSITIONS, Architecture
from model.loading.architectures.metadata import PATTERN, WINDOW, as_written, layers_with_window
from model.loading.convert import Layout, Names, both
from model.loading.families.common import check_keys, choice, flag, integer, real
from model.loading.families.others.bert import ENCODER
from model.loading.families.others.heads import HEADLESS
from model.loading.families.others.modernbert import LOCAL
from model.loading.gguf_file import GgufFile

_READS = ("attention.causal",)
# Heads that sort whole texts into classes.
_OTHER_HEADS: Names = {
    f"{name}.{kind}": None for name in ("cls", "cls.output", "cls.norm") for kind in ("weight", "bias")
}
_BERT: Names = {
    **NAMES,
    **POSITIONS,
    "token_types.weight": "segment_embed.weight",
    **both("token_embd_norm", "embed_norm"),
    **both("blk.{i}.attn_output_norm", "blocks.{i}.norm1"),
    **both("blk.{i}.layer_output_norm", "blocks.{i}.norm2"),
    **_OTHER_HEADS,
}
_MODERN: Names = NAMES | FUSED_QKV | FUSED_GATE | both("token_embd_norm", "embed_norm") | _OTHER_HEADS


def _two_way(meta: Mapping) -> None:
    """Raise UnsupportedModel for a file whose tokens attend to earlier ones alone."""
    check_keys({"attention.causal": flag(meta, "attention.causal", False)}, (), {"attention.causal": (False,)})


def _segments(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the number of texts that have a vector of their own, which DistilBERT does not know."""
    _two_way(meta)
    types = file.tensors.get("token_types.weight")
    return {"norm_bias": True, "n_segment": None if types is None else types.shape[0]}


def _windows(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return the mixers, where the first of every three layers has full attention, and the activation.

    A window of 128 means 64 tokens to either side.
    """
    _two_way(meta)
    mlp = {"mlp": choice(meta, "hidden_activation", {"gelu": "geglu", "silu": "swiglu"}, "gelu")}
    window, pattern, n_layer = integer(meta, WINDOW, 0), meta.get(PATTERN, 3), fields["n_layer"]
    if window == 0:
        return mlp | {"mixer": "softmax"}
    every = pattern if isinstance(pattern, int) else 0
    near = [layer % every != 0 for layer in range(n_layer)] if every > 0 else layers_with_window(meta, n_layer, 0)
    return mlp | {
        "mixer": tuple("sliding_window" if each else "softmax" for each in near),
        "window": 2 * (window // 2) + 1,
        "rope_theta_local": as_written(real(meta, "rope.freq_base_swa", LOCAL)),
    }


ENCODERS: dict[str, Architecture] = {
    # Also RoBERTa and its kin, whose position table begins with that of the first token here, and DistilBERT. The file
    # does not store the activation; the published models have exact GELU.
    "bert": Architecture(
        "BERT, RoBERTa, DistilBERT",
        {"norm": "layernorm", "mlp": "gelu"} | ENCODER | HEADLESS,
        Layout(_BERT),
        _READS,
        more=_segments,
    ),
    # q, k and v stay fused, and so do the gate and the linear branch.
    "modern-bert": Architecture(
        "ModernBERT",
        {"norm": "layernorm", "positions": "rope", "embed_norm": True, "unnormed": (0,), "two_way": True} | HEADLESS,
        Layout(_MODERN),
        (*_READS, WINDOW, PATTERN, "rope.freq_base_swa", "hidden_activation"),
        more=_windows,
    ),
}
