"""Temperature: the likeliest tokens of one position at every temperature, under the pipeline of the page."""

from collections.abc import Mapping

import gradio as gr

from model.errors import InputError
from model.sampling.pipeline import Step
from model.sampling.temperatures import Heated, at_temperature, heat, temperatures
from model.sampling.warps import values_of
from viz.page.background import kept
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.picking import source
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.sampling.distribution.view import (
    Looked,
    after,
    context_of,
    logits_of,
    looked_at,
    pipeline_lines,
)
from viz.views.sampling.temperature.figures import MEASURES, Axis, map_figure, width_figure
from viz.words import some

AXES = ("log", "linear")


def build() -> dict[str, gr.HTML]:
    """The map, and the measures below it; the pipeline is above, see viz/views/sampling/distribution/view.py."""
    return {
        "heat_form": part("heat_form", None, kind="controls", value={}),
        "heat_map": part("heat_map", None, kind="figure"),
        "heat_width": part("heat_width", None, kind="figure"),
    }


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """How the temperatures are spaced."""
    options = [[name, words[f"heat.axis_{name}"]] for name in AXES]
    return {
        "heat_form": {
            "controls": [
                {"name": "axis", "kind": "choice", "label": words["heat.axis"], "value": AXES[0], "options": options},
            ]
        }
    }


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """Both pictures; steps that cannot be are told in place of the map."""
    try:
        looked = looked_at(scene, values)
    except InputError as error:
        told = error  # the name of the exception is gone after its block

        def say() -> dict:
            raise told

        return {"heat_map": Picture((scene.run, str(told)), say)}
    logarithmic = choice(values.get("heat_form"), "axis", AXES) == "log"
    key = (looked.key, logarithmic)
    return {
        "heat_map": Picture(key, lambda: map_payload(looked, logarithmic)),
        "heat_width": Picture(key, lambda: width_payload(looked, logarithmic)),
    }


def heated(looked: Looked, steps: tuple[Step, ...], logarithmic: bool) -> Heated:
    """The steps at every temperature, worked out once: which temperature they have themselves does not matter."""
    scene, at = looked.scene, looked.at
    key = ("heat", scene.trace.key, at, at_temperature(steps, 1.0), logarithmic)
    return kept(
        scene.playground,
        key,
        lambda: heat(logits_of(scene, at), steps, context_of(scene, at), temperatures(logarithmic)),
    )


def axis_of(looked: Looked, logarithmic: bool) -> Axis:
    """The temperatures, and the pipeline's own: that of its first temperature, 1 where it has none."""
    own = [step for step in looked.steps if step.warp == "temperature"]
    now = next((values_of(step)["temperature"] for step in own), 1.0)
    return Axis(logarithmic, now)


def _note(looked: Looked) -> str:
    """Which temperature is the one that changes."""
    own = [name for name, step in zip(looked.named, looked.steps, strict=True) if step.warp == "temperature"]
    words = looked.scene.words
    return words["heat.changes"].format(step=own[0]) if own else words["heat.first"]


def _lines(looked: Looked, logarithmic: bool, last: str, *imports: str) -> str:
    spaced = "temperatures()" if logarithmic else "temperatures(logarithmic=False)"
    lines = [f"found = heat(logits, steps, context, {spaced})", last]
    return pipeline_lines(looked, lines, ["from model.sampling.temperatures import heat, temperatures", *imports])


def map_payload(looked: Looked, logarithmic: bool) -> dict:
    """Tokens by temperature."""
    scene, words, found = looked.scene, looked.scene.words, heated(looked, looked.steps, logarithmic)
    pieces = [scene.model.tokenizer.piece(int(token)) for token in found.ids]
    said = some(words, "heat", "temperature", "probability", "hover", "out")
    return {
        "figure": map_figure(found, pieces, looked.following, axis_of(looked, logarithmic), said),
        "title": words["heat.title"].format(after=after(looked)),
        "note": f"{words['heat.note'].format(n=len(pieces))} {_note(looked)}",
        "source": source(scene),
        "file": f"temperature-{looked.at}",
        "run": repr((looked.key, logarithmic)),
        "columns": [words["heat.csv_token"], words["heat.temperature"], words["heat.probability"]],
        "python": _lines(looked, logarithmic, "found.ids, found.temperatures, found.probabilities  # [C], [N], [C, N]"),
        "words": plot_words(words),
    }


def width_payload(looked: Looked, logarithmic: bool) -> dict:
    """How wide the distribution is at every temperature."""
    scene, words, found = looked.scene, looked.scene.words, heated(looked, looked.steps, logarithmic)
    others = [step for step in looked.steps if step.warp != "temperature"]
    alone = heated(looked, (), logarithmic) if others else None
    said = some(words, "heat", "temperature", "pipeline", "alone", *MEASURES)
    return {
        "figure": width_figure(found, alone, axis_of(looked, logarithmic), said),
        "title": words["heat.width_title"].format(after=after(looked)),
        "note": words["heat.width_note"],
        "source": source(scene),
        "file": f"temperature-width-{looked.at}",
        "run": repr((looked.key, logarithmic)),
        "columns": [
            words["heat.csv_series"],
            words["heat.csv_measure"],
            words["heat.temperature"],
            words["heat.csv_value"],
        ],
        "python": _lines(
            looked,
            logarithmic,
            "found.entropy, np.exp(found.entropy), found.largest, found.kept  # [N] each",
            "import numpy as np",
        ),
        "words": plot_words(words),
    }


VIEW = View(
    "heat",
    build,
    draw,
    parts=("pipeline", "heat_form", "heat_map", "heat_width"),
    fixed=fixed,
    asks=("pipeline", "heat_form"),
)
