"""Neurons."""

from viz.tabs.parts import part
from viz.tabs.tab import Picture
from viz.tabs.views import View

VIEW = View(
    "neurons",
    build=lambda: {"neurons": part("neurons", None, kind="about")},
    draw=lambda scene, values: {"neurons": Picture(scene.run, lambda: {"text": scene.words["neurons.about"]})},
    parts=("neurons",),
)
