"""Adapters as a folder that peft reads: adapter_config.json and adapter_model.safetensors, under transformers' names.

peft multiplies the product B A of a layer by alpha / r, as here. GPT-2 keeps q, k and v in one matrix, so their
adapters become one of a rank that is theirs together: the rows of A below one another, the blocks of B on a diagonal.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from model.alignment.lora import MATRICES, Adapted, Lora
from model.errors import UnsupportedModel
from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.loading.export import gpt2_config

FOLDER = "adapter"
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PART = ".part"  # the ending of a file that is being written
JOINT = "attn.c_attn"  # of GPT-2: q, k and v

# The layers of a block by their names in transformers, each with those of ours that it holds.
GPT2 = {JOINT: ("q", "k", "v"), "attn.c_proj": ("o",), "mlp.c_fc": ("up",), "mlp.c_proj": ("down",)}
LLAMA = {f"self_attn.{name}_proj": (name,) for name in "qkvo"}
LLAMA |= {f"mlp.{name}_proj": (name,) for name in ("gate", "up", "down")}
_LLAMA_SHAPE = {
    "mixer": "softmax",
    "norm": "rmsnorm",
    "norm_placement": "pre",
    "parallel_residual": False,
    "positions": "rope",
    "mlp": "swiglu",
    "n_expert": 1,
}


def is_gpt2(config: ModelConfig) -> bool:
    """Whether a model is of GPT-2's shape; of Llama's or Qwen's if not. Raises UnsupportedModel for any other."""
    try:
        gpt2_config(dataclasses.replace(config, tie_embeddings=True), 0)  # or not tied: nothing of it is adapted
    except UnsupportedModel:
        if any(getattr(config, name) != value for name, value in _LLAMA_SHAPE.items()):
            hint = "Use the model with its adapters worked in."
            raise UnsupportedModel("Adapters of this model have no names in peft.", config.mlp, hint) from None
        return False
    return True


def peft_state(model: Transformer) -> dict[str, Tensor]:
    """The adapters under peft's names: A [r, in] and B [out, r] of each layer. Raises UnsupportedModel."""
    gpt2 = is_gpt2(model.config)
    start = "base_model.model.transformer.h" if gpt2 else "base_model.model.model.layers"
    return {
        f"{start}.{layer}.{name}.lora_{which}.weight": tensor.detach().cpu().contiguous()
        for layer in range(len(model.blocks))
        for name, a, b in _layers(model, layer, GPT2 if gpt2 else LLAMA)
        for which, tensor in (("A", a), ("B", b))
    }


def _layers(model: Transformer, layer: int, names: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, Tensor, Tensor]]:
    """(name, A, B) of the adapted layers of a block."""
    block = model.blocks[layer]
    for theirs, ours in names.items():
        place = block.attn if "attn" in theirs else block.mlp
        parts = [getattr(place, name) for name in ours]
        if any(isinstance(part, Adapted) for part in parts):
            yield theirs, *_together(parts)


def _together(parts: Sequence[Adapted | torch.nn.Module]) -> tuple[Tensor, Tensor]:
    """A and B of layers of one input whose outputs lie below one another; one without adapters has rows of zeros."""
    adapted = [part for part in parts if isinstance(part, Adapted)]
    if len(parts) == 1:
        return adapted[0].a, adapted[0].b
    none = adapted[0].b[:0, :0]
    blocks = [
        part.b if isinstance(part, Adapted) else none.new_zeros(len(part.weight), 0)  # type: ignore[arg-type]
        for part in parts
    ]
    return torch.cat([part.a for part in adapted]), torch.block_diag(*blocks)


def peft_config(config: ModelConfig, lora: Lora, base: str) -> dict:
    """adapter_config.json. `base`: the name of the model that the adapters are for. Raises UnsupportedModel."""
    gpt2, chosen = is_gpt2(config), MATRICES[lora.matrices]
    names = {theirs: [name for name in ours if name in chosen] for theirs, ours in (GPT2 if gpt2 else LLAMA).items()}
    joint = len(names.get(JOINT, ()))  # adapters that become one: alpha / r stays as it is
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "rank_pattern": {JOINT: joint * lora.rank} if joint else {},
        "alpha_pattern": {JOINT: joint * lora.alpha} if joint else {},
        "target_modules": [theirs for theirs, ours in names.items() if ours],
        "fan_in_fan_out": gpt2,  # its layers keep [in, out]
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
    }


def save_peft(folder: Path, model: Transformer, lora: Lora, base: str) -> None:
    """Write both files, each complete or absent, the config last.

    Raises UnsupportedModel for a model that is neither of GPT-2's shape nor of Llama's.
    """
    values, state = peft_config(model.config, lora, base), peft_state(model)
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / (WEIGHTS + PART)
    save_file(state, temporary, metadata={"format": "pt"})
    temporary.replace(folder / WEIGHTS)
    temporary.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    temporary.replace(folder / CONFIG)


def peft_files(model: Transformer, lora: Lora | None, base: str) -> Callable[[Path], None] | None:
    """What writes them into the folder FOLDER of a run's; None where there are no adapters, or no names for them."""
    if lora is None:
        return None
    try:
        is_gpt2(model.config)
    except UnsupportedModel:
        return None
    return lambda folder: save_peft(folder / FOLDER, model, lora, base)
