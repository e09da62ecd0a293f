"""The table of tiny models, an entry for every choice a supported config.json can make."""

import torch
from torch import nn

from tests.parity.common import N_CTX, D, G, H, L, M, V, shake
from tests.parity.gated_families import GATED_CASES
from tests.parity.more_families import MORE_CASES

# No token is special, so that generation never stops early.
COMMON = {"vocab_size": V, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
SIZES = COMMON | {
    "hidden_size": D,
    "intermediate_size": M,
    "num_hidden_layers": L,
    "num_attention_heads": H,
    "max_position_embeddings": N_CTX,
}
GPT2 = COMMON | {"n_positions": N_CTX, "n_embd": D, "n_layer": L, "n_head": H, "n_inner": M}
GQA = SIZES | {"num_key_value_heads": G}
# Chosen so that of the six frequencies some stay, some are blended and some are divided.
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16}
SHORT, LONG = [1.0, 1.1, 1.2, 1.3, 1.5, 2.0], [1.0, 1.5, 2.0, 3.0, 5.0, 8.0]
LONGROPE = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, "original_max_position_embeddings": 6}
# Prompts have 19 tokens and 7 + 20, so a window of 5 hides keys of both.
WINDOW = {"sliding_window": 5}
KINDS = ["sliding_attention", "full_attention", "sliding_attention"]
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 40, "norm_topk_prob": True}


