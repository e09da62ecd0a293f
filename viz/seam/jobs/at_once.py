"""Slow measures that are quick on the loaded model start by themselves, so that their views do not open empty."""

from viz.seam.tasks import Question

MOST_SECONDS = 2.0  # of work that is not asked for
PER_LAYER = 1e-3  # seconds of a block of one run, however few tokens it reads
PER_SECOND = 1e11  # multiplications and additions of a common computer


def starts_itself(question: Question) -> bool:
    """Return whether the measure is estimated to be quick.

    Always False on a shared server, where visitors would start each other's.
    """
    if question.measure.cost is None or question.scene.playground.options.public:
        return False
    return seconds(question) <= MOST_SECONDS


def seconds(question: Question) -> float:
    """Estimate a measure's time from its cost: two operations per weight and token, and a fixed time per layer."""
    assert question.measure.cost
    runs, tokens = question.measure.cost(question.scene, question.asked)
    model = question.scene.model
    return runs * model.config.n_layer * PER_LAYER + 2 * model.n_params * tokens / PER_SECOND
