"""The view of steering, its edit, its function for programs and its Python lines, without a browser."""

import base64

import numpy as np
import pytest

from model.errors import InputError
from model.gpt.edit_checks import edit_of
from model.gpt.placed_vectors import vector_of, vector_text
from model.steering.effects import steering_sweep
from model.steering.files import VectorFile, load_bytes, npz_bytes
from model.steering.texts import steered_texts
from model.steering.vectors import pair_vectors
from tests.support.models.helpers import D, L, assert_close, byte_tokenizer
from tests.support.views.views import PROMPT, array, drawn, no_holes, perform, playground_of, run_lines, traces
from viz.api.registry import call
from viz.labels import visible
from viz.views.effects.steering.measure import FACTORS, factors_of
from viz.views.effects.steering.sources import file_of, numbers_of, pairs_of, positions_of
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


def npz() -> str:
    vectors = {1: np.ones(D, np.float32), 2: np.full(D, 2, np.float32)}
    return base64.b64encode(npz_bytes(VectorFile(vectors, name="mine"))).decode()


@pytest.mark.parametrize(
    "source",
    [
        {"source": "runs", "other": "abcabc"},
        {"source": "token", "token": "b", "table": "embedding"},
        {"source": "token", "token": "b", "share": 0},
        {"source": "neuron", "neuron_layer": 1, "neuron": 7, "share": 1},
        {"source": "numbers", "numbers": " ".join(["0.5"] * D)},
        {"source": "file", "file": npz()},
    ],
    ids=lambda each: each["source"],
)
def test_every_source_gives_the_vectors_of_its_python_lines(playground, source):
    settings = SETTINGS | source | {"more": True, "site": "resid_mid", "positions": "2-", "frozen": True}
    perform(playground, "effects", VIEW, "main", settings)
    parts = drawn(playground, "effects", "steering", settings)
    no_holes({name: part for name, part in parts.items() if name not in ("texts", "write")})
    lm = playground.opened("tiny")
    edit = edit_of(parts["use"]["edit"], lm.config, len(PROMPT))
    assert (edit.site, edit.positions) == ("resid_mid", "2-")
    assert "weights are those of the run" in parts["use"]["told"][1]
    if source["source"] != "file":  # its path is the reader's
        along = array(traces(parts["along"])[0]["customdata"])
        assert_close(run_lines(parts["along"]["python"], lm)[1][-1], along, 1e-4)
        sweep = run_lines(parts["gain"]["python"], lm)[1][-1]
        assert_close(array(traces(parts["gain"])[-1]["y"]), sweep.share[1], 1e-5)
    (file,) = parts["use"]["files"]  # GGUF has no place between attention and MLP
    saved = load_bytes(base64.b64decode(file["data"]))
    assert file["file"].endswith(".npz") and saved.site == "resid_mid"
    assert_close(saved.vectors[1], vector_of(parts["use"]["edit"]["vector"]), 1e-6)


def test_saved_vectors_open_again_as_npz_and_gguf(playground):
    perform(playground, "effects", VIEW, "main", SETTINGS)
    parts = drawn(playground, "effects", "steering", SETTINGS)
    expected = pair_vectors(playground.opened("tiny"), PAIRS)
    for file, layers in zip(parts["use"]["files"], ([0, 1, 2], [1, 2]), strict=True):
        settings = SETTINGS | {"source": "file", "file": file["data"]}
        perform(playground, "effects", VIEW, "main", settings)
        again = drawn(playground, "effects", "steering", settings)
        assert_close(vector_of(again["use"]["edit"]["vector"]), expected[1], 1e-6)
        assert list(load_bytes(base64.b64decode(file["data"])).vectors) == layers


def test_texts_are_shown_beside_those_of_a_random_direction(playground):
    settings = SETTINGS | {"more": True, "factors": "0 −2", "seed": 4}
    perform(playground, "effects", VIEW, "texts", settings)
    parts = drawn(playground, "effects", "steering", settings)
    rows = parts["texts"]["rows"]
    lm = playground.opened("tiny")
    vector = pair_vectors(lm, PAIRS)[1]
    found = steered_texts(lm, lm.encode(PROMPT).ids.tolist(), vector, 1, [0, -2], words=["b", "c"], seed=4)
    assert [row[0] for row in rows] == ["× 0.00", "× −2.00"] and rows[0][1] == rows[0][4]
    assert [row[1] for row in rows] == [visible(each.text) for each in found]
    assert rows[1][1] != rows[1][4]


def test_what_cannot_be_used_is_said():
    for text in ("", "1 x", "101", " ".join(map(str, range(9)))):
        with pytest.raises(InputError):
            factors_of(text)
    assert factors_of("-1, 2 2 −3") == (-1, 2, -3)
    for text, message in (("", "No file"), ("????", "cannot be read"), ("AAAA", "cannot be read")):
        with pytest.raises(InputError, match=message):
            file_of(text)
    with pytest.raises(InputError, match="no numbers"):
        numbers_of(" ", 3)
    with pytest.raises(InputError, match="another length"):
        numbers_of(vector_text(np.ones(4)), 3)
    assert positions_of(" 2 - ") == "2-" and positions_of("") is None
