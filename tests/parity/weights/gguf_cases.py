"""The table of tiny transformers models that are written as GGUF, by the architecture of their file."""

from tests.parity.common import N_CTX, D, G, H, L, M, V

SIZES = {
    "vocab_size": V,
    "hidden_size": D,
    "intermediate_size": M,
    "num_hidden_layers": L,
    "num_attention_heads": H,
    "num_key_value_heads": G,
    "max_position_embeddings": N_CTX,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 5, "num_experts": 5}
OLD = {**{key: SIZES[key] for key in SIZES if "token_id" in key or key == "vocab_size"}, "hidden_size": D}
N_OLD = OLD | {"n_layer": L, "n_head": H}
BIG = OLD | {"n_embd": D, "n_layer": L, "n_head": H, "n_positions": N_CTX, "n_inner": M}
MULTIPLIERS = {
    "embedding_multiplier": 3.0,
    "attention_multiplier": 0.2,
    "residual_multiplier": 0.4,
    "logits_scaling": 2.0,
}
THETA = {"rope_type": "default", "rope_theta": 500.0}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 500.0,
    "factor": 4.0,
    "beta_fast": 3.0,
    "beta_slow": 0.5,
    "original_max_position_embeddings": 16,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 500.0,
    "short_factor": [1.0, 1.1, 1.3, 1.7, 2.0, 2.5],
    "long_factor": [1.0, 1.5, 2.0, 3.0, 5.0, 8.0],
    "original_max_position_embeddings": 24,
}
WINDOW = {"sliding_window": 5}
OFFSETS = SIZES | EXPERTS | {"moe_intermediate_size": 20, "routed_scaling_factor": 1.5}
DENSE = {"first_k_dense_replace": 1, "n_shared_experts": 2, "n_routed_experts": 5}
DELTA = {"layer_types": ["linear_attention", "full_attention", "linear_attention"], "head_dim": 16}
DELTA |= {"linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_conv_kernel_dim": 4}
DELTA |= {"linear_key_head_dim": 8, "linear_value_head_dim": 10}
DELTA["num_attention_heads"] = 2
CONVOLUTIONS = {"num_dense_layers": 1, "layer_types": ["conv", "full_attention", "conv"]}
MIXED = {"moe_intermediate_size": 20, "shared_expert_intermediate_size": 28}
MINISTRAL = YARN | {"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
MINISTRAL["original_max_position_embeddings"] = 24
WHOLE = {"num_key_value_heads": SIZES["num_attention_heads"]}
PROPORTIONAL = {"rope_type": "proportional", "rope_theta": 500.0, "partial_rotary_factor": 0.25}
NEAR = {"rope_type": "default", "rope_theta": 50.0}
GEMMA4 = SIZES | WINDOW | {"head_dim": 12, "global_head_dim": 16, "vocab_size_per_layer_input": V}
GEMMA4 |= {"rope_parameters": {"sliding_attention": NEAR, "full_attention": PROPORTIONAL}}
GEMMA4 |= {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}
# name: (architecture, classes' name, config)
CASES: dict[str, tuple[str, str, dict]] = {
    "mistral": ("llama", "Mistral", SIZES | WINDOW),
    "mixtral": ("llama", "Mixtral", SIZES | EXPERTS),
    "ministral3": ("mistral3", "Ministral3", SIZES | {"head_dim": 12, "rope_parameters": MINISTRAL}),
    "qwen": ("qwen", "Qwen2", SIZES | WHOLE),
    "minicpm": ("minicpm", "Granite", SIZES | MULTIPLIERS | {"attention_multiplier": (D // H) ** -0.5}),
    "baichuan": ("baichuan", "Llama", SIZES | WHOLE),
    "xverse": ("xverse", "Llama", SIZES | WHOLE),
    "orion": ("orion", "StableLm", SIZES | {"rope_parameters": THETA | {"partial_rotary_factor": 1.0}}),
    "jais2": ("jais2", "Jais2", SIZES),
    "gemma4 E2B": (
        "gemma4",
        "Gemma4",
        GEMMA4
        | {"layer_types": ["sliding_attention", "full_attention"] * 2, "num_hidden_layers": 4}
        | {"num_kv_shared_layers": 2, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 6}
        | {"final_logit_softcapping": 5.0},
    ),
    "gemma4 31B": (
        "gemma4",
        "Gemma4",
        GEMMA4 | {"hidden_size_per_layer_input": 0, "attention_k_eq_v": True, "num_global_key_value_heads": 1},
    ),
    "gemma4 26B-A4B": (
        "gemma4",
        "Gemma4",
        GEMMA4
        | {"hidden_size_per_layer_input": 0, "attention_k_eq_v": True, "num_global_key_value_heads": 1}
        | {"enable_moe_block": True, "num_experts": 5, "top_k_experts": 2, "moe_intermediate_size": 40},
    ),
    "gemma": ("gemma", "Gemma", SIZES | {"head_dim": 16}),
    "gemma2": (
        "gemma2",
        "Gemma2",
        SIZES
        | WINDOW
        | {
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "attn_logit_softcapping": 3.0,
            "final_logit_softcapping": 5.0,
        },
    ),
    "gemma3": (
        "gemma3",
        "Gemma3",
        SIZES
        | WINDOW
        | {
            "num_hidden_layers": 7,
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
                "full_attention": {"rope_type": "linear", "rope_theta": 500.0, "factor": 8.0},
            },
        },
    ),
    "phi": ("phi2", "Phi", SIZES | {"num_key_value_heads": H}),
    "phi3": ("phi3", "Phi3", SIZES | WINDOW),
    "phi3 longrope, tied": (
        "phi3",
        "Phi3",
        SIZES | {"original_max_position_embeddings": 24, "rope_parameters": LONGROPE, "tie_word_embeddings": True},
    ),
    "olmo": ("olmo", "Olmo", SIZES | {"clip_qkv": 0.5}),
    "olmo2": ("olmo2", "Olmo2", SIZES),
    "olmo3": (
        "olmo2",
        "Olmo3",
        SIZES
        | WINDOW
        | {
            "num_hidden_layers": 4,
            "rope_parameters": {"sliding_attention": THETA, "full_attention": YARN},
        },
    ),
    "olmoe": ("olmoe", "Olmoe", SIZES | EXPERTS),
    "smollm3": ("smollm3", "SmolLM3", SIZES | {"num_hidden_layers": 4}),
    "granite": ("granite", "Granite", SIZES | MULTIPLIERS),
    "granitemoe": ("granitemoe", "GraniteMoe", SIZES | MULTIPLIERS | EXPERTS),
    "glm": ("chatglm", "Glm", SIZES | {"head_dim": 16}),
    "glm4": ("glm4", "Glm4", SIZES | {"head_dim": 16}),
    "qwen2_moe": (
        "qwen2moe",
        "Qwen2Moe",
        SIZES | EXPERTS | {"moe_intermediate_size": 20, "shared_expert_intermediate_size": 28},
    ),
    "qwen3_moe": ("qwen3moe", "Qwen3Moe", SIZES | EXPERTS | {"moe_intermediate_size": 20, "norm_topk_prob": True}),
    "gpt_oss": (
        "gpt-oss",
        "GptOss",
        SIZES | EXPERTS | WINDOW | {"head_dim": 16, "rope_parameters": YARN | {"truncate": False}},
    ),
    "gpt_bigcode": ("starcoder", "GPTBigCode", BIG),
    "starcoder2": ("starcoder2", "Starcoder2", SIZES | WINDOW),
    "stablelm": ("stablelm", "StableLm", SIZES | {"hidden_size": 64, "use_qkv_bias": True}),
    "stablelm parallel": (
        "stablelm",
        "StableLm",
        SIZES | {"hidden_size": 64, "use_parallel_residual": True, "qk_layernorm": True},
    ),
    "falcon multi-query": ("falcon", "Falcon", OLD | {"num_hidden_layers": L, "num_attention_heads": H}),
    "falcon two norms": (
        "falcon",
        "Falcon",
        OLD | {"num_hidden_layers": L, "num_attention_heads": H, "num_kv_heads": G, "new_decoder_architecture": True},
    ),
    "gptj": ("gptj", "GPTJ", BIG | {"rotary_dim": 6}),
    "bloom": ("bloom", "Bloom", N_OLD),
    "mpt": ("mpt", "Mpt", OLD | {"d_model": D, "n_layers": L, "n_heads": H, "max_seq_len": N_CTX}),
    "nemotron": ("nemotron", "Nemotron", SIZES),
    "arcee": ("arcee", "Arcee", SIZES),
    "seed_oss": ("seed_oss", "SeedOss", SIZES | {"head_dim": 16}),
    "ernie4_5": ("ernie4_5", "Ernie4_5", SIZES | {"head_dim": 16}),
    "internlm2": ("internlm2", "Llama", SIZES),
    "exaone": ("exaone", "Llama", SIZES),
    "exaone4": ("exaone4", "Exaone4", SIZES | WINDOW | {"num_hidden_layers": 4, "sliding_window_pattern": 4}),
    "exaone4 no window": (
        "exaone4",
        "Exaone4",
        SIZES | {"sliding_window": None, "layer_types": ["full_attention"] * L},
    ),
    "cohere": ("command-r", "Cohere", SIZES | {"logit_scale": 0.3, "use_qk_norm": True}),
    "lfm2": (
        "lfm2",
        "Lfm2",
        SIZES
        | {"layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 4, "block_auto_adjust_ff_dim": False},
    ),
    "lfm2_moe": (
        "lfm2moe",
        "Lfm2Moe",
        OFFSETS | {"num_dense_layers": 1, "layer_types": ["conv", "full_attention", "conv"]},
    ),
    "dots1": ("dots1", "Dots1", OFFSETS | DENSE | {"norm_topk_prob": True}),
    "glm4_moe": ("glm4moe", "Glm4Moe", OFFSETS | DENSE | {"head_dim": 12, "num_mtp_layers": 0}),
    "ernie4_5_moe": (
        "ernie4_5-moe",
        "Ernie4_5_Moe",
        SIZES | {"moe_intermediate_size": 20, "moe_k": 2, "moe_num_experts": 5, "moe_num_shared_experts": 2},
    ),
    "qwen3_next": ("qwen3next", "Qwen3Next", SIZES | DELTA | EXPERTS | MIXED | {"norm_topk_prob": True}),
    "qwen3_5": ("qwen35", "Qwen3_5", SIZES | DELTA),
    "qwen3_5_moe": ("qwen35moe", "Qwen3_5Moe", SIZES | DELTA | EXPERTS | MIXED),
    "cohere2": ("cohere2", "Cohere2", SIZES | WINDOW | {"num_hidden_layers": 4, "logit_scale": 0.3}),
}
ENCODER = {key: SIZES[key] for key in SIZES if "token_id" not in key and "key_value" not in key} | {"pad_token_id": 0}
# The same for encoders, without a head.
ENCODERS: dict[str, tuple[str, str, dict]] = {
    "bert": ("bert", "Bert", ENCODER),
    "roberta": (
        "bert",
        "Roberta",
        ENCODER | {"max_position_embeddings": N_CTX + 2, "type_vocab_size": 1, "pad_token_id": 1},
    ),
    "modernbert": ("modern-bert", "ModernBert", ENCODER | {"local_attention": 6}),
}
CONFIGS = {"Gemma3": "Gemma3TextConfig", "Qwen3_5": "Qwen3_5TextConfig", "Qwen3_5Moe": "Qwen3_5MoeTextConfig"}
CONFIGS["Gemma4"] = "Gemma4TextConfig"
