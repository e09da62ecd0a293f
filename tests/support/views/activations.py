"""The views of norms and activations, for tests: a model, what a page asks, and what it is sent."""

import json
from pathlib import Path

import numpy as np

from model.api import LanguageModel
from tests.support.models.helpers import VARIANTS, byte_tokenizer, tiny_model
from tests.support.views.views import array
from viz.page.pipeline import PageRequest, payloads

PROMPT = "abcab"


def model_of(variant: str, folder: Path, vocabulary: int = 256) -> LanguageModel:
    """A shaken model of 3 layers over single bytes, wired in one of the ways of VARIANTS."""
    model = tiny_model({**VARIANTS[variant], "vocab_size": vocabulary, "n_ctx": 300})
    return LanguageModel("tiny", "Tiny", model, byte_tokenizer(folder))


def asked(view, form=None, values=None, prompt=PROMPT, language="en", shown=None, **selection) -> PageRequest:
    """What a page asks that shows this view with this form."""
    sent = {"activations_view": {"view": view}, f"{view}_form": form, **(values or {})}
    return PageRequest("tiny", prompt, selection or None, sent, shown or {}, language, "activations")


def drawn(view, playground, form=None, **changes) -> dict[str, dict]:
    """The parts of such a page."""
    return payloads(playground, asked(view, form, **changes))[0]


def figure(payload) -> dict:
    """A payload's figure, as it is sent."""
    return json.loads(payload["figure"].to_json())


def traces(payload) -> list[dict]:
    """The traces of a payload's figure."""
    return figure(payload)["data"]


def heat(payload) -> np.ndarray:
    """The exact numbers of a payload's map."""
    return array(traces(payload)[0]["customdata"])
