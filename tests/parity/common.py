"""Holding our Transformer against transformers: tiny models, shaken weights, one comparison."""

from pathlib import Path

import torch
from torch import Tensor, nn

from model.gpt.cache import KVCache
from model.gpt.tap import record
from model.gpt.transformer import Transformer
from tests.support.models import helpers
from tests.support.models.rounding import within

# All sizes differ, so that a transposed axis cannot fit.
L, H, G, E, D, M, T, V = 3, 4, 2, 12, 48, 100, 19, 53
N_CTX = 64
OFFSETS = ("e_score_correction_bias", "feed_forward.expert_bias")  # of the choice of experts; buffers in transformers


def shake(model: nn.Module, seed: int = 0) -> None:
    """Weights far from their initial values: norms and biases moved by 0.3 sigma, matrices 6 to 8 times larger.

    Fresh weights hide mistakes: norms are all 1 and can be swapped, biases are 0 and can be dropped, and scores are
    so small that every pattern is nearly flat.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            # Gains of each head, and offsets of experts, have two axes.
            if parameter.ndim == 1 or (parameter == 1).all() or not parameter.any():
                parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
            else:
                parameter *= 6 + 2 * torch.rand((), generator=generator)
        for name, buffer in model.named_buffers():
            if name.endswith("layer_scalar"):  # of Gemma 4; a number of a checkpoint like any other
                buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))
            if name.endswith(OFFSETS):
                buffer += 0.3 * torch.randn(buffer.shape, generator=generator)


def assert_close(actual: Tensor, expected: Tensor, bound: Tensor, what: str) -> None:
    """Fail, with the largest error, unless the two are finite and agree to the bound of each row."""
    assert actual.isfinite().all() and expected.isfinite().all(), f"{what}: not finite"
    helpers.assert_close(actual, expected, bound, what)


def ids(seed: int = 1, length: int = T, vocab_size: int = V) -> Tensor:
    """Random token ids. [2, T]"""
    return torch.randint(0, vocab_size, (2, length), generator=torch.Generator().manual_seed(seed))


def save(hf: nn.Module, folder: Path, max_shard_size: str = "1GB") -> Path:
    """The model as transformers writes it: config.json and safetensors."""
    hf.save_pretrained(folder, max_shard_size=max_shard_size)
    return folder


@torch.inference_mode()
def compare(ours: Transformer, hf: nn.Module, tokens: Tensor) -> None:
    """Logits, every pattern and every hidden state agree; so do the logits of the path without a tap."""
    store: dict = {}
    logits = ours(tokens, tap=record({"pattern", "resid_pre", "resid_post", "final_out"}, store))
    fused = hf.config._attn_implementation == "sdpa"  # which returns no patterns
    wanted = hf(tokens, output_attentions=not fused, output_hidden_states=True)
    n_layer = ours.config.n_layer
    # transformers normalizes the last one of its hidden states, if the model has a final norm.
    last = ("final_out", n_layer) if ours.config.final_norm else ("resid_post", n_layer - 1)
    bound = within(ours, tokens, sites=["pattern", "resid_pre", last[0], "logits"])
    maps = iter(wanted.attentions or ())  # of the layers that have attention
    assert len(wanted.hidden_states) == n_layer + 1
    for layer in range(n_layer):
        stream, pattern = ("resid_pre", layer), ("pattern", layer)
        assert_close(store[stream], wanted.hidden_states[layer], bound[stream], f"hidden state {layer}")
        if ours.config.is_attention(layer) and not fused:
            assert_close(store[pattern], next(maps), bound[pattern], f"pattern {layer}")
    assert next(maps, None) is None
    said = bound["logits", n_layer]
    if wanted.hidden_states[-1].shape[-1] == ours.config.d_model:  # not projected to narrow embeddings
        assert_close(store[last], wanted.hidden_states[-1], bound[last], "final norm")
    assert_close(logits, wanted.logits, said, "logits")
    assert_close(ours(tokens), wanted.logits, said, "logits without a tap")


@torch.inference_mode()
def greedy(ours: Transformer, prompt: Tensor, steps: int) -> Tensor:
    """Prompt and `steps` greedy tokens, decoded with a cache. [B, T] -> [B, T + steps]"""
    cache = KVCache.empty(ours.config, prompt.shape[0], prompt.shape[1] + steps)
    tokens, new = prompt, prompt
    for _ in range(steps):
        new = ours(new, cache=cache)[:, -1:].argmax(-1)
        tokens = torch.cat((tokens, new), 1)
    return tokens


def hf_greedy(hf: nn.Module, prompt: Tensor, steps: int) -> Tensor:
    """The same by transformers' own generate, which must not stop at a special token."""
    with torch.inference_mode():
        return hf.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=steps,
            min_new_tokens=steps,
            eos_token_id=None,
            pad_token_id=0,
            use_cache=True,
        )
