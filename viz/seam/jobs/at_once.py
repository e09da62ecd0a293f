"""Automatic start of slow measures that are quick on the loaded model, so that their views do not open empty."""

from viz.seam.tasks import MeasureTask

MOST_SECONDS = 2.0  # maximum duration of work that starts without a click
PER_LAYER = 1e-3  # minimum seconds per layer of a run, however few its tokens
PER_SECOND = 1e11  # multiply-adds per second of a common computer


def starts_itself(question: MeasureTask) -> bool:
    """Return whether the measure is estimated to be quick.

    Always False on a shared server, where visitors would start each other's.
    """
    if question.measure.cost is None or question.scene.playground.options.public:
        return False
    return seconds(question) <= MOST_SECONDS


def seconds(question: MeasureTask) -> float:
    """Estimate a measure's time from its cost: two operations per weight and token, and a fixed time per layer."""
    assert question.measure.cost
    runs, tokens = question.measure.cost(question.scene, question.resolved)
    model = question.scene.model
    return runs * model.config.n_layer * PER_LAYER + 2 * model.n_params * tokens / PER_SECOND
