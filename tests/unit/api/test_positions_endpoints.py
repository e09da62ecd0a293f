"""How positions are written, as programs ask for it: the vectors of a scheme, one query and key in pairs."""

import math

import numpy as np
import pytest

from model.api import LanguageModel
from model.design.positions import head_qk, pair_of, shift_errors, vectors
from model.errors import InputError
from tests.support.models.helpers import VARIANTS, assert_close, byte_tokenizer, tiny_model
from tests.support.views.endpoints import ask
from viz.work.playground import Options, Playground

PROMPT = "abcabd ab"


@pytest.fixture(scope="module", params=list(VARIANTS))
def wired(request, tmp_path_factory):
    """A server with a shaken byte model of every wiring."""
    model = tiny_model({**VARIANTS[request.param], "vocab_size": 256, "n_ctx": 300})
    ours = Playground(Options(model="tiny", max_tokens=40))
    tokenizer = byte_tokenizer(tmp_path_factory.mktemp("bytes"))
    ours.models.get("tiny", lambda: LanguageModel("tiny", "Tiny", model, tokenizer))
    return ours, ours.opened("tiny")


def test_the_endpoint_of_vectors(wired):
    playground, lm = wired
    for scheme in ("own", "sinusoidal", "rope", "none"):
        found = ask(playground, "position_vectors", scheme=scheme, length=20)
        name = lm.config.positions if scheme == "own" else scheme
        assert found["scheme"] == name and found["own"] == (name == lm.config.positions)
        assert_close(np.array(found["vectors"]), vectors(lm.model, name, range(20)), 1e-6)
        turns = name in ("rope", "sinusoidal")
        assert (found["wavelengths"] is not None) == (found["bound"] is not None) == turns
        assert (found["theta"] is not None) == (name == "rope") and (found["similarity"] is None) == (name == "none")
        if turns:
            assert_close(np.array(found["similarity"]["mean"]), np.array(found["kernel"]), 1e-5)
    if lm.config.positions != "learned":
        with pytest.raises(InputError, match="no learned positions"):
            ask(playground, "position_vectors", scheme="learned")
    else:
        assert len(ask(playground, "position_vectors", length=512)["vectors"]) == 300


def test_the_endpoint_of_pairs(wired):
    playground, lm = wired
    found = ask(playground, "rope_pairs", prompt=PROMPT, layer=1, head=3, query=-1, key=2, shifts=100)
    pair = pair_of(lm.config, head_qk(lm.trace(PROMPT), 1, 3), 8, 2)
    assert (found["query"], found["key"], found["own"]) == (8, 2, lm.config.positions == "rope")
    assert sum(row["adds"] for row in found["pairs"]) + found["rest"] == pytest.approx(found["score"], abs=1e-6)
    assert found["model_score"] == pytest.approx(lm.trace(PROMPT).scores(1, 3)[8, 2], abs=1e-4)
    assert found["shift"]["float32"]["shifts"] == [1, 2, 4, 8, 16, 32, 64]
    assert_close(
        np.array(found["shift"]["float64"]["moved"]), shift_errors(pair, [1, 2, 4, 8, 16, 32, 64], "float64"), 1e-15
    )
    swapped = ask(playground, "rope_pairs", prompt=PROMPT, layer=1, head=3, query=2, key=8)
    assert swapped["score"] == found["score"] and math.isfinite(found["score"])
