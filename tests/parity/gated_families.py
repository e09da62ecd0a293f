"""The table of tiny models, continued: families with gated states between layers of attention, and text parts."""

from tests.parity.common import N_CTX, D, G, H, L, M, V

_GQA = {
    "vocab_size": V,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "hidden_size": D,
    "intermediate_size": M,
    "num_hidden_layers": L,
    "num_attention_heads": H,
    "num_key_value_heads": G,
    "max_position_embeddings": N_CTX,
}
# Two states a head, and as many that share a query and a key; all sizes differ.
_DELTA = _GQA | {
    "head_dim": 16,
    "linear_num_value_heads": 2 * H,
    "linear_num_key_heads": H,
    "linear_key_head_dim": 10,
    "linear_value_head_dim": 6,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}
_EXPERTS = {
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "shared_expert_intermediate_size": 28,
}
_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5}}
_LFM2 = _GQA | {"layer_types": ["conv", "full_attention", "conv"]}

_GEMMA3 = _GQA | {"head_dim": 16, "sliding_window": 5}
_GEMMA3 |= {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
_GEMMA4 = _GQA | {"model_type": "gemma4_text", "head_dim": 12, "global_head_dim": 16, "pad_token_id": 0}
_GEMMA4 |= {"vocab_size_per_layer_input": V, "hidden_size_per_layer_input": 6, "num_kv_shared_layers": 1}
_GEMMA4 |= {"layer_types": ["full_attention"] * 3}
# A few numbers for the parts that are left out.
_VISION = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
_VISION |= {"image_size": 28, "patch_size": 14}
_QWEN_VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": D}
_IMAGES = {f"{name}_token_id": V - 1 for name in ("image", "video", "vision_start", "vision_end")}


def _parts(text: str, values: dict, vision: str) -> dict:
    eyes = _VISION | {"model_type": "siglip_vision_model" if vision == "siglip" else vision}
    return {
        "text_config": values | {"model_type": text},
        "vision_config": eyes,
        "image_token_index": V - 1,
        "tie_word_embeddings": False,
    }


GATED_CASES: dict[str, tuple[str, str, dict]] = {
    "qwen3_next": ("Qwen3NextForCausalLM", "Qwen3NextConfig", _DELTA | _EXPERTS | {"mlp_only_layers": [1]}),
    "qwen3_next biases, undivided, wider convolution": (
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        _DELTA
        | _EXPERTS
        | _ROPE
        | {"attention_bias": True, "norm_topk_prob": False, "linear_conv_kernel_dim": 6, "linear_num_key_heads": 2}
        | {"tie_word_embeddings": True},
    ),
    "qwen3_5": ("Qwen3_5ForCausalLM", "Qwen3_5TextConfig", _DELTA),
    "qwen3_5 one key a state": (
        "Qwen3_5ForCausalLM",
        "Qwen3_5TextConfig",
        _DELTA | _ROPE | {"linear_num_value_heads": H, "attention_bias": True, "tie_word_embeddings": True},
    ),
    "qwen3_5_moe": ("Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextConfig", _DELTA | _EXPERTS),
    "lfm2": ("Lfm2ForCausalLM", "Lfm2Config", _LFM2 | {"block_auto_adjust_ff_dim": False}),
    "lfm2 biases, width derived, untied": (
        "Lfm2ForCausalLM",
        "Lfm2Config",
        _LFM2
        | {"conv_bias": True, "conv_L_cache": 4, "block_multiple_of": 16, "block_ffn_dim_multiplier": 1.3}
        | {"tie_word_embeddings": False, "layer_types": ["full_attention", "conv", "conv"]},
    ),
    "vaultgemma": (
        "VaultGemmaForCausalLM",
        "VaultGemmaConfig",
        _GQA | {"head_dim": 16, "sliding_window": 5, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 20},
    ),
    "ministral3": ("Ministral3ForCausalLM", "Ministral3Config", _GQA | {"head_dim": 12}),
    "gemma3 text part": ("Gemma3ForConditionalGeneration", "Gemma3Config", _parts("gemma3_text", _GEMMA3, "siglip")),
    "gemma4 text part": (
        "Gemma4ForConditionalGeneration",
        "Gemma4Config",
        {"text_config": _GEMMA4, "vision_config": None, "tie_word_embeddings": True},
    ),
    "qwen3_5 text part": (
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5Config",
        {"text_config": _DELTA | {"model_type": "qwen3_5_text"}, "vision_config": _QWEN_VISION, **_IMAGES},
    ),
    "qwen3_5_moe text part": (
        "Qwen3_5MoeForConditionalGeneration",
        "Qwen3_5MoeConfig",
        {
            "text_config": _DELTA | _EXPERTS | {"model_type": "qwen3_5_moe_text"},
            "vision_config": _QWEN_VISION,
            **_IMAGES,
        },
    ),
    "mistral3 text part": ("Mistral3ForConditionalGeneration", "Mistral3Config", _parts("mistral", _GQA, "pixtral")),
}
