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
    ),
    "names of the tokenizer and limits of its texts; read by tokenizers alone": (
        "tokenizer_class",
        "tokenizer_model_max_length",
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
LLAMA: _Groups = {
    "splits products to repeat a training run's rounding; not read": ("pretraining_tp",),
    "notes of conversions; not read": ("is_llama_config", "max_sequence_length"),
}

# Keys that can affect the computation, with the values at which they have no effect.
NEUTRAL_VALUES: dict[str, tuple] = {
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": ({},),
    "use_mrope": (False,),
}


def keys_of(groups: _Groups) -> frozenset[str]:
    """Return the keys of all groups."""
    return frozenset(key for keys in groups.values() for key in keys)
