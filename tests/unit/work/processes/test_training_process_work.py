"""Training in the other process, done here: what it tells, which wishes it hears; and a run as the page sees it."""

import threading
import types

import pytest

from model.errors import InputError
from model.records import Snapshot
from model.training.jobs.job import Job, Limits, Started
from model.training.jobs.running_job import Finished
from model.training.loop import Report
from tests.support.training.rehearsal import LONG, quick, until
from viz.work.processes import training_process
from viz.work.processes.training_process import Failed, LiveRun, ModelSaved, work

FILES = {"config.json", "model.safetensors", "tokenizer.json"}


class Wire:
    """A connection to a page that answers each message with wishes."""

    def __init__(self, answers=lambda message: ()):
        self.sent, self.wishes, self.answers, self.closed = [], [], answers, False

    def send(self, message):
        self.sent.append(message)
        self.wishes += self.answers(message)

    def poll(self):
        return bool(self.wishes)

    def recv(self):
        return self.wishes.pop(0)

    def close(self):
        self.closed = True

    @property
    def said(self) -> list[str]:
        return [f"{type(m).__name__[0]}{getattr(m, 'step', '')}" for m in self.sent if not isinstance(m, ModelSaved)]


def teach(folder, answers=lambda message: (), **changes) -> Wire:
    wire = Wire(answers)
    training_process._teach(wire, quick(**changes), Limits(), folder)
    return wire


def after(name: str, *wishes: str):
    """Wishes in answer to one message, as "R2" for the report of step 2."""
    kind, step = {"R": Report, "S": Snapshot}[name[0]], int(name[1:])
    return lambda message: wishes if isinstance(message, kind) and message.step == step else ()


def test_everything_is_told_and_the_model_is_saved(tmp_path):
    wire = teach(tmp_path / "new" / "folder")
    assert wire.said == ["S", "S0", "R1", "S1", "R2", "S2", "R3", "S3", "F"]
    assert isinstance(wire.sent[0], Started) and wire.sent[-1].reason == "done"
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} == FILES


@pytest.mark.parametrize(("when", "said"), [("R2", ["S", "S0", "R1", "R2", "S2", "F"]), ("S0", ["S", "S0", "F"])])
def test_a_stopped_run_is_looked_at_once_more_and_saved(tmp_path, when, said):
    wire = teach(tmp_path, after(when, "stop"), **LONG)
    assert wire.said == said and wire.sent[-1].reason == "stopped"
    assert {path.name for path in tmp_path.iterdir()} == FILES


def test_a_pause_ends_with_resume_or_stop(tmp_path):
    assert teach(tmp_path, after("R1", "pause", "pause", "resume")).sent[-1].reason == "done"
    wire = teach(tmp_path, after("R1", "pause", "pause", "stop"), **LONG)
    assert wire.said == ["S", "S0", "R1", "S1", "F"] and wire.sent[-1].reason == "stopped"
    with pytest.raises(IndexError):  # it waits for the next wish
        teach(tmp_path, after("R1", "pause"))


def test_the_time_is_up_and_pauses_do_not_count(tmp_path, monkeypatch):
    clock, wished = [0.0], []
    monkeypatch.setattr(training_process, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))

    class Slow(Wire):
        def send(self, message):
            clock[0] += 5
            super().send(message)

        def recv(self):
            if wished and wished[-1] == "pause":  # it waits
                clock[0] += 1000
            wished.append(super().recv())
            return wished[-1]

    def run(answers):
        wire = Slow(answers)
        asked = quick(**LONG)
        training_process._teach(wire, Job(**{**vars(asked), "minutes": 0.5}), Limits(), tmp_path)
        return wire.said, wire.sent[-1].reason

    whole = ["S", "S0", "R1", "R2", "R3", "R4", "R5", "R6", "S6", "F"]  # the seventh message comes after 35 s
    assert run(lambda message: ()) == (whole, "time")
    assert run(after("R2", "pause", "pause", "resume")) == (whole, "time")
    assert clock[0] > 2000


