"""Streams of views without a browser: what an event gets, what it may yield, and who hears of a visitor who leaves."""

import types

import gradio as gr
import pytest

from model.errors import InputError
from tests.support.views.streams import ask, wired
from viz.page.loading import opened
from viz.page.parts import unpacked
from viz.seam.settings import Check
from viz.seam.view import Event, Models, Open, Stream, View
from viz.words import words
from viz.work.prompt import Prompt

ME = types.SimpleNamespace(session_hash="me")


def made(playground, events, **more):
    """The channel of a view with these events, and what the page shares with it."""
    view = View("own", ("form",), {}, settings=(Check("on"),), streams=(Stream("feed", "someshow", events, **more),))
    return wired(playground, view)


def test_an_event_gets_what_stands_on_the_page(playground):
    seen = []

    def start(visit, sent):
        seen.append((visit, sent))
        yield {"n": 1}
        yield {"n": 2}

    feed, _ = made(playground, {"start": Event(start, concurrency=3, trigger="multiple")}, state=lambda: ["kept"])
    told = ask(feed, "start", {"a": 1}, values={"own_form": {"on": True}, "other": 3})
    assert [unpacked(each) for each in told] == [{"n": 1}, {"n": 2}]
    ((visit, sent),) = seen
    assert sent == {"a": 1} and (visit.session, visit.language, visit.model_id) == ("me", "en", "tiny")
    assert visit.values == {"own_form": {"on": True}} and visit.prompt == Prompt("abc") and visit.state == ["kept"]
    assert feed.settings["start"]["concurrency_limit"] == 3 and feed.settings["start"]["trigger_mode"] == "multiple"
    assert feed.settings["start"]["api_visibility"] == "private" and feed.outputs["start"] == [feed]


def test_what_only_does_something_answers_nothing(playground):
    told = []
    feed, _ = made(playground, {"stop": Event(lambda visit, sent: told.append(sent))})
    assert ask(feed, "stop", 3) is None and told == [3] and feed.outputs["stop"] is None


@pytest.mark.parametrize(
    ("error", "text"),
    [(InputError("No.", "x", "Yes."), "No. (x)"), (ValueError("secret"), words("en")["notice.failed"])],
)
def test_what_fails_is_said_under_the_tag_of_the_question(playground, error, text):
    def start(visit, sent):
        yield {"n": 1}
        raise error

    feed, _ = made(playground, {"start": Event(start)})
    first, last = (unpacked(each) for each in ask(feed, "start", {"tag": "t"}))
    assert first == {"n": 1} and last["tag"] == "t" and last["error"]["text"] == text
    assert "tag" not in unpacked(ask(feed, "start", {"tag": [1]})[-1])


def test_a_visitor_who_leaves_ends_the_work(playground):
    ended, gone = [], []

    def start(visit, sent):
        try:
            while True:
                yield {}
        finally:
            ended.append(visit.session)

    feed, shared = made(
        playground,
        {"start": Event(start)},
        state=lambda: gone,
        leave=lambda state, session: state.append(session),
    )
    steps = feed.handlers["start"](ME, None, opened("tiny"), "", None, None)
    next(steps)
    steps.close()
    assert ended == ["me"]
    for forget in shared.leaving:
        forget("you")
    assert gone == ["you"]


def test_an_event_may_open_a_model_and_change_the_list(playground):
    def open_it(visit, sent):
        yield {"n": 1}
        yield Models()
        yield Open("tiny", "a prompt", "attention")

    feed, _ = made(playground, {"open": Event(open_it, page=True)})
    assert len(feed.outputs["open"]) == 7
    payload, models, *_, last = ask(feed, "open")
    assert unpacked(payload[0]) == {"n": 1} and payload[1:] == (gr.skip(),) * 6
    assert isinstance(models[3], gr.Dropdown) and models[2] == gr.skip()
    own, told, loaded, picker, _, prompt, tabs = last
    assert own == gr.skip() and unpacked(told) == {} and loaded["id"] == "tiny" and picker.value == "tiny"
    assert prompt == "a prompt" and tabs.selected == "attention"


def test_an_event_may_change_the_list_alone(playground):
    def start(visit, sent):
        yield {"n": 1}
        yield Models()

    feed, _ = made(playground, {"start": Event(start, models=True)})
    assert len(feed.outputs["start"]) == 2
    (payload, skipped), (none, models) = ask(feed, "start")
    assert unpacked(payload) == {"n": 1} and skipped == none == gr.skip() and isinstance(models, gr.Dropdown)


def test_a_model_that_cannot_be_opened_leaves_the_page_as_it_is(playground):
    def open_it(visit, sent):
        yield Open("no such model", "a prompt", "attention")

    feed, _ = made(playground, {"open": Event(open_it, page=True)})
    own, told, loaded, _, _, prompt, tabs = ask(feed, "open")[-1]
    assert own == loaded == prompt == tabs == gr.skip() and unpacked(told)["kind"] == "error"
