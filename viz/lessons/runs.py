"""The training runs of a lesson, and the selection of the visitor's run to which an answer refers.

A lesson configures a run; the page fills in the form, and the visitor starts it. Answers are read from that run.
"""

from collections.abc import Callable, Mapping
from typing import Any

from model.errors import InputError
from model.training.jobs.form import job_of
from viz.lessons.lesson import Lesson, LessonRun
from viz.views.assistant.reinforcement.view import practice_of
from viz.work.playground import Playground
from viz.work.processes.training_process import LiveRun

OWNER = "lesson"  # owner of the runs that are trained to check lessons, without a page
WAIT = 600.0  # seconds to wait for such a run, on a busy machine


def _training(playground: Playground, model: str, values: Mapping[str, Any]) -> Any:
    return job_of(dict(values), playground.workshop.limits)


# form part on the page -> builder of its job: (playground, model id, fields) -> job
FORMS: dict[str, Callable[[Playground, str, Mapping[str, Any]], Any]] = {
    "training_lab": _training,
    "reinforcement_form": practice_of,
}


def find(playground: Playground, lesson: Lesson, name: str, known: tuple[str, ...]) -> LiveRun:
    """Return the newest of the given runs that has the lesson's settings and has finished.

    Raises InputError if there is no such run.
    """
    wanted = job_for(playground, lesson, lesson.runs[name])
    for number in reversed(known):
        run = playground.workshop.run(number)
        if run is not None and run.state == "done" and run.job == wanted:
            return run
    raise InputError("This page has not started this run yet.", name, "Start it with the settings of the lesson.")


def job_for(playground: Playground, lesson: Lesson, run: LessonRun) -> Any:
    """Build the job of a lesson's run. Raises InputError for invalid settings."""
    return FORMS[run.part](playground, lesson.model or playground.options.model, run.values)


def prepare(playground: Playground, lesson: Lesson) -> tuple[str, ...]:
    """Train all runs of a lesson that do not exist yet, to check the lesson, and return their ids.

    Raises InputError if a run cannot be started or failed.
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
            raise InputError(
                "A training run of the lesson failed.", f"{run.name}: {live.state}", "Correct its settings."
            )
        numbers.append(live.id)
    return tuple(numbers)
