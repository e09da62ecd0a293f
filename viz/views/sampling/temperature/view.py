"""Temperature: the likeliest tokens of one position at every temperature, under the pipeline of the page."""

from typing import Annotated

from model.sampling.pipeline import Step
from model.sampling.temperatures import Heated, at_temperature, heat
from model.sampling.temperatures import temperatures as spaced
from model.sampling.warps import values_of
from viz.seam.programs.arguments import OneOf, Rows
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured, named
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Figure, Measure, Payload, Seen, View
from viz.views.sampling.pipelines import (
    PIPELINE,
    after,
    context_of,
    following,
    logits_of,
    numbered,
    pipeline_lines,
    steps_of,
)
from viz.views.sampling.temperature.figures import Scale, map_figure, width_figure

AXES = ("log", "linear")
AXIS = Choice("axis", AXES)


def any_temperature(scene: Scene, settings: Settings) -> Settings:
    """The pipeline whatever its own temperature is: it is run at all of them."""
    return settings.but(pipeline=at_temperature(settings.pipeline, 1.0))


def measure(scene: Scene, settings: Settings) -> Heated:
    """Return the position's logits through the pipeline at every temperature."""
    return heat(logits_of(scene), settings.pipeline, context_of(scene), spaced(settings.axis == "log"))


def has_others(scene: Scene, settings: Settings) -> Settings:
    """Whether the pipeline has more steps than a temperature, and how the temperatures are spaced."""
    return settings.but(pipeline=bool(_others(settings.pipeline)))


def measure_alone(scene: Scene, settings: Settings) -> Heated | None:
    """Return the same without any other step; None where the pipeline has none."""
    if not settings.pipeline:
        return None
    return heat(logits_of(scene), (), context_of(scene), spaced(settings.axis == "log"))


def _others(steps: tuple[Step, ...]) -> list[Step]:
    return [step for step in steps if step.warp != "temperature"]


# --- what is drawn ---


def _scale(seen: Seen) -> Scale:
    """Return the temperatures, and the pipeline's own: that of its first temperature, 1 where it has none."""
    steps = [step for step in seen.settings.pipeline if step.warp == "temperature"]
    return Scale(seen.settings.axis == "log", values_of(steps[0])["temperature"] if steps else 1.0)


def _note(seen: Seen) -> str:
    """Which temperature is the one that varies."""
    steps = seen.settings.pipeline
    names = zip(numbered(seen.all_words, steps), steps, strict=True)
    matching = [name for name, step in names if step.warp == "temperature"]
    return seen.here["changes"].format(step=matching[0]) if matching else seen.here["first"]


def _python(seen: Seen, last: str, *imports: str) -> str:
    temperatures = "temperatures()" if seen.settings.axis == "log" else "temperatures(logarithmic=False)"
    lines = [f"found = heat(logits, steps, context, {temperatures})", last]
    return pipeline_lines(seen, lines, ["from model.sampling.temperatures import heat, temperatures", *imports])


def by_token(seen: Seen) -> Payload:
    """Return the tokens by temperature."""
    words, facts, heated = seen.here, seen.facts, seen.result
    pieces = [facts.piece(int(token)) for token in heated.ids]
    comes = following(facts.tokens, facts.position)
    return {
        "figure": map_figure(heated, pieces, comes, _scale(seen), words.plain()),
        "title": words["title"].format(after=after(seen)),
        "note": f"{words['note'].format(n=len(pieces))} {_note(seen)}",
        "file": f"temperature-{facts.position}",
        "columns": [words["token"], words["temperature"], words["probability"]],
        "python": _python(seen, "found.ids, found.temperatures, found.probabilities  # [C], [N], [C, N]"),
    }


def width(seen: Seen) -> Payload:
    """How wide the distribution is at every temperature."""
    words = seen.here
    last = "found.entropy / np.log(2), np.exp(found.entropy), found.largest, found.kept  # [N] each"
    return {
        "figure": width_figure(seen.result, seen.results["alone"], _scale(seen), words.plain()),
        "title": words["title"].format(after=after(seen)),
        "note": words["note"],
        "file": f"temperature-width-{seen.facts.position}",
        "columns": [words["series"], words["measure"], words["temperature"], words["value"]],
        "python": _python(seen, last, "import numpy as np"),
    }


# --- for programs ---


def temperatures(
    scene: Scene,
    steps: list[dict] | None = None,
    position: int = -1,
    spacing: Annotated[str, OneOf(AXES)] = "log",
    most: Rows = 20,
) -> dict:
    """Return the distribution of the next token at forty temperatures from 0.05 to 3, under a sampling pipeline.

    Args:
        spacing: How the temperatures are spaced: log or linear.

    Returns:
        temperatures; tokens: each with a probability a temperature, 0 where it is out; and for every temperature
        entropy (nats), largest probability and tokens that are left (kept).
    """
    looked = at(scene, position)
    heated: Heated = measured(VIEW, "main", looked, pipeline=steps_of(scene.model, steps), axis=spacing)
    tokens = [
        named(scene.model, n) | {"probabilities": heated.probabilities[place]}
        for place, n in list(enumerate(heated.ids))[:most]
    ]
    return {
        "position": looked.position,
        "temperatures": heated.temperatures,
        "tokens": tokens,
        "entropy": heated.entropy,
        "largest": heated.largest,
        "kept": heated.kept,
    }


VIEW = View(
    "temperature",
    settings=(AXIS,),
    measures=(
        Measure(
            "main",
            measure,
            depends=("run", "token"),
            settings=("pipeline", "axis"),
            question=any_temperature,
            locks=False,
        ),
        Measure(
            "alone",
            measure_alone,
            depends=("run", "token"),
            settings=("pipeline", "axis"),
            question=has_others,
            locks=False,
        ),
    ),
    layout=("pipeline", "form", "map", "width"),
    parts={
        "pipeline": PIPELINE,
        "map": Figure(by_token),
        "width": Figure(width, of=("main", "alone")),
    },
    problems="map",
    api=(Endpoint(temperatures),),
)
