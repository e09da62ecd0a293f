"""Configs of the families as they lie on the Hub, in the older spelling, cut down in size."""

from model.gpt.config import ModelConfig
from model.loading.families import FAMILIES

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "hidden_act": "silu",
    "hidden_size": 8,
    "initializer_range": 0.04,
    "intermediate_size": 12,
    "is_llama_config": True,
    "max_position_embeddings": 16,
    "model_type": "llama",
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_interleaved": False,
    "rope_scaling": None,
    "rope_theta": 100000,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.40.1",
    "use_cache": True,
    "vocab_size": 11,
}
GPT2 = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "bos_token_id": 50256,
    "embd_pdrop": 0.1,
    "eos_token_id": 50256,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 16,
    "n_embd": 8,
    "n_head": 2,
    "n_layer": 2,
    "n_positions": 16,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "vocab_size": 11,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
}
QWEN = {
    "architectures": ["Qwen2ForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "hidden_act": "silu",
    "hidden_size": 8,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "max_window_layers": 2,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 11,
    "torch_dtype": "bfloat16",
    "use_cache": True,
}
QWEN2 = QWEN | {"model_type": "qwen2"}
QWEN3 = QWEN | {"model_type": "qwen3", "head_dim": 6, "attention_bias": False, "rope_scaling": None}
NEOX = {
    "architectures": ["GPTNeoXForCausalLM"],
    "bos_token_id": 0,
    "hidden_act": "gelu",
    "hidden_size": 16,
    "initializer_range": 0.02,
    "intermediate_size": 12,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 16,
    "model_type": "gpt_neox",
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "rotary_emb_base": 10000,
    "rotary_pct": 0.25,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "use_parallel_residual": True,
    "vocab_size": 11,
}
MISTRAL = {key: value for key, value in QWEN.items() if key not in ("use_sliding_window", "max_window_layers")}
MISTRAL |= {
    "model_type": "mistral",
    "architectures": ["MistralForCausalLM"],
    "sliding_window": 6,
    "rope_theta": 10000.0,
}
MIXTRAL = MISTRAL | {
    "model_type": "mixtral",
    "num_experts_per_tok": 2,
    "num_local_experts": 3,
    "output_router_logits": False,
    "router_aux_loss_coef": 0.02,
    "sliding_window": None,
}
MOE = QWEN | {
    "decoder_sparse_step": 1,
    "moe_intermediate_size": 10,
    "norm_topk_prob": True,
    "num_experts": 3,
    "num_experts_per_tok": 2,
    "output_router_logits": False,
    "router_aux_loss_coef": 0.001,
}
QWEN2_MOE = MOE | {"model_type": "qwen2_moe", "shared_expert_intermediate_size": 14}
QWEN3_MOE = MOE | {"model_type": "qwen3_moe", "head_dim": 6, "attention_bias": False, "mlp_only_layers": [0]}
GEMMA = {
    "architectures": ["GemmaForCausalLM"],
    "attention_bias": False,
    "head_dim": 6,
    "hidden_act": "gelu",
    "hidden_activation": None,
    "hidden_size": 8,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "model_type": "gemma",
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "vocab_size": 11,
}
_GEMMA2 = {key: value for key, value in GEMMA.items() if key != "hidden_act"}
_GEMMA2 |= {"hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 5, "sliding_window": 6}
GEMMA2 = _GEMMA2 | {
    "model_type": "gemma2",
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
    "cache_implementation": "hybrid",
    "hidden_act": "gelu_pytorch_tanh",
    "sliding_window_size": 6,
}
GEMMA3 = _GEMMA2 | {
    "model_type": "gemma3_text",
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    "rope_local_base_freq": 10000,
    "rope_theta": 1000000,
    "sliding_window_pattern": 2,
}
GEMMA4 = {key: value for key, value in _GEMMA2.items() if not key.startswith("rope")} | {
    "model_type": "gemma4_text",
    "head_dim": 4,
    "global_head_dim": 6,
    "query_pre_attn_scalar": None,
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 6,
    "hidden_size_per_layer_input": 3,
    "vocab_size_per_layer_input": _GEMMA2["vocab_size"],
}
PHI3 = MISTRAL | {
    "model_type": "phi3",
    "pad_token_id": 0,
    "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"},
    "original_max_position_embeddings": 16,
    "embd_pdrop": 0.0,
    "resid_pdrop": 0.0,
    "rope_scaling": None,
}
_OLMO = {key: value for key, value in MISTRAL.items() if key != "sliding_window"}
_OLMO |= {"attention_bias": False, "rope_scaling": None, "tie_word_embeddings": False}
OLMO = {key: value for key, value in _OLMO.items() if key != "rms_norm_eps"} | {"model_type": "olmo", "clip_qkv": 8.0}
OLMO2 = _OLMO | {"model_type": "olmo2"}
OLMO3 = _OLMO | {
    "model_type": "olmo3",
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 6,
    "rope_theta": 500000,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 8.0,
        "original_max_position_embeddings": 8,
        "attention_factor": 1.2,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
    },
}
OLMOE = _OLMO | {
    "model_type": "olmoe",
    "clip_qkv": None,
    "norm_topk_prob": False,
    "num_experts": 3,
    "num_experts_per_tok": 2,
    "output_router_logits": False,
    "router_aux_loss_coef": 0.01,
}
SMOLLM3 = QWEN | {
    "model_type": "smollm3",
    "pad_token_id": 0,
    "attention_bias": False,
    "mlp_bias": False,
    "no_rope_layer_interval": 2,
    "no_rope_layers": [1, 0],
    "pretraining_tp": 2,
    "sliding_window": None,
    "layer_types": ["full_attention", "full_attention"],
}
CONFIGS = {
    "llama": LLAMA,
    "gpt2": GPT2,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "gpt_neox": NEOX,
    "mistral": MISTRAL,
    "mixtral": MIXTRAL,
    "qwen2_moe": QWEN2_MOE,
    "qwen3_moe": QWEN3_MOE,
    "gemma": GEMMA,
    "gemma2": GEMMA2,
    "gemma3_text": GEMMA3,
    "gemma4_text": GEMMA4,
    "phi3": PHI3,
    "olmo": OLMO,
    "olmo2": OLMO2,
    "olmo3": OLMO3,
    "olmoe": OLMOE,
    "smollm3": SMOLLM3,
}
A_SIZE = {name: "n_embd" if name == "gpt2" else "hidden_size" for name in CONFIGS}
TINY = ModelConfig(vocab_size=11, n_ctx=16, n_layer=2, d_model=8, n_head=2)


def read(values: dict) -> ModelConfig:
    return FAMILIES[values["model_type"]].to_config(values)
