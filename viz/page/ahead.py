"""Early pictures of a run in progress: those that depend only on layers already computed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from model.tracing.trace import Trace
from viz.seam.scene import Scene
from viz.seam.view import Picture

WORTH = 0.25  # minimum seconds left in a run for which early pictures are drawn


class Closed(Exception):
    """Error raised if the page has closed its request, so that the answer is no longer needed."""


@dataclass(eq=False)
class Ahead:
    """A renderer of the early pictures of one question during its run."""

    put: Callable[[str, Mapping[str, Any]], None]  # (part, payload): shows a part on the page
    draw: Callable[[Scene], Mapping[str, Picture]]  # the pictures of the open tab
    alive: Callable[[], None] = lambda: None  # raises if the page is no longer waiting, which cancels the run
    waiting: dict[str, Picture] | None = None  # pictures still to be drawn; None until they are known
    run: str = ""

    def see(self, trace: Trace, layers: int, scene: Callable[[], Scene] | None) -> None:
        """Draw the parts that need at most `layers` layers; `scene` makes the unfinished run's scene, if possible.

        This runs in the thread that runs the model, between two layers.
        """
        self.alive()
        layers_left = trace.config.n_layer - layers
        if scene is None or self.waiting == {} or trace.seconds * layers_left < WORTH * layers:
            return
        try:
            if self.waiting is None:
                self._begin(scene())
            self._draw(layers)
        except Exception:
            self.waiting = {}  # the final answer reports the error

    def _begin(self, scene: Scene) -> None:
        self.run = scene.run
        self.waiting = {name: picture for name, picture in self.draw(scene).items() if picture.layers is not None}

    def _draw(self, layers: int) -> None:
        waiting = self.waiting or {}
        for name in [name for name, picture in waiting.items() if (picture.layers or 0) <= layers]:
            self.put(name, waiting.pop(name).make() | {"scene": self.run})


def nothing(trace: Trace, layers: int, scene: Callable[[], Scene] | None) -> None:
    """Show nothing before the answer."""
