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
_GQA = _SIZES | {"num_key_value_heads": 2, "intermediate_size": 100}
_GPTJ = _IDS | {"n_positions": N_CTX, "n_embd": D, "n_layer": L, "n_head": H, "rotary_dim": 4}
# name: (class of the model, class of its config, values)
FAMILIES: dict[str, tuple[str, str, dict]] = {
    "opt": ("OPTForCausalLM", "OPTConfig", _SIZES | {"ffn_dim": 100, "word_embed_proj_dim": D}),
    "bloom": ("BloomForCausalLM", "BloomConfig", _IDS | {"hidden_size": D, "n_layer": L, "n_head": H}),
    "gptj": ("GPTJForCausalLM", "GPTJConfig", _GPTJ),
    "gpt_neo": (
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        _IDS
        | {"hidden_size": D, "num_layers": L, "num_heads": H, "max_position_embeddings": N_CTX, "window_size": 5}
        | {"attention_types": [[["global", "local"], 1], [["global"], 1]]},
    ),
    "falcon": ("FalconForCausalLM", "FalconConfig", _SIZES | {"alibi": False, "multi_query": True}),
    "phi": ("PhiForCausalLM", "PhiConfig", _GQA),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", _GQA | {"head_dim": 12, "sliding_window": 8}),
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
