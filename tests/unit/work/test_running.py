"""How far a run is, is told while it lasts and no longer."""

import pytest

from model.api import LanguageModel
from model.gpt.edits import Edit
from model.gpt.transformer import Block
from tests.support.models.helpers import L, byte_tokenizer, serving, tiny_model
from viz.work.running import ForwardProgress


@pytest.fixture
def playground(tmp_path):
    model = tiny_model({"vocab_size": 256})
    return serving(LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path)))


def test_it_is_told_while_it_lasts_and_no_longer():
    now = ForwardProgress()
    assert now.report() == {}
    with now.reporting() as progress:
        progress(2, 5, "")
        assert now.report() == {"done": 2, "total": 5, "seconds": pytest.approx(0, abs=5)}
    assert now.report() == {}
    with pytest.raises(KeyError), now.reporting() as progress:
        progress(0, 5, "")
        raise KeyError
    assert now.report() == {}


def test_every_layer_of_a_run_is_told(playground, monkeypatch):
    told, whole = [], Block.forward

    def forward(self, *given):
        told.append(playground.running.report())
        return whole(self, *given)

    monkeypatch.setattr(Block, "forward", forward)
    model = playground.opened("tiny")
    layers = [{"done": layer, "total": L} for layer in range(L)]
    for ids, edits in (([1, 2, 3], ()), ([1, 2, 3, 4], ()), ([1, 2, 3], (Edit("zero", 1, 0),))):
        playground.trace_tokens(model, model.tokenizer.tokens(ids), edits)
        assert [{name: each[name] for name in ("done", "total")} for each in told] == layers, (ids, edits)
        told.clear()
    assert playground.running.report() == {}
