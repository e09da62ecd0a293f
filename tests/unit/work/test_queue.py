"""Where long work queues: who is next, what is refused, and that places are given back."""

import dataclasses
import threading

import pytest

from model.errors import PlaygroundError
from viz.seam.jobs import background
from viz.seam.jobs.background import BackgroundJob, perform_in_turn
from viz.words import words
from viz.work.limits import PRIVATE
from viz.work.playground import Options, Playground
from viz.work.queue import Bounds, Queue, QueueFull


def test_so_many_run_and_the_others_hear_how_many_are_before():
    queue = Queue(Bounds(running=2, waiting=3))
    tickets = [queue.join(owner) for owner in "abcde"]
    assert [ticket.wait(0) for ticket in tickets] == [0, 0, 1, 2, 3]
    with pytest.raises(PlaygroundError, match="busy"):
        queue.join("f")
    tickets[0].leave()
    tickets[0].leave()  # twice is once
    assert [ticket.wait(0) for ticket in tickets[2:]] == [0, 1, 2]
    tickets[3].leave()  # out of the line
    assert tickets[4].wait(0) == 1
    for ticket in tickets:
        ticket.leave()
    assert not queue.line and not queue.working


def test_a_free_place_goes_to_the_visitor_with_the_least_at_work():
    queue = Queue(Bounds(running=2, each=3))
    first = [queue.join("a") for _ in range(3)]
    b, c = queue.join("b"), queue.join("c")
    with pytest.raises(PlaygroundError, match="cancel"):
        queue.join("a")
    first[0].leave()
    assert b.running and not first[2].running
    first[1].leave()
    assert c.running and not first[2].running  # both have nothing at work now, and its last turn is longer ago
    b.leave()
    assert first[2].running


def test_texts_have_places_of_their_own_and_hear_how_many_texts_are_before():
    queue = Queue(Bounds(running=1, texts=2, each=1))
    job, other = queue.join("a"), queue.join("b")
    texts = [queue.join(owner, "text") for owner in "cdef"]
    assert job.running and not other.running
    assert [ticket.wait(0) for ticket in texts] == [0, 0, 1, 2]
    assert other.wait(0) == 1
    texts[0].leave()
    assert texts[2].running and not other.running
    job.leave()
    assert other.running and not texts[3].running


def test_each_place_where_models_are_takes_as_many():
    places = [2]
    queue = Queue(Bounds(running=2, texts=1), places=lambda: places[0])
    jobs, texts = ([queue.join(f"{text} {n}", "text" if text else "job") for n in range(7)] for text in (False, True))
    assert [sum(each.running for each in kind) for kind in (jobs, texts)] == [4, 2]
    places[0] = 3  # another replica is there; whoever leaves calls the next ones
    jobs[0].leave()
    assert [sum(each.running for each in kind) for kind in (jobs[1:], texts)] == [6, 3]


def test_waiting_ends_when_the_turn_comes():
    queue = Queue(Bounds(running=1))
    first, second = queue.join("a"), queue.join("b")
    threading.Timer(0.05, first.leave).start()
    assert second.wait(10) == 0


