"""When it appears."""

from viz.tabs.parts import part
from viz.tabs.tab import Picture
from viz.tabs.views import View

VIEW = View(
    "lens",
    build=lambda: {"lens": part("lens", None, kind="about")},
    draw=lambda scene, values: {"lens": Picture(scene.run, lambda: {"text": scene.words["lens.about"]})},
    parts=("lens",),
)
