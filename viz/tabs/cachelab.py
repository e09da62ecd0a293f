"""The KV cache: what it costs and what it saves, measured here."""

import gradio as gr

from viz.tabs.parts import part
from viz.tabs.tab import Picture, Scene, Values
from viz.tabs.views import View


def build() -> dict[str, gr.HTML]:
    """Its parts."""
    return {"cachelab_note": part("cachelab_note", None, kind="about")}


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """What it shows."""
    return {"cachelab_note": Picture(scene.run, lambda: {"text": scene.words["cachelab.about"]})}


VIEW = View("cachelab", build, draw, parts=("cachelab_note",))
