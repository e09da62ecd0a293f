"""Subjects of the checks: tiny models that a test may break."""

from collections.abc import Callable

from model.api import LanguageModel
from model.checks.registry import CHECKS
from model.checks.result import Subject, subject_of
from model.gpt.edits import Edit
from model.gpt.transformer import Transformer
from tests.support.models.edited import VECTOR
from tests.support.models.helpers import ALL_VARIANTS, tiny_model
from tests.support.models.mixtures import MIXTURES

PROMPT = "abcabd ab"
OURS = [key for key in CHECKS if not key.startswith("parity")]
EDITS = (
    Edit("zero", 1, 2),
    Edit("uniform", 0, 1),
    Edit("mean", 2, 3),
    Edit("block_edge", query=3, key=1),
    Edit("scale", 0, 0, factor=2.0),
    Edit("previous_token", 2, 0),
    Edit("mlp_scale", 0, factor=2.0),
    Edit("neuron_value", 1, neuron=17, value=3.0),
    Edit("add_direction", 1, token=98, factor=2.0),
    Edit("add_vector", 1, factor=1.5, site="resid_mid", vector=VECTOR, positions="2,5-"),
    Edit("place_vector", 0, site="resid_post", vector=VECTOR, positions="3"),
    Edit("hide_token", 1, positions="2"),
    Edit("embed_token", positions="4", token=99),
    Edit("embed_mean", positions="6-"),
    Edit("add_vector", 2, factor=-1.0, site="resid_pre", vector=VECTOR),
)


def made(
    tokenizer, variant="gpt2", prompt=PROMPT, edits=(), change: Callable[[Transformer], Transformer] | None = None
) -> Subject:
    """A new model each time: some tests break it. `change` makes another one of it first."""
    model = tiny_model({**(ALL_VARIANTS | MIXTURES)[variant], "vocab_size": 256, "n_ctx": 300})
    model = change(model) if change else model
    lm = LanguageModel("tiny", "Tiny", model, tokenizer)
    run = lm.trace(prompt)
    return subject_of(lm, run.edit(*edits) if edits else run, prompt)


def not_agreed(found):
    return {key: each for key, each in found.items() if each.state != "agrees"}
