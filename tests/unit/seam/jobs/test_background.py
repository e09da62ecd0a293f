"""Long work: its bar, its result, its cancel, and that others get at the model meanwhile."""

import threading

import pytest

from model.errors import InputError
from viz.seam.jobs import background
from viz.seam.jobs.background import BackgroundJob, Result, button, perform
from viz.words import words
from viz.work.playground import Options, Playground


@pytest.fixture
def playground():
    return Playground(Options())


def told(step):
    """The payload of a job's part in a step."""
    return step[0]


def test_a_job_leaves_its_result_and_says_so(playground):
    steps = list(perform(playground, BackgroundJob(("k", 1), lambda progress: 42), "en"))
    assert told(steps[0])["state"] == "running"
    assert steps[-1][0] is None and isinstance(steps[-1][1], str)
    result = playground.results.peek(("k", 1))
    assert result.value == 42 and result.seconds >= 0
    assert playground.results.peek(("k", 2)) is None


def test_the_bar_shows_how_far_it_is(playground, monkeypatch):
    monkeypatch.setattr(background, "_SHOW_EVERY", 0.02)
    go = threading.Event()

    def work(progress):
        progress(1, 4, "x")
        go.wait(5)

    steps = perform(playground, BackgroundJob(("k",), work), "en")
    shares = []
    for _ in range(3):
        shares.append(told(next(steps))["fraction"])
    go.set()
    list(steps)
    assert shares[-1] == 0.25


def test_closing_stops_the_work_at_its_next_step(playground):
    stopped, begun = threading.Event(), threading.Event()

    def work(progress):
        try:
            while True:
                begun.set()
                progress(0, None, "x")
        except background.Cancelled:
            stopped.set()
            raise

    steps = perform(playground, BackgroundJob(("k",), work), "en")
    next(steps)
    assert begun.wait(5)
    steps.close()
    assert stopped.wait(5)
    assert playground.results.peek(("k",)) is None
    assert playground.computing.acquire(timeout=5)  # and the model is free again


def test_a_note_to_stop_is_answered_at_once_and_ends_the_work_at_its_next_step(playground):
    note, go, ended = threading.Event(), threading.Event(), threading.Event()

    def work(progress):
        try:
            go.wait(5)  # a step that takes long
            progress(1, 2, "x")
        finally:
            ended.set()
        return 42

    steps = perform(playground, BackgroundJob(("k",), work), "en", note)
    next(steps)
    note.set()
    last = told(list(steps)[-1])
    assert last["state"] == "idle" and last["text"] == words("en")["job.cancelled"] and not ended.is_set()
    go.set()
    assert ended.wait(5)
    assert playground.results.peek(("k",)) is None


def test_others_get_at_the_model_between_two_steps(playground):
    done = threading.Event()

    def work(progress):
        while not done.is_set():
            progress(0, None, "x")

    steps = perform(playground, BackgroundJob(("k",), work), "en")
    next(steps)
    assert playground.computing.acquire(timeout=5)
    playground.computing.release()
    done.set()
    list(steps)


def test_work_of_another_process_leaves_the_model_to_others(playground):
    """It neither waits for the model nor holds it, and its time is not counted as computing."""
    got: list[bool] = []

    def work(progress):
        for step in range(3):
            got.append(playground.computing.acquire(timeout=5))
            playground.computing.release()
            progress(step, 3, "")
        return 7

    with playground.computing:
        blocked = threading.Thread(
            target=list, args=(perform(playground, BackgroundJob(("held",), lambda p: 1, False), "en"),)
        )
        blocked.start()
        blocked.join(10)
        assert not blocked.is_alive() and playground.results.peek(("held",)).value == 1
    list(perform(playground, BackgroundJob(("free",), work, locks=False), "en"))
    assert playground.results.peek(("free",)).value == 7 and got == [True] * 3


@pytest.mark.parametrize("language,said", [("en", "The prompt is empty."), ("zh", "提示词为空。")])
def test_what_a_person_did_wrong_is_said_in_their_language(playground, language, said):
    def work(progress):
        raise InputError("The prompt is empty.", "", "Type a few words, or choose an example.")

    last = told(list(perform(playground, BackgroundJob(("k",), work), language))[-1])
    assert last["state"] == "failed" and last["text"].startswith(said)
    assert last["start"] == words(language)["notice.retry"]


def test_a_fault_of_ours_is_logged_and_not_shown(playground, caplog):
    last = told(list(perform(playground, BackgroundJob(("k",), lambda progress: 1 / 0), "en"))[-1])
    assert last["state"] == "failed" and "division" not in last["text"]
    assert "ZeroDivisionError" in caplog.text


def test_the_button_gives_way_to_the_note_of_a_result():
    said = words("en")
    assert button("Go", said, None, "a while")["state"] == "idle"
    assert button("Go", said, None, "a while")["text"] == "a while"
    done = button("Go", said, Result(1, 2.34), "a while")
    assert done["state"] == "done" and "2.3 s" in done["text"]
