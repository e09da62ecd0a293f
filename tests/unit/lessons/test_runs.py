"""The runs of a lesson: whose they are, which of them is meant, and that answers come from it."""

import dataclasses

import pytest

from model.errors import InputError
from tests.support.training.rehearsal import SMALL, finish, in_threads
from viz.lessons import runs
from viz.lessons.lesson import Lesson, LessonRun, Value
from viz.lessons.library import library
from viz.lessons.payloads import lesson_payload
from viz.lessons.routes import page_of
from viz.lessons.values import PageState, value_of
from viz.work.playground import Options, Playground

WHOLE = library().lesson("head_born", "en")
VALUES = {
    name: Value(name, "training_run", {"run": {"run": name}}, ("losses", -1)) for name in ("small", "copy", "short")
}


def lesson(**more: dict) -> Lesson:
    """A lesson with runs that take a moment."""
    small = {"small": SMALL, "copy": SMALL | {"task": "copy"}} | more
    made = {name: LessonRun(name, "training_lab", values) for name, values in small.items()}
    return dataclasses.replace(WHOLE, runs=made, values=VALUES)


@pytest.fixture
def playground():
    with in_threads():
        ours = Playground(Options(offline=True))
        yield ours
        ours.workshop.close()


def test_an_answer_is_read_from_the_visitor_s_newest_run_of_these_settings(playground):
    first, copy = finish(playground.workshop), finish(playground.workshop, task="copy")
    other = finish(playground.workshop, seed=5)
    page = PageState("tinygpt", runs=(first.id, copy.id, other.id))
    assert runs.find(playground, lesson(), "small", page.runs) is first
    assert value_of(playground, lesson(), "small", page) == pytest.approx(first.reports[-1].loss, rel=1e-5)
    assert value_of(playground, lesson(), "copy", page) == pytest.approx(copy.reports[-1].loss, rel=1e-5)
    again = finish(playground.workshop)
    assert runs.find(playground, lesson(), "small", (*page.runs, again.id)) is again


def test_what_was_not_trained_on_the_page_is_no_answer(playground):
    there = finish(playground.workshop)
    for known in ((), ("0" * 32,), (there.id[:-1],)):
        with pytest.raises(InputError, match="has not started this run"):
            value_of(playground, lesson(), "small", PageState("tinygpt", runs=known))
    with pytest.raises(InputError, match="has not started this run"):
        value_of(playground, lesson(), "copy", PageState("tinygpt", runs=(there.id,)))
    going = playground.workshop.start(
        "me", runs.job_for(playground, lesson(), LessonRun("a", "training_lab", {"steps": 999}))
    )
    with pytest.raises(InputError, match="has not started this run"):
        runs.find(playground, lesson(a={"steps": 999}), "a", (going.id,))


def test_who_checks_a_lesson_trains_each_run_once(playground):
    first = runs.prepare(playground, lesson())
    assert runs.prepare(playground, lesson()) == first and len(playground.workshop.of(runs.OWNER)) == 2
    page = PageState("tinygpt", runs=first)
    assert value_of(playground, lesson(), "small", page) != value_of(playground, lesson(), "copy", page)
    assert runs.prepare(playground, dataclasses.replace(WHOLE, runs={})) == ()
    with pytest.raises(InputError, match="out of bounds"):
        runs.prepare(playground, lesson(large=SMALL | {"layers": 99}))


def test_a_form_of_reinforcement_is_the_same_job_as_the_page_s(playground):
    rewarding = library().lesson("rewarding", "en")
    free, leash = (runs.job_for(playground, rewarding, run) for run in rewarding.runs.values())
    assert (free.course.coefficient, leash.course.coefficient) == (0.0, 0.3)
    assert dataclasses.replace(leash, course=free.course) == free
    assert (free.course.steps, free.course.texts, free.course.method) == (3, 32, "reinforce")


def test_a_step_tells_the_page_what_to_fill_in():
    two, head, one = lesson_payload(WHOLE)["steps"]
    assert two["run"] == {"part": "training_lab", "values": dict(WHOLE.runs["two"].values)} and head["run"] is None
    assert one["run"]["values"] == two["run"]["values"] | {"layers": 1}
    assert head["state"] is None and two["state"]["values"]["training_lab"]["seed"] == 2
    assert two["done"] == {"trained": "training_lab"}


def test_a_page_says_which_runs_it_knows(playground):
    assert page_of(playground, {"runs": ["a", 3, None, "b" * 500, "c"]}).runs == ("a", "c")
    assert page_of(playground, {"runs": "abc"}).runs == page_of(playground, {}).runs == ()
    assert len(page_of(playground, {"runs": [str(n) for n in range(100)]}).runs) == 8
