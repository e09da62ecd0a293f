"""Adapters as a folder in peft's format: adapter_config.json and adapter_model.safetensors, under transformers' names.

As here, peft multiplies the product B A of a layer by alpha / r. GPT-2 and GPT-NeoX store q, k and v in one matrix, so
their adapters are fused into one whose rank is the sum of theirs: the rows of A are stacked, and the blocks of B are
placed on a diagonal. The rows of B follow the order of the fused matrix, which GPT-NeoX interleaves by head.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from model.alignment.lora import MATRICES, Adapted, Lora
from model.errors import UnsupportedModel, say
from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.loading.export import gpt2_config

FOLDER = "adapter"
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PART = ".part"  # suffix of a file that is being written
ATTENTION = MATRICES["attention"]


@dataclass(frozen=True)
class Naming:
    """The names that transformers gives the linear layers of an architecture."""

    start: str  # prefix of the block index in peft's parameter names
    layers: dict[str, tuple[str, ...]]  # {transformers' layer: names of our layers in it}
    joint: str = ""  # the layer with q, k and v, if they are fused
    by_head: bool = False  # whether q, k and v are interleaved by head in the joint layer, instead of all of q first


GPT2 = Naming(
    "base_model.model.transformer.h",
    {"attn.c_attn": ("q", "k", "v"), "attn.c_proj": ("o",), "mlp.c_fc": ("up",), "mlp.c_proj": ("down",)},
    joint="attn.c_attn",
)
GPT_NEOX = Naming(
    "base_model.model.gpt_neox.layers",
    {
        "attention.query_key_value": ("q", "k", "v"),
        "attention.dense": ("o",),
        "mlp.dense_h_to_4h": ("up",),
        "mlp.dense_4h_to_h": ("down",),
    },
    joint="attention.query_key_value",
    by_head=True,
)
LLAMA = Naming(
    "base_model.model.model.layers",
    {f"self_attn.{name}_proj": (name,) for name in "qkvo"}
    | {f"mlp.{name}_proj": (name,) for name in ("gate", "up", "down")},
)
_ROTARY = {"mixer": "softmax", "norm_placement": "pre", "n_expert": 1, "embed_scale": False, "unrotated": ()}
_ROTARY |= {"rope_pairs": "halves", "shared_norm": False, "embed_norm": False, "sinks": False, "score_multiplier": None}
_ROTARY |= {"embed_multiplier": 1.0, "residual_multiplier": 1.0, "logit_multiplier": 1.0, "head_bias": False}
_LLAMA_SHAPE = _ROTARY | {"norm": "rmsnorm", "parallel_residual": False, "mlp": "swiglu"}
_GPT_NEOX_SHAPE = _ROTARY | {"norm": "layernorm", "norm_bias": True, "qk_norm": False, "mlp_bias": True}


def naming_of(config: ModelConfig) -> Naming:
    """Return the names of the architecture that matches a model's shape: GPT-2, GPT-NeoX, or Llama and Qwen.

    Raises UnsupportedModel if none matches; the error lists the fields that differ from the nearest architecture.
    """
    if config.positions != "rope":
        try:
            # Untied unembeddings are also accepted, since the unembedding is never adapted.
            gpt2_config(dataclasses.replace(config, tie_embeddings=True), 0)
        except UnsupportedModel as error:
            raise _nameless("GPT-2", error.got) from None
        return GPT2
    if config.norm == "rmsnorm":
        label, naming, shape = "Llama", LLAMA, _LLAMA_SHAPE
    else:
        label, naming, shape = "GPT-NeoX", GPT_NEOX, _gpt_neox_shape(config)
    if other := [name for name, value in shape.items() if getattr(config, name) != value]:
        raise _nameless(label, ", ".join(other))
    return naming


def _gpt_neox_shape(config: ModelConfig) -> dict[str, object]:
    """Return the field values of a GPT-NeoX with the same width and number of heads."""
    sizes = {"n_kv_head": config.n_head, "d_head": config.d_model // config.n_head}
    biases = dict.fromkeys(("k_bias", "v_bias", "o_bias"), config.q_bias)
    mlp = "gelu" if config.mlp == "swiglu" else config.mlp
    return _GPT_NEOX_SHAPE | sizes | biases | {"mlp": mlp}


def _nameless(label: str, fields: str) -> UnsupportedModel:
    """Return the error for a model whose shape does not match the named architecture."""
    what = say("peft has no names for this model's adapters: its architecture is not {}.", label)
    return UnsupportedModel(what, fields, "Use the model with its adapters merged.")


def is_gpt2(config: ModelConfig) -> bool:
    """Return whether a model has GPT-2's shape. Raises UnsupportedModel if peft has no names for its adapters."""
    return naming_of(config) is GPT2


