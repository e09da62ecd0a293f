"""Training on a server that others use: off unless minutes are given, smaller, never paused for ever."""

import dataclasses
import math
import time

import pytest

from model.errors import InputError
from model.training.jobs.form import job_of
from model.training.jobs.job import Limits, check
from tests.support.public import scene
from viz.seam.panels import pictures
from viz.views.training.training import view as training
from viz.words import Words, words
from viz.work.limits import PUBLIC
from viz.work.playground import Playground
from viz.work.processes.training_process import _paused


def lab(server):
    """What the training tab shows."""
    return pictures(training.VIEW, scene(server), {})["training_lab"].make()


def test_training_is_off_unless_minutes_are_given(shared):
    with pytest.raises(InputError, match="disabled"):
        shared.workshop.start("me", job_of({}, shared.workshop.limits))
    assert lab(shared)["empty"]["text"].startswith("Training is disabled")


def test_training_on_a_shared_server_is_smaller_and_the_form_says_so(shared, playground):
    ours = Playground(dataclasses.replace(shared.options, training_minutes=2.0))
    ours.models.get("tiny", lambda: shared.load("tiny"))
    limits = ours.workshop.limits
    assert limits == dataclasses.replace(PUBLIC.training, minutes=2.0) and limits.pause_minutes == 1.0
    form = lab(ours)
    assert form["limits"]["steps"] == [1, 6000] and form["limits"]["bytes"] == [0, 200_000]
    for task in form["tasks"]:  # what the form begins with can be trained
        if task["key"] != "text":
            job = job_of(form["defaults"] | task["settings"] | {"task": task["key"]}, limits)
            assert check(job, limits).n_layer == 2 and job.minutes == 2.0
    with pytest.raises(InputError, match="out of bounds"):
        ours.workshop.start("me", job_of({"steps": 6001}, limits))
    first = training.first_lab(Words(words("en"), "training"))
    shown = {name: value for name, value in lab(playground).items() if name != "stored"}
    assert shown == first  # the form that is there says the truth


class Wire:
    """A connection on which a wish comes after so many looks."""

    def __init__(self, wishes, after=0.0):
        self.wishes, self.after = list(wishes), after

    def poll(self, seconds):
        if self.wishes and seconds >= self.after:
            return True
        time.sleep(seconds)
        return False

    def recv(self):
        return self.wishes.pop(0)


def test_a_run_cannot_be_paused_for_ever():
    assert _paused(Wire(["pause", "resume"]), math.inf) == "resume"
    assert _paused(Wire(["pause", "stop"]), 5.0) == "stop"
    assert _paused(Wire([]), 0.02) == "late" and _paused(Wire(["pause"]), 0.02) == "late"
    assert _paused(Wire(["resume"]), -1.0) == "resume"  # a wish that is there counts
    assert Limits().pause_minutes == math.inf
