"""The engines that capture.py compares. Each is `load(shape) -> run(ids)`, where run returns what it keeps."""

import torch

GPT2 = {"vocab": 50257, "layers": 12, "heads": 12, "kv": 12, "width": 768, "mlp": 3072}
SMOLLM2 = {"vocab": 49152, "layers": 30, "heads": 9, "kv": 3, "width": 576, "mlp": 1536}
TINYGPT = {"vocab": 8192, "layers": 8, "heads": 8, "kv": 8, "width": 256, "mlp": 1024}
SHAPES = {"gpt2": GPT2, "smollm2-135m": SMOLLM2, "tinygpt": TINYGPT}
N_CTX = 8192  # of the shapes with random weights
ROWS = 128  # queries of a block of scores


def _our_model(shape: str, device: str = "cpu", dtype: str = "float32"):
    from dataclasses import replace

    from model.api import load_model
    from model.gpt.linear import tune
    from model.gpt.presets import preset
    from model.gpt.transformer import Transformer
    from model.loading.devices import placed
    from model.loading.halves import DTYPES

    if shape == "smollm2-135m":
        return load_model(shape, device=device, dtype=dtype).model
    s = SHAPES[shape]
    sizes = {"vocab_size": s["vocab"], "n_layer": s["layers"], "n_head": s["heads"], "n_kv_head": s["kv"]}
    widths = {"d_model": s["width"], "d_head": s["width"] // s["heads"], "d_mlp": s["mlp"], "n_ctx": N_CTX}
    model = Transformer(replace(preset("gpt2"), **sizes, **widths)).eval()
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


def products(shape: str):
    """The matrix products of a forward and nothing else, on random numbers: every linear layer of the model as it is
    tuned, scores and weighted values in blocks of ROWS queries up to their last key, and one row of logits.
    """
    from model.gpt.linear import joined, linears

    model, s = _our_model(shape), SHAPES[shape]
    layers = []
    for block in model.blocks:
        for part in (block.attn, block.mlp):
            joint = joined(part)
            alone = [each for each in linears(part) if each not in part.joint and not (joint and each in part.parts())]
            layers += [joint, *alone] if joint else alone
    G, E = s["kv"], s["width"] // s["heads"]
    R = s["heads"] // G

    def multiply(ids):
        T = ids.shape[1]
        inputs = {width: torch.randn(1, T, width) for width in {layer.weight.shape[1] for layer in layers}}
        k, q = torch.randn(G, T, E), torch.randn(G, R, T, E)
        scores = torch.rand(G * T * R * ROWS)
        for layer in layers:
            layer(inputs[layer.weight.shape[1]])
        for _ in range(s["layers"]):
            for start in range(0, T, ROWS):
                end = min(start + ROWS, T)
                part = q[:, :, start:end].reshape(G, R * (end - start), E).transpose(1, 2)
                weight = scores[: G * end * part.shape[2]].view(G, end, part.shape[2])
                torch.bmm(k[:, :end], part, out=weight)
                torch.bmm(k[:, :end].transpose(1, 2), weight)
        return model.unembed(inputs[s["width"]][:, -1:])

    return multiply


def _gpt2_config(shape: str):
    from transformers import GPT2Config

    s = SHAPES[shape]
    sizes = {"n_embd": s["width"], "n_layer": s["layers"], "n_head": s["heads"], "n_inner": s["mlp"]}
    return GPT2Config(vocab_size=s["vocab"], n_positions=N_CTX, bos_token_id=0, eos_token_id=0, **sizes)


def _transformers_model(shape: str, attention: str):
    import transformers

    transformers.logging.set_verbosity_error()
    if shape != "smollm2-135m":
        config = _gpt2_config(shape)
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
        config = _gpt2_config(shape)
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
    "products": products,
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
