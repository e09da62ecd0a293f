"""The runs of a server: one at a time, in a process of its own, whose end one hears of, and whose model opens."""

import dataclasses
import os
import signal
import threading

import pytest
import torch

from model import workshop
from model.api import load_resolved
from model.errors import InputError
from model.gpt.config import to_dict
from model.loading.sources import Resolved
from model.text.tokenizer import from_folder
from model.training.jobs.job import Job, Limits
from tests.support.models.helpers import assert_close
from tests.support.training.rehearsal import (
    LONG,
    TALE,
    ThreadContext,
    ThreadProcess,
    exit_code,
    finish,
    in_threads,
    quick,
    until,
)
from viz.work.processes import training_process
from viz.work.processes.training_process import CUT_SHORT, KEPT, Failed, LiveRun, Workshop, label

# --- one run at a time, in threads ---


@pytest.fixture
def shop():
    with in_threads():
        shop = Workshop()
        yield shop
        shop.close()


@pytest.mark.long
def test_only_the_last_few_runs_of_a_visitor_are_kept(shop):
    other = finish(shop, "other")
    runs = [finish(shop) for _ in range(KEPT + 1)]
    assert shop.of("me") == runs[1:] and shop.of("other") == [other] and shop.of("nobody") == []
    assert not runs[0].folder.exists() and shop.find(runs[0].model_id) is None
    assert all(run.folder.exists() and shop.find(run.model_id) for run in [other, *runs[1:]])


@dataclasses.dataclass(frozen=True)
class Further(Job):
    """A job that starts from a model."""

    source: Resolved | None = None


def test_the_run_that_a_new_one_starts_from_is_kept(shop, monkeypatch):
    monkeypatch.setattr(training_process, "KEPT", 2)
    monkeypatch.setitem(workshop.KINDS, Further, workshop.KINDS[Job])
    first, second = finish(shop), finish(shop)
    third = shop.start("me", Further(**vars(quick()), source=shop.find(first.model_id)))
    until(lambda: third.over)
    assert shop.of("me") == [first, second, third] and first.folder.exists()
    fourth = finish(shop)
    assert shop.of("me") == [third, fourth]


