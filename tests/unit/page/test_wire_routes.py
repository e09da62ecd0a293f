"""The routes of the page's own wire: jobs, streams, models and links, as a page asks for them."""

import json
import threading
import time

import anyio
import pytest
from anyio import to_thread
from starlette.applications import Starlette
from starlette.testclient import TestClient

from model.errors import InputError
from tests.support.threads import in_thread
from viz.page.wire import jobs, routes, streams
from viz.page.wire.streams import Channel
from viz.seam.jobs.background import BackgroundJob
from viz.seam.settings import Checkbox
from viz.seam.view import Event, ModelsChanged, Open, Stream, View
from viz.words import words
from viz.work.prompt import Prompt

QUESTION = {"visit": "me", "model": "tiny", "prompt": "abcab", "tab": "attention", "selection": {"heads": [[0, 1]]}}


@pytest.fixture
def client(playground):
    with TestClient(Starlette(routes=routes.routes(playground))) as client:
        yield client


def lines(client, path, **more):
    answer = client.post(f"/playground/{path}", json=QUESTION | more)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_view_is_answered(client):
    *_, last = lines(client, "view")
    assert last["parts"]["map_plot"]["scene"] == last["shown"]["run"]


@pytest.mark.parametrize("body", ["", "[]", "{"])
def test_what_is_no_question_is_refused(client, body):
    for path in ("view", "job", "stream", "model", "link"):
        assert client.post(f"/playground/{path}", content=body).status_code == 400


def test_a_visit_belongs_to_whoever_asked_first(client, playground):
    assert playground.presence.belongs("me", "somebody")
    assert client.post("/playground/view", json=QUESTION).status_code == 403
    assert client.post("/playground/view", json=QUESTION | {"visit": ""}).status_code == 403


def test_a_full_queue_refuses_a_view_at_once(client, playground, monkeypatch):
    places = [playground.queue.join("me", "view") for _ in range(playground.queue.bounds.views)]
    places += [playground.queue.join("me", "view") for _ in range(playground.queue.bounds.share)]
    answer = client.post("/playground/view", json=QUESTION)
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1"


def test_a_client_has_a_share_of_the_threads_and_gets_it_back(feed):
    async def lines():
        yield 1
        yield 2

    async def ask():
        share = routes.ClientShare(2)
        first, second = share.counted("a", lines()), share.counted("a", lines())
        assert await anext(first) == 1 and not share.is_full("a")
        await anext(second)
        assert share.is_full("a") and not share.is_full("b")
        await first.aclose()
        assert not share.is_full("a")
        assert [each async for each in second] == [2] and not share.under_way

    in_thread(anyio.run, ask)
    client = feed({"start": Event(lambda visit, sent: None)})
    asked = QUESTION | {"part": "own_feed", "event": "start"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes.ClientShare, "is_full", lambda share, owner: True)
        assert client.post("/playground/stream", json=asked).status_code == 503
    assert client.post("/playground/stream", json=asked).status_code == 200


# --- jobs ---


@pytest.fixture
def own_job(monkeypatch):
    """The job that the button `own_job` starts does this."""

    def use(work):
        monkeypatch.setitem(jobs.PLANS, "own_job", lambda scene, values: BackgroundJob(("own", scene.run), work))

    return use


def test_a_job_shows_its_bar_and_leaves_its_result(client, playground, own_job):
    def work(progress):
        progress(1, 2, "")
        time.sleep(0.5)
        return 42

    own_job(work)
    first, *bars, last = lines(client, "job", part="own_job")
    assert first["stopped"]["text"] == words("en")["job.cancelled"] and last["done"]
    assert {bar["bar"]["state"] for bar in bars} == {"running"} and any(bar["bar"]["fraction"] == 0.5 for bar in bars)
    (key,) = [key for key in playground.results._values if key[0] == "own"]
    assert playground.results.peek(key).value == 42 and playground.queue.working == []


def test_a_job_that_cannot_start_or_fails_says_why(client, own_job):
    def work(progress):
        raise InputError("No.", "x", "Yes.")

    own_job(work)
    assert lines(client, "job", part="own_job")[-1]["bar"]["text"] == "No. (x) Yes."
    assert "empty" in lines(client, "job", part="own_job", prompt="")[-1]["bar"]["text"]
    for part in ("", "no part", None, ["own_job"]):
        assert client.post("/playground/job", json=QUESTION | {"part": part}).status_code == 400


