"""Families with layers that pass a state through gates, and layers of attention between them, by `model_type`."""

from model.loading.families.common import Family
from model.loading.families.gated.lfm2 import LFM2
from model.loading.families.gated.qwen3_next import QWEN3_5, QWEN3_5_MOE, QWEN3_NEXT

GATED: dict[str, Family] = {
    "qwen3_next": QWEN3_NEXT,
    "qwen3_5_text": QWEN3_5,
    "qwen3_5_moe_text": QWEN3_5_MOE,
    "lfm2": LFM2,
}
