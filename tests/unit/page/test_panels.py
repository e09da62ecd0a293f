"""Measures that build on others."""

import pytest

from tests.support.helpers import byte_model, serving
from viz.page import panels
from viz.page.background import Result
from viz.page.pipeline import Asked, scene_of
from viz.page.view import Measure, View


@pytest.fixture
def scene(tmp_path):
    return scene_of(serving(byte_model(tmp_path)), Asked("tiny", "abcabd ab", None, {}, {}, "en"))


def length(scene, settings):
    return len(scene.tokens)


def slowly(scene, settings, progress):
    return 10


def both(scene, settings, results):
    return results["length"] + (results["slow"] or 0)


VIEW = View(
    "tried",
    layout=(),
    parts={},
    measures=(
        Measure("length", length),
        Measure("slow", slowly, slow=True),
        Measure("both", both, depends=("head",), uses=("length", "slow")),
    ),
)


def test_a_measure_gets_the_results_of_those_that_it_uses(scene):
    none = panels.settings_of(VIEW, scene, {})
    assert panels.measured(VIEW, "both", scene, none).value == 9
    job = panels.job_of(VIEW, "slow", scene, none)
    scene.playground.results.get(job.key, lambda: Result(job.work(lambda *_: None), 0.0))
    assert panels.measured(VIEW, "both", scene, none).value == 19  # its key says what it was built on


def test_it_depends_on_what_those_depend_on(scene):
    none = panels.settings_of(VIEW, scene, {})
    other = scene_of(scene.playground, Asked("tiny", "abc", None, {}, {}, "en"))
    key = panels.key_of(VIEW, VIEW.measure("both"), scene, none)
    assert key != panels.key_of(VIEW, VIEW.measure("both"), other, none)


def test_views_with_one_owner_measure_once(scene):
    def view(key, owner):
        return View(key, layout=(), parts={}, measures=(Measure("length", length, owner=owner),))

    none = panels.settings_of(VIEW, scene, {})
    one, other, third = view("one", "both"), view("other", "both"), view("third", "")
    first, second = (panels.measured(each, "length", scene, none) for each in (one, other))
    assert first is second and panels.measured(third, "length", scene, none) is not first
