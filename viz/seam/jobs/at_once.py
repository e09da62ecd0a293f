"""Automatic start of slow measures that take little time on the loaded model, so that their views are not initially
empty.
"""

from viz.seam.tasks import MeasureTask

MOST_SECONDS = 2.0  # maximum estimated duration of a measure that starts without a click
PER_LAYER = 1e-3  # minimum seconds per layer of a run, even for few tokens
PER_SECOND = 1e11  # multiply-adds per second of a typical computer


def starts_itself(question: MeasureTask) -> bool:
    """Return whether the measure is estimated to take little time.

    Always False on a shared server, where visitors would start each other's measures.
    """
    if question.measure.cost is None or question.scene.playground.options.public:
        return False
    return seconds(question) <= MOST_SECONDS


def seconds(question: MeasureTask) -> float:
    """Estimate a measure's time from its cost."""
    assert question.measure.cost
    model = question.scene.model
    return estimate(*question.measure.cost(question.scene, question.resolved), model.config.n_layer, model.n_params)


def estimate(runs: float, tokens: float, n_layer: int, n_params: int) -> float:
    """Estimate the seconds of forward passes: two operations per weight and token, and a fixed time per layer."""
    return runs * n_layer * PER_LAYER + 2 * n_params * tokens / PER_SECOND
