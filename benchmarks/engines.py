"""The engines that capture.py compares. Each is `load(shape) -> run(ids)`, where run returns what it keeps."""

import torch

GPT2 = {"vocab": 50257, "layers": 12, "heads": 12, "kv": 12, "width": 768, "mlp": 3072}
SMOLLM2 = {"vocab": 49152, "layers": 30, "heads": 9, "kv": 3, "width": 576, "mlp": 1536}
SHAPES = {"gpt2": GPT2, "smollm2-135m": SMOLLM2}


def _our_model(shape: str, device: str = "cpu", dtype: str = "float32"):
    from model.api import load_model
    from model.gpt.linear import tune
    from model.gpt.presets import preset
    from model.gpt.transformer import Transformer
    from model.loading.devices import placed
    from model.loading.halves import DTYPES

    if shape == "smollm2-135m":
        return load_model(shape, device=device, dtype=dtype).model
    model = Transformer(preset("gpt2")).eval()
    if (device, dtype) != ("cpu", "float32"):
        return placed(model, device, DTYPES[dtype])[0]
    model.join()
    tune(model)
    return model


def plain(shape: str, device: str = "cpu", dtype: str = "float32"):
    """This project's forward with nothing kept: the logits of the last position."""
    model = _our_model(shape, device, dtype)
    return lambda ids: model.logits(model.trunk(ids)[:, -1:])


def ours(shape: str, device: str = "cpu", dtype: str = "float32"):
    """This project's trace: residual stream, all metrics and a thumbnail of every head, logits of the last position."""
    from model.records import Tokens
    from model.tracing.trace import run

    model = _our_model(shape, device, dtype)

    def capture(ids):
        T = ids.shape[1]
        spans = torch.arange(2 * T).view(T, 2).numpy()
        trace = run(model, Tokens(ids[0].numpy(), ("",) * T, (b"",) * T, spans))
        return trace, trace.logits_at(-1)

    return capture


def _transformers_model(shape: str, attention: str):
    import transformers

    transformers.logging.set_verbosity_error()
    if shape == "gpt2":
        config = transformers.GPT2Config()
        return transformers.GPT2LMHeadModel._from_config(config, attn_implementation=attention).eval()
    from model.loading.sources import smollm2_path

    path = smollm2_path()
    return transformers.LlamaForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, attn_implementation=attention, dtype=torch.float32
    ).eval()


def sdpa(shape: str):
    """transformers, its fused forward with nothing captured (all logits, its default)."""
    model = _transformers_model(shape, "sdpa")
    return lambda ids: model(ids, use_cache=False)


def eager(shape: str, device: str = "cpu"):
    """transformers, eager attention, output_attentions=True (all logits, its default), brought to the CPU."""
    model = _transformers_model(shape, "eager").to(device)

    def capture(ids):
        out = model(ids.to(device), output_attentions=True, use_cache=False)
        return out.logits.cpu(), [pattern.cpu() for pattern in out.attentions]

    return capture


def lens(shape: str):
    """transformer-lens, run_with_cache with everything cached; random weights of the same shape."""
    import tempfile

    import transformers
    from tokenizers import Tokenizer, models
    from transformer_lens.model_bridge import TransformerBridge

    transformers.logging.set_verbosity_error()
    s = SHAPES[shape]
    if s["kv"] == s["heads"]:
        config = transformers.GPT2Config()
    else:
        config = transformers.LlamaConfig(
            vocab_size=s["vocab"],
            hidden_size=s["width"],
            intermediate_size=s["mlp"],
            num_hidden_layers=s["layers"],
            num_attention_heads=s["heads"],
            num_key_value_heads=s["kv"],
            tie_word_embeddings=True,
        )
    config.architectures = ["GPT2LMHeadModel" if config.model_type == "gpt2" else "LlamaForCausalLM"]
    words = Tokenizer(models.WordLevel({"a": 0, "<e>": 1}, unk_token="a"))
    tokens = {"eos_token": "<e>", "bos_token": "<e>", "pad_token": "<e>"}
    with tempfile.TemporaryDirectory() as folder:  # the bridge boots from a folder; it needs a tokenizer, any will do
        config.save_pretrained(folder)
        transformers.PreTrainedTokenizerFast(tokenizer_object=words, **tokens).save_pretrained(folder)
        model = TransformerBridge.boot_transformers(folder, load_weights=False, device="cpu").eval()
    return lambda ids: model.run_with_cache(ids)


ENGINES = {
    "plain": plain,
    "ours": ours,
    "sdpa": sdpa,
    "eager": eager,
    "lens": lens,
    "plain-cuda": lambda shape: plain(shape, "cuda"),
    "ours-cuda": lambda shape: ours(shape, "cuda"),
    "ours-cuda-bf16": lambda shape: ours(shape, "cuda", "bfloat16"),
    "eager-cuda": lambda shape: eager(shape, "cuda"),
}
