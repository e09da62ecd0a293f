"""Configs of more families as they lie on the Hub, in the older spelling, cut down in size."""

_NOTES = {"bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.02, "torch_dtype": "float16", "use_cache": True}
_SIZES = {"vocab_size": 11, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
_LLAMA = _NOTES | _SIZES | {"intermediate_size": 12, "max_position_embeddings": 16, "rope_theta": 10000.0}
_LLAMA |= {"hidden_act": "silu", "attention_dropout": 0.0, "num_key_value_heads": 2}
_GPT = _NOTES | {"vocab_size": 11, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 16, "n_inner": None}
_GPT |= {"layer_norm_epsilon": 1e-05, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
_GPT |= {"summary_activation": None, "summary_first_dropout": 0.1, "summary_type": "cls_index"}
_GPTJ = _GPT | {"activation_function": "gelu_new", "rotary_dim": 4, "tie_word_embeddings": False}
_GRANITE = _LLAMA | {"rms_norm_eps": 1e-05, "tie_word_embeddings": True, "attention_bias": False, "rope_scaling": None}
_GRANITE |= {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0}
_GRANITE |= {"attention_multiplier": 0.015625}
_GLM = _LLAMA | {"head_dim": 4, "attention_bias": True, "partial_rotary_factor": 0.5, "rms_norm_eps": 1.5625e-07}
_COHERE = _LLAMA | {"layer_norm_eps": 1e-05, "logit_scale": 0.0625, "attention_bias": False}

MORE_CONFIGS: dict[str, dict] = {
    "nanochat": _LLAMA | {"hidden_act": "relu2", "rms_norm_eps": 1e-06, "final_logit_softcapping": 15.0},
    "gpt_oss": _LLAMA
    | {
        "attention_bias": True,
        "experts_per_token": 2,
        "head_dim": 4,
        "initial_context_length": 8,
        "layer_types": ["sliding_attention", "full_attention"],
        "num_experts_per_tok": 2,
        "num_local_experts": 3,
        "output_router_logits": False,
        "rms_norm_eps": 1e-05,
        "rope_scaling": {
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "factor": 32.0,
            "original_max_position_embeddings": 8,
            "rope_type": "yarn",
            "truncate": False,
        },
        "rope_theta": 150000,
        "router_aux_loss_coef": 0.9,
        "sliding_window": 4,
        "swiglu_limit": 7.0,
        "tie_word_embeddings": False,
    },
    "phi": _LLAMA
    | {"hidden_act": "gelu_new", "layer_norm_eps": 1e-05, "partial_rotary_factor": 0.5, "qk_layernorm": False}
    | {"resid_pdrop": 0.1, "embd_pdrop": 0.0, "rope_scaling": None, "tie_word_embeddings": False},
    "granite": _GRANITE | {"mlp_bias": False},
    "granitemoe": _GRANITE
    | {"num_local_experts": 3, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.0, "output_router_logits": False},
    "gptj": _GPTJ | {"rotary": True, "scale_attn_weights": True, "gradient_checkpointing": False},
    "codegen": _GPTJ | {"n_ctx": 16, "scale_attn_weights": True},
    "gpt_neo": _NOTES
    | {"vocab_size": 11, "hidden_size": 16, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 16}
    | {"activation_function": "gelu_new", "attention_dropout": 0, "embed_dropout": 0, "resid_dropout": 0}
    | {"attention_layers": ["global", "local"], "attention_types": [[["global", "local"], 1]]}
    | {"intermediate_size": None, "layer_norm_epsilon": 1e-05, "window_size": 256},
    "opt": _NOTES
    | _SIZES
    | {"ffn_dim": 12, "max_position_embeddings": 16, "word_embed_proj_dim": 16, "activation_function": "relu"}
    | {"_remove_final_layer_norm": False, "activation_dropout": 0.0, "do_layer_norm_before": True, "dropout": 0.1}
    | {"init_std": 0.02, "layerdrop": 0.0, "prefix": "</s>"},
    "bloom": _NOTES
    | {"vocab_size": 11, "n_embed": 16, "n_layer": 2, "num_attention_heads": 4, "seq_length": 16, "n_inner": None}
    | {"apply_residual_connection_post_layernorm": False, "attention_softmax_in_fp32": True, "offset_alibi": 100}
    | {"bias_dropout_fusion": True, "masked_softmax_fusion": True, "pretraining_tp": 4, "skip_bias_add": True}
    | {"skip_bias_add_qkv": False, "slow_but_exact": False, "unk_token_id": 0, "layer_norm_epsilon": 1e-05},
    "starcoder2": _LLAMA
    | {"activation_function": "gelu", "hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-05, "use_bias": True}
    | {"embedding_dropout": 0.1, "residual_dropout": 0.1, "layer_norm_epsilon": 1e-05, "mlp_type": "default"}
    | {"norm_type": "layer_norm", "scale_attn_weights": True, "sliding_window": 4},
    "gpt_bigcode": _GPT
    | {"activation_function": "gelu_pytorch_tanh", "multi_query": True, "attention_softmax_in_fp32": True}
    | {"inference_runner": 0, "max_batch_size": None, "pad_key_length": True, "pre_allocate_kv_cache": False}
    | {"scale_attention_softmax_in_fp32": True, "scale_attn_weights": True, "validate_runner_input": True},
    "stablelm": _LLAMA
    | {"hidden_size": 32, "layer_norm_eps": 1e-05, "partial_rotary_factor": 0.25, "use_qkv_bias": True}
    | {"hidden_dropout": 0.0, "use_parallel_residual": False, "qk_layernorm": False, "tie_word_embeddings": False},
    "falcon": _NOTES
    | _SIZES
    | {"alibi": False, "bias": False, "multi_query": True, "new_decoder_architecture": False, "parallel_attn": True}
    | {"apply_residual_connection_post_layernorm": False, "hidden_dropout": 0.0, "layer_norm_epsilon": 1e-05}
    | {"auto_map": {"AutoConfig": "configuration_falcon.FalconConfig"}},
    "mpt": {"vocab_size": 11, "d_model": 16, "n_layers": 2, "n_heads": 4, "max_seq_len": 16, "expansion_ratio": 4}
    | {"attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0, "clip_qkv": None}}
    | {"emb_pdrop": 0, "embedding_fraction": 1.0, "init_device": "cpu", "learned_pos_emb": True, "logit_scale": None}
    | {"no_bias": True, "norm_type": "low_precision_layernorm", "resid_pdrop": 0, "verbose": 0},
    "cohere": _COHERE | {"use_qk_norm": False},
    "cohere2": _COHERE
    | {"cache_implementation": "hybrid", "head_dim": 4, "layer_switch": 4, "position_embedding_type": "rope_gptj"}
    | {"order_of_interleaved_layers": "local_attn_first", "rotary_pct": 1.0, "sliding_window": 4}
    | {"sliding_window_pattern": 2, "use_embedding_sharing": True, "use_gated_activation": True}
    | {"use_parallel_block": True, "use_parallel_embedding": False},
    "glm": _GLM,
    "glm4": _GLM,
    "apertus": _LLAMA
    | {"hidden_act": "xielu", "qk_norm": True, "post_norm": False, "mlp_bias": False, "attention_bias": False}
    | {"rms_norm_eps": 1e-05, "hidden_dropout": 0.0, "rope_scaling": None, "tie_word_embeddings": False},
    "phimoe": _LLAMA
    | {"attention_bias": True, "lm_head_bias": True, "rms_norm_eps": 1e-05, "num_local_experts": 3}
    | {"num_experts_per_tok": 2, "router_jitter_noise": 0.01, "input_jitter_noise": 0.01, "hidden_dropout": 0.0}
    | {"expert_dropout": 0.0, "router_aux_loss_coef": 0.0, "output_router_logits": False, "sliding_window": None}
    | {"auto_map": {"AutoConfig": "configuration_phimoe.PhiMoEConfig"}, "tie_word_embeddings": False},
    "openai-gpt": _GPT | {"afn": "gelu", "n_ctx": 16, "n_special": 0, "predict_special_tokens": True},
}
del MORE_CONFIGS["openai-gpt"]["n_inner"]
for _name in MORE_CONFIGS:
    MORE_CONFIGS[_name] = MORE_CONFIGS[_name] | {"model_type": _name}
WIDTH = {"hidden_size", "n_embd", "n_embed", "d_model"}  # the width of the stream, one of these in each family
