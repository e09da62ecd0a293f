"""The page's own wire: what a question may say, the lines of an answer, and what a closed request ends."""

import asyncio
import contextlib
import json
import threading

import pytest

from model.gpt.transformer import Block
from tests.support.threads import in_thread
from viz.page.pipeline import answer
from viz.page.wire import question, view
from viz.views.tabs import TABS
from viz.work.playground import Playground

QUESTION = {
    "visit": "me",
    "model": "tiny",
    "prompt": "abcab",
    "tab": "attention",
    "selection": {"heads": [[0, 1]]},
    "values": {"attention_view": {"view": "map"}},
    "shown": {},
}


def asked(**changes):
    return question.page_request({**QUESTION, **changes}, "en")


def lines_to(*given):
    return view.answer_lines(*given, set())


async def lines_of(playground: Playground, asked_, ready=True, most=None):
    """The lines of an answer, at most so many, and whether the place in the queue was given back."""
    turn, lines, left = asyncio.Event(), [], []
    if ready:
        turn.set()
    async with contextlib.aclosing(lines_to(playground, asked_, turn, lambda: left.append(True))) as answer:
        if not ready:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(anext(answer), 0.05)
        else:
            async for line in answer:
                lines.append(json.loads(line))
                if len(lines) == most:
                    break
    for _ in range(200):
        if left:
            break
        await asyncio.sleep(0.01)
    return lines, left


def test_the_last_line_is_the_answer_of_the_pipeline(playground):
    lines, left = in_thread(asyncio.run, lines_of(playground, asked()))
    parts, shown = answer(playground, asked())
    assert lines[-1]["shown"] == shown and lines[-1]["parts"].keys() == parts.keys() and left == [True]
    assert lines[-1]["parts"]["map_plot"]["scene"] == shown["run"]


def test_a_page_that_says_what_it_shows_is_sent_what_changes(playground):
    (*_, first), _ = in_thread(asyncio.run, lines_of(playground, asked()))
    (again,), _ = in_thread(asyncio.run, lines_of(playground, asked(shown=first["shown"])))
    assert set(again["parts"]) <= {"notice", "selection"}
    (other,), _ = in_thread(
        asyncio.run, lines_of(playground, asked(shown=first["shown"], selection={"heads": [[2, 3]]}))
    )
    assert "map_plot" in other["parts"] and "overview_heads" not in other["parts"]


def test_early_pictures_come_before_the_answer(playground, monkeypatch):
    monkeypatch.setattr("viz.page.ahead.WORTH", 0.0)
    lines, _ = in_thread(asyncio.run, lines_of(playground, asked()))
    early = [line["early"] for line in lines[:-1] if "early" in line]
    assert [list(each) for each in early] == [["map_plot"]]
    assert early[0]["map_plot"]["scene"] == lines[-1]["parts"]["map_plot"]["scene"]


def test_a_slow_run_says_how_far_it_is(playground, monkeypatch):
    monkeypatch.setattr(view, "TELL_AFTER", 0.01)
    monkeypatch.setattr(view, "TELL_EVERY", 0.01)
    whole, go_on = Block.forward, threading.Event()

    def forward(self, x, layer, *rest):
        if layer == 1:
            go_on.wait(0.2)
        return whole(self, x, layer, *rest)

    monkeypatch.setattr(Block, "forward", forward)
    lines, _ = in_thread(asyncio.run, lines_of(playground, asked()))
    told = [line["running"] for line in lines if "running" in line]
    assert told and told[0]["total"] == 3 and "parts" in lines[-1]


def test_closing_the_request_ends_the_run_between_two_layers(playground, monkeypatch):
    monkeypatch.setattr("viz.page.ahead.WORTH", 0.0)
    layers, whole, closed = [], Block.forward, threading.Event()

    def forward(self, x, layer, *rest):
        layers.append(layer)
        if layer == 1:
            closed.wait(2)  # the early picture of layer 0 is on its way
        return whole(self, x, layer, *rest)

    monkeypatch.setattr(Block, "forward", forward)

    async def leave():
        answer = lines_to(playground, asked(), ready(), lambda: layers.append("left"))
        assert "early" in json.loads(await anext(answer))
        await answer.aclose()
        closed.set()
        for _ in range(300):
            if layers[-1] == "left":
                return
            await asyncio.sleep(0.01)

    in_thread(asyncio.run, leave())
    assert layers == [0, 1, "left"] and len(playground.traces) == 0


def ready() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def test_a_question_that_is_closed_while_it_waits_gives_its_place_back(playground, monkeypatch):
    monkeypatch.setattr(view, "answer", lambda *_: pytest.fail("it was not its turn"))
    assert in_thread(asyncio.run, lines_of(playground, asked(), ready=False)) == ([], [True])


def test_a_failure_is_said_and_logged(playground, monkeypatch, caplog):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(view, "answer", fail)
    ((line,), left) = in_thread(asyncio.run, lines_of(playground, asked()))
    assert line["parts"]["notice"]["text"] and line["shown"] == asked().shown and left == [True]
    assert "a question of a page failed" in caplog.text


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"visit": 7, "model": [], "prompt": {}, "tab": None, "values": [], "shown": "x", "done": 3},
        {"values": {"attention_view": 5, "no part": {}}, "shown": {"drawn": [1], "run": 4, "language": None}},
        {"shown": {"drawn": {"map_plot": 7, "tokens": "k"}}},
    ],
    ids=str,
)
def test_what_is_not_of_its_form_counts_as_absent(sent, playground):
    request = question.page_request(sent, "en")
    assert request.tab == TABS[0].key and request.visitor == "" and request.done == ""
    assert set(request.values) <= {"attention_view"}
    assert request.shown.get("drawn", {}) in ({}, {"tokens": "k"}) and "run" not in request.shown
    (*_, last), _ = in_thread(asyncio.run, lines_of(playground, question.page_request({**QUESTION, **sent}, "en")))
    assert "parts" in last


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b"{", b"\xff", b"[" * 100_000], ids=lambda body: repr(body[:8]))
def test_a_body_that_is_no_question_is_refused(body):
    with pytest.raises(ValueError):
        question.read(body)
