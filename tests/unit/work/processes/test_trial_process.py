"""Trainings side by side in processes of their own: values in order, one comparison at a time, a cancel ends them."""

import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import torch

from model.errors import InputError, PlaygroundError
from model.training.jobs.job import Limits
from tests.support.training.rehearsal import LONG, in_threads, quick
from viz.work.processes.training_process import CUT_SHORT, Failed, Workshop
from viz.work.processes.trial_process import run_alone, side_by_side, work


def doubled(value: int, tell) -> tuple[int, int]:
    """In a process of its own: twice the value, and the process that found it."""
    tell(1)
    return 2 * value, os.getpid()


def endless(path: str, tell) -> None:
    """Says that it runs, and never ends."""
    Path(path).write_text(str(os.getpid()))
    tell(1)
    time.sleep(600)


def vanishing(path: str, tell) -> None:
    """Once there is such a file, as if the system had ended its process."""
    while not Path(path).exists():
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)


def threads(tell) -> int:
    return torch.get_num_threads()


def broken(error: Exception, tell) -> None:
    raise error


def shop(**limits) -> Workshop:
    return Workshop(Limits(**limits), workers=2)


def test_values_come_in_the_order_of_the_tasks_from_other_processes():
    heard: list[tuple] = []
    tasks = [(doubled, (n,)) for n in (5, 3, 4)]
    found = side_by_side(shop(), tasks, 2, lambda *told: heard.append(told))
    assert [value for value, _ in found] == [10, 6, 8]
    processes = [process for _, process in found]
    assert processes[0] == processes[2] != processes[1] and os.getpid() not in processes
    assert heard[-1][:2] == (6, 6) and all(total == 6 for _, total, _ in heard)


def alive(process: int) -> bool:
    """Whether a process still runs."""
    return any(child.pid == process for child in multiprocessing.active_children())


def parent(tell) -> int:
    return os.getppid()


def test_where_copies_are_safe_all_are_copies_of_one_process_that_has_imported_everything():
    parents = [side_by_side(shop(), [(parent, ()), (parent, ())], 1, lambda *told: None) for _ in range(2)]
    copied = {each for pair in parents for each in pair} != {os.getpid()}
    assert copied == (sys.platform == "linux") and len({each for pair in parents for each in pair}) == 1


def test_a_cancel_ends_the_processes_at_once(tmp_path):
    class Stop(Exception):
        pass

    note, workshop = tmp_path / "process", shop()

    def progress(done: int, total: int, what: str) -> None:
        if note.exists() and note.read_text():
            raise Stop

    with pytest.raises(Stop):
        side_by_side(workshop, [(endless, (str(note),))], 2, progress)
    assert not alive(int(note.read_text()))
    with workshop.trial():  # and the place is free again
        pass


def test_of_a_process_that_is_killed_a_sentence_is_told_and_the_others_end(tmp_path):
    note, workshop = str(tmp_path / "process"), shop()
    with pytest.raises(PlaygroundError) as told:
        side_by_side(workshop, [(endless, (note,)), (vanishing, (note,))], 2, lambda *told: None)
    assert (told.value.what, told.value.hint) == (CUT_SHORT, "Nothing was saved. Start it again.")
    assert not alive(int(Path(note).read_text()))
    with workshop.trial():
        pass


def test_one_alone_has_the_threads_of_a_training_run():
    workshop = Workshop(threads=3)
    assert run_alone(workshop, threads, (), 1, lambda *told: None) == 3


def test_one_comparison_or_training_at_a_time():
    with in_threads():
        workshop = Workshop()
        with workshop.trial():
            for begin in (lambda: workshop.start("me", quick()), lambda: workshop.trial().__enter__()):
                with pytest.raises(InputError, match="Another training run"):
                    begin()
        run = workshop.start("me", quick(**LONG))
        with pytest.raises(InputError, match="Another training run"), workshop.trial():
            pass
        run.end()
        workshop.close()


def test_nothing_is_trained_where_training_is_switched_off():
    with pytest.raises(InputError, match="disabled"):
        side_by_side(shop(minutes=0.0), [(doubled, (1,))], 1, lambda *told: None)


def test_a_comparison_has_as_long_as_a_training_run(tmp_path):
    with pytest.raises(InputError, match="time for one training run"):
        side_by_side(shop(minutes=1e-6), [(endless, (str(tmp_path / "process"),))], 1, lambda *told: None)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PlaygroundError("No.", "this", "Try that."), Failed("No.", "this", "Try that.")),
        (KeyError("secret"), Failed("", "KeyError('secret')")),
    ],
)
def test_an_error_is_told_to_the_page(error, told, monkeypatch):
    monkeypatch.setattr(os, "nice", lambda by: None)  # here it would be this process that gives way
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    ours, theirs = multiprocessing.Pipe(duplex=False)
    work(theirs, [(0, broken, (error,))], 1)
    assert ours.recv() == ("failed", -1, told)
    with pytest.raises(EOFError):
        ours.recv()