class Endless:
    """A job that goes on until it is ended, or may return."""

    def __init__(self):
        self.begun, self.ended, self.may_return = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, progress):
        self.begun.set()
        try:
            while not self.may_return.is_set():
                progress(0, None, "")
                time.sleep(0.01)
            return 42
        finally:
            self.ended.set()


def closed_early(playground, own_job, work, then):
    """Start the job, read its first lines, and do `then(jobs, question, answer)`, which closes the answer."""
    own_job(work)

    async def leave():
        page_jobs = jobs.PageJobs(playground, anyio.CapacityLimiter(8))
        question = routes.page_request(QUESTION, "en")
        answer = page_jobs.start(question, "own_job")
        await anext(answer)
        await anext(answer)
        assert work.begun.wait(5)
        await then(page_jobs, question, answer)

    in_thread(anyio.run, leave)
    assert work.ended.is_set()


def test_a_closed_request_ends_a_job(playground, own_job):
    work = Endless()

    async def then(page_jobs, question, answer):
        await answer.aclose()
        assert await to_thread.run_sync(work.ended.wait, 5)
        assert [each async for each in page_jobs.resume(question, "own_job")] == []

    closed_early(playground, own_job, work, then)
    assert playground.queue.working == []


@pytest.mark.parametrize("end", ["while a page reads", "between two pages"])
def test_a_kept_job_is_found_by_the_next_page(playground, own_job, end):
    work = Endless()

    async def then(page_jobs, question, answer):
        page_jobs.keep("me", "own_job", True)
        await answer.aclose()
        assert not await to_thread.run_sync(work.ended.wait, 0.6)
        if end == "between two pages":
            work.may_return.set()
            assert await to_thread.run_sync(work.ended.wait, 5)
        found = [json.loads(each) async for each in resumed(page_jobs, question)]
        assert found[0]["stopped"] and found[-1]["done"]
        assert [each async for each in page_jobs.resume(question, "own_job")] == []

    async def resumed(page_jobs, question):
        async for each in page_jobs.resume(question, "own_job"):
            yield each
            work.may_return.set()

    closed_early(playground, own_job, work, then)
    (key,) = [key for key in playground.results._values if key[0] == "own"]
    assert playground.results.peek(key).value == 42 and playground.queue.working == []


@pytest.mark.parametrize("end", ["leave", "cancel"])
def test_a_kept_job_ends_with_its_visit(playground, own_job, end):
    work = Endless()

    async def then(page_jobs, question, answer):
        page_jobs.keep("me", "own_job", True)
        await answer.aclose()
        page_jobs.leave("me") if end == "leave" else page_jobs.keep("me", "own_job", False)
        assert await to_thread.run_sync(work.ended.wait, 5)

    closed_early(playground, own_job, work, then)


def test_a_page_keeps_a_job_by_its_route(client):
    answer = client.post("/playground/job", json=QUESTION | {"part": "sweep_job", "keep": True})
    assert answer.status_code == 204
    assert lines(client, "job", part="sweep_job", resume=True) == []


# --- streams ---


@pytest.fixture
def feed(monkeypatch, playground):
    """A client of an app whose stream `own_feed` has these events."""

    def use(events, **more):
        stream = Stream("feed", "someshow", events, **more)
        view = View("own", ("form",), {}, settings=(Checkbox("on"),), streams=(stream,))
        monkeypatch.setattr(routes, "channels", lambda: {"own_feed": Channel(stream, view, stream.state())})
        return TestClient(Starlette(routes=routes.routes(playground)))

    return use


def test_an_event_gets_what_stands_on_the_page(feed, monkeypatch):
    monkeypatch.setattr("viz.page.wire.question.ASKS", frozenset({"own_form"}))
    seen = []

    def start(visit, sent):
        seen.append((visit, sent))
        yield {"n": 1}
        yield {"n": 2}

    client = feed({"start": Event(start)}, state=lambda: ["kept"])
    values = {"own_form": {"on": True}, "other": 3}
    told = lines(client, "stream", part="own_feed", event="start", sent={"a": 1}, values=values)
    assert told == [{"payload": {"n": 1}}, {"payload": {"n": 2}}]
    ((visit, sent),) = seen
    assert sent == {"a": 1} and (visit.session, visit.language, visit.model_id) == ("me", "en", "tiny")
    assert visit.values == {"own_form": {"on": True}} and visit.prompt == Prompt("abcab") and visit.state == ["kept"]


