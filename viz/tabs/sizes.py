"""Sizes."""

from viz.tabs.parts import part
from viz.tabs.tab import Picture
from viz.tabs.views import View

VIEW = View(
    "sizes",
    build=lambda: {"sizes": part("sizes", None, kind="about")},
    draw=lambda scene, values: {"sizes": Picture(scene.run, lambda: {"text": scene.words["sizes.about"]})},
    parts=("sizes",),
)
