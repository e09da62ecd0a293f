"""Follow a token."""

from viz.tabs.parts import part
from viz.tabs.tab import Picture
from viz.tabs.views import View

VIEW = View(
    "follow",
    build=lambda: {"follow": part("follow", None, kind="about")},
    draw=lambda scene, values: {"follow": Picture(scene.run, lambda: {"text": scene.words["follow.about"]})},
    parts=("follow",),
)
