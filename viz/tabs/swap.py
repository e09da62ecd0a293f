"""Change the norm."""

from viz.tabs.parts import part
from viz.tabs.tab import Picture
from viz.tabs.views import View

VIEW = View(
    "swap",
    build=lambda: {"swap": part("swap", None, kind="about")},
    draw=lambda scene, values: {"swap": Picture(scene.run, lambda: {"text": scene.words["swap.about"]})},
    parts=("swap",),
)