def _rope(fraction: float) -> dict:
    return {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": fraction}


# name: (model class and config class of transformers, config)
CASES: dict[str, tuple[str, str, dict]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "gpt2 untied, erf, default width": (
        "GPT2LMHeadModel",
        "GPT2Config",
        GPT2 | {"tie_word_embeddings": False, "activation_function": "gelu", "n_inner": None},
    ),
    **{
        f"gpt2 {name}": ("GPT2LMHeadModel", "GPT2Config", GPT2 | {"activation_function": name})
        for name in ("gelu_python", "gelu_python_tanh", "gelu_accurate", "gelu_fast", "relu")
    },
    "llama MHA": ("LlamaForCausalLM", "LlamaConfig", SIZES | {"num_key_value_heads": H, "rms_norm_eps": 1e-5}),
    "llama GQA": ("LlamaForCausalLM", "LlamaConfig", GQA),
    "llama MQA, biases, tied": (
        "LlamaForCausalLM",
        "LlamaConfig",
        SIZES | {"num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    ),
    "llama head_dim": ("LlamaForCausalLM", "LlamaConfig", GQA | {"head_dim": 10}),
    "llama swish, rope divided by 1": (
        "LlamaForCausalLM",
        "LlamaConfig",
        GQA | {"hidden_act": "swish", "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 1.0}},
    ),
    "llama 3 rope": ("LlamaForCausalLM", "LlamaConfig", GQA | {"rope_parameters": LLAMA3}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", GQA | {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", GQA | {"head_dim": 16}),
    "qwen3 biases": ("Qwen3ForCausalLM", "Qwen3Config", GQA | {"head_dim": 10, "attention_bias": True}),
    # A quarter of 12 dimensions is odd, so the quarter is taken of 16.
    "gpt_neox parallel": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        SIZES | {"hidden_size": 64, "use_parallel_residual": True, "rope_parameters": _rope(0.25)},
    ),
    "gpt_neox sequential": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        SIZES | {"use_parallel_residual": False, "rope_parameters": _rope(0.5), "tie_word_embeddings": True},
    ),
    "gpt_neox no biases": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        SIZES | {"attention_bias": False, "rope_parameters": _rope(1.0), "hidden_act": "gelu_new"},
    ),
    "gpt_neox gelu_fast": (
        "GPTNeoXForCausalLM",
        "GPTNeoXConfig",
        SIZES | {"hidden_size": 64, "hidden_act": "gelu_fast", "rope_parameters": _rope(0.25)},
    ),
    **MORE_CASES,
    **GATED_CASES,
    **{
        f"llama {name}": ("LlamaForCausalLM", "LlamaConfig", GQA | changes)
        for name, changes in {
            "gelu": {"hidden_act": "gelu"},
            "linear rope": {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0}},
            # Past its context length, the base grows with the text.
            "dynamic rope": {
                "max_position_embeddings": 16,
                "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 3.0},
            },
            "yarn": {"rope_parameters": YARN},
            "yarn, other ends": {
                "rope_parameters": YARN
                | {"beta_fast": 1.5, "beta_slow": 0.1, "truncate": False, "attention_factor": 1.3}
            },
            "yarn, mscale": {"rope_parameters": YARN | {"mscale": 0.7, "mscale_all_dim": 0.4}},
        }.items()
    },
    "mistral": ("MistralForCausalLM", "MistralConfig", GQA | WINDOW),
    "mistral, no window": ("MistralForCausalLM", "MistralConfig", GQA | {"sliding_window": None, "head_dim": 10}),
    "ministral": ("MinistralForCausalLM", "MinistralConfig", GQA | WINDOW | {"layer_types": KINDS, "head_dim": 12}),
    "qwen2 windows": (
        "Qwen2ForCausalLM",
        "Qwen2Config",
        GQA | WINDOW | {"use_sliding_window": True, "max_window_layers": 1},
    ),
    "qwen3 windows": (
        "Qwen3ForCausalLM",
        "Qwen3Config",
        GQA | WINDOW | {"head_dim": 16, "use_sliding_window": True, "layer_types": KINDS},
    ),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", GQA | {"num_local_experts": 5, "num_experts_per_tok": 3}),
    "mixtral windows": ("MixtralForCausalLM", "MixtralConfig", GQA | WINDOW | {"num_local_experts": 4, "head_dim": 10}),
    "qwen2_moe": (
        "Qwen2MoeForCausalLM",
        "Qwen2MoeConfig",
        GQA | EXPERTS | {"num_experts": 5, "shared_expert_intermediate_size": 28, "mlp_only_layers": [1]},
    ),
    "qwen2_moe windows, undivided": (
        "Qwen2MoeForCausalLM",
        "Qwen2MoeConfig",
        GQA
        | EXPERTS
        | WINDOW
        | {"num_experts": 4, "norm_topk_prob": False, "decoder_sparse_step": 2, "qkv_bias": False}
        | {"use_sliding_window": True, "shared_expert_intermediate_size": 28},
    ),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", GQA | EXPERTS | {"num_experts": 5, "head_dim": 16}),
    "qwen3_moe windows, biases": (
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        GQA
        | EXPERTS
        | WINDOW
        | {"num_experts": 4, "head_dim": 10, "norm_topk_prob": False, "attention_bias": True, "mlp_only_layers": [0]}
        | {"use_sliding_window": True},
    ),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", SIZES | {"num_key_value_heads": 1, "head_dim": 16}),
    "gemma biases, legacy gelu, untied": (
        "GemmaForCausalLM",
        "GemmaConfig",
        GQA | {"head_dim": 10, "attention_bias": True, "hidden_act": "gelu", "tie_word_embeddings": False},
    ),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", GQA | WINDOW | {"head_dim": 16, "query_pre_attn_scalar": 20}),
    "gemma2 without caps, biases": (
        "Gemma2ForCausalLM",
        "Gemma2Config",
        GQA
        | WINDOW
        | {
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "attention_bias": True,
            "layer_types": ["full_attention", *KINDS[:2]],
        }
        | {"attn_logit_softcapping": None, "final_logit_softcapping": None, "hidden_activation": "gelu"},
    ),
    "gemma2 small caps": (
        "Gemma2ForCausalLM",
        "Gemma2Config",
        GQA | WINDOW | {"head_dim": 16, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
    ),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", GQA | WINDOW | {"head_dim": 16, "layer_types": KINDS}),
    "gemma3 scaled, cap": (
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        GQA
        | WINDOW
        | {"head_dim": 12, "layer_types": KINDS, "final_logit_softcapping": 4.0}
        | {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
            }
        },
    ),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", GQA | WINDOW),
    "phi3 longrope": (
        "Phi3ForCausalLM",
        "Phi3Config",
        GQA | {"rope_parameters": LONGROPE, "original_max_position_embeddings": 6},
    ),
    "phi3 longrope, part of a head": (
        "Phi3ForCausalLM",
        "Phi3Config",
        GQA
        | {"original_max_position_embeddings": 48, "tie_word_embeddings": True}
        | {
            "rope_parameters": LONGROPE
            | {"short_factor": SHORT[:4], "long_factor": LONG[:4], "partial_rotary_factor": 0.7}
        },
    ),
    "olmo": ("OlmoForCausalLM", "OlmoConfig", GQA),
    "olmo clipped, biases, tied": (
        "OlmoForCausalLM",
        "OlmoConfig",
        SIZES | {"clip_qkv": 0.3, "attention_bias": True, "tie_word_embeddings": True},
    ),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", GQA),
    "olmo2 biases": ("Olmo2ForCausalLM", "Olmo2Config", SIZES | {"attention_bias": True, "rms_norm_eps": 1e-6}),
    "olmo3": ("Olmo3ForCausalLM", "Olmo3Config", GQA | WINDOW | {"layer_types": KINDS}),
    "olmo3 yarn": (
        "Olmo3ForCausalLM",
        "Olmo3Config",
        GQA
        | WINDOW
        | {
            "layer_types": KINDS,
            "rope_parameters": {
                "full_attention": YARN,
                "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
            },
        },
    ),
    "olmoe": (
        "OlmoeForCausalLM",
        "OlmoeConfig",
        GQA | {"num_experts": 5, "num_experts_per_tok": 2},
    ),
    "olmoe divided, biases": (
        "OlmoeForCausalLM",
        "OlmoeConfig",
        SIZES | {"num_experts": 4, "num_experts_per_tok": 3, "norm_topk_prob": True, "attention_bias": True},
    ),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", GQA | {"no_rope_layer_interval": 2}),
    "smollm3 windows, biases": (
        "SmolLM3ForCausalLM",
        "SmolLM3Config",
        GQA
        | WINDOW
        | {"no_rope_layers": [0, 1, 1], "use_sliding_window": True, "attention_bias": True, "mlp_bias": True}
        | {"tie_word_embeddings": False},
    ),
    "opt narrow, norms after": (  # as OPT-350m
        "OPTForCausalLM",
        "OPTConfig",
        {name: value for name, value in SIZES.items() if name != "intermediate_size"}
        | {"ffn_dim": M, "word_embed_proj_dim": 20, "do_layer_norm_before": False},
    ),
    "arcee": ("ArceeForCausalLM", "ArceeConfig", GQA | {"attention_bias": True, "mlp_bias": True}),
    "helium": ("HeliumForCausalLM", "HeliumConfig", GQA | {"head_dim": 12}),
    "helium biases": (
        "HeliumForCausalLM",
        "HeliumConfig",
        GQA | {"head_dim": 12, "attention_bias": True, "mlp_bias": True},
    ),
}


def config_of(case: str, **changes: object):
    """The config of a case, as transformers has it."""
    import transformers as hf  # takes seconds, so only where it is used

    _, config_class, values = CASES[case]
    # transformers completes the dict it is given in place, hence the copy.
    given = {k: dict(v) if isinstance(v, dict) else v for k, v in (values | changes).items()}
    return getattr(hf, config_class)(**given)


def build_hf(case: str, shaken: bool, **changes: object) -> nn.Module:
    """The transformers model of a case with random weights, its attention computed step by step."""
    import transformers as hf

    torch.manual_seed(0)
    config = config_of(case, **changes)
    # The eager attention of Falcon adds ALiBi twice.
    config._attn_implementation = "sdpa" if getattr(config, "alibi", False) else "eager"
    model = getattr(hf, CASES[case][0])(config).eval()
    if shaken:
        shake(model)
    return model
