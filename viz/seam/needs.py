"""The needs of a view, and the note in its place if the model does not meet them."""

from collections.abc import Iterable

from model.api import LanguageModel
from model.errors import InputError
from viz.seam.notices import notice
from viz.seam.scene import Scene
from viz.seam.view import Measure, Needs, Part, Payload, Picture, View


def lacking(model: LanguageModel, needs: Iterable[Needs]) -> InputError | None:
    """Return the error that says what the model does not give of `needs`, or None if it gives everything."""
    for each in needs:
        if each not in model.gives:
            return model.lacks(each)
    return None


def needs_of(view: View, part: Part) -> tuple[Needs, ...]:
    """Return what a part reads: the needs of its measures, or those of the view if it has none."""
    names = (*part.of, *((part.job,) if part.job else ()))
    return tuple(need for name in names for need in of_measure(view, view.measure(name))) if names else view.needs


def of_measure(view: View, measure: Measure) -> tuple[Needs, ...]:
    """Return what a measure reads: its own needs, or those of its view."""
    return view.needs if measure.needs is None else measure.needs


def note(error: InputError, scene: Scene) -> Picture:
    """Build the picture of a part that cannot be drawn for this model."""

    def make() -> Payload:
        said = notice(error, scene.language)
        way = {"tab": "attention", "view": "map", "text": scene.words["lacks.maps"]}
        if scene.model.config.two_way and "token" in scene.model.gives:
            way = {"tab": "predictions", "view": "surprise", "text": scene.words["lacks.masked"]}
        return {"empty": {"text": said["text"], "hint": said["hint"], "lacks": True, "way": way}}

    return Picture(("lacks", str(error), scene.model.id, scene.language), make)
