"""Writes tiny transformers models as GGUF, by the rules of llama.cpp's converter."""

import math
from pathlib import Path

import gguf
import numpy as np
import torch
from torch import nn

ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gpt2": "gpt2", "gpt_neox": "gptneox"}


def permute(weights: np.ndarray, n_head: int) -> np.ndarray:
    """Half-split rotary rows to adjacent pairs, as convert_hf_to_gguf.py does it for the llama architecture."""
    halves = weights.reshape(n_head, 2, weights.shape[0] // n_head // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def write_gguf(path: Path, hf: nn.Module, kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32) -> Path:
    """The model with matrices stored as `kind`; where that rounds, the model's own weights are rounded likewise."""
    config = hf.config
    architecture = ARCHITECTURES[config.model_type]
    writer = gguf.GGUFWriter(path, architecture)
    _metadata(writer, config)
    names = gguf.get_tensor_name_map(
        next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture), config.num_hidden_layers
    )
    for theirs, parameter in hf.named_parameters():
        array = _rearranged(theirs, parameter.detach().numpy(), config)
        name = names.get_name(theirs, try_suffixes=(".weight", ".bias"))
        if array.ndim == 1 or kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, np.ascontiguousarray(array))
            continue
        stored = gguf.quants.quantize(np.ascontiguousarray(array), kind)
        writer.add_tensor(name, stored, raw_dtype=kind)
        _round_like(theirs, parameter, gguf.quants.dequantize(stored, kind), config)
    _rope_factors(writer, config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _metadata(writer: gguf.GGUFWriter, config) -> None:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    if config.model_type == "gpt2":
        writer.add_feed_forward_length(config.n_inner)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    writer.add_feed_forward_length(config.intermediate_size)
    if config.model_type == "gpt_neox":
        d_head = config.hidden_size // config.num_attention_heads
        writer.add_rope_dimension_count(int(config.rope_parameters["partial_rotary_factor"] * d_head))
        writer.add_parallel_residual(config.use_parallel_residual)
        writer.add_layer_norm_eps(config.layer_norm_eps)
        return
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    if getattr(config, "head_dim", None):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)


def _heads(theirs: str, config) -> int | None:
    """How many heads the rows are permuted for; None where they stay."""
    if config.model_type != "llama":
        return None
    if ".q_proj." in theirs:
        return config.num_attention_heads
    return config.num_key_value_heads if ".k_proj." in theirs else None


def _rearranged(theirs: str, array: np.ndarray, config) -> np.ndarray:
    if heads := _heads(theirs, config):
        return permute(array, heads)
    if config.model_type == "gpt2" and array.ndim == 2 and ".h." in theirs:
        return array.T
    if "query_key_value" in theirs:  # from q, k, v of one head after the other to all of q, then k, then v
        heads = array.reshape(config.num_attention_heads, 3, -1, *array.shape[1:])
        return heads.swapaxes(0, 1).reshape(array.shape)
    return array


def _round_like(theirs: str, parameter: nn.Parameter, rounded: np.ndarray, config) -> None:
    """Put the rounded values where they came from. Found by search: the value at each place says where it went."""
    places = np.arange(parameter.numel()).reshape(parameter.shape)
    values = np.empty(parameter.numel(), np.float32)
    values[_rearranged(theirs, places, config).ravel()] = rounded.ravel()
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(values.reshape(parameter.shape)))


def _rope_factors(writer: gguf.GGUFWriter, config) -> None:
    """Llama 3's factors as a tensor, as convert_hf_to_gguf.py computes them."""
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") != "llama3":
        return
    factor, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    context, factors = rope["original_max_position_embeddings"], []
    for i in range(0, config.head_dim, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (i / config.head_dim)
        if wavelength < context / high:
            factors.append(1.0)
        elif wavelength > context / low:
            factors.append(factor)
        else:
            smooth = (context / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    writer.add_tensor("rope_freqs.weight", np.array(factors, np.float32))
