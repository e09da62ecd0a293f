"""The table of tiny models, continued: families other than GPT-2, GPT-NeoX and those like Llama."""

from tests.parity.common import N_CTX, D, G, H, L, M, V

_COMMON = {"vocab_size": V, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
_SIZES = _COMMON | {
    "hidden_size": D,
    "intermediate_size": M,
    "num_hidden_layers": L,
    "num_attention_heads": H,
    "max_position_embeddings": N_CTX,
}
_GQA = _SIZES | {"num_key_value_heads": G}
_GPT = _COMMON | {"n_positions": N_CTX, "n_embd": D, "n_layer": L, "n_head": H}
_GPTJ = _GPT | {"n_inner": M, "rotary_dim": 8}
_NEO = _COMMON | {"hidden_size": D, "num_layers": L, "num_heads": H, "max_position_embeddings": N_CTX}
_NEO |= {"intermediate_size": M, "window_size": 5, "attention_types": [[["global", "local"], 1], [["global"], 1]]}
_OPT = {key: value for key, value in _SIZES.items() if key != "intermediate_size"} | {"ffn_dim": M}
_BLOOM = _COMMON | {"hidden_size": D, "n_layer": L, "n_head": H}
_MPT = _COMMON | {"d_model": D, "n_layers": L, "n_heads": H, "max_seq_len": N_CTX}
_FALCON = _OPT | {"ffn_hidden_size": M}
del _FALCON["ffn_dim"]
_WINDOWS = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 5}
_GLM = _GQA | {"head_dim": 12, "rope_parameters": None}
_GRANITE = _GQA | {
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.4,
    "attention_multiplier": 0.2,
    "logits_scaling": 2.5,
}
_OSS = _GQA | _WINDOWS | {"head_dim": 12, "num_local_experts": 5, "num_experts_per_tok": 2}
_SLIDING, _FULL = "sliding_attention", "full_attention"
_GEMMA4 = _GQA | {"head_dim": 12, "global_head_dim": 16, "sliding_window": 5, "vocab_size_per_layer_input": V}
_E2B = _GEMMA4 | {
    "num_hidden_layers": 4,
    "layer_types": [_SLIDING, _FULL] * 2,
    "num_kv_shared_layers": 2,
    "use_double_wide_mlp": True,
    "hidden_size_per_layer_input": 6,
    "final_logit_softcapping": 5.0,
}
_CHOSEN = _GQA | {"moe_intermediate_size": 40, "num_experts_per_tok": 2}
_LFM2_MOE = _CHOSEN | {"num_experts": 5, "num_dense_layers": 1, "layer_types": ["conv", "full_attention", "conv"]}
_PHIMOE = _GQA | {"num_local_experts": 5}
# Texts are no longer than those of the short factors, beyond which transformers does not take the long ones.
_LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 48, "factor": 2.0}
_LONGROPE |= {"short_factor": [1.0, 1.1, 1.2, 1.3, 1.5, 2.0], "long_factor": [1.0, 1.5, 2.0, 3.0, 5.0, 8.0]}
_DOTS = _CHOSEN | {"n_routed_experts": 5, "n_shared_experts": 2, "first_k_dense_replace": 1, "n_group": 1}
_DOTS |= {"routed_scaling_factor": 1.5, "topk_group": 1}
_ERNIE = {name: value for name, value in _CHOSEN.items() if name != "num_experts_per_tok"}
_ERNIE |= {"moe_k": 2, "moe_num_experts": 5, "moe_num_shared_experts": 2, "moe_layer_start_index": 1}
# Chosen so that some of the frequencies stay, some are blended and some are divided.
_YARN = {
    "rope_type": "yarn",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "beta_fast": 4.0,
    "beta_slow": 0.5,
    "original_max_position_embeddings": 32,
    "truncate": False,
}


def _rope(fraction: float) -> dict:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": fraction}}


def _cases(name: str, prefix: str, cases: dict[str, dict]) -> dict[str, tuple[str, str, dict]]:
    return {
        f"{name} {case}".strip(): (f"{prefix}ForCausalLM", f"{prefix}Config", values) for case, values in cases.items()
    }


