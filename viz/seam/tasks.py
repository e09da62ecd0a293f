"""Tasks of measures, and the form in which they are sent to another process; some must stay in this process."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from model.gpt.edits import Edit
from model.progress import Progress, silent
from model.records import RunKey
from viz.seam.jobs.background import Result
from viz.seam.scene import Scene, SceneKey
from viz.seam.settings import Settings
from viz.seam.view import Measure, View
from viz.work.processes.training_process import PREFIX
from viz.work.prompt import Prompt

OF_THIS_PROCESS = {"visitor", "trained", "loaded", "built_in"}  # values of viz.seam.view.Depends
OF_A_RUN = {"run", "plain"}
EDITED = {"run", "edits"}


@dataclass(frozen=True, eq=False)
class MeasureTask:
    """A measure of a view, to be computed for a scene with the view's settings."""

    view: View
    measure: Measure
    scene: Scene
    settings: Settings

    @functools.cached_property
    def resolved(self) -> Settings:
        """The settings that the measure reads, or the result of its own `question`; computed once."""
        chosen = self.settings.only(self.measure.settings)
        return self.measure.question(self.scene, chosen) if self.measure.question else chosen

    @functools.cached_property
    def used(self) -> tuple["MeasureTask", ...]:
        """The tasks whose results this one builds on."""
        return tuple(replace(self, measure=self.view.measure(name)) for name in self.measure.uses)

    @property
    def sees_edits(self) -> bool:
        """Return whether the edits of the run change the result."""
        return not EDITED.isdisjoint(self.measure.depends) or any(each.sees_edits for each in self.used)

    @functools.cached_property
    def beside(self) -> tuple | None:
        """The other run that the measure reads, as arguments of Scene.beside; None for a measure of one run."""
        return self.measure.beside(self.scene, self.resolved) if self.measure.beside else None

    def answer(self, progress: Progress = silent, results: Mapping[str, Any] | None = None) -> Any:
        """Compute the measure now, from the scene and the `results` of the measures that it uses."""
        more = ((results,) if self.measure.uses else ()) + ((progress,) if self.measure.slow else ())
        return self.measure.function(self.scene, self.resolved, *more)


@dataclass(frozen=True)
class Measuring:
    """A measure of a view on a scene. `prior` holds the results of the slow measures that it builds on, by name."""

    scene: SceneKey
    view: str
    measure: str
    settings: Settings
    prior: tuple[tuple[str, Result], ...] = ()


@dataclass(frozen=True)
class TraceReading:
    """A method of a trace, one of viz.work.engine.READS, with its arguments."""

    key: RunKey
    name: str
    arguments: tuple


@dataclass(frozen=True)
class Answering:
    """The task of answering a conversation."""

    model_id: str
    prompt: Prompt
    strategy: str
    edits: tuple[Edit, ...] = ()  # with which the model writes


@dataclass(frozen=True, eq=False)
class WritingTask:
    """Texts to generate side by side: a viz.views.sampling.side_by_side.run.TextsRequest without its models."""

    model_id: str
    ids: tuple[int, ...]  # token ids of the prompt
    request: Any


def travels(question: MeasureTask) -> bool:
    """Return whether another process can compute the task, and whether it has anything to compute.

    False for a visitor's own models, and for measures that read no run and do not use the model.
    """
    scene, measure = question.scene, question.measure
    if scene.trace is None or scene.model.id.startswith(PREFIX) or _of_this_process(question):
        return False
    if not (measure.slow or measure.locks or OF_A_RUN & set(measure.depends)):
        return False
    return not (question.beside and question.beside[0].startswith(PREFIX))


def _of_this_process(question: MeasureTask) -> bool:
    own = question.measure.at_page or OF_THIS_PROCESS & set(question.measure.depends)
    return bool(own) or any(map(_of_this_process, question.used))


def slow_ones(question: MeasureTask) -> Iterator[MeasureTask]:
    """Yield the tasks of slow measures that a task builds on, directly or indirectly."""
    for each in question.used:
        if each.measure.slow:
            yield each
        yield from slow_ones(each)
