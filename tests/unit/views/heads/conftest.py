"""A model that was surveyed, its numbers drawn at random: what the tests of the heads tab share."""

import numpy as np
import pandas as pd
import pytest

from model.attention.head_examples import HeadExample
from model.attention.surveys import Survey
from model.tracing.head_metrics import HEAD_METRICS
from tests.support.models.helpers import H, L
from tests.support.views.views import opened
from viz.seam import panels
from viz.seam.jobs.background import Result
from viz.seam.tasks import MeasureTask
from viz.views.heads.heads.figures import named
from viz.views.heads.heads.measure import Surveyed
from viz.views.heads.heads.view import VIEW


@pytest.fixture
def found():
    """A survey whose numbers are drawn, with two heads that have names, one of them two."""
    rng, keys = np.random.default_rng(0), list(HEAD_METRICS)
    index = pd.MultiIndex.from_product([range(L), range(H)], names=["layer", "head"])
    frames = [pd.DataFrame(rng.random((len(index), len(keys))), index, keys) for _ in range(5)]
    random = Survey("random", 12, frames[0], frames[1] / 10, frames[2])
    labeled = pd.DataFrame(
        {"label": ["self", "induction", "first_token"], "score": [0.4, 0.7, 0.9], "baseline": [0.1, 0.05, 0.1]},
        pd.MultiIndex.from_tuples([(2, 1), (2, 1), (0, 3)], names=["layer", "head"]),
    )
    copied = rng.random((L, H)) * 2 - 1
    sentences = Survey("sentences", 24, frames[3], frames[4] / 10, None)
    texts = (("A", " b"), ("x", " y", " x", "\n"))
    examples = {(2, 1, "induction"): HeadExample(1, 2, (1,), 0.75), (0, 3, "first_token"): HeadExample(0, 1, (0,), 0.5)}
    return Surveyed(random, sentences, named(labeled), copied, texts, examples)


@pytest.fixture
def survey():
    """Has a survey there, as if it had been measured: survey(playground, found)."""

    def put(playground, found) -> None:
        scene = opened(playground, "heads", "heads")
        key = panels.key_of(MeasureTask(VIEW, VIEW.measure("survey"), scene, panels.settings_of(VIEW, scene, {})))
        playground.results.get(key, lambda: Result(found, 2.5))

    return put


@pytest.fixture
def measured(playground, found, survey):
    """The playground with a survey of its model, and the survey."""
    survey(playground, found)
    return playground, found
