"""What a page is shown of a run that goes on: the pictures that read no more than the layers that are done."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from model.tracing.trace import Trace
from viz.seam.scene import Scene
from viz.seam.view import Picture
from viz.work.early import Asked, Early

WORTH = 0.25  # seconds that the rest of a run is to take at least, for its pictures to be drawn before


@dataclass(eq=False)
class Ahead:
    """Draws for one question, as its run goes on."""

    early: Early
    asked: Asked
    draw: Callable[[Scene], Mapping[str, Picture]]  # of the open tab
    waiting: dict[str, Picture] | None = None  # what is to be drawn, once that is known
    run: str = ""

    def see(self, trace: Trace, layers: int, scene: Callable[[], Scene]) -> None:
        """Draw what reads no more than so many layers; `scene` is that of the unfinished run.

        It goes on in the thread that runs the model, between two layers.
        """
        rest = trace.config.n_layer - layers
        if self.waiting == {} or trace.seconds * rest < WORTH * layers:
            return
        try:
            if self.waiting is None:
                self._begin(scene())
            self._draw(layers)
        except Exception:
            self.waiting = {}  # what is wrong is said by the answer itself

    def _begin(self, scene: Scene) -> None:
        self.run = scene.run
        self.waiting = {name: picture for name, picture in self.draw(scene).items() if picture.layers is not None}

    def _draw(self, layers: int) -> None:
        waiting = self.waiting or {}
        for name in [name for name, picture in waiting.items() if (picture.layers or 0) <= layers]:
            self.early.put(self.asked, name, waiting.pop(name).make() | {"scene": self.run})


def nothing(trace: Trace, layers: int, scene: Callable[[], Scene]) -> None:
    """Nothing is shown before the answer."""


def ahead(early: Early, asked: Asked, draw: Callable[[Scene], Mapping[str, Picture]]) -> Callable:
    """`Ahead.see` for a page that numbers its questions, which alone can fetch what was drawn; else `nothing`."""
    return Ahead(early, asked, draw).see if all(asked) else nothing
