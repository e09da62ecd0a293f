"""The values of a scene on which measures and pictures can depend, by the names of `viz.seam.view.Depends`."""

from collections.abc import Callable, Mapping
from typing import Any

from model.loading.sources import available
from viz.seam.scene import Scene
from viz.seam.view import Depends


def depended(scene: Scene, names: tuple[Depends, ...]) -> tuple:
    """Return the values on which a measure or a picture depends, in order."""
    return tuple(_DEPENDS[name](scene) for name in names)


_DEPENDS: Mapping[str, Callable[[Scene], Any]] = {
    "run": lambda scene: scene.trace.key,
    "plain": lambda scene: (scene.trace.key.model_id, scene.trace.key.ids),
    "model": lambda scene: scene.model.id,
    "edits": lambda scene: scene.picked.edits,
    "head": lambda scene: scene.head,
    "heads": lambda scene: scene.picked.heads,
    "layer": lambda scene: scene.head[0],
    "token": lambda scene: scene.position,
    "tokens": lambda scene: scene.picked.tokens,
    "pair": lambda scene: scene.picked.pair,
    "watched": lambda scene: (scene.picked.target, scene.picked.distractor),
    "limit": lambda scene: scene.limit,
    "prompt": lambda scene: scene.prompt,
    "chat": lambda scene: bool(scene.prompt.turns),
    "visitor": lambda scene: tuple((run.id, len(run.reports)) for run in scene.playground.workshop.of(scene.visitor)),
    "trained": lambda scene: tuple(run.id for run in scene.playground.workshop.of(scene.visitor) if run.left_a_model),
    "built_in": lambda scene: available(),
    "loaded": lambda scene: tuple(scene.playground.loaded()),
}
