"""The supported architectures, by the `model_type` of their config.json."""

from collections.abc import Mapping

from model.errors import UnsupportedModel, say
from model.loading.families.common import Family
from model.loading.families.gated import GATED
from model.loading.families.gemma import GEMMA, GEMMA2, GEMMA3, VAULTGEMMA
from model.loading.families.gpt2 import GPT2
from model.loading.families.gpt_neox import GPT_NEOX
from model.loading.families.hub import HUB
from model.loading.families.layernorm import LAYERNORM
from model.loading.families.llama import ARCEE, HELIUM, LLAMA, SMOLLM3
from model.loading.families.mistral import MINISTRAL, MISTRAL, MIXTRAL
from model.loading.families.mixtures import MIXTURES
from model.loading.families.multimodal import MULTIMODAL
from model.loading.families.native import MODEL_TYPE, NATIVE
from model.loading.families.olmo import OLMO, OLMO2, OLMO3, OLMOE
from model.loading.families.others import OTHERS
from model.loading.families.phi3 import PHI3
from model.loading.families.qwen import QWEN2, QWEN2_MOE, QWEN3, QWEN3_MOE
from model.loading.families.rmsnorm import RMSNORM
from model.loading.refused import missing

FAMILIES: dict[str, Family] = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "gpt_neox": GPT_NEOX,
    "mistral": MISTRAL,
    "ministral": MINISTRAL,
    "mixtral": MIXTRAL,
    "qwen2_moe": QWEN2_MOE,
    "qwen3_moe": QWEN3_MOE,
    "gemma": GEMMA,
    "gemma2": GEMMA2,
    "gemma3_text": GEMMA3,
    "vaultgemma": VAULTGEMMA,
    "phi3": PHI3,
    "olmo": OLMO,
    "olmo2": OLMO2,
    "olmo3": OLMO3,
    "olmoe": OLMOE,
    "smollm3": SMOLLM3,
    "arcee": ARCEE,
    "helium": HELIUM,
    **LAYERNORM,
    **RMSNORM,
    **OTHERS,
    **GATED,
    **MIXTURES,
    **MULTIMODAL,
    **HUB,
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
            hint = say("Add its model_type; {} are supported.", len(FAMILIES))
            raise UnsupportedModel("The config does not name its architecture.", "no model_type", hint)
        model_type = named[0]
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        got = f"model_type = {model_type!r}"[:60]
        raise UnsupportedModel(
            say('Architecture "{}" is not supported.', str(model_type)[:60]), got, missing(model_type)
        )
    return FAMILIES[model_type]
