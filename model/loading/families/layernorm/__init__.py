"""Families with LayerNorm, other than GPT-2 and GPT-NeoX, by the `model_type` of their config.json."""

from model.loading.families.common import Family
from model.loading.families.layernorm.biogpt import BIOGPT
from model.loading.families.layernorm.bloom import BLOOM
from model.loading.families.layernorm.cohere import COHERE, COHERE2
from model.loading.families.layernorm.falcon import FALCON
from model.loading.families.layernorm.gpt_bigcode import GPT_BIGCODE
from model.loading.families.layernorm.gpt_neo import GPT_NEO
from model.loading.families.layernorm.gptj import CODEGEN, GPTJ
from model.loading.families.layernorm.mpt import MPT
from model.loading.families.layernorm.nemotron import JAIS2, NEMOTRON
from model.loading.families.layernorm.openai_gpt import OPENAI_GPT
from model.loading.families.layernorm.opt import OPT
from model.loading.families.layernorm.phi import PHI
from model.loading.families.layernorm.stablelm import STABLELM
from model.loading.families.layernorm.starcoder2 import STARCODER2

LAYERNORM: dict[str, Family] = {
    "phi": PHI,
    "gptj": GPTJ,
    "gpt_neo": GPT_NEO,
    "opt": OPT,
    "bloom": BLOOM,
    "codegen": CODEGEN,
    "starcoder2": STARCODER2,
    "gpt_bigcode": GPT_BIGCODE,
    "stablelm": STABLELM,
    "falcon": FALCON,
    "mpt": MPT,
    "cohere": COHERE,
    "cohere2": COHERE2,
    "openai-gpt": OPENAI_GPT,
    "nemotron": NEMOTRON,
    "jais2": JAIS2,
    "biogpt": BIOGPT,
}