def peft_state(model: Transformer) -> dict[str, Tensor]:
    """Return the adapters under peft's names: A [r, in] and B [out, r] of each layer. Raises UnsupportedModel as
    `naming_of` does.
    """
    naming = naming_of(model.config)
    return {
        f"{naming.start}.{layer}.{name}.lora_{which}.weight": tensor.detach().cpu().contiguous()
        for layer in range(len(model.blocks))
        for name, a, b in _layers(model, layer, naming)
        for which, tensor in (("A", a), ("B", b))
    }


def _layers(model: Transformer, layer: int, naming: Naming) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield (name in transformers, A, B) for each adapted linear layer of a block."""
    block = model.blocks[layer]
    for theirs, ours in naming.layers.items():
        parts = [getattr(block.attn if name in ATTENTION else block.mlp, name) for name in ours]
        if any(isinstance(part, Adapted) for part in parts):
            a, b = _together(parts)
            if naming.by_head and theirs == naming.joint:  # rows [3, H, E] -> [H, 3, E]
                b = b.unflatten(0, (3, model.config.n_head, -1)).transpose(0, 1).flatten(0, 2)
            yield theirs, a, b


def _together(parts: Sequence[Adapted | torch.nn.Module]) -> tuple[Tensor, Tensor]:
    """Combine the adapters of layers that share an input, with stacked outputs; rows of a layer without an adapter are
    0.
    """
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
    """Return the contents of adapter_config.json. `base` is the name of the base model. Raises UnsupportedModel as
    `naming_of` does.
    """
    naming, chosen = naming_of(config), MATRICES[lora.matrices]
    names = {theirs: [name for name in ours if name in chosen] for theirs, ours in naming.layers.items()}
    together = len(names.get(naming.joint, ()))  # alpha / r is the same for fused adapters
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "rank_pattern": {naming.joint: together * lora.rank} if together else {},
        "alpha_pattern": {naming.joint: together * lora.alpha} if together else {},
        "target_modules": [theirs for theirs, ours in names.items() if ours],
        "fan_in_fan_out": is_gpt2(config),  # GPT-2's layers store weights as [in, out]
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
    }


def save_peft(folder: Path, model: Transformer, lora: Lora, base: str) -> None:
    """Write both files, each atomically, the config last.

    Raises UnsupportedModel if the model's shape matches none of these architectures.
    """
    values, state = peft_config(model.config, lora, base), peft_state(model)
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / (WEIGHTS + PART)
    save_file(state, temporary, metadata={"format": "pt"})
    temporary.replace(folder / WEIGHTS)
    temporary.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    temporary.replace(folder / CONFIG)


def peft_files(model: Transformer, lora: Lora | None, base: str) -> Callable[[Path], None] | None:
    """Return a function that writes a run's adapters into FOLDER; None without adapters or if peft has no names for
    them.
    """
    if lora is None:
        return None
    try:
        naming_of(model.config)
    except UnsupportedModel:
        return None
    return lambda folder: save_peft(folder / FOLDER, model, lora, base)
