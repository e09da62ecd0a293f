"""Temperature: the likeliest tokens at every temperature."""

import gradio as gr

from viz.tabs.parts import part
from viz.tabs.tab import Picture, Scene, Values
from viz.tabs.views import View


def build() -> dict[str, gr.HTML]:
    """Its parts."""
    return {"heat_note": part("heat_note", None, kind="about")}


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """What it shows."""
    return {"heat_note": Picture(scene.run, lambda: {"text": scene.words["heat.about"]})}


VIEW = View("heat", build, draw, parts=("heat_note",))
