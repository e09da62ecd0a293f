"""Families with RMSNorm and parts that Llama does not have, by the `model_type` of their config.json."""

from model.loading.families.common import Family
from model.loading.families.rmsnorm.apertus import APERTUS
from model.loading.families.rmsnorm.gemma4 import GEMMA4
from model.loading.families.rmsnorm.glm import GLM, GLM4
from model.loading.families.rmsnorm.gpt_oss import GPT_OSS
from model.loading.families.rmsnorm.granite import GRANITE, GRANITE_MOE, GRANITE_MOE_SHARED
from model.loading.families.rmsnorm.kin import CWM, ERNIE, EXAONE4, INTERNLM3, IQUEST, SEED_OSS
from model.loading.families.rmsnorm.nanochat import NANOCHAT

RMSNORM: dict[str, Family] = {
    "nanochat": NANOCHAT,
    "gemma4_text": GEMMA4,
    "gpt_oss": GPT_OSS,
    "granite": GRANITE,
    "granitemoe": GRANITE_MOE,
    "granitemoeshared": GRANITE_MOE_SHARED,
    "apertus": APERTUS,
    "glm": GLM,
    "glm4": GLM4,
    "seed_oss": SEED_OSS,
    "ernie4_5": ERNIE,
    "exaone4": EXAONE4,
    "internlm3": INTERNLM3,
    "cwm": CWM,
    "iquestcoder": IQUEST,
}
