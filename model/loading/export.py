"""Export of a model with GPT-2's architecture for other programs: config.json, model.safetensors, tokenizer.json."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from model.errors import UnsupportedModel
from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.loading.families.gpt2 import ACTIVATIONS

_GPT2 = {
    "mixer": "softmax",
    "norm": "layernorm",
    "norm_bias": True,
    "norm_placement": "pre",
    "parallel_residual": False,
    "qk_norm": False,
    "final_norm": True,
    "positions": "learned",
    "embed_scale": False,
    "q_bias": True,
    "k_bias": True,
    "v_bias": True,
    "o_bias": True,
    "mlp_bias": True,
    "n_expert": 1,
    "tie_embeddings": True,
}


def gpt2_config(config: ModelConfig, end_of_text: int) -> dict:
    """Return the config.json of a GPT-2. Raises UnsupportedModel for a model with another architecture."""
    other = [name for name, value in _GPT2.items() if getattr(config, name) != value]
    activation = next((theirs for theirs, ours in ACTIVATIONS.items() if ours == config.mlp), None)
    shared = config.n_kv_head != config.n_head or config.d_head * config.n_head != config.d_model
    if other or shared or activation is None:
        got = ", ".join(other) or config.mlp
        raise UnsupportedModel("The model does not have GPT-2's architecture.", got, "Keep its folder as it was saved.")
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": config.vocab_size,
        "n_positions": config.n_ctx,
        "n_embd": config.d_model,
        "n_layer": config.n_layer,
        "n_head": config.n_head,
        "n_inner": config.d_mlp,
        "activation_function": activation,
        "layer_norm_epsilon": config.norm_eps,
        "tie_word_embeddings": True,
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
    }


def gpt2_state(model: Transformer) -> dict[str, Tensor]:
    """Return the parameters under GPT-2's names. Its Conv1D stores [in, out], and q, k and v in one tensor."""
    state = {
        "wte.weight": model.embed.weight,
        "wpe.weight": model.pos_embed.weight,
        "ln_f.weight": model.final_norm.weight,
        "ln_f.bias": model.final_norm.bias,
    }
    for layer, block in enumerate(model.blocks):
        attn, mlp = block.attn, block.mlp
        parts = {
            "ln_1": (block.norm1.weight, block.norm1.bias),
            "attn.c_attn": (
                torch.cat([attn.q.weight, attn.k.weight, attn.v.weight]).t(),
                torch.cat([attn.q.bias, attn.k.bias, attn.v.bias]),
            ),
            "attn.c_proj": (attn.o.weight.t(), attn.o.bias),
            "ln_2": (block.norm2.weight, block.norm2.bias),
            "mlp.c_fc": (mlp.up.weight.t(), mlp.up.bias),
            "mlp.c_proj": (mlp.down.weight.t(), mlp.down.bias),
        }
        for name, (weight, bias) in parts.items():
            state |= {f"h.{layer}.{name}.weight": weight, f"h.{layer}.{name}.bias": bias}
    return {f"transformer.{name}": tensor for name, tensor in state.items()}


def save_gpt2(path: Path, model: Transformer, tokenizer_json: str, end_of_text: int, dtype: torch.dtype) -> None:
    """Write the model and its tokenizer to a folder. Raises UnsupportedModel for a model with another architecture."""
    values = gpt2_config(model.config, end_of_text)
    path.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in gpt2_state(model).items()}
    save_file(state, path / "model.safetensors", metadata={"format": "pt"})
    (path / "config.json").write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    (path / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")
    names = {
        "tokenizer_class": "GPT2TokenizerFast",
        "bos_token": "<|endoftext|>",
        "eos_token": "<|endoftext|>",
        "model_max_length": model.config.n_ctx,
    }
    (path / "tokenizer_config.json").write_text(json.dumps(names, indent=2) + "\n", encoding="utf-8")
