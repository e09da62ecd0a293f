"""Families with experts whose choice has an offset of its own, by the `model_type` of their config.json."""

from model.loading.families.common import Family
from model.loading.families.mixtures.dots import DOTS1, GLM4_MOE
from model.loading.families.mixtures.ernie import ERNIE_MOE
from model.loading.families.mixtures.lfm2_moe import LFM2_MOE
from model.loading.families.mixtures.phimoe import PHIMOE

MIXTURES: dict[str, Family] = {
    "lfm2_moe": LFM2_MOE,
    "dots1": DOTS1,
    "glm4_moe": GLM4_MOE,
    "ernie4_5_moe": ERNIE_MOE,
    "phimoe": PHIMOE,
}