MORE_CASES: dict[str, tuple[str, str, dict]] = {
    **_cases(
        "nanochat",
        "NanoChat",
        {"": _SIZES, "GQA, biases, no cap": _GQA | {"attention_bias": True, "final_logit_softcapping": None}},
    ),
    **_cases(
        "gpt_oss",
        "GptOss",
        {
            "": _OSS,
            "plain rope, no biases": _OSS | {"attention_bias": False} | _rope(1.0),
            "yarn": _OSS | {"rope_parameters": _YARN},
        },
    ),
    **_cases(
        "phi",
        "Phi",
        {
            "": _SIZES | {"hidden_size": 64} | _rope(0.5),
            "GQA, tied, q/k norms": _GQA
            | {"tie_word_embeddings": True, "hidden_act": "gelu", "qk_layernorm": True}
            | _rope(1 / 3),
        },
    ),
    **_cases(
        "granite",
        "Granite",
        {
            "": _GRANITE,
            "biases, tied": _GRANITE | dict.fromkeys(("attention_bias", "mlp_bias", "tie_word_embeddings"), True),
        },
    ),
    **_cases("seed_oss", "SeedOss", {"": _GQA | {"head_dim": 12, "attention_out_bias": True}}),
    **_cases(
        "ernie4_5", "Ernie4_5", {"": _GQA | {"head_dim": 12}, "biases": _GQA | {"head_dim": 10, "use_bias": True}}
    ),
    "internlm3": ("LlamaForCausalLM", "InternLM3Config", _GQA | {"head_dim": 12}),
    "internlm3 biases": ("LlamaForCausalLM", "InternLM3Config", _GQA | {"qkv_bias": True, "bias": True}),
    **_cases(
        "exaone4",
        "Exaone4",
        {
            "": _GQA | _WINDOWS,
            "no window": _GQA
            | {"sliding_window": None, "tie_word_embeddings": True, "layer_types": ["full_attention"] * L},
        },
    ),
    **_cases(
        "nemotron",
        "Nemotron",
        {
            "": _GQA | {"hidden_size": 64} | _rope(0.5),
            "biases, tied": _GQA
            | dict.fromkeys(("attention_bias", "mlp_bias", "tie_word_embeddings"), True)
            | {"head_dim": 10}
            | _rope(1.0),
        },
    ),
    **_cases("granitemoe", "GraniteMoe", {"": _GRANITE | {"num_local_experts": 5, "num_experts_per_tok": 2}}),
    **_cases(
        "gptj", "GPTJ", {"": _GPTJ, "tied, default width": _GPTJ | {"n_inner": None, "tie_word_embeddings": True}}
    ),
    **_cases("codegen", "CodeGen", {"": _GPTJ | {"n_embd": 96, "n_head": 8}}),
    **_cases(
        "gpt_neo",
        "GPTNeo",
        {
            "": _NEO,
            "default width, untied": _NEO | {"intermediate_size": None, "tie_word_embeddings": False},
            "global alone": _NEO | {"attention_types": [[["global"], L]], "activation_function": "gelu"},
        },
    ),
    **_cases(
        "opt",
        "OPT",
        {
            "": _OPT,
            "norms after": _OPT | {"do_layer_norm_before": False},
            "no final norm, untied": _OPT | {"_remove_final_layer_norm": True, "tie_word_embeddings": False},
            "no biases, no weights in norms": _OPT
            | {"enable_bias": False, "layer_norm_elementwise_affine": False, "activation_function": "gelu"},
        },
    ),
    **_cases("bloom", "Bloom", {"": _BLOOM, "heads no power of 2": _BLOOM | {"n_head": 6}}),
    **_cases(
        "starcoder2",
        "Starcoder2",
        {"": _GQA, "window, no biases": _GQA | {"sliding_window": 5, "use_bias": False, "tie_word_embeddings": False}},
    ),
    **_cases(
        "gpt_bigcode",
        "GPTBigCode",
        {
            "": _GPT | {"n_inner": M},
            "MHA, not divided": _GPT | {"multi_query": False, "scale_attn_weights": False},
        },
    ),
    **_cases(
        "stablelm",
        "StableLm",
        {
            "": _GQA | {"hidden_size": 64} | _rope(0.25),
            "parallel, biases, tied, q/k norms": _GQA
            | {"use_parallel_residual": True, "use_qkv_bias": True, "tie_word_embeddings": True, "qk_layernorm": True}
            | _rope(0.5),
        },
    ),
    **_cases(
        "falcon",
        "Falcon",
        {
            "": _FALCON,
            "groups, two norms": _FALCON | {"new_decoder_architecture": True, "num_kv_heads": G, "bias": True},
            "groups, one norm": _FALCON
            | {"new_decoder_architecture": True, "num_kv_heads": G, "num_ln_in_parallel_attn": 1},
            "ALiBi": _FALCON
            | {"alibi": True, "bias": True, "multi_query": False, "parallel_attn": False}
            | {"hidden_size": 64, "num_attention_heads": 16},
            "MHA, sequential": _FALCON | {"multi_query": False, "parallel_attn": False, "tie_word_embeddings": False},
        },
    ),
    **_cases(
        "mpt",
        "Mpt",
        {"": _MPT, "clamped, own scale": _MPT | {"n_heads": 6, "attn_config": {"clip_qkv": 2.5, "softmax_scale": 0.1}}},
    ),
    **_cases(
        "cohere",
        "Cohere",
        {
            "": _GQA,
            "biases, untied, q/k norms": _GQA
            | {"attention_bias": True}
            | {"tie_word_embeddings": False, "use_qk_norm": True},
        },
    ),
    **_cases("cohere2", "Cohere2", {"": _GQA | _WINDOWS}),
    **_cases(
        "glm", "Glm", {"": _GLM, "no biases, tied": _GLM | {"attention_bias": False, "tie_word_embeddings": True}}
    ),
    **_cases("glm4", "Glm4", {"": _GLM}),
    **_cases(
        "apertus",
        "Apertus",
        {
            "": _GQA,
            "plain rope, biases, tied": _GQA | _rope(1.0) | {"attention_bias": True, "tie_word_embeddings": True},
        },
    ),
    "gemma4 E2B": ("Gemma4ForCausalLM", "Gemma4TextConfig", _E2B),
    "gemma4 26B-A4B": (
        "Gemma4ForCausalLM",
        "Gemma4TextConfig",
        _GEMMA4
        | {"hidden_size_per_layer_input": 0, "layer_types": [_SLIDING, _SLIDING, _FULL]}
        | {"attention_k_eq_v": True, "num_global_key_value_heads": 1}
        | {"enable_moe_block": True, "num_experts": 5, "top_k_experts": 2, "moe_intermediate_size": 40},
    ),
    "gemma4 31B": (
        "Gemma4ForCausalLM",
        "Gemma4TextConfig",
        _GEMMA4
        | {"hidden_size_per_layer_input": 0, "layer_types": [_SLIDING, _SLIDING, _FULL]}
        | {"attention_k_eq_v": True, "num_global_key_value_heads": 1, "attention_bias": True},
    ),
    **_cases(
        "lfm2_moe",
        "Lfm2Moe",
        {
            "": _LFM2_MOE,
            "no offset, biases, undivided": _LFM2_MOE
            | {"use_expert_bias": False, "conv_bias": True, "norm_topk_prob": False, "routed_scaling_factor": 1.5},
        },
    ),
    **_cases(
        "phimoe",
        "Phimoe",
        {
            "": _PHIMOE,
            "longrope, biases, window, more noise": _PHIMOE
            | {"attention_bias": True, "lm_head_bias": True, "sliding_window": 5, "router_jitter_noise": 0.2}
            | {"rope_parameters": _LONGROPE | {"short_mscale": 1.2, "long_mscale": 1.2}},
        },
    ),
    **_cases(
        "dots1",
        "Dots1",
        {"": _DOTS, "windows, biases": _DOTS | {"attention_bias": True, "sliding_window": 5, "max_window_layers": 1}},
    ),
    **_cases(
        "glm4_moe",
        "Glm4Moe",
        {
            "": _DOTS | {"head_dim": 12, "num_mtp_layers": 0},
            "q/k norms, biases": _DOTS
            | {"num_mtp_layers": 0, "use_qk_norm": True, "attention_bias": True, "norm_topk_prob": True},
        },
    ),
    **_cases("ernie4_5_moe", "Ernie4_5_Moe", {"": _ERNIE, "biases": _ERNIE | {"use_bias": True}}),
    **_cases(
        "granitemoeshared",
        "GraniteMoeShared",
        {"": _GRANITE | {"num_local_experts": 5, "num_experts_per_tok": 2, "shared_intermediate_size": 28}},
    ),
    **_cases("cwm", "Cwm", {"": _GQA | {"sliding_window": 5, "head_dim": 12, "bos_token_id": 0}}),
    "iquestcoder": ("LlamaForCausalLM", "IQuestCoderConfig", _GQA | {"head_dim": 10}),
    **_cases("jais2", "Jais2", {"": _GQA | {"head_dim": 12}}),
    "biogpt": ("BioGptForCausalLM", "BioGptConfig", _SIZES),
    "openai-gpt": ("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", _GPT),
    "openai-gpt relu": ("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", _GPT | {"afn": "relu"}),
}
