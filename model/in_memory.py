"""A transformers model in memory, with its tokenizer, as a LanguageModel. transformers is not imported.

>>> from model.in_memory import language_model                                  # doctest: +SKIP
>>> run = language_model(hf_model, tokenizer).trace("The cat sat on the mat")   # doctest: +SKIP
"""

import weakref
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, cast

import torch

from model.api import LanguageModel
from model.arguments import shown
from model.errors import CheckpointError, InputError, UnsupportedModel, say
from model.gpt.transformer import Transformer
from model.hooked.config import config_of
from model.hooked.model import Hooked
from model.loading.families import FAMILIES
from model.loading.from_memory import config_values, shared, stamp
from model.text.foreign import from_object

IN_MEMORY = "memory:"  # how the id of such a model begins
PROBE = 6  # tokens of the run that checks what a hooked model gives
_ORDER = "Give the model, then its tokenizer, then the prompt."


class _Seen:
    """The number of a model object, and the states of its weights in which it was given."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.states: list[int] = []


_seen: "weakref.WeakKeyDictionary[Any, _Seen]" = weakref.WeakKeyDictionary()


def is_model(value: object) -> bool:
    """Return whether a value looks like a transformers model: it has a config and parameters."""
    return hasattr(value, "config") and callable(getattr(value, "named_parameters", None)) and callable(value)


def language_model(model: Any, tokenizer: Any, *, id: str = "", label: str = "") -> LanguageModel:
    """Return a transformers model in memory as a LanguageModel.

    model: a decoder with a head, such as AutoModelForCausalLM gives. If its architecture is one of docs/models.md, its
        own parameters are used, without a copy, and everything works. Any other model is run by its own code: a trace
        then has its attention, hidden states and logits, and nothing of the inside of a layer.
    tokenizer: its tokenizer, fast or slow.
    id: identifies the weights in every RunKey; by default, the model's name, its number among the models given, and
        how often its weights have changed in between.
    label: the name to show.

    Raises InputError for what is not a model or a tokenizer, and UnsupportedModel for a model without attention
    weights, an encoder, weights on the meta device, adapters or quantized weights.
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    _check(model, tokenizer)
    values = config_values(model)
    now = stamp(model)
    ends = _end_ids(model)
    name = _name(model)
    try:
        ours, dtype = shared(model)
        words, device = from_object(tokenizer, ours.config.vocab_size, ends), "cpu"
    except (UnsupportedModel, CheckpointError) as error:
        hint = error.hint if values.get("model_type") in FAMILIES else ""
        hooked = Hooked(model, config_of(_by_usual_names(values, model.config), label or name, hint))
        hooked.look_for_lens(_probe(hooked))
        words = from_object(tokenizer, hooked.config.vocab_size, ends)
        ours, dtype, device = cast(Transformer, hooked), _dtype(model), hooked.device
    return LanguageModel(
        id or _id(model, tokenizer, name, now), label or name, ours, words, dtype, device, _changed(model, now)
    )


def _check(model: Any, tokenizer: Any) -> None:
    """Raise an error for arguments that are no model and tokenizer, or for a model that cannot be read."""
    if is_model(tokenizer) and not is_model(model):
        raise InputError("The model and the tokenizer are swapped.", "", _ORDER)
    if not is_model(model):
        raise InputError("This is not a transformers model.", shown(model), _ORDER)
    if tokenizer is None:
        raise InputError("The tokenizer of the model is missing.", "", _ORDER)
    kind, config = type(model).__name__, model.config
    if hasattr(model, "peft_config"):
        merge = "Merge the adapter first: model = model.merge_and_unload()."
        raise UnsupportedModel("The model has adapters that are not merged.", kind, merge)
    if getattr(config, "quantization_config", None) or getattr(model, "is_quantized", False):
        plain = "Load it without quantization, in bfloat16 if it is large."
        raise UnsupportedModel("The weights of the model are quantized.", kind, plain)
    if any(parameter.is_meta for parameter in model.parameters()):
        load = "Load it without init_empty_weights, or without offloading."
        raise UnsupportedModel("The model has weights that are not in memory.", "meta device", load)
    if getattr(config, "is_encoder_decoder", False) or _is_encoder(model):
        hint = say("For a model that reads both ways: {}.", "show_attention(model(**inputs).attentions, tokens)")
        raise UnsupportedModel("This model is not a decoder.", kind, hint)


def _is_encoder(model: Any) -> bool:
    """Return whether the head of the model predicts anything but the next token."""
    name = type(model).__name__
    return name.endswith(("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"))


def _by_usual_names(values: dict, config: Any) -> dict:
    """Return the values of a config, also by the usual names where transformers has such names for its own."""
    usual = getattr(config, "attribute_map", {})
    return {name: values[own] for name, own in usual.items() if own in values} | values


def _end_ids(model: Any) -> tuple[int, ...]:
    """Return the end tokens that the model's generation stops at, as from its files."""
    for source in (getattr(model, "generation_config", None), model.config):
        value = getattr(source, "eos_token_id", None)
        ids = value if isinstance(value, list | tuple) else [] if value is None else [value]
        if ids and all(type(each) is int for each in ids):
            return tuple(ids)
    return ()


def _probe(model: Hooked) -> torch.Tensor:
    """Return a few different ids."""
    n = min(PROBE, model.config.n_ctx, model.config.vocab_size)
    return torch.linspace(0, model.config.vocab_size - 1, n).long()


def _dtype(model: Any) -> str:
    return str(next(model.parameters()).dtype).removeprefix("torch.")


def _name(model: Any) -> str:
    """Return the name under which the model was loaded, without the folder, or else that of its class."""
    name = str(getattr(model, "name_or_path", "") or getattr(model.config, "name_or_path", "") or "")
    name = PurePath(name).name if PurePath(name).is_absolute() else name
    return name if name.isprintable() and name else type(model).__name__


def _id(model: Any, tokenizer: Any, name: str, now: tuple) -> str:
    """Return an id of this object with its weights of now and this tokenizer."""
    seen = _seen.setdefault(model, _Seen(1 + max((each.number for each in _seen.values()), default=0)))
    state = hash((now, id(tokenizer)))
    if state not in seen.states:
        seen.states.append(state)
    version = seen.states.index(state)
    return f"{IN_MEMORY}{name[:80]}:{seen.number}" + (f".{version + 1}" if version else "")


def _changed(model: Any, before: tuple) -> Callable[[], bool]:
    """Return a function that says whether the weights were changed since then."""
    known = weakref.ref(model)

    def changed() -> bool:
        now = known()
        return now is not None and stamp(now) != before

    return changed
