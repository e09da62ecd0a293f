"""Guess first."""

from viz.tabs.parts import part
from viz.tabs.tab import Picture
from viz.tabs.views import View

VIEW = View(
    "guess",
    build=lambda: {"guess": part("guess", None, kind="about")},
    draw=lambda scene, values: {"guess": Picture(scene.run, lambda: {"text": scene.words["guess.about"]})},
    parts=("guess",),
)
