"""Many samples: what strategies write, measured over many texts."""

import gradio as gr

from viz.tabs.parts import part
from viz.tabs.tab import Picture, Scene, Values
from viz.tabs.views import View


def build() -> dict[str, gr.HTML]:
    """Its parts."""
    return {"many_note": part("many_note", None, kind="about")}


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """What it shows."""
    return {"many_note": Picture(scene.run, lambda: {"text": scene.words["many.about"]})}


VIEW = View("many", build, draw, parts=("many_note",))
