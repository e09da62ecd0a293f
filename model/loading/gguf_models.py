"""The config and the weight names of a GGUF file, by the entry of its architecture."""

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from model.errors import CheckpointError, UnsupportedModel, say
from model.gpt.config import ModelConfig
from model.loading.architectures import ARCHITECTURES
from model.loading.architectures.common import Architecture
from model.loading.architectures.metadata import (
    EXPERT_KEYS,
    ROPE_KEYS,
    as_written,
    expert_fields,
    number_fields,
    rope_fields,
    window_fields,
)
from model.loading.convert import make_config
from model.loading.families.common import check_keys, integer, real, sizes
from model.loading.gguf_file import GgufFile, GgufTensor, Value, read_gguf
from model.loading.refused import missing_in_gguf

_ONE = "Supported: one number for all layers that have it."
# Metadata key after "<architecture>." -> field of ModelConfig; d_head and n_kv_head may be absent.
SIZES = {
    "block_count": "n_layer",
    "context_length": "n_ctx",
    "embedding_length": "d_model",
    "feed_forward_length": "d_mlp",
    "attention.head_count": "n_head",
}
KNOWN = {
    *SIZES,
    "vocab_size",
    "pooling_type",  # of embeddings of whole texts
    "classifier.output_labels",
    "expert_shared_count",  # the shared experts are stored as one
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    *EXPERT_KEYS,
    *ROPE_KEYS,
}
# The value of a key that says nothing, for architectures that do not read it.
ACCEPTED = {
    "expert_gating_func": (0, 1, 3),
    "expert_weights_scale": (0.0, 1.0),
    "expert_group_count": (0, 1),
    "expert_group_used_count": (0, 1),
    "moe_every_n_layers": (0, 1),
    "interleave_moe_layer_step": (0, 1),
    "nextn_predict_layers": (0,),
    "use_parallel_residual": (False,),
    "rope.scaling.yarn_ext_factor": (1.0, -1.0),
    "rope.scaling.yarn_log_multiplier": (0.0,),
    "attention.sliding_window": (0,),
    "attention.causal": (True,),
    "attention.max_alibi_bias": (0.0,),
    "attention.clamp_kqv": (0.0,),
    "attention.shared_kv_layers": (0,),
    "attention.temperature_scale": (0.0,),
    "attn_logit_softcapping": (0.0,),
    "final_logit_softcapping": (0.0,),
    "router_logit_softcapping": (0.0,),
    "ssm.dt_b_c_rms": (False,),
    # The supported row order of q and k for the llama architecture, and of q, k and v for Falcon.
    "tensor_data_layout": ("Meta AI original pth",),
}
_ROW_ORDERS = {"falcon": ("jploski",)}


def open_model(path: Path) -> tuple[GgufFile, Architecture, ModelConfig]:
    """Read a file without its weights. Raises CheckpointError or UnsupportedModel with the name of the key."""
    file = with_stacks(read_gguf(path))
    _, architecture = architecture_of(file)
    config = to_config(file)
    if unread := _unread(file, architecture):
        beside = tuple(f"blk.{config.n_layer + n}." for n in range(unread))
        architecture = replace(architecture, layout=replace(architecture.layout, beside=beside))
    if architecture.layout_of is not None:
        architecture = replace(architecture, layout=architecture.layout_of(file))
    return file, architecture, config


