"""Slow measures that are quick on the model at hand start by themselves, so that their views do not open empty."""

from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Measure, question_of

MOST_SECONDS = 2.0  # of work that is not asked for
PER_LAYER = 1e-3  # seconds of a block of one run, however few tokens it reads
PER_SECOND = 1e11  # multiplications and additions of a common computer


def starts_itself(measure: Measure, scene: Scene, settings: Settings) -> bool:
    """Whether the measure is estimated to be quick; never on a server for strangers, who would start each other's."""
    if measure.cost is None or scene.playground.options.public:
        return False
    return seconds(measure, scene, settings) <= MOST_SECONDS


def seconds(measure: Measure, scene: Scene, settings: Settings) -> float:
    """The estimated time of a measure that has a cost: two operations a weight and token, and a fixed time a block."""
    assert measure.cost
    runs, tokens = measure.cost(scene, question_of(measure, scene, settings))
    return runs * scene.model.config.n_layer * PER_LAYER + 2 * scene.model.n_params * tokens / PER_SECOND
