"""Automatic start of slow measures that take little time on the loaded model, so that their views are not initially
empty.
"""

from viz.seam.scene import Scene
from viz.seam.tasks import MeasureTask

MOST_SECONDS = 2.0  # maximum estimated duration of a measure that starts without a click
PER_LAYER = 1e-3  # minimum seconds per layer of a run, even for few tokens
PER_SECOND = 1e11  # multiply-adds per second of a typical computer


def starts_itself(question: MeasureTask) -> bool:
    """Return whether the measure is estimated to take little time.

    Always False on a shared server, where visitors would start each other's measures.
    """
    cost = question.measure.cost
    return cost is not None and is_quick(question.scene, *cost(question.scene, question.resolved))


def is_quick(scene: Scene, runs: float, tokens: float) -> bool:
    """Return whether work of this cost may start without a click: it takes little time on a server of one's own."""
    model = scene.model
    seconds = estimate(runs, tokens, model.config.n_layer, model.n_params)
    return not scene.playground.options.public and seconds <= MOST_SECONDS


def estimate(runs: float, tokens: float, n_layer: int, n_params: int) -> float:
    """Estimate the seconds of forward passes: two operations per weight and token, and a fixed time per layer."""
    return runs * n_layer * PER_LAYER + 2 * n_params * tokens / PER_SECOND
