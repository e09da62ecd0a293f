"""Questions as values: what travels to another process, and what of this one must not."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from model.records import RunKey
from viz.seam.jobs.background import Result
from viz.seam.scene import Scene, SceneKey
from viz.seam.settings import Settings
from viz.seam.view import Measure, View, question_of
from viz.work.processes.training_process import PREFIX
from viz.work.prompt import Prompt

OF_THIS_PROCESS = {"visitor", "trained", "loaded", "built_in"}  # of viz.seam.view.Depends
OF_A_RUN = {"run", "plain"}


@dataclass(frozen=True)
class Measuring:
    """A measure of a view on a scene. `given`: results of the slow measures that it builds on, by name."""

    scene: SceneKey
    view: str
    measure: str
    settings: Settings
    given: tuple[tuple[str, Result], ...] = ()


@dataclass(frozen=True)
class Reading:
    """A method of a trace, one of viz.work.engine.READS, with its arguments."""

    key: RunKey
    name: str
    arguments: tuple


@dataclass(frozen=True)
class Answering:
    """The answer to a conversation."""

    model_id: str
    prompt: Prompt
    strategy: str


@dataclass(frozen=True, eq=False)
class Writing:
    """Texts side by side: a viz.views.sampling.side_by_side.run.Request without its models."""

    model_id: str
    ids: tuple[int, ...]  # the prompt's
    request: Any


def travels(view: View, measure: Measure, scene: Scene, settings: Settings) -> bool:
    """Whether another process can answer, and has something to compute.

    Not where a visitor's own models count, nor for what reads no run and needs no turn at the model.
    """
    if scene.trace is None or scene.model.id.startswith(PREFIX) or _of_this_process(view, measure):
        return False
    if not (measure.slow or measure.locks or OF_A_RUN & set(measure.depends)):
        return False
    wish = measure.beside(scene, question_of(measure, scene, settings)) if measure.beside else None
    return not (wish and wish[0].startswith(PREFIX))


def _of_this_process(view: View, measure: Measure) -> bool:
    own = measure.at_page or OF_THIS_PROCESS & set(measure.depends)
    return bool(own) or any(_of_this_process(view, view.measure(name)) for name in measure.uses)


def slow_ones(view: View, measure: Measure) -> Iterator[Measure]:
    """The slow measures that one builds on, whatever lies between."""
    for used in map(view.measure, measure.uses):
        if used.slow:
            yield used
        yield from slow_ones(view, used)
