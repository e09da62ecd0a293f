"""How far a run is, is told while it lasts and no longer."""

import json

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from model.api import LanguageModel
from model.gpt.edits import Edit
from model.gpt.transformer import Block
from tests.support.models.helpers import L, byte_tokenizer, serving, tiny_model
from viz.serve import running
from viz.work.running import Running


@pytest.fixture
def playground(tmp_path):
    model = tiny_model({"vocab_size": 256})
    return serving(LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path)))


def test_it_is_told_while_it_lasts_and_no_longer():
    now = Running()
    assert now.report() == {}
    with now.told() as progress:
        progress(2, 5, "")
        assert now.report() == {"done": 2, "total": 5, "seconds": pytest.approx(0, abs=5)}
    assert now.report() == {}
    with pytest.raises(KeyError), now.told() as progress:
        progress(0, 5, "")
        raise KeyError
    assert now.report() == {}


def test_every_layer_of_a_run_is_told_to_a_page_that_asks(playground, monkeypatch):
    app = TestClient(Starlette(routes=[Route("/playground/running", running(playground))]))
    told, whole = [], Block.forward

    def forward(self, *given):
        answer = app.get("/playground/running")
        assert answer.headers["cache-control"] == "no-store"
        told.append(json.loads(answer.text))
        return whole(self, *given)

    monkeypatch.setattr(Block, "forward", forward)
    model = playground.opened("tiny")
    layers = [{"done": layer, "total": L} for layer in range(L)]
    for ids, edits in (([1, 2, 3], ()), ([1, 2, 3, 4], ()), ([1, 2, 3], (Edit("zero", 1, 0),))):
        playground.trace_tokens(model, model.tokenizer.tokens(ids), edits)
        assert [{name: each[name] for name in ("done", "total")} for each in told] == layers, (ids, edits)
        told.clear()
    assert app.get("/playground/running").json() == {}


def test_what_was_drawn_meanwhile_is_told_to_the_page_that_asked(playground):
    app = TestClient(Starlette(routes=[Route("/playground/running", running(playground))]))

    def told(session, question):
        return app.get("/playground/running", params={"session_hash": session, "question": question}).json()

    with playground.early.answering(("me", "7")), playground.running.told() as progress:
        progress(1, 3, "")
        playground.early.put(("me", "7"), "map_plot", {"title": "<b>"})
        assert "parts" not in told("other", "7") and "parts" not in told("me", "8") and "parts" not in told("", "")
        assert told("me", "7") == {"done": 1, "total": 3, "seconds": pytest.approx(0, abs=5)} | {
            "parts": {"map_plot": {"title": "<b>"}}
        }
        assert "parts" not in told("me", "7")
    assert told("me", "7") == {}