def to_config(file: GgufFile) -> ModelConfig:
    """Return a ModelConfig from the metadata of a GGUF file. Raises CheckpointError or UnsupportedModel with the name
    of the key.
    """
    name, architecture = architecture_of(file)
    meta = {key.removeprefix(f"{name}."): value for key, value in file.metadata.items() if key.startswith(f"{name}.")}
    meta |= {key: _one_number(key, meta[key]) for key in architecture.by_layer if key in meta}
    accepted = {key: values for key, values in ACCEPTED.items() if key not in architecture.reads}
    if name in _ROW_ORDERS:
        accepted["tensor_data_layout"] = _ROW_ORDERS[name]
    check_keys(meta, KNOWN | set(architecture.reads), accepted)
    told = meta
    if architecture.plain is not None:
        meta = meta | architecture.plain(meta)
    if "expert_feed_forward_length" in meta:  # models of experts alone have no other width
        meta.setdefault("feed_forward_length", meta["expert_feed_forward_length"])
    fields = sizes(meta, SIZES)
    fields["n_layer"] -= _unread(file, architecture)
    fields |= architecture.fields | _from_tensors(file, meta)
    fields["n_kv_head"] = integer(meta, "attention.head_count_kv", fields["n_head"])
    kind = "rms_epsilon" if fields["norm"] == "rmsnorm" else "epsilon"
    fields["norm_eps"] = as_written(real(meta, f"attention.layer_norm_{kind}"))
    fields["d_head"] = integer(meta, "attention.key_length", fields["d_model"] // max(fields["n_head"], 1))
    check_keys(
        {"attention.value_length": meta.get("attention.value_length", fields["d_head"])},
        (),
        {"attention.value_length": (fields["d_head"],)},
    )
    fields |= number_fields(meta, architecture)
    fields |= window_fields(meta, fields["n_layer"], architecture.full_every)
    fields |= expert_fields(file, meta, fields)
    if fields["positions"] == "rope":
        fields |= rope_fields(file, meta, fields, architecture)
    if architecture.more is not None:
        fields |= architecture.more(file, told, fields)
    return make_config(fields)


def _unread(file: GgufFile, architecture: Architecture) -> int:
    """Return the number of layers after the last one, which predict further tokens and are not read."""
    key = "nextn_predict_layers"
    if key not in architecture.reads:
        return 0
    return max(integer(file.metadata, f"{file.metadata['general.architecture']}.{key}", 0), 0)


def _one_number(key: str, value: Value) -> Value:
    """Return the number of the layers that have it, from a list with 0 for the others. Raises UnsupportedModel for
    several.
    """
    if not isinstance(value, np.ndarray):
        return value
    several = sorted({int(each) for each in value} - {0})
    if len(several) > 1:
        raise UnsupportedModel("The model uses a feature that is not supported.", f"{key} = {several}"[:80], _ONE)
    return several[0] if several else 0


def architecture_of(file: GgufFile) -> tuple[str, Architecture]:
    """Return general.architecture and its entry in ARCHITECTURES. Raises UnsupportedModel for other architectures."""
    name = file.metadata.get("general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        hint = missing_in_gguf(name, ", ".join(ARCHITECTURES))
        what = say('Architecture "{}" is not supported.', str(name)[:60])
        raise UnsupportedModel(what, f"general.architecture = {name!r}", hint)
    architecture = ARCHITECTURES[name]
    others = [other for tensor, other in architecture.with_tensor.items() if tensor in file.tensors]
    return name, (others or [architecture])[0]


def _from_tensors(file: GgufFile, meta: dict) -> dict:
    """Infer the size of the vocabulary, a tied head and the biases from the tensors, since metadata do not list them.

    Raises CheckpointError without an embedding.
    """
    if "token_embd.weight" not in file.tensors:
        raise CheckpointError("The checkpoint lacks weights.", "token_embd.weight", "Fetch the file again.")
    vocab_size = file.tensors["token_embd.weight"].shape[0]
    if integer(meta, "vocab_size", vocab_size) != vocab_size:
        got = f"vocab_size {meta['vocab_size']}, token_embd.weight {vocab_size}"
        raise CheckpointError("The file gives two values for the same thing.", got, "Fetch the file again.")
    biased = {name.rsplit(".", 2)[-2] for name in file.tensors if name.endswith(".bias")}
    names = {"q_bias": "attn_q", "k_bias": "attn_k", "v_bias": "attn_v", "o_bias": "attn_output", "mlp_bias": "ffn_up"}
    present = {field: name in biased for field, name in names.items()}
    if "attn_qkv" in biased:
        present |= {"q_bias": True, "k_bias": True, "v_bias": True}
    present |= {"norm_bias": "output_norm" in biased, "head_bias": "output" in biased}
    return present | {"vocab_size": vocab_size, "tie_embeddings": "output.weight" not in file.tensors}


_EXPERT = re.compile(r"(blk\.[0-9]+\.ffn_(?:gate|up|down))\.([0-9]+)\.weight")


def with_stacks(file: GgufFile) -> GgufFile:
    """Join the matrices of a layer's experts that have one tensor each, as in files from before April 2024.

    Raises CheckpointError if an expert is missing or differs in shape or type.
    """
    stacks: dict[str, dict[int, GgufTensor]] = defaultdict(dict)
    tensors = {}
    for name, tensor in file.tensors.items():
        if match := _EXPERT.fullmatch(name):
            stacks[f"{match[1]}_exps.weight"][int(match[2])] = tensor
        else:
            tensors[name] = tensor
    for name, each in stacks.items():
        parts = tuple(each[n] for n in sorted(each))
        if sorted(each) != list(range(len(each))) or len({(part.shape, part.type) for part in parts}) > 1:
            got = f"{name}: {', '.join(f'{n} {list(each[n].shape)}' for n in sorted(each)[:5])}"
            raise CheckpointError("The experts of a layer do not fit together.", got, "Fetch the file again.")
        first = parts[0]
        whole = sum(part.n_bytes for part in parts)
        tensors[name] = replace(first, shape=(len(parts), *first.shape), n_bytes=whole, parts=parts)
    return replace(file, tensors=tensors)