def test_of_many_who_start_at_once_one_may(shop):
    results, gate = [], threading.Barrier(6)

    def try_it(n):
        gate.wait()
        try:
            results.append(shop.start(f"visitor {n}", quick(**LONG)))
        except InputError as error:
            results.append(error.what)

    threads = [threading.Thread(target=try_it, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(result).__name__ for result in results) == ["LiveRun"] + ["str"] * 5
    assert results.count("Another training run is in progress on this server.") == 5


def test_a_visitor_who_leaves_takes_everything_along(shop):
    kept, gone = finish(shop, "other"), finish(shop)
    going = shop.start("me", quick(**LONG))
    until(lambda: going.reports)
    shop.leave("me")
    assert shop.of("me") == [] and not gone.folder.exists() and not going.folder.exists()
    assert shop.finished(gone.id) is shop.finished(going.id) is None
    assert going.state == "stopped"
    until(lambda: not going.process.is_alive())
    assert shop.of("other") == [kept] and kept.folder.exists()
    finish(shop, "other")
    shop.leave("nobody")


def test_the_time_limit_of_the_server_ends_a_run(shop):
    shop.limits = Limits(minutes=0.01)
    run = shop.start("me", Job(**{**vars(quick(**LONG)), "minutes": 0.01}))
    until(lambda: run.over)
    assert run.state == "time" and run.snapshots[-1].step == run.reports[-1].step > 0
    assert shop.find(run.model_id) is not None


def test_refused_jobs_leave_nothing_behind(shop):
    with pytest.raises(InputError, match="layers: 7"):
        shop.start("me", quick(layers=7))
    for minutes in (0, -1):
        off = Workshop(Limits(minutes=minutes))
        with pytest.raises(InputError, match="Training is disabled on this server"):
            off.start("me", quick())
        assert off.of("me") == [] and off._home is None
    assert shop.of("me") == [] and shop._home is None


@pytest.mark.long
@pytest.mark.parametrize("name", ["", "nope", "trained:", "trained:nope", "smollm2-135m", "TRAINED:x"])
def test_other_ids_are_no_trained_models(shop, name):
    finish(shop)
    assert shop.find(name) is None


def test_a_model_is_found_by_its_whole_id_alone(shop):
    run = finish(shop, task="sort")
    assert run.model_id == f"trained:{run.id}" and len(run.id) == 32
    found = shop.find(run.model_id)
    assert (found.kind, found.path, found.model_id) == ("folder", run.folder, run.model_id)
    assert found.label == label(run) == "Sort, 3 steps"
    assert shop.find(run.id) is None and shop.finished(run.id) is run
    assert label(LiveRun("n", "me", quick(task="text", text=TALE), run.folder)) == "Own text, 0 steps"


def test_closing_removes_everything_and_the_workshop_can_be_used_again(shop):
    run = finish(shop)
    going = shop.start("other", quick(**LONG))
    home = run.folder.parent
    assert home == going.folder.parent and home.is_dir()
    shop.close()
    assert shop.of("me") == shop.of("other") == [] and going.over
    until(lambda: not going.process.is_alive())
    until(lambda: not home.exists())
    assert finish(shop).folder.parent != home


class Slow(ThreadProcess):
    """A process that begins only when it may, or not at all."""

    may, fails = threading.Event(), False

    def __init__(self, **given) -> None:
        super().__init__(**given)
        begin = self.start

        def start() -> None:
            Slow.may.wait(60)
            if Slow.fails:
                raise BlockingIOError("no more processes")
            begin()

        self.start = start


@pytest.fixture
def slow(shop, monkeypatch):
    monkeypatch.setattr(Slow, "may", threading.Event())
    monkeypatch.setattr(ThreadContext, "Process", Slow)
    return shop


def test_a_run_may_be_ended_before_its_process_begins(slow):
    run = slow.start("me", quick(**LONG))
    assert run.state == "starting" and slow.of("me") == [run]  # nobody waits for it
    slow.leave("me")
    assert run.state == "stopped" and slow.of("me") == [] and run.process.pid is None
    Slow.may.set()
    until(lambda: run.process.pid is not None and not run.process.is_alive(), 30)  # not after the minute's patience
    assert not run.reports
    until(lambda: not run.folder.exists())  # which it may have written after the visitor left


def test_nothing_is_left_of_a_run_whose_process_begins_after_all_was_closed(slow):
    run = slow.start("me", quick(**LONG))
    slow.close()
    home = run.folder.parent
    assert not home.exists() and run.process.pid is None
    Slow.may.set()
    until(lambda: run.process.pid is not None and not run.process.is_alive(), 30)
    until(lambda: not home.exists())


def test_where_no_process_can_begin_the_run_has_failed(slow, monkeypatch):
    monkeypatch.setattr(Slow, "fails", True)
    run = slow.start("me", quick())
    Slow.may.set()
    until(lambda: run.over)
    assert run.state == "failed" and run.failure.what == CUT_SHORT and not run.left_a_model
    monkeypatch.setattr(Slow, "fails", False)
    assert finish(slow).state == "done"  # and the place is free again


# --- real processes ---


@pytest.fixture(scope="module")
def real():
    shop = Workshop(threads=1)
    yield shop
    shop.close()


@pytest.fixture(scope="module")
def done(real):
    run = real.start("me", quick())
    assert run.state == "starting" and not run.over and real.find(run.model_id) is None
    until(lambda: run.over)
    return run


@pytest.mark.long
def test_a_run_in_a_process_goes_to_its_end(done):
    assert (done.state, done.failure) == ("done", None)
    assert [report.step for report in done.reports] == [1, 2, 3]
    assert [snapshot.step for snapshot in done.snapshots] == [0, 1, 2, 3]
    assert done.started.n_params > 1000 and len(done.started.ids) == 16
    assert done.process.pid != os.getpid() and done.spent > 0
    assert exit_code(done) == 0


def test_the_trained_model_opens_and_computes_what_was_seen_last(real, done):
    found = load_resolved(real.find(done.model_id))
    assert (found.id, found.label) == (done.model_id, "Repeated random sequence, 3 steps")
    chosen = {name: value for name, value in done.job.config.items() if value is not None}  # None: what is usual
    assert {**chosen, "vocab_size": 62, "n_ctx": 16}.items() <= to_dict(found.config).items()
    assert found.n_params == done.started.n_params
    text = found.decode(done.started.ids)
    assert tuple(found.encode(text).ids) == done.started.ids and done.tokenizer.decode(done.started.ids) == text
    assert from_folder(done.folder).vocab_size == 62
    last, run = done.snapshots[-1], found.trace(text)
    for head in range(2):
        assert_close(last.patterns[0, head], run.pattern(0, head), 1e-6)
    top = torch.from_numpy(run.logits).topk(5)
    assert_close(last.top_logits, top.values, 1e-5)


@pytest.mark.long
def test_pause_resume_stop_and_nobody_else_meanwhile(real, done):
    run = real.start("me", quick(**LONG))
    until(lambda: len(run.reports) > 2)
    assert run.state == "running" and real.find(run.model_id) is None and real.finished(run.id) is None
    assert os.getpriority(os.PRIO_PROCESS, run.process.pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    for owner in ("me", "other"):
        with pytest.raises(InputError, match="Another training run is in progress"):
            real.start(owner, quick())
    run.tell("pause")
    assert run.state == "paused"
    heard = -1
    while heard != len(run.reports):  # what was under way arrives
        heard = len(run.reports)
        run.wait(2)
    run.wait(1)
    assert len(run.reports) == heard and run.state == "paused"
    run.tell("resume")
    until(lambda: len(run.reports) > heard)
    assert run.state == "running"
    run.tell("stop")
    until(lambda: run.over)
    assert run.state == "stopped" and run.snapshots[-1].step == run.reports[-1].step < 20_000
    assert load_resolved(real.find(run.model_id)).config.n_layer == 1


@pytest.mark.long
def test_what_the_process_finds_wrong_is_told(real, done):
    run = real.start("other", quick(task="text", text=TALE, vocabulary=257, probe="a"))
    until(lambda: run.over)
    assert run.state == "failed"
    assert run.failure == Failed("The text to replay is too short.", "a", "Enter at least two tokens.")
    assert real.find(run.model_id) is None


@pytest.mark.long
def test_a_fault_of_ours_is_told_without_a_sentence(real, done, caplog):
    broken = quick()
    object.__setattr__(broken.recipe, "beta1", 2.0)
    run = real.start("other", broken)
    until(lambda: run.over)
    assert run.state == "failed" and run.failure.what == run.failure.hint == ""
    assert "beta" in run.failure.got and "training failed" in caplog.text


@pytest.mark.long
def test_a_process_that_is_killed_has_failed_and_one_that_is_left_is_killed(real, done):
    run = real.start("other", quick(**LONG))
    until(lambda: run.reports)
    os.kill(run.process.pid, signal.SIGKILL)
    until(lambda: run.over)
    assert run.state == "failed" and run.failure.what == CUT_SHORT
    assert (real.find(run.model_id) is not None) == bool(run.kept)
    run = real.start("other", quick(**LONG))
    until(lambda: run.reports)
    real.leave("other")
    assert exit_code(run) == -signal.SIGKILL
    assert run.state == "stopped"
    assert not run.folder.exists() and real.of("other") == [] and done in real.of("me")
