"""The distribution: one position's logits through a pipeline of warps."""

import gradio as gr

from viz.tabs.parts import part
from viz.tabs.tab import Picture, Scene, Values
from viz.tabs.views import View


def build() -> dict[str, gr.HTML]:
    """Its parts."""
    return {"shape_note": part("shape_note", None, kind="about")}


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """What it shows."""
    return {"shape_note": Picture(scene.run, lambda: {"text": scene.words["shape.about"]})}


VIEW = View("shape", build, draw, parts=("shape_note",))
