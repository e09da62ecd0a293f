"""Architectures whose layers have experts; Mixtral comes as llama. The experts of a layer are stacked."""

from collections.abc import Mapping

from model.loading.architectures.common import EXPERTS, NAMES, OFFSET, QK_NORM, ROUTING, SWIGLU, Architecture
from model.loading.convert import Layout
from model.loading.gguf_file import GgufFile


def _qk_norms(file: GgufFile, meta: Mapping, fields: Mapping) -> dict:
    """Return whether q and k have norms, which GLM-4.5-Air's have not."""
    return {"qk_norm": "blk.0.attn_q_norm.weight" in file.tensors}


_EXPERTS_OF_GPT_OSS = {
    **NAMES,
    **EXPERTS,
    "blk.{i}.post_attention_norm.weight": "blocks.{i}.norm2.weight",  # before the experts, in spite of its name
    "blk.{i}.attn_sinks.weight": "blocks.{i}.attn.sinks",
}
EXPERTS_MODELS: dict[str, Architecture] = {
    # The file does not say whether weights are divided by their sum; they are not in the published models.
    "olmoe": Architecture(
        "OLMoE",
        SWIGLU | {"qk_norm": True, "qk_norm_over": "all", "divide_weights": False},
        Layout(NAMES | QK_NORM | EXPERTS),
    ),
    "qwen2moe": Architecture(
        "Qwen2-MoE",
        SWIGLU | {"divide_weights": False, "shared_gate": True},
        Layout(NAMES | EXPERTS),
    ),
    "qwen3moe": Architecture("Qwen3-MoE", SWIGLU | {"qk_norm": True}, Layout(NAMES | QK_NORM | EXPERTS)),
    "dots1": Architecture(
        "dots.llm1", SWIGLU | {"qk_norm": True, "router_scores": "sigmoid"}, Layout(NAMES | QK_NORM | OFFSET), ROUTING
    ),
    # The norm before the MLP has the name of one after attention.
    "glm4moe": Architecture(
        "GLM-4.5",
        SWIGLU | {"router_scores": "sigmoid"},
        Layout(NAMES | QK_NORM | OFFSET | {"blk.{i}.post_attention_norm.weight": "blocks.{i}.norm2.weight"}),
        ROUTING,
        more=_qk_norms,
    ),
    # Pairs for rotation are adjacent in the model itself.
    "ernie4_5-moe": Architecture("ERNIE 4.5 with experts", SWIGLU | {"rope_pairs": "adjacent"}, Layout(NAMES | OFFSET)),
    # The gate and the linear branch, interleaved in the checkpoint, are separated; MXFP4 blocks are repacked.
    "gpt-oss": Architecture(
        "gpt-oss",
        SWIGLU | {"mlp": "swiglu_clamped", "sinks": True},
        Layout(_EXPERTS_OF_GPT_OSS),
        ("attention.sliding_window", "attention.sliding_window_pattern"),
        2,
        whole_pairs=False,
    ),
}
