"""Stream picture."""

from viz.tabs.parts import part
from viz.tabs.tab import Picture
from viz.tabs.views import View

VIEW = View(
    "space",
    build=lambda: {"space": part("space", None, kind="about")},
    draw=lambda scene, values: {"space": Picture(scene.run, lambda: {"text": scene.words["space.about"]})},
    parts=("space",),
)
