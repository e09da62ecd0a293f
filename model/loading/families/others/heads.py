"""The head of an encoder's checkpoint: one that predicts masked tokens, or none that predicts tokens.

The class in config.json says which: BertForMaskedLM and BertForPreTraining have such a head, BertModel (of sentence
embeddings, for example) and BertForSequenceClassification do not.
"""

from collections.abc import Mapping

from model.loading.convert import Names

_WITH_HEAD = ("ForMaskedLM", "ForPreTraining", "LMHeadModel", "WithLMHead")
HEADLESS = {"headless": True, "head_dense": False, "head_bias": False, "tie_embeddings": True}
# Heads that predict no tokens.
_PARTS = ("classifier", "pre_classifier", "qa_outputs", "classifier.dense", "classifier.out_proj")
OTHER_HEADS: Names = {f"{part}.{kind}": None for part in _PARTS for kind in ("weight", "bias")}


def without_head(hf: Mapping) -> dict:
    """Return the fields of a model without a head if the config names another class; nothing if it names none."""
    names = hf.get("architectures")
    named = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return HEADLESS if named and not any(name.endswith(_WITH_HEAD) for name in named) else {}
