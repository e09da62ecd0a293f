"""The model's answer to a conversation: what generation writes, up to the token that ends a turn."""

import threading

import numpy as np
import pytest

from model.errors import InputError
from model.steering.vectors import steering_edit
from tests.support.models.talking import END, talking_model, talking_server
from tests.support.views.streams import ask, trigger
from viz.page import answer
from viz.page.answer import Stops
from viz.page.wire.streams import Channel
from viz.seam.jobs import answering
from viz.seam.jobs.answering import FRAME, MOST, room, written
from viz.work.prompt import Prompt

TURNS = [["user", "ab"], ["assistant", "c"], ["user", "d"], ["assistant", ""]]
OPEN = Prompt("", tuple(map(tuple, TURNS)))
MESSAGES = [{"role": role, "content": text} for role, text in TURNS[:-1]]


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    return talking_model(tmp_path_factory.mktemp("talking"))


@pytest.fixture
def server(talker):
    return talking_server(talker)


def generated(talker, strategy, tokens):
    """What the model's own generation writes."""
    ids, ended = [], ""
    for tick in talker.generate(talker.chat(MESSAGES).ids, strategy, tokens):
        change = tick.changes[0]
        del ids[len(ids) - change.drop :]
        ids += [made.id for made in change.made]
        ended = change.ended
    return ids, ended


@pytest.mark.parametrize("strategy", ["greedy", "top_k", "beam"])
def test_an_answer_is_what_the_model_writes(server, talker, strategy):
    most = room(server, talker, len(talker.chat(MESSAGES)))
    ids, ended = generated(talker, strategy, most)
    *_, last = written(server, talker, OPEN, strategy, threading.Event())
    own = ids[:-1] if ids[-1] == END else ids
    assert (last.text, last.tokens, last.ended) == (talker.decode(own), len(ids), ended)
    assert "<|im_end|>" not in last.text or END in own


def test_it_ends_at_the_token_that_ends_a_turn(server, talker, monkeypatch):
    ids, _ = generated(talker, "greedy", 5)
    monkeypatch.setattr(answering, "ending", lambda tokenizer: frozenset({ids[2]}))
    monkeypatch.setattr("model.api.ending", lambda tokenizer: frozenset({ids[2]}))
    at = ids.index(ids[2])
    *_, last = written(server, talker, OPEN, "greedy", threading.Event())
    assert (last.text, last.tokens, last.ended) == (talker.decode(ids[:at]), at + 1, "end")


def test_room_is_left_for_the_turns_end(server, talker):
    assert room(server, talker, 100) == 200 - 100 - FRAME < MOST
    with pytest.raises(InputError, match="too long"):
        room(server, talker, 200 - FRAME)
    long = Prompt("", (("user", "x" * 160), ("assistant", "")))
    with pytest.raises(InputError, match="too long"):
        next(written(server, talker, long, "greedy", threading.Event()))


@pytest.mark.parametrize("prompt", [Prompt("abc"), Prompt("", OPEN.turns[:-1])])
def test_only_an_open_turn_is_answered(server, talker, prompt):
    with pytest.raises(InputError, match="awaits an answer"):
        next(written(server, talker, prompt, "greedy", threading.Event()))


CHAT = {"on": True, "turns": TURNS}


def channel():
    return Channel(answer.STREAM, None, Stops())


def said(server, sent, chat=CHAT):
    return ask(server, channel(), "start", sent, "else", chat=chat)


def test_the_page_is_told_as_it_goes_on(server, talker):
    *running, done = said(server, {"tag": "7", "strategy": "greedy"})
    assert {each["tag"] for each in (*running, done)} == {"7"} and done["state"] == "done"
    ids, _ = generated(talker, "greedy", done["tokens"])
    assert done["text"] == talker.decode(ids[:-1] if ids[-1] == END else ids)
    assert all(done["text"].startswith(each["text"]) for each in running)
    assert server.queue.line == [] and server.queue.working == []


def test_it_is_written_with_the_pages_edits(server, talker):
    vector = np.random.default_rng(0).normal(size=talker.config.d_model)
    steered = steering_edit(vector, 1, 20.0, name="v")
    sent = {key: value for key, value in vars(steered).items() if value is not None}
    done = said(server, {"strategy": "greedy", "edits": [sent, {"kind": "zero", "layer": 99, "head": 0}]})[-1]
    ids = []
    for tick in talker.generate(talker.chat(MESSAGES).ids, "greedy", done["tokens"], edits=[steered]):
        ids += [made.id for made in tick.changes[0].made]
    assert done["text"] == talker.decode(ids[:-1] if ids[-1] == END else ids)
    assert done["text"] != said(server, {"strategy": "greedy"})[-1]["text"]
    mean = {"kind": "mean", "layer": 0, "head": 0}
    assert "mean over the prompt" in said(server, {"edits": [mean]})[-1]["error"]["text"]


@pytest.mark.parametrize("sent", [None, 7, {}, {"tag": 5, "strategy": "no such"}, {"strategy": {"a": 1}}])
def test_whatever_a_page_sends_is_answered_by_the_first_strategy(server, talker, sent):
    done = said(server, sent)[-1]
    ids, _ = generated(talker, "greedy", done["tokens"])
    assert "tag" not in done and done["text"] == talker.decode(ids[:-1] if ids[-1] == END else ids)


def test_what_cannot_be_answered_is_said(server):
    (told,) = said(server, {"tag": "1"}, chat={})
    assert "awaits an answer" in told["error"]["text"] and told["tag"] == "1" and server.queue.working == []


def test_a_stop_and_a_visitor_who_leaves_end_it(server):
    for end in ("stop", "leave"):
        own = channel()
        steps = trigger(server, own, "start", {"tag": "1"}, "else", chat=CHAT)
        next(steps)
        if end == "stop":
            assert ask(server, own, "stop", chat=CHAT) == []
        else:
            own.stream.leave(own.state, "me")
        *_, last = steps
        assert last["ended"] == "stopped" and last["tokens"] <= 2 and server.queue.working == []


def test_a_second_answer_stops_the_first():
    stops = Stops()
    first = stops.begin("me")
    second, other = stops.begin("me"), stops.begin("you")
    assert first.is_set() and not second.is_set() and not other.is_set()
    stops.stop("me")
    assert second.is_set() and not other.is_set()
    stops.stop("nobody")


def test_a_begun_answer_is_gone_on_with_in_its_place(server, talker):
    turns = (*OPEN.turns[:-1], ("assistant", "Well "))
    prompt = Prompt("", turns, open=True)
    ids = talker.chat([*MESSAGES, {"role": "assistant", "content": "Well "}], continue_final=True).ids
    ticks = [tick.changes[0] for tick in talker.generate(ids, "greedy", 5)]
    *_, last = (
        each for each, _ in zip(written(server, talker, prompt, "greedy", threading.Event()), ticks, strict=False)
    )
    new = [made.id for change in ticks for made in change.made]
    assert last.text == "Well " + talker.decode(new[:-1] if new[-1] == END else new)