@pytest.fixture
def playground(monkeypatch):
    monkeypatch.setattr(background, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(background, "_SHOW_EVERY", 0.01)
    allowed = dataclasses.replace(PRIVATE, bounds=Bounds(running=1, waiting=2, each=2))
    return Playground(Options(allowed=allowed))


def told(step):
    return step[0]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_job_waits_for_its_turn_and_says_so(playground, language):
    before, said = [playground.queue.join(owner) for owner in "ab"], words(language)
    steps = perform_in_turn(playground, "c", BackgroundJob(("k",), lambda progress: 42), language)
    assert told(next(steps))["text"] == said["job.ahead"].format(n=2)
    before[1].leave()
    assert told(next(steps))["text"] == said["job.ahead_one"]
    assert told(next(steps)) | {"text": ""} == {
        "state": "running",
        "fraction": None,
        "text": "",
        "cancel": said["job.cancel"],
    }
    before[0].leave()
    assert playground.results.peek(("k",)) is None
    list(steps)
    assert playground.results.peek(("k",)).value == 42
    assert not playground.queue.line and not playground.queue.working


def test_a_job_that_is_cancelled_while_it_waits_gives_its_place_back_and_never_runs(playground):
    before = playground.queue.join("a")
    steps = perform_in_turn(playground, "b", BackgroundJob(("k",), lambda progress: 1 / 0), "en")
    next(steps)
    steps.close()
    assert playground.queue.line == []
    before.leave()
    assert not playground.queue.working


def test_a_server_that_is_full_says_so_in_the_readers_language(playground):
    for owner in "abc":
        playground.queue.join(owner)
    (only,) = perform_in_turn(playground, "d", BackgroundJob(("k",), lambda progress: 1), "zh")
    assert told(only)["state"] == "failed" and told(only)["text"].startswith("服务器正忙于其他人的任务。")


def test_a_cancelled_job_keeps_its_place_until_its_work_has_ended(playground):
    begun, go = threading.Event(), threading.Event()

    def work(progress):
        begun.set()
        go.wait(10)
        progress(0, None, "")

    steps = perform_in_turn(playground, "a", BackgroundJob(("k",), work), "en")
    next(steps)
    assert begun.wait(10)
    steps.close()
    assert len(playground.queue.working) == 1
    go.set()
    other = playground.queue.join("b")
    assert other.wait(10) == 0 and playground.queue.working == [other]


def test_whoever_cancels_may_start_again_before_the_work_has_ended(playground):
    go, many = threading.Event(), 2 * playground.queue.bounds.each
    playground.queue.bounds = dataclasses.replace(playground.queue.bounds, running=many)

    def work(progress):
        go.wait(10)
        progress(0, None, "")

    for n in range(many):
        steps = perform_in_turn(playground, "a", BackgroundJob(("k",), work), "en")
        assert told(next(steps))["state"] == "running" and len(playground.queue.working) == n + 1
        steps.close()
    go.set()


def test_the_same_job_again_cancels_the_one_before_whose_request_is_still_open(playground):
    many = 2 * playground.queue.bounds.each
    playground.queue.bounds = dataclasses.replace(playground.queue.bounds, running=2, waiting=many)

    def work(progress):
        while True:
            progress(0, None, "")

    under_way = [perform_in_turn(playground, "a", BackgroundJob(("k", n), work), "en", "button") for n in range(many)]
    for steps in under_way:
        assert told(next(steps))["state"] == "running"
    *before, last = under_way
    for steps in before:
        assert [told(step)["state"] for step in steps][-1] == "idle"
    other = perform_in_turn(playground, "a", BackgroundJob(("k",), lambda progress: 42), "en", "other")
    list(other)
    assert told(next(last))["state"] == "running"
    last.close()


def test_a_job_that_fails_gives_its_place_back(playground, caplog):
    list(perform_in_turn(playground, "a", BackgroundJob(("k",), lambda progress: 1 / 0), "en"))
    other = playground.queue.join("b")
    assert other.wait(10) == 0 and not playground.computing.locked()


def client_of(visit):
    """Who is behind a visit: the letters before its number."""
    return visit.rstrip("0123456789")


def test_who_invents_visits_is_one_client_in_the_queue():
    queue = Queue(Bounds(running=2, each=3), client_of)
    first = [queue.join("eve1"), queue.join("bob1")]
    eve, ann = queue.join("eve2"), queue.join("ann1")
    first[1].leave()  # eve still has one at work
    assert ann.running and not eve.running


def test_nobody_takes_the_last_places_in_line_who_has_several_already():
    queue = Queue(Bounds(running=1, waiting=6, reserve=2, several=3), client_of)
    for n in range(5):
        queue.join(f"eve{n}")
    with pytest.raises(PlaygroundError, match="busy with others"):
        queue.join("eve9")
    queue.join("ann1"), queue.join("bob1")
    with pytest.raises(PlaygroundError, match="busy with others"):
        queue.join("cid1")  # now the line is full


def test_views_have_places_of_their_own_and_are_refused_at_once_where_all_wait():
    queue = Queue(Bounds(views=1, questions=3, share=2))
    job, first = queue.join("a"), queue.join("a", "view")
    assert job.running and first.running
    waiting = [queue.join("a", "view") for _ in range(2)]
    with pytest.raises(QueueFull):
        queue.join("a", "view")  # the share of a client
    queue.join("b", "view")
    with pytest.raises(QueueFull):
        queue.join("c", "view")  # of all
    assert not any(each.running for each in waiting)


def test_views_are_answered_in_turns_of_clients_and_then_of_their_visits():
    """One client with four pages that ask again and again, and one with a single page."""
    client_of = {"b": "other"}.get
    queue = Queue(Bounds(views=1, questions=99, share=99), lambda visit: client_of(visit, "class"))
    order, waiting = [], [queue.join(visit, "view") for visit in "aaaacdb"]
    while waiting:
        (now,) = [each for each in waiting if each.running]
        order.append(now.owner)
        waiting.remove(now)
        now.leave()
    assert order == ["a", "b", "c", "d", "a", "a", "a"]


def test_a_ticket_calls_once_when_its_turn_comes():
    calls = []
    queue = Queue(Bounds(views=1))
    first = queue.join("a", "view", lambda: calls.append("a"))
    second = queue.join("b", "view", lambda: calls.append("b"))
    assert calls == ["a"]
    first.leave()
    second.leave()
    assert calls == ["a", "b"]
