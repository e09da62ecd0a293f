"""Draws: the probability bar, a random number, and a thousand draws against theory."""

import gradio as gr

from viz.tabs.parts import part
from viz.tabs.tab import Picture, Scene, Values
from viz.tabs.views import View


def build() -> dict[str, gr.HTML]:
    """Its parts."""
    return {"draws_note": part("draws_note", None, kind="about")}


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """What it shows."""
    return {"draws_note": Picture(scene.run, lambda: {"text": scene.words["draws.about"]})}


VIEW = View("draws", build, draw, parts=("draws_note",))
