"""A slow run is looked at while it goes on: the picked head's picture comes before the answer, and is the same."""

from dataclasses import dataclass, field

import pytest

from model.gpt.transformer import Block
from tests.support.models.helpers import L
from tests.unit.page.test_pipeline import asked
from viz.page import ahead
from viz.page.parts import packed
from viz.page.pipeline import payloads
from viz.work.playground import Playground


@pytest.fixture
def slow(monkeypatch):
    """Every run is slow enough."""
    monkeypatch.setattr(ahead, "WORTH", 0.0)


@dataclass
class Page:
    """Takes early pictures; `taken` has, as each layer began, its number and the pictures that had come meanwhile."""

    playground: Playground
    taken: list = field(default_factory=list)
    early: dict = field(default_factory=dict)

    def ask(self, request):
        return payloads(self.playground, request, self.early.__setitem__)


@pytest.fixture
def page(playground, monkeypatch):
    page, whole = Page(playground), Block.forward

    def forward(self, x, layer, *rest):
        page.taken.append((layer, dict(page.early)))
        page.early.clear()
        return whole(self, x, layer, *rest)

    monkeypatch.setattr(Block, "forward", forward)
    return page


def question(prompt="abcab", heads=((0, 1),), **changes):
    return asked(prompt, **{"selection": {"heads": [list(head) for head in heads]}, **changes})


def view(name, **settings):
    return {"values": {"attention_view": {"view": name, **settings}}}


@pytest.mark.parametrize("view_of", ["map", "lines", "text"])
@pytest.mark.parametrize("layer", range(L))
def test_the_picture_of_a_head_comes_once_its_layer_is_done_and_is_that_of_the_answer(page, slow, view_of, layer):
    parts, shown = page.ask(question(heads=[(layer, 1)], **view(view_of)))
    early = {at: drawn for at, drawn in page.taken if drawn}
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
    assert "run" in picture and page.early == {}


def test_of_several_heads_the_last_layer_is_waited_for(page, slow):
    page.ask(question(heads=[(1, 0), (0, 2)]))
    assert [at for at, drawn in page.taken if drawn] == [2]


def test_all_layers_up_to_one_are_waited_for(page, slow):
    page.ask(question(heads=[(1, 0)], **view("map", measure="rollout")))
    assert [at for at, drawn in page.taken if drawn] == [2]


def test_a_quick_run_is_not_looked_at(page):
    page.ask(question())
    assert [drawn for _, drawn in page.taken] == [{}] * L


@pytest.mark.parametrize("changes", [{"selection": None}, {"tab": "checks"}], ids=str)
def test_nothing_is_drawn_where_nothing_is_picked_or_nothing_reads_the_layers(page, slow, changes):
    page.ask(question(**changes))
    assert page.taken and not any(drawn for _, drawn in page.taken)


def test_a_picture_that_fails_is_left_to_the_answer(page, slow, monkeypatch):
    def fails(self, layers):
        raise ZeroDivisionError

    monkeypatch.setattr(ahead.Ahead, "_draw", fails)
    parts, _ = page.ask(question())
    assert [drawn for _, drawn in page.taken] == [{}] * L
    assert "figure" in parts["map_plot"]


def test_an_edited_run_is_looked_at_too(page, slow):
    edits = [{"kind": "zero", "layer": 0, "head": 0}]
    page.ask(question(selection={"heads": [[0, 1]], "edits": edits}))
    assert [at for at, drawn in page.taken if drawn] == [1]


def test_a_run_that_is_there_is_not_looked_at_again(page, slow):
    page.ask(question())
    page.taken.clear()
    page.ask(question())
    assert page.taken == []


def test_a_page_that_no_longer_waits_ends_the_run_between_two_layers(page):
    """Also where no head is picked, so that nothing could be drawn."""
    for selection in ({"heads": [[0, 1]]}, None):
        page.taken.clear()

        def alive():
            if len(page.taken) == 2:
                raise ahead.Closed

        with pytest.raises(ahead.Closed):
            payloads(page.playground, question("abcba", selection=selection), page.early.__setitem__, alive)
        assert [at for at, _ in page.taken] == [0, 1]
        assert len(page.playground.traces) == 0
