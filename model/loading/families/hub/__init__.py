"""Families whose code lies beside their weights on the Hub, and not in transformers, by their `model_type`.

Their parity is checked with models of transformers that compute the same, saved under these names.
"""

from model.loading.families.common import Family
from model.loading.families.hub.baichuan import BAICHUAN
from model.loading.families.hub.chatglm import CHATGLM
from model.loading.families.hub.internlm import EXAONE, INTERNLM, INTERNLM2, MINICPM, ORION, XVERSE
from model.loading.families.hub.qwen1 import QWEN1

HUB: dict[str, Family] = {
    "internlm": INTERNLM,
    "internlm2": INTERNLM2,
    "minicpm": MINICPM,
    "orion": ORION,
    "xverse": XVERSE,
    "exaone": EXAONE,
    "baichuan": BAICHUAN,
    "chatglm": CHATGLM,
    "qwen": QWEN1,
}
