"""Tiny decoders of transformers that our own Transformer does not know, and a tokenizer of transformers for them."""

from typing import Any

from model import FOLDER

V, N_CTX, D, L, H = 8192, 96, 48, 3, 4
_IDS = {"vocab_size": V, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
_SIZES = _IDS | {
    "hidden_size": D,
    "num_hidden_layers": L,
    "num_attention_heads": H,
    "max_position_embeddings": N_CTX,
}
_MLA = {
    "intermediate_size": 100,
    "num_key_value_heads": H,
    "first_k_dense_replace": L,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}
# name: (class of the model, class of its config, values)
FAMILIES: dict[str, tuple[str, str, dict]] = {
    "xglm": (
        "XGLMForCausalLM",
        "XGLMConfig",
        _IDS | {"d_model": D, "ffn_dim": 100, "num_layers": L, "attention_heads": H, "max_position_embeddings": N_CTX},
    ),
    "persimmon": ("PersimmonForCausalLM", "PersimmonConfig", _SIZES | {"intermediate_size": 100}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", "DeepseekV3Config", _SIZES | _MLA),
}


def build(family: str, eager: bool = True) -> Any:
    """A tiny model of a family, with random weights far from their initial values."""
    import torch
    import transformers as hf

    from tests.parity.common import shake

    torch.manual_seed(0)
    name, config, values = FAMILIES[family]
    made = getattr(hf, config)(**values)
    made._attn_implementation = "eager" if eager else None
    model = getattr(hf, name)(made).eval()
    shake(model)
    return model


def tokenizer() -> Any:
    """TinyGPT's vocabulary as a fast tokenizer of transformers."""
    import transformers as hf

    return hf.PreTrainedTokenizerFast(tokenizer_file=str(FOLDER / "model" / "weights" / "tinygpt" / "tokenizer.json"))
