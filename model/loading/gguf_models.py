"""The supported GGUF architectures: their metadata and tensor names."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.errors import CheckpointError, UnsupportedModel, say
from model.gpt.config import ModelConfig, RopeScaling
from model.gpt.layers import rope_frequencies
from model.loading.convert import Into, Layout, Names, make_config
from model.loading.families.common import check_keys, flag, integer, real
from model.loading.gguf_file import GgufFile


@dataclass(frozen=True)
class Architecture:
    """One value of general.architecture, with the config fields that it implies and its tensor names."""

    label: str
    fields: dict[str, Any]
    layout: Layout


# Metadata key after "<architecture>." -> field of ModelConfig; d_head and n_kv_head may be absent.
SIZES = {
    "block_count": "n_layer",
    "context_length": "n_ctx",
    "embedding_length": "d_model",
    "feed_forward_length": "d_mlp",
    "attention.head_count": "n_head",
}
KNOWN = {
    *SIZES,
    "vocab_size",
    "attention.head_count_kv",
    "attention.key_length",
    "rope.freq_base",
    "rope.dimension_count",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "use_parallel_residual",
    "attention.value_length",
    "rope.scaling.finetuned",  # informational; llama.cpp prints it
    "rope.scaling.original_context_length",  # used for YaRN, whose type is rejected
}
ACCEPTED = {
    "rope.scaling.type": ("none",),
    "rope.scaling.factor": (1.0,),
    "rope.scaling.attn_factor": (1.0,),
    "rope.scale_linear": (1.0,),  # name of the factor in 2023
    "expert_count": (0,),
    "expert_used_count": (0,),
    "expert_shared_count": (0,),
    "nextn_predict_layers": (0,),
    "attention.sliding_window": (0,),
    "attention.causal": (True,),
    "attention.max_alibi_bias": (0.0,),
    "attention.clamp_kqv": (0.0,),
    "attn_logit_softcapping": (0.0,),
    "final_logit_softcapping": (0.0,),
    # The supported row order of q and k for the llama architecture.
    "tensor_data_layout": ("Meta AI original pth",),
}
ROPE_FACTORS = "rope_freqs.weight"
# Published Llama 3.x models differ only in `factor`; GGUF stores only the resulting factor of each frequency.
LLAMA3_LOW, LLAMA3_HIGH, LLAMA3_N_CTX = 1.0, 4.0, 8192


def to_config(file: GgufFile) -> ModelConfig:
    """Return a ModelConfig from the metadata of a GGUF file. Raises CheckpointError or UnsupportedModel with the name
    of the key.
    """
    name, architecture = architecture_of(file)
    meta = {key.removeprefix(f"{name}."): value for key, value in file.metadata.items() if key.startswith(f"{name}.")}
    check_keys(meta, KNOWN, ACCEPTED)
    if "token_embd.weight" not in file.tensors:
        raise CheckpointError("The checkpoint lacks weights.", "token_embd.weight", "Fetch the file again.")
    vocab_size = file.tensors["token_embd.weight"].shape[0]
    if integer(meta, "vocab_size", vocab_size) != vocab_size:
        got = f"vocab_size {meta['vocab_size']}, token_embd.weight {vocab_size}"
        raise CheckpointError("The file gives two values for the same thing.", got, "Fetch the file again.")
    fields = {ours: integer(meta, theirs) for theirs, ours in SIZES.items()}
    fields |= architecture.fields | _biases(file) | {"vocab_size": vocab_size}
    fields["n_kv_head"] = integer(meta, "attention.head_count_kv", fields["n_head"])
    fields["tie_embeddings"] = "output.weight" not in file.tensors
    kind = "rms_epsilon" if fields["norm"] == "rmsnorm" else "epsilon"
    fields["norm_eps"] = _as_written(real(meta, f"attention.layer_norm_{kind}"))
    if "use_parallel_residual" in meta:
        fields["parallel_residual"] = flag(meta, "use_parallel_residual", False)
    fields["d_head"] = integer(meta, "attention.key_length", fields["d_model"] // max(fields["n_head"], 1))
    check_keys(
        {"attention.value_length": meta.get("attention.value_length", fields["d_head"])},
        (),
        {"attention.value_length": (fields["d_head"],)},
    )
    return _with_rope(file, meta, fields) if fields["positions"] == "rope" else make_config(fields)


def architecture_of(file: GgufFile) -> tuple[str, Architecture]:
    """Return general.architecture and its entry in ARCHITECTURES.

    Raises UnsupportedModel for other architectures and for split files.
    """
    name = file.metadata.get("general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        hint = say("Supported: {}.", ", ".join(ARCHITECTURES))
        what = say('Architecture "{}" is not supported.', str(name)[:60])
        raise UnsupportedModel(what, f"general.architecture = {name!r}", hint)
    check_keys({"split.count": file.metadata.get("split.count", 0)}, (), {"split.count": (0, 1)})
    return name, ARCHITECTURES[name]


def _biases(file: GgufFile) -> dict[str, bool]:
    """Infer from the first block's tensors which projections have a bias, since GGUF metadata does not list them."""
    fused = "blk.0.attn_qkv.bias" in file.tensors
    names = {"q_bias": "attn_q", "k_bias": "attn_k", "v_bias": "attn_v", "o_bias": "attn_output", "mlp_bias": "ffn_up"}
    present = {field: f"blk.0.{name}.bias" in file.tensors for field, name in names.items()}
    return present | ({"q_bias": True, "k_bias": True, "v_bias": True} if fused else {})


