"""Speculative decoding: a draft proposes, the model accepts or rejects."""

import gradio as gr

from viz.tabs.parts import part
from viz.tabs.tab import Picture, Scene, Values
from viz.tabs.views import View


def build() -> dict[str, gr.HTML]:
    """Its parts."""
    return {"drafting_note": part("drafting_note", None, kind="about")}


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """What it shows."""
    return {"drafting_note": Picture(scene.run, lambda: {"text": scene.words["drafting.about"]})}


VIEW = View("drafting", build, draw, parts=("drafting_note",))
