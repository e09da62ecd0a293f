"""Temperature: the top tokens of one position at a range of temperatures, with the pipeline's other steps applied."""

from typing import Annotated

from model.sampling.pipeline import Step
from model.sampling.temperatures import Heated, at_temperature, heat, heated_step
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
    by_chance,
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
    """Return the settings with the pipeline's temperature replaced by 1, since the result does not depend on it."""
    return settings.but(pipeline=at_temperature(settings.pipeline, 1.0))


def measure(scene: Scene, settings: Settings) -> Heated:
    """Run the position's logits through the pipeline at each temperature."""
    return heat(logits_of(scene), settings.pipeline, context_of(scene), spaced(settings.axis == "log"))


def has_others(scene: Scene, settings: Settings) -> Settings:
    """Return the settings with the pipeline replaced by whether it has steps other than temperature."""
    return settings.but(pipeline=bool(_others(settings.pipeline)))


def measure_alone(scene: Scene, settings: Settings) -> Heated | None:
    """Apply each temperature without any other step; None if the pipeline has no other step."""
    if not settings.pipeline:
        return None
    return heat(logits_of(scene), (), context_of(scene), spaced(settings.axis == "log"))


def _others(steps: tuple[Step, ...]) -> list[Step]:
    return [step for step in steps if step.warp != "temperature"]


# --- figures ---


def _scale(seen: Seen) -> Scale:
    """Build the temperature axis, which marks the temperature of the step that varies, or 1 without one."""
    steps = seen.settings.pipeline
    place = heated_step(steps)
    values = {} if place is None else values_of(steps[place])
    return Scale(seen.settings.axis == "log", values.get("temperature", values.get("dynamic", 1.0)))


def _note(seen: Seen) -> str:
    """Describe the step whose temperature varies, and whether outcomes are averaged."""
    steps, words = seen.settings.pipeline, seen.here
    place = heated_step(steps)
    note = words["first"] if place is None else words["changes"].format(step=numbered(seen.all_words, steps)[place])
    return f"{note} {words['by_chance']}" if by_chance(steps) else note


def _python(seen: Seen, last: str, *imports: str) -> str:
    temperatures = "temperatures()" if seen.settings.axis == "log" else "temperatures(logarithmic=False)"
    lines = [f"heated = heat(logits, steps, context, {temperatures})", last]
    return pipeline_lines(seen, lines, ["from model.sampling.temperatures import heat, temperatures", *imports])


def by_token(seen: Seen) -> Payload:
    """Draw the probabilities of the top tokens at each temperature."""
    words, facts, heated = seen.here, seen.facts, seen.result
    pieces = [facts.piece(int(token)) for token in heated.ids]
    next_token = following(facts.tokens, facts.position)
    return {
        "figure": map_figure(heated, pieces, next_token, _scale(seen), words.plain()),
        "title": words["title"].format(after=after(seen)),
        "note": f"{words['note'].format(n=len(pieces))} {_note(seen)}",
        "file": f"temperature-{facts.position}",
        "columns": [words["token"], words["temperature"], words["probability"]],
        "python": _python(seen, "heated.ids, heated.temperatures, heated.probabilities  # [C], [N], [C, N]"),
    }


def width(seen: Seen) -> Payload:
    """Draw the spread of the distribution at each temperature."""
    words = seen.here
    last = "heated.entropy / np.log(2), np.exp(heated.entropy), heated.largest, heated.kept  # [N] each"
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
    """Compute the distribution of the next token at forty temperatures from 0.05 to 3, under a sampling pipeline.

    Args:
        spacing: Spacing of the temperatures: log or linear.

    Returns:
        temperatures: their values; tokens: each with one probability per temperature, 0 where it is removed; and one
        value per temperature of entropy (nats), largest (top probability) and kept (number of remaining tokens).
    """
    scene = at(scene, position)
    heated: Heated = measured(VIEW, "main", scene, pipeline=steps_of(scene.model, steps), axis=spacing)
    tokens = [
        named(scene.model, n) | {"probabilities": heated.probabilities[place]}
        for place, n in list(enumerate(heated.ids))[:most]
    ]
    return {
        "position": scene.position,
        "temperatures": heated.temperatures,
        "tokens": tokens,
        "entropy": heated.entropy,
        "largest": heated.largest,
        "kept": heated.kept,
    }


VIEW = View(
    "temperature",
    needs=("next",),
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