@pytest.fixture
def worker(monkeypatch):
    """`work` with a lesson of the test's own; (wire, what was set) afterwards."""
    done = []
    monkeypatch.setattr(training_process.os, "nice", lambda more: done.append(("nice", more)))
    monkeypatch.setattr(training_process.torch, "set_num_threads", lambda number: done.append(("threads", number)))

    def run(lesson):
        wire = Wire()
        monkeypatch.setattr(training_process, "_teach", lesson)
        work(wire, quick(), Limits(), None, 3)
        return wire, done

    return run


def test_the_process_is_polite(worker):
    wire, done = worker(lambda connection, *_: connection.send("taught"))
    assert done == [("nice", 10), ("threads", 3)] and wire.sent == ["taught"] and wire.closed


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (InputError("No.", "x", "Do y."), [Failed("No.", "x", "Do y.")]),
        (ValueError("y" * 500), [Failed("", ("ValueError('" + "y" * 500)[:200])]),
        (BrokenPipeError(), []),
        (EOFError(), []),
        (ConnectionResetError(), []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_goes_wrong_is_told_where_someone_listens(worker, caplog, error, told):
    def fail(*_):
        raise error

    wire, _ = worker(fail)
    assert wire.sent == told and wire.closed
    assert ("training failed" in caplog.text) == isinstance(error, ValueError)


# --- a run as the page sees it ---


@pytest.fixture
def clocked(tmp_path, monkeypatch):
    """A run that hears nothing but what the test tells it, what it was told, and its clock."""
    clock = [100.0]
    monkeypatch.setattr(training_process, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    teach(tmp_path)
    run = LiveRun("n", "me", quick(), tmp_path, heard=100.0, connection=Wire())
    return run, clock


STARTED = Started(1, 62, 1, 2, 16, (1, 2), 0.1)


def test_the_pace_counts_training_and_looking_but_no_pauses(clocked):
    run, clock = clocked

    def hear(message, seconds):
        clock[0] += seconds
        run._take(message)
        return run.spent

    report = Report(1, 1.0, 1.0, 1.0, 1, 1.0)
    snapshot = object.__new__(Snapshot)
    assert hear(STARTED, 50) == 0
    assert hear(snapshot, 2) == 2
    assert hear(report, 1) == 3
    run.tell("pause")
    assert hear(report, 4) == 3  # it was under way
    clock[0] += 500
    run.tell("resume")
    assert hear(report, 1.5) == 4.5
    assert (len(run.reports), len(run.snapshots), run.state) == (3, 1, "running")


def test_a_run_that_starts_can_be_stopped_but_not_paused(clocked):
    run, _ = clocked
    for wish in ("pause", "resume", "stop"):
        run.tell(wish)
        assert run.state == "starting"
    assert run.connection.sent == ["stop"]
    run._take(STARTED)
    assert run.state == "running" and run.tokenizer.decode([0, 1]) == "ab"
    run.tell("pause")
    assert run.state == "paused"
    run.tell("resume")
    assert run.state == "running" and run.connection.sent == ["stop", "pause", "resume"]


@pytest.mark.parametrize(
    "end", [Finished("done"), Finished("time"), Finished("stopped"), Finished("diverged"), Failed("No.")], ids=repr
)
def test_nothing_comes_after_the_end(clocked, end):
    run, _ = clocked
    run._take(STARTED)
    assert not run.over
    run._take(end)
    state = run.state
    assert run.over and state == getattr(end, "reason", "failed")
    assert run.failure is (end if state == "failed" else None)
    run._take(Report(1, 1.0, 1.0, 1.0, 1, 1.0))
    run._take(Finished("other"))
    run.tell("pause")
    run.end()
    assert run.state == state and run.reports == [] and run.connection.sent == []
    run.wait(1000)  # returns at once


def test_who_waits_is_woken(clocked):
    run, _ = clocked
    waiting = threading.Thread(target=run.wait, args=(1000,), daemon=True)
    waiting.start()
    until(lambda: run.changed._waiters)
    run._take(STARTED)
    waiting.join(60)
    assert not waiting.is_alive()
