"""One norm."""

from viz.tabs.parts import part
from viz.tabs.tab import Picture
from viz.tabs.views import View

VIEW = View(
    "onenorm",
    build=lambda: {"onenorm": part("onenorm", None, kind="about")},
    draw=lambda scene, values: {"onenorm": Picture(scene.run, lambda: {"text": scene.words["onenorm.about"]})},
    parts=("onenorm",),
)
