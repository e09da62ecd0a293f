"""A slow run is looked at while it goes on: the picked head's picture comes before the answer, and is the same."""

import pytest

from model.gpt.transformer import Block
from tests.support.models.helpers import L
from tests.unit.page.test_pipeline import asked
from viz.page import ahead
from viz.page.parts import packed
from viz.page.pipeline import payloads
from viz.work.playground import Playground

WHO = ("me", "5")


@pytest.fixture
def slow(monkeypatch):
    """Every run is slow enough."""
    monkeypatch.setattr(ahead, "WORTH", 0.0)


@pytest.fixture
def taken(playground, monkeypatch):
    """Pictures that the page could fetch as each layer began: a list a run."""
    found: list = []
    whole = Block.forward

    def forward(self, x, layer, *rest):
        found.append((layer, playground.early.take(WHO)))
        return whole(self, x, layer, *rest)

    monkeypatch.setattr(Block, "forward", forward)
    return found


def question(prompt="abcab", heads=((0, 1),), **changes):
    named = {"visitor": WHO[0], "question": WHO[1], "selection": {"heads": [list(head) for head in heads]}}
    return asked(prompt, **{**named, **changes})


def view(name, **settings):
    return {"values": {"attention_view": {"view": name, **settings}}}


@pytest.mark.parametrize("view_of", ["map", "lines", "text"])
@pytest.mark.parametrize("layer", range(L))
def test_the_picture_of_a_head_comes_once_its_layer_is_done_and_is_that_of_the_answer(
    playground, slow, taken, view_of, layer
):
    parts, shown = payloads(playground, question(heads=[(layer, 1)], **view(view_of)))
    early = {at: drawn for at, drawn in taken if drawn}
    if layer == L - 1:
        assert early == {}  # the last layer is done when all are
        return
    (part,) = early[layer + 1]
    assert list(early) == [layer + 1] and part.startswith(view_of)
    picture, answer = early[layer + 1][part], parts[part]
    assert picture.pop("scene") == shown["run"]
    for each in (picture, answer):
        each.pop("source")  # how long the run took, so far
    assert packed(picture) == packed(answer)
    assert "run" in picture and playground.early.take(WHO) == {}


def test_of_several_heads_the_last_layer_is_waited_for(playground, slow, taken):
    payloads(playground, question(heads=[(1, 0), (0, 2)]))
    assert [at for at, drawn in taken if drawn] == [2]


def test_all_layers_up_to_one_are_waited_for(playground, slow, taken):
    payloads(playground, question(heads=[(1, 0)], **view("map", measure="rollout")))
    assert [at for at, drawn in taken if drawn] == [2]


def test_a_quick_run_is_not_looked_at(playground, taken):
    payloads(playground, question())
    assert [drawn for _, drawn in taken] == [{}] * L


@pytest.mark.parametrize(
    "changes", [{"question": ""}, {"visitor": ""}, {"selection": None}, {"tab": "checks"}], ids=str
)
def test_nothing_is_drawn_where_nobody_could_fetch_it_or_nothing_is_picked(playground, slow, taken, changes):
    payloads(playground, question(**changes))
    assert taken and not any(drawn for _, drawn in taken)


def test_a_picture_that_fails_is_left_to_the_answer(playground, slow, taken, monkeypatch):
    def fails(self, layers):
        raise ZeroDivisionError

    monkeypatch.setattr(ahead.Ahead, "_draw", fails)
    parts, _ = payloads(playground, question())
    assert [drawn for _, drawn in taken] == [{}] * L
    assert "figure" in parts["map_plot"]


def test_an_edited_run_is_looked_at_too(playground, slow, taken):
    edits = [{"kind": "zero", "layer": 0, "head": 0}]
    payloads(playground, question(selection={"heads": [[0, 1]], "edits": edits}))
    assert [at for at, drawn in taken if drawn] == [1]


def test_a_run_that_is_there_is_not_looked_at_again(playground: Playground, slow, taken):
    payloads(playground, question())
    taken.clear()
    payloads(playground, question())
    assert taken == []
