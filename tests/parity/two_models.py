"""Two tiny models of transformers: with separate heads (MHA), and with grouped ones (GQA)."""

SIZES = {"vocab_size": 8191, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}


def _gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(**SIZES, n_embd=48, n_layer=3, n_head=4, n_positions=64))


def _llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        **SIZES,
        hidden_size=48,
        intermediate_size=100,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    return LlamaForCausalLM(config)


MODELS = {"GPT2 (MHA)": _gpt2, "Llama (GQA)": _llama}


def blocks(hf):
    """The layers of one of these models."""
    return hf.transformer.h if hasattr(hf, "transformer") else hf.model.layers
