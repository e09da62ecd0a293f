"""The architectures that can be loaded, by the `model_type` of their config.json."""

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
