"""Encoders, state spaces, and state spaces with attention, by the `model_type` of their config.json."""

from model.loading.families.common import Family
from model.loading.families.others.bamba import BAMBA
from model.loading.families.others.bert import BERT, DISTILBERT, ROBERTA
from model.loading.families.others.falcon_h1 import FALCON_H1
from model.loading.families.others.granite_hybrid import GRANITE_HYBRID
from model.loading.families.others.mamba import MAMBA
from model.loading.families.others.mamba2 import MAMBA2
from model.loading.families.others.modernbert import MODERNBERT
from model.loading.families.others.nemotron_h import NEMOTRON_H

OTHERS: dict[str, Family] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "distilbert": DISTILBERT,
    "modernbert": MODERNBERT,
    "mamba": MAMBA,
    "mamba2": MAMBA2,
    "nemotron_h": NEMOTRON_H,
    "falcon_h1": FALCON_H1,
    "bamba": BAMBA,
    "granitemoehybrid": GRANITE_HYBRID,
}