def _as_written(value: float) -> float:
    """Return the shortest decimal number that rounds to the same float32: 9.999999747378752e-06 -> 1e-05."""
    return float(str(np.float32(value)))


def _with_rope(file: GgufFile, meta: dict, fields: dict) -> ModelConfig:
    fields["rope_theta"] = _as_written(real(meta, "rope.freq_base", 10_000.0))
    fields["rotary_fraction"] = integer(meta, "rope.dimension_count", fields["d_head"]) / max(fields["d_head"], 1)
    if ROPE_FACTORS not in file.tensors:
        return make_config(fields)
    factors = file.read(ROPE_FACTORS)
    # Only the factors of the frequencies are stored; the assumed scaling must reproduce them.
    scaling = RopeScaling(
        factor=_as_written(factors.max().item()),
        low_freq_factor=LLAMA3_LOW,
        high_freq_factor=LLAMA3_HIGH,
        original_n_ctx=LLAMA3_N_CTX,
    )
    plain, scaled = make_config(fields), make_config(fields | {"rope_scaling": scaling})
    for config in (plain, scaled):
        expected = rope_frequencies(plain) / rope_frequencies(config)
        if expected.shape == factors.shape and torch.allclose(factors, expected, rtol=1e-5, atol=0):
            return config
    hint = "Use the safetensors files of this model."
    raise UnsupportedModel("The RoPE factors are not those of Llama 3.", ROPE_FACTORS, hint)


# --- names -----------------------------------------------------------------------------------------


def split_qkv(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split q, k and v, concatenated along the outputs. [3 D, ...] -> three of [D, ...]"""
    return tensor.unflatten(0, (3, -1)).unbind(0)


def unpermute_q(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Apply `unpermute` to q, which has n_head heads."""
    return (unpermute(tensor, config.n_head),)


def unpermute_k(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Apply `unpermute` to k, which has n_kv_head heads."""
    return (unpermute(tensor, config.n_kv_head),)


def unpermute(tensor: Tensor, n_head: int) -> Tensor:
    """Convert each head's rows from interleaved pairs to half-split order. [n * E, ...] -> [n * E, ...]

    Row 2 i + s becomes row s E / 2 + i.
    """
    pairs = tensor.unflatten(0, (n_head, -1, 2))  # [n, E / 2, 2, ...]
    return pairs.transpose(1, 2).flatten(0, 2)


def _both(theirs: str, ours: str) -> dict[str, str]:
    return {f"{theirs}.{kind}": f"{ours}.{kind}" for kind in ("weight", "bias")}


def _changed(theirs: str, ours: tuple[str, ...], change: Any) -> Names:
    return {f"{theirs}.{kind}": Into(tuple(f"{name}.{kind}" for name in ours), change) for kind in ("weight", "bias")}


NAMES: Names = {
    "token_embd.weight": "embed.weight",
    **_both("blk.{i}.attn_norm", "blocks.{i}.norm1"),
    **_both("blk.{i}.attn_q", "blocks.{i}.attn.q"),
    **_both("blk.{i}.attn_k", "blocks.{i}.attn.k"),
    **_both("blk.{i}.attn_v", "blocks.{i}.attn.v"),
    **_both("blk.{i}.attn_output", "blocks.{i}.attn.o"),
    **_both("blk.{i}.ffn_norm", "blocks.{i}.norm2"),
    **_both("blk.{i}.ffn_gate", "blocks.{i}.mlp.gate"),
    **_both("blk.{i}.ffn_up", "blocks.{i}.mlp.up"),
    **_both("blk.{i}.ffn_down", "blocks.{i}.mlp.down"),
    **_both("output_norm", "final_norm"),
    "output.weight": "unembed.weight",
    ROPE_FACTORS: None,
}
# Only the llama architecture stores q and k for rotation in interleaved pairs.
LLAMA_NAMES = NAMES | {
    **_changed("blk.{i}.attn_q", ("blocks.{i}.attn.q",), unpermute_q),
    **_changed("blk.{i}.attn_k", ("blocks.{i}.attn.k",), unpermute_k),
}
QWEN3_NAMES = NAMES | {
    "blk.{i}.attn_q_norm.weight": "blocks.{i}.attn.q_norm.weight",
    "blk.{i}.attn_k_norm.weight": "blocks.{i}.attn.k_norm.weight",
}
FUSED_NAMES = NAMES | {
    "position_embd.weight": "pos_embed.weight",
    **_changed("blk.{i}.attn_qkv", tuple(f"blocks.{{i}}.attn.{part}" for part in "qkv"), split_qkv),
}

SWIGLU = {"norm": "rmsnorm", "norm_bias": False, "positions": "rope", "mlp": "swiglu"}
ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture("Llama", SWIGLU, Layout(LLAMA_NAMES)),
    "qwen2": Architecture("Qwen2", SWIGLU, Layout(NAMES)),
    "qwen3": Architecture("Qwen3", SWIGLU | {"qk_norm": True}, Layout(QWEN3_NAMES)),
    "gpt2": Architecture(
        "GPT-2", {"norm": "layernorm", "positions": "learned", "mlp": "gelu_tanh"}, Layout(FUSED_NAMES)
    ),
    # GGUF does not store the activation; all published GPT-NeoX models have exact GELU.
    "gptneox": Architecture(
        "GPT-NeoX (Pythia)",
        {"norm": "layernorm", "positions": "rope", "mlp": "gelu", "parallel_residual": True},
        Layout(FUSED_NAMES),
    ),
}
