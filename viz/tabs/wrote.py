"""Who wrote it."""

from viz.tabs.parts import part
from viz.tabs.tab import Picture
from viz.tabs.views import View

VIEW = View(
    "wrote",
    build=lambda: {"wrote": part("wrote", None, kind="about")},
    draw=lambda scene, values: {"wrote": Picture(scene.run, lambda: {"text": scene.words["wrote.about"]})},
    parts=("wrote",),
)
