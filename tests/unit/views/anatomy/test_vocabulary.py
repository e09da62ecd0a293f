"""The view of the vocabulary: neighbors, the map with search, its Python lines and function, without a browser."""

import numpy as np
import pytest

from model.token_tables.neighbors import nearest_tokens
from model.token_tables.vocabulary_map import vocabulary_map
from tests.support.models.helpers import assert_close, byte_tokenizer
from tests.support.views.views import array, drawn, no_holes, perform, playground_of, run_lines, traces
from viz.api.registry import call
from viz.views.anatomy.vocabulary.figures import map_figure
from viz.views.anatomy.vocabulary.measure import hits_of, mapped_ids
from viz.views.anatomy.vocabulary.view import VIEW


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    return playground_of(byte_tokenizer(tmp_path_factory.mktemp("bytes")), "gpt2")


def test_neighbors_and_a_map_with_the_found_tokens(playground):
    parts, lm = drawn(playground, "anatomy", "vocabulary", {"token": "b", "search": "C"}), playground.opened("tiny")
    no_holes(parts)
    V = lm.tokenizer.vocab_size
    for side, table in zip(("embedding", "unembedding"), parts["near"]["tables"], strict=True):
        found = nearest_tokens(lm.model, ord("b"), side, vocab=V)
        assert [cell["token"] for cell, _ in table["rows"]] == found.ids.tolist()
    every, near, hits = traces(parts["places"])
    lines = run_lines(parts["places"]["python"], lm)[1][-1]
    assert_close(np.stack((array(every["x"]), array(every["y"])), 1), lines.places, 1e-5)
    assert sorted(hits["hovertext"]) == ["C", "c"] and "b" in near["hovertext"]
    assert "2 of these contain “C”" in parts["places"]["note"]


def test_texts_on_the_map_do_not_cover_each_other():
    places = np.array([[0, 0], [0.5, 0.01], [5, 5], [0, 1], [10, 10]], np.float32)
    figure = map_figure(places, list("abcde"), {"near": [0, 1, 2, 3, 4], "found": [4]}, ("", ""), {"all": "all"})
    assert list(figure.data[1].text) == ["a", "", "c", "d", "e"]  # b would cover a, which is above d
    assert list(figure.data[1].hovertext) == list("abcde") and list(figure.data[2].text) == ["e"]


def test_only_whole_tokens_are_mapped(playground):
    lm = playground.opened("tiny")
    pieces = [lm.tokenizer.piece(token) for token in mapped_ids(lm)]
    assert "a" in pieces and " " not in pieces and not any(piece.startswith("<0x") for piece in pieces)
    assert hits_of(["Ab", "b", "c"], "B ") == [0, 1] and hits_of(["a"], " ") == []


def test_tsne_waits_for_its_button_or_names_its_package(playground, monkeypatch):
    pytest.importorskip("sklearn")
    settings = {"method": "tsne"}
    parts = drawn(playground, "anatomy", "vocabulary", settings)
    assert "empty" in parts["places"] and "t-SNE" in parts["job"]["text"]
    with monkeypatch.context() as patched:
        patched.setattr("viz.views.anatomy.vocabulary.view.is_installed", lambda: False)
        missing = drawn(playground, "anatomy", "vocabulary", settings | {"side": "unembedding"})["job"]
    perform(playground, "anatomy", VIEW, "tsne", settings)
    places = drawn(playground, "anatomy", "vocabulary", settings)["places"]
    lm = playground.opened("tiny")
    found = vocabulary_map(lm.model, mapped_ids(lm), "embedding", "tsne")
    assert_close(array(traces(places)[0]["x"]), found.places[:, 0], 1e-5)
    assert missing["state"] == "unready" and "pip install scikit-learn" in missing["text"]


def test_for_programs_the_same_neighbors(playground):
    found = call(playground, VIEW.api[0], {"token": "b", "most": 3, "centered": False})
    lm = playground.opened("tiny")
    for side in ("embedding", "unembedding"):
        expected = nearest_tokens(lm.model, ord("b"), side, 3, centered=False, vocab=lm.tokenizer.vocab_size)
        assert [each["id"] for each in found[side]] == expected.ids.tolist()
        assert found["typical"][side] == pytest.approx(expected.typical)
