"""The table of tiny models, an entry for every choice a supported config.json can make."""

import torch
from torch import nn

from tests.parity.common import N_CTX, D, G, H, L, M, V, shake

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
    config._attn_implementation = "eager"
    model = getattr(hf, CASES[case][0])(config).eval()
    if shaken:
        shake(model)
    return model
