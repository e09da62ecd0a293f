"""In the text."""

from viz.tabs.parts import part
from viz.tabs.tab import Picture
from viz.tabs.views import View

VIEW = View(
    "surprise",
    build=lambda: {"surprise": part("surprise", None, kind="about")},
    draw=lambda scene, values: {"surprise": Picture(scene.run, lambda: {"text": scene.words["surprise.about"]})},
    parts=("surprise",),
)
