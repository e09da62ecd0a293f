"""The view of steering, its edit, its function for programs and its Python lines, without a browser."""

import numpy as np
import pytest

from model.errors import InputError
from model.gpt.edit_checks import edit_of
from model.steering.effects import steering_sweep
from model.steering.vectors import pair_vectors
from tests.support.models.helpers import L, assert_close, byte_tokenizer
from tests.support.views.views import PROMPT, array, drawn, no_holes, perform, playground_of, run_lines, traces
from viz.api.registry import call
from viz.views.effects.steering.measure import FACTORS
from viz.views.effects.steering.sources import pairs_of
from viz.views.effects.steering.view import VIEW

PAIRS = [("a good day", "a bad day"), ("good", "bad")]
SETTINGS = {"pairs": "a good day | a bad day\n\ngood|bad", "watch": "b c", "layer": 1, "factor": 0.5}


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    return playground_of(byte_tokenizer(tmp_path_factory.mktemp("bytes")), "llama")


def test_pairs_are_lines_of_two_texts():
    assert pairs_of(SETTINGS["pairs"]) == PAIRS
    for text in ("", "one text", "a | ", "a|b|c"):
        with pytest.raises(InputError, match="needs pairs of texts" if text == "" else "does not have two texts"):
            pairs_of(text)


def test_the_figures_are_the_sweep_and_the_button_holds_its_edit(playground):
    perform(playground, "effects", VIEW, "main", SETTINGS)
    parts = drawn(playground, "effects", "steering", SETTINGS)
    no_holes(parts)
    lm = playground.opened("tiny")
    run, vectors = lm.trace(PROMPT), pair_vectors(lm, PAIRS)
    found = steering_sweep(run, vectors, range(L), FACTORS, [32], draws=4)  # of " b" and " c", the first byte
    own = array(traces(parts["gain"])[-1]["y"])
    assert_close(own, found.share[1], 1e-5)
    assert_close(array(traces(parts["gain"])[-2]["y"]), found.random_share.mean(0)[1], 1e-5)
    assert_close(array(traces(parts["cost"])[-1]["y"]), found.kl[1], 1e-4)
    edit = edit_of(parts["use"]["edit"], lm.config, len(run.tokens))
    assert (edit.layer, edit.factor, edit.site, edit.name) == (1, 0.5, "resid_post", "a good day − a bad day")
    logits = run.edit(edit).logits[-1].astype(np.float64)
    share = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    assert own[FACTORS.index(0.5)] == pytest.approx(share[32], rel=1e-3)
    assert len(parts["layers"]["rows"]) == L and len(parts["layers"]["rows"][0]) == 5
    lines = run_lines(parts["along"]["python"], lm)[1][-1]
    assert_close(lines, array(traces(parts["along"])[0]["customdata"]), 1e-4)


def test_for_programs_the_same_numbers(playground):
    found = call(playground, VIEW.api[0], {"prompt": PROMPT, "pairs": SETTINGS["pairs"], "watch": "b"})
    lm = playground.opened("tiny")
    edit = {"kind": "add_vector", "layer": 2, "site": "resid_post", "factor": 1.0, "vector": found["vectors"][2]}
    run = lm.trace(PROMPT).edit(edit_of(edit, lm.config, len(PROMPT)))
    moved = run.hidden(3) - lm.trace(PROMPT).hidden(3)
    assert_close(moved, np.tile(pair_vectors(lm, PAIRS)[2], (len(run.tokens), 1)), 1e-4)
    assert np.shape(found["random_kl"]) == (4, L, len(FACTORS)) and found["factors"] == list(FACTORS)
