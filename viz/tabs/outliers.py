"""Outliers."""

from viz.tabs.parts import part
from viz.tabs.tab import Picture
from viz.tabs.views import View

VIEW = View(
    "outliers",
    build=lambda: {"outliers": part("outliers", None, kind="about")},
    draw=lambda scene, values: {"outliers": Picture(scene.run, lambda: {"text": scene.words["outliers.about"]})},
    parts=("outliers",),
)
