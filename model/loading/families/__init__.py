"""The supported architectures, by the `model_type` of their config.json."""

from collections.abc import Mapping

from model.errors import UnsupportedModel, say
from model.loading.families.common import Family
from model.loading.families.gpt2 import GPT2
from model.loading.families.gpt_neox import GPT_NEOX
from model.loading.families.llama import LLAMA
from model.loading.families.native import MODEL_TYPE, NATIVE
from model.loading.families.qwen import QWEN2, QWEN3

FAMILIES: dict[str, Family] = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "gpt_neox": GPT_NEOX,
    MODEL_TYPE: NATIVE,
}
# Files from 2019 have no model_type, but name the class that wrote them.
_CLASSES = {"GPT2LMHeadModel": "gpt2"}


def family_of(values: Mapping) -> Family:
    """Return the family for a config.json by its model_type. Raises UnsupportedModel for an unknown one."""
    model_type = values.get("model_type")
    if "model_type" not in values:
        classes = values.get("architectures")
        named = [_CLASSES.get(name) for name in classes if isinstance(name, str)] if isinstance(classes, list) else []
        if len(named) != 1 or named[0] is None:
            hint = say("Add a model_type, one of: {}.", ", ".join(FAMILIES))
            raise UnsupportedModel("The config does not name its architecture.", "no model_type", hint)
        model_type = named[0]
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        hint = say("Supported: {}.", ", ".join(FAMILIES))
        got = f"model_type = {model_type!r}"[:60]
        raise UnsupportedModel(say('Architecture "{}" is not supported.', str(model_type)[:60]), got, hint)
    return FAMILIES[model_type]
