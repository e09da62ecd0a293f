"""Side by side: several strategies continue the same prompt at once."""

import gradio as gr

from viz.tabs.parts import part
from viz.tabs.tab import Picture, Scene, Values
from viz.tabs.views import View


def build() -> dict[str, gr.HTML]:
    """Its parts."""
    return {"race_note": part("race_note", None, kind="about")}


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """What it shows."""
    return {"race_note": Picture(scene.run, lambda: {"text": scene.words["race.about"]})}


VIEW = View("race", build, draw, parts=("race_note",))
