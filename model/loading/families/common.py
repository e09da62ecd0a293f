"""Strict reading of a config.json: every key is used, known to be irrelevant, or refused by name."""

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from model.errors import CheckpointError, UnsupportedModel, say
from model.gpt.config import ModelConfig, RopeScaling
from model.loading.convert import Layout

T = TypeVar("T")


@dataclass(frozen=True)
class Family:
    """One architecture on the Hub: conversion of its config.json, and its weight names."""

    label: str
    to_config: Callable[[dict], ModelConfig]
    layout: Layout


# Keys without effect on the logits of a forward pass: training, bookkeeping, special tokens, text generation.
IGNORED = frozenset(
    {
        "_name_or_path",
        "_commit_hash",
        "_num_labels",
        "_attn_implementation_autoset",
        "architectures",
        "model_type",
        "torch_dtype",
        "dtype",
        "transformers_version",
        "transformers.js_config",
        "use_cache",
        "initializer_range",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "sep_token_id",
        "attention_dropout",
        "hidden_dropout",
        "classifier_dropout",
        "attn_pdrop",
        "resid_pdrop",
        "embd_pdrop",
        "output_attentions",
        "output_hidden_states",
        "return_dict",
        "return_dict_in_generate",
        "id2label",
        "label2id",
        "num_labels",
        "problem_type",
        "finetuning_task",
        "task_specific_params",
        "tokenizer_class",
        "torchscript",
        "gradient_checkpointing",
        "is_llama_config",
        "unsloth_fixed",
        "unsloth_version",
    }
)
ROPE_KEYS = frozenset(
    {
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "rotary_emb_base",
        "rotary_pct",
        "partial_rotary_factor",
    }
)
_SCALAR = bool | int | float | str | None
LLAMA3_KEYS = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


def check_keys(values: Mapping, known: Collection[str], accepted: Mapping[str, tuple]) -> None:
    """Refuse keys that are neither known nor ignored (CheckpointError), and values other than the accepted ones.

    `accepted` maps a key to its values without effect; others raise UnsupportedModel.
    """
    if unknown := sorted(set(values) - set(known) - IGNORED - set(accepted)):
        hint = "They may change what the model computes, so the checkpoint is not loaded."
        raise CheckpointError("The config has keys that are not known.", ", ".join(unknown), hint)
    for key, allowed in accepted.items():
        # An array in the metadata of a GGUF file cannot be compared as a whole.
        if key in values and not (isinstance(values[key], _SCALAR) and values[key] in allowed):
            names = " or ".join(map(repr, allowed))
            raise UnsupportedModel(
                "The model uses something that is not computed here.",
                f"{key} = {values[key]!r}",
                say("Supported: {}.", names),
            )


def whole(values: Mapping, key: str, default: int | None = None) -> int:
    """A whole number; CheckpointError where it is missing (or null) without a default, or is something else."""
    return _typed(values, key, default, (int,), "a whole number")


def real(values: Mapping, key: str, default: float | None = None) -> float:
    """A number; CheckpointError where it is missing (or null) without a default, or is something else."""
    value = _typed(values, key, default, (int, float), "a number")
    if not abs(value) <= sys.float_info.max:  # an integer may exceed every float, and a float may be NaN
        got = f"{key} = {value}"[:80]
        raise CheckpointError("A number of the config is not finite.", got, "Correct the config.")
    return float(value)


def flag(values: Mapping, key: str, default: bool) -> bool:
    """true or false; CheckpointError for anything else."""
    return _typed(values, key, default, (bool,), "true or false")


def choice(values: Mapping, key: str, table: Mapping[str, T], default: str) -> T:
    """The table's entry for the value of `key`; UnsupportedModel for a value that is not in the table."""
    name = values.get(key, default)
    if not isinstance(name, str) or name not in table:
        hint = say("Supported: {}.", ", ".join(table))
        raise UnsupportedModel("The model uses something that is not computed here.", f"{key} = {name!r}", hint)
    return table[name]


def _typed(values: Mapping, key: str, default: T | None, types: tuple[type, ...], kind: str) -> T:
    value = values.get(key)
    if value is None:
        value = default
    if value is None:
        raise CheckpointError("The config lacks a key.", key, "Fetch the checkpoint again.")
    # bool is a subclass of int, and `true` layers are not 1 layer.
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise CheckpointError(say("A key of the config must be {}.", kind), f"{key} = {value!r}", "Correct the config.")
    return value


def rope(hf: Mapping, default_fraction: float = 1.0) -> dict:
    """rope_theta, rotary_fraction and rope_scaling of a ModelConfig.

    Older files have rope_theta next to rope_scaling, newer ones have everything in rope_parameters; files with both
    must agree. Raises UnsupportedModel for a scaling other than Llama 3's, CheckpointError for unknown or missing
    keys.
    """
    values: dict = {}
    for key in ("rope_scaling", "rope_parameters"):
        inner = hf.get(key)
        if inner is None:
            continue
        if not isinstance(inner, Mapping):
            raise CheckpointError(say("{} must be an object.", key), repr(inner), "Correct the config.")
        for name, value in inner.items():
            _put(values, {"type": "rope_type"}.get(name, name), value)
    for name in ("rope_theta", "rotary_emb_base", "rotary_pct", "partial_rotary_factor"):
        if hf.get(name) is not None:
            aliases = {"rotary_emb_base": "rope_theta", "rotary_pct": "partial_rotary_factor"}
            _put(values, aliases.get(name, name), hf[name])
    scaled = choice(values, "rope_type", {"default": False, "llama3": True}, "default")
    known = {"rope_type", "rope_theta", "partial_rotary_factor", *(LLAMA3_KEYS if scaled else ())}
    check_keys(values, known, {})
    return {
        "rope_theta": real(values, "rope_theta", 10_000.0),
        "rotary_fraction": real(values, "partial_rotary_factor", default_fraction),
        "rope_scaling": _llama3(values) if scaled else None,
    }


def _put(values: dict, name: str, value: object) -> None:
    if values.setdefault(name, value) != value:
        got = f"{name}: {values[name]!r} and {value!r}"
        raise CheckpointError("The config gives two values for the same thing.", got, "Correct the config.")


def _llama3(values: Mapping) -> RopeScaling:
    factor, low, high = (real(values, key) for key in LLAMA3_KEYS[:3])
    original = whole(values, LLAMA3_KEYS[3])
    if not (factor > 0 and 0 < low < high and original > 0):
        got = f"factor {factor}, low {low}, high {high}, original context {original}"
        raise CheckpointError("The rotary scaling makes no sense.", got, "Correct the config.")
    return RopeScaling(factor=factor, low_freq_factor=low, high_freq_factor=high, original_n_ctx=original)