def test_an_event_that_only_does_something_answers_nothing(feed):
    told = []
    client = feed({"stop": Event(lambda visit, sent: told.append(sent))})
    assert lines(client, "stream", part="own_feed", event="stop", sent=3) == [] and told == [3]


def test_an_event_may_open_a_model_and_change_the_list(feed, playground):
    def start(visit, sent):
        yield ModelsChanged()
        yield Open("tiny", "abc", "checks")

    client = feed({"start": Event(start)})
    choices = [list(each) for each in playground.choices("me")]
    expected = [{"models": choices}, {"open": {"model": "tiny", "prompt": "abc", "tab": "checks"}}]
    assert lines(client, "stream", part="own_feed", event="start") == expected


def test_an_event_that_fails_says_so_under_the_tag_of_its_question(feed):
    def start(visit, sent):
        yield {"n": 1}
        raise InputError("No.", "x", "Yes.")

    client = feed({"start": Event(start)})
    *_, last = lines(client, "stream", part="own_feed", event="start", sent={"tag": "t"})
    assert last["payload"] == {"tag": "t", "error": {"text": "No. (x)", "hint": "Yes."}}


@pytest.mark.parametrize(("part", "event"), [("own_feed", "no"), ("no", "start"), (7, None), ("own_feed", {})])
def test_an_event_that_there_is_not_is_refused(feed, part, event):
    client = feed({"start": Event(lambda visit, sent: None)})
    assert client.post("/playground/stream", json=QUESTION | {"part": part, "event": event}).status_code == 400


def test_a_closed_request_closes_the_handler_at_its_next_step(playground):
    closed = threading.Event()

    def start(visit, sent):
        try:
            while True:
                yield {"n": 1}
                time.sleep(0.01)
        finally:
            closed.set()

    async def leave():
        event, limiter = Event(start), anyio.CapacityLimiter(8)
        visit = Channel(Stream("feed", "show", {"start": event}), None, None).visit(
            playground, routes.page_request(QUESTION, "en")
        )
        answer = streams.event_lines(playground, event, visit, None, limiter)
        await anext(answer)
        await answer.aclose()
        assert await to_thread.run_sync(closed.wait, 5)

    in_thread(anyio.run, leave)
    assert closed.is_set()


def test_a_visitor_who_leaves_is_told_to_every_stream(feed, playground):
    left = []
    with feed({}, state=lambda: "kept", leave=lambda state, visitor: left.append((state, visitor))):
        playground.presence.leaving("me")
    assert left == [("kept", "me")]


# --- models and links ---


def test_a_model_is_loaded_and_the_list_comes_with_it(client, playground):
    first, *_, last = lines(client, "model", choose="tiny")
    assert "tiny" in first["cancelled"]["text"] and last["loaded"] == "tiny" and last["notice"] == {}
    assert last["models"] == [list(each) for each in playground.choices("me")]


def test_a_model_that_is_not_there_leaves_the_page_as_it_is(client):
    *_, last = lines(client, "model", choose="no such model")
    assert "loaded" not in last and last["notice"]["kind"] == "error" and last["notice"]["text"]


def test_a_link_is_answered_with_all_that_it_means(client):
    to = {"model": "tiny", "prompt": "abc", "tab": "checks", "heads": [[1, 2]], "tokens": [1]}
    answer = client.post("/playground/link", json=QUESTION | {"to": to}).json()
    assert (answer["model"], answer["prompt"], answer["tab"], answer["linked"]) == ("tiny", "abc", "checks", {})
    assert answer["selection"]["heads"] == [[1, 2]] and answer["selection"]["tokens"] == [1]


def test_a_link_to_a_model_that_is_not_here_waits_for_a_click(client, playground):
    to = {"model": "hub:someone/something", "prompt": "abc"}
    answer = client.post("/playground/link", json=QUESTION | {"to": to}).json()
    assert (answer["model"], answer["wanted"]) == ("tiny", "hub:someone/something")
    assert "something" in answer["linked"]["text"] and answer["selection"] is None
    assert client.post("/playground/link", json=QUESTION | {"to": 7}).status_code == 200
