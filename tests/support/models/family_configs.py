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
CONFIGS = {"llama": LLAMA, "gpt2": GPT2, "qwen2": QWEN2, "qwen3": QWEN3, "gpt_neox": NEOX}
A_SIZE = {name: "n_embd" if name == "gpt2" else "hidden_size" for name in CONFIGS}
TINY = ModelConfig(vocab_size=11, n_ctx=16, n_layer=2, d_model=8, n_head=2)


def read(values: dict) -> ModelConfig:
    return FAMILIES[values["model_type"]].to_config(values)
