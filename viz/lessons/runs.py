"""The training runs of a lesson, and which of a visitor's runs an answer refers to.

A lesson configures a run; the page fills in the form and the visitor starts it. Answers are read from that run.
"""

from collections.abc import Callable, Mapping
from typing import Any

from model.errors import InputError
from model.training.jobs.form import job_of
from viz.lessons.lesson import Lesson, Run
from viz.views.assistant.reinforcement.view import practice_of
from viz.work.playground import Playground
from viz.work.processes.training_process import LiveRun

OWNER = "lesson"  # of the runs that are made without a page, where lessons are checked
WAIT = 600.0  # seconds for such a run, on a busy machine


def _training(playground: Playground, model: str, values: Mapping[str, Any]) -> Any:
    return job_of(dict(values), playground.workshop.limits)


# What a form starts, by the part of the page that it is: (playground, id of the model, its fields) -> the job.
FORMS: dict[str, Callable[[Playground, str, Mapping[str, Any]], Any]] = {
    "training_lab": _training,
    "reinforcement_form": practice_of,
}


def found(playground: Playground, lesson: Lesson, name: str, known: tuple[str, ...]) -> LiveRun:
    """Return the newest of the known runs that has the lesson's settings and has finished.

    Raises InputError if there is no such run.
    """
    wanted = job_for(playground, lesson, lesson.runs[name])
    for number in reversed(known):
        run = playground.workshop.run(number)
        if run is not None and run.state == "done" and run.job == wanted:
            return run
    raise InputError("There is no such run on this page yet.", name, "Start it with the settings of the lesson.")


def job_for(playground: Playground, lesson: Lesson, run: Run) -> Any:
    """Return the job of a lesson's run. Raises InputError for invalid settings."""
    return FORMS[run.part](playground, lesson.model or playground.options.model, run.values)


def made(playground: Playground, lesson: Lesson) -> tuple[str, ...]:
    """Return the ids of all runs of a lesson, training those that do not exist yet: for checking lessons.

    Raises InputError for a run that cannot be started or failed.
    """
    numbers = []
    for run in lesson.runs.values():
        wanted = job_for(playground, lesson, run)
        before = [each for each in playground.workshop.of(OWNER) if each.job == wanted and each.state == "done"]
        live = before[0] if before else playground.workshop.start(OWNER, wanted)
        waited = 0.0
        while not live.over and waited < WAIT:
            live.wait(1.0)
            waited += 1.0
        if live.state != "done":
            raise InputError("A run of the lesson did not end well.", f"{run.name}: {live.state}", "Mend its settings.")
        numbers.append(live.id)
    return tuple(numbers)
