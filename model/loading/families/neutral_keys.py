"""Keys of a config.json that do not affect the logits, grouped by reason. All other keys are read, or rejected by name.

"Not read" refers to transformers 5.23; tests/parity/test_neutral_keys_parity.py sets each key to an unusual value
there.
"""

_Groups = dict[str, tuple[str, ...]]  # reason: keys

EVERY_FAMILY: _Groups = {
    "notes about where the files are from; not read": (
        "_name_or_path",
        "name_or_path",
        "_commit_hash",
        "architectures",
        "model_type",
        "transformers_version",
        "transformers.js_config",
        "unsloth_fixed",
        "unsloth_version",
        "auto_map",
    ),
    "names of the tokenizer and limits of its texts; read by tokenizers alone": (
        "tokenizer_class",
        "tokenizer_model_max_length",
        "model_max_length",
        "prefix",
    ),
    "numbers of special tokens; read by tokenizers and by generation": (
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "sep_token_id",
    ),
    "types of the weights; each tensor carries its own": ("torch_dtype", "dtype", "use_bfloat16"),
    "how to compute the same numbers: kernels, memory, export": (
        "attn_implementation",
        "_attn_implementation",
        "_attn_implementation_autoset",
        "_flash_attn_2_enabled",
        "torch_compile",
        "torchscript",
        "gradient_checkpointing",
        "chunk_size_feed_forward",
        "use_cache",
        "xla_device",
    ),
    "what a forward pass returns beside the logits": ("output_attentions", "output_hidden_states", "return_dict"),
    "dropout, initial values and losses; used in training alone": (
        "attention_dropout",
        "hidden_dropout",
        "classifier_dropout",
        "attn_pdrop",
        "resid_pdrop",
        "embd_pdrop",
        "attention_probs_dropout_prob",
        "hidden_dropout_prob",
        "dropout",
        "initializer_range",
        "neftune_noise_alpha",
        "tf_legacy_loss",
    ),
    "heads for classification; a language model has none": (
        "id2label",
        "label2id",
        "num_labels",
        "_num_labels",
        "problem_type",
        "finetuning_task",
    ),
    "models with an encoder; these are decoders": (
        "is_decoder",
        "cross_attention_hidden_size",
        "tie_encoder_decoder",
    ),
    "settings of generation; PreTrainedConfig drops those of GenerationConfig, the others are not read": (
        "task_specific_params",
        "max_length",
        "max_new_tokens",
        "min_length",
        "min_new_tokens",
        "early_stopping",
        "max_time",
        "stop_strings",
        "do_sample",
        "num_beams",
        "num_beam_groups",
        "diversity_penalty",
        "penalty_alpha",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "typical_p",
        "epsilon_cutoff",
        "eta_cutoff",
        "repetition_penalty",
        "encoder_repetition_penalty",
        "length_penalty",
        "no_repeat_ngram_size",
        "encoder_no_repeat_ngram_size",
        "bad_words_ids",
        "force_words_ids",
        "renormalize_logits",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "decoder_start_token_id",
        "remove_invalid_values",
        "exponential_decay_length_penalty",
        "suppress_tokens",
        "begin_suppress_tokens",
        "sequence_bias",
        "guidance_scale",
        "num_return_sequences",
        "output_scores",
        "output_logits",
        "return_dict_in_generate",
        "cache_implementation",
        "num_assistant_tokens",
        "num_assistant_tokens_schedule",
        "assistant_confidence_threshold",
        "assistant_lookbehind",
        "target_lookbehind",
    ),
}
GPT2: _Groups = {
    "heads of GPT2DoubleHeadsModel": (
        "summary_type",
        "summary_use_proj",
        "summary_activation",
        "summary_proj_to_labels",
        "summary_first_dropout",
    ),
    "of the library of 2019; not read since": ("n_special", "predict_special_tokens", "output_past"),
    "the same scores in another order of rounding": ("reorder_and_upcast_attn",),
}
BERT: _Groups = {
    "layers for classification, which are not read": (
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    ),
    "a note of the library of 2019": ("output_past",),
    "dropout of a head for classification": ("classifier_dropout",),
}
DISTILBERT: _Groups = {
    "dropout of heads for other tasks": ("qa_dropout", "seq_classif_dropout"),
    "how the position table was initialized; the file holds it": ("sinusoidal_pos_embds",),
    "the tied head of files from 2019; `tie_word_embeddings` counts": ("tie_weights_",),
}
MODERNBERT: _Groups = {
    "numbers of special tokens; read by tokenizers alone": ("cls_token_id",),
    "dropout, initial values and losses; used in training alone": (
        "embedding_dropout",
        "mlp_dropout",
        "initializer_cutoff_factor",
        "sparse_prediction",
        "sparse_pred_ignore_index",
    ),
    "layers for classification, which are not read": ("classifier_pooling",),
    "how to compute the same numbers": (
        "deterministic_flash_attn",
        "reference_compile",
        "repad_logits_with_grad",
        "gradient_checkpointing",
    ),
    "not read by the modern one; left from a template": ("layer_norm_eps", "position_embedding_type"),
}
MAMBA: _Groups = {
    "initial values; used in training alone": (
        "time_step_init_scheme",
        "time_step_scale",
        "time_step_min",
        "time_step_max",
        "time_step_floor",
        "rescale_prenorm_residual",
    ),
    "how to compute the same numbers": ("residual_in_fp32", "use_mambapy", "use_associative_scan", "fused_add_norm"),
    "notes of the published files; not read": ("d_model", "n_layer", "rms_norm", "ssm_cfg", "pad_vocab_size_multiple"),
}
MAMBA2: _Groups = {
    "how to compute the same numbers": ("chunk_size",),
    "of Mamba 1; not read": ("time_step_rank",),
    "notes of the published files; not read": ("norm_before_gate", "rms_norm"),
}
NEMOTRON_H: _Groups = {
    "initial values; used in training alone": ("time_step_max", "time_step_floor", "rescale_prenorm_residual"),
    "how to compute the same numbers": (
        *("chunk_size", "residual_in_fp32", "use_mamba_kernels", "mamba_ssm_cache_dtype", "num_logits_to_keep"),
        "moe_shared_expert_overlap",
    ),
    "of other code, or of Mamba 1; not read": ("expand", "rms_norm_eps", "time_step_limit", "time_step_rank"),
    "of RoPE, which its attention does not have": ("rope_theta", "partial_rotary_factor"),
    "a second name of layer_norm_epsilon; not read": ("norm_eps",),
    "the number of shared experts, which are stored as one; not read": ("n_shared_experts", "output_router_logits"),
    "layers that predict further tokens; there are 0": ("mtp_layers_block_type", "mtp_hybrid_override_pattern"),
    "the model has full attention, whatever this says": ("sliding_window",),
}
FALCON_H1: _Groups = {
    "how to compute the same numbers": ("mamba_chunk_size", "num_logits_to_keep", "mamba_use_mlp"),
    "not read: every layer has the same parts": ("layer_types", "layers_block_type", "attn_layer_indices"),
    "notes of the published files; not read": (
        "mlp_expansion_factor",
        "time_step_floor",
        "time_step_max",
        "time_step_min",
    ),
    "the cap of another version; not read": ("rescale_prenorm_residual", "time_step_rank", "z_loss_coefficient"),
}
BAMBA: _Groups = {
    "how to compute the same numbers": ("mamba_chunk_size", "num_logits_to_keep"),
    "used in training alone": ("z_loss_coefficient",),
    "not read: attn_layer_indices has it": ("layer_types", "layers_block_type", "attn_rotary_emb"),
    "of Mamba 1's families; not read": ("expert_layer_offset", "expert_layer_period", "attn_layer_offset"),
}
GRANITE_HYBRID: _Groups = {
    "how to compute the same numbers": ("mamba_chunk_size",),
    "initial values and notes; not read": ("init_method", "normalization_function"),
}
LLAMA: _Groups = {
    "splits products to repeat a training run's rounding; not read": ("pretraining_tp",),
    "notes of conversions; not read": ("is_llama_config", "max_sequence_length"),
}
GPTJ: _Groups = {"the length of the training texts, which other families call n_positions; not read": ("n_ctx",)}
GPT_NEO: _Groups = {"used in training alone": ("resid_dropout", "embed_dropout")}
OPT: _Groups = {
    "used in training alone": ("activation_dropout", "layerdrop", "init_std"),
    "note of the conversion; not read": ("output_projection",),
}
BLOOM: _Groups = {
    "how to compute the same numbers: kernels, and products in parts": (
        "attention_softmax_in_fp32",
        "bias_dropout_fusion",
        "masked_softmax_fusion",
        "pretraining_tp",
    ),
    "notes of the training code; not read": ("offset_alibi", "skip_bias_add", "skip_bias_add_qkv", "unk_token_id"),
}
MPT: _Groups = {
    "used in training alone": ("emb_pdrop", "embedding_fraction", "init_config", "init_device"),
    "notes; a model with ALiBi has no learned positions, and transformers reads neither": (
        "learned_pos_emb",
        "tokenizer_name",
        "verbose",
    ),
}
MPT_ATTENTION: _Groups = {"how to compute the same numbers": ("attn_impl",)}
GPT_BIGCODE: _Groups = {
    "how to compute the same numbers: precision, and memory of a server": (
        "attention_softmax_in_fp32",
        "scale_attention_softmax_in_fp32",
        "inference_runner",
        "max_batch_size",
        "max_sequence_length",
        "pad_key_length",
        "pre_allocate_kv_cache",
        "validate_runner_input",
    ),
}
STARCODER2: _Groups = {
    "used in training alone": ("residual_dropout", "embedding_dropout"),
    "GPT-BigCode's names; not read here": (
        "activation_function",
        "layer_norm_epsilon",
        "attention_softmax_in_fp32",
        "scale_attention_softmax_in_fp32",
    ),
}
FALCON: _Groups = {"note of the MLP's width, which ffn_hidden_size gives; not read": ("ff_factor",)}
COHERE2: _Groups = {"note of the pattern of the layers; not read": ("layer_switch",)}
GPT_OSS: _Groups = {
    "note of the training texts; rope_parameters has the number that is read": ("initial_context_length",)
}
EXPERTS: _Groups = {
    "the router's loss, noise and logits; used in training, or returned beside the logits": (
        "router_aux_loss_coef",
        "router_jitter_noise",
        "output_router_logits",
    ),
}
DOTS: _Groups = {
    "how to compute the same numbers": ("moe_router_dtype", "ep_size"),
    "used in training alone": ("aux_loss_alpha", "seq_aux"),
}
ERNIE_MOE: _Groups = {
    "layers that predict further tokens, which are not read": ("num_nextn_predict_layers",),
    "how to compute the same numbers, and limits in training": (
        *("moe_capacity", "moe_multimodal_dispatch_use_allgather", "fuse_rope", "use_flash_attention"),
    ),
    "a bound of a sum of weights, so small that no sum is below it": ("moe_norm_min",),
    "used in training alone": ("moe_aux_loss_lambda", "moe_orthogonal_loss_lambda", "moe_dropout_prob"),
}
BIOGPT: _Groups = {
    "used in training alone": ("layerdrop", "activation_dropout"),
    "not read: norms have 1e-5": ("layer_norm_eps",),
}
SEED_OSS: _Groups = {"used in training alone": ("residual_dropout",)}
QWEN1: _Groups = {
    "how to compute the same numbers: precision, kernels, memory": (
        *("bf16", "fp16", "fp32", "use_flash_attn", "onnx_safe", "softmax_in_fp32"),
        *("use_cache_quantization", "use_cache_kernel"),
    ),
    "used in training alone": ("attn_dropout_prob", "emb_dropout_prob"),
}
BAICHUAN: _Groups = {"used in training alone": ("z_loss_weight",)}
CHATGLM: _Groups = {
    "how to compute the same numbers: precision, and factors that cancel": (
        "apply_query_key_layer_scaling",
        "attention_softmax_in_fp32",
        "bias_dropout_fusion",
        "fp32_residual_connection",
    ),
    "a prefix of trained vectors, read only with pre_seq_len": ("prefix_projection",),
}
PHIMOE: _Groups = {
    "noise and dropout of training": (
        "input_jitter_noise",
        "expert_dropout",
        "hidden_dropout",
    ),
}
MISTRAL: _Groups = {
    "of MLC's cache; not read": ("sliding_window_size", "attention_sink_size"),
    "of Llama's config, in merged models; not read": ("pretraining_tp",),
}
SMOLLM3: _Groups = {"of Qwen's code, from which SmolLM3's is; not read": ("max_window_layers",)}
QWEN3_5: _Groups = {
    "layers that predict further tokens, which are not read": ("mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"),
    "types of a state; each tensor carries its own": ("mamba_ssm_dtype",),
    "of Qwen3-Next, from which the code is; not read": ("mlp_only_layers",),
}
LFM2: _Groups = {
    "initial values; used in training alone": ("block_mlp_init_scale", "block_out_init_scale", "conv_use_xavier_init"),
    "notes of the published files; not read": (
        "block_dim",
        "block_norm_eps",
        "num_heads",
        "block_use_xavier_init",
        "use_pos_enc",
    ),
}
PHI3: _Groups = {"classes of Microsoft's own code; not read unless asked for": ("auto_map",)}

# Keys that can affect the computation, with the values at which they have no effect.
NEUTRAL_VALUES: dict[str, tuple] = {
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": ({},),
    "use_mrope": (False,),
    "is_causal": (True,),
}


def keys_of(groups: _Groups) -> frozenset[str]:
    """Return the keys of all groups."""
    return frozenset(key for keys in groups.values() for key in keys)
