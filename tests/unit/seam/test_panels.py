"""What is derived from a view: measures that build on others, parts that stay, a tab of one view."""

import collections

import pytest

from model.errors import InputError
from tests.support.models.helpers import byte_model, serving
from viz.page.pipeline import PageRequest, scene_of
from viz.seam import panels
from viz.seam.jobs.background import Result
from viz.seam.tab import Tab
from viz.seam.tasks import MeasureTask
from viz.seam.view import Custom, Measure, Steady, View
from viz.work.prompt import Prompt


@pytest.fixture
def scene(tmp_path):
    return scene_of(serving(byte_model(tmp_path)), PageRequest("tiny", "abcabd ab", None, {}, {}, "en"))


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


def test_a_picture_makes_its_question_once(scene):
    made = []

    def question(scene, settings):
        made.append(settings)
        return settings

    measure = Measure("main", length, question=question, reads=lambda scene, settings: 0)
    view = View("tried", ("plot",), {"plot": Custom("plot", lambda seen: {"n": seen.result})}, (measure,))
    picture = panels.pictures(view, scene, {})["tried_plot"]
    assert picture.make()["n"] == 9 and picture.layers == 1
    assert len(made) == 1, "for its key, its layers, whether it travels, and its numbers"


def test_it_depends_on_what_those_depend_on(scene):
    none = panels.settings_of(VIEW, scene, {})
    other = scene_of(scene.playground, PageRequest("tiny", "abc", None, {}, {}, "en"))
    key = panels.key_of(MeasureTask(VIEW, VIEW.measure("both"), scene, none))
    assert key != panels.key_of(MeasureTask(VIEW, VIEW.measure("both"), other, none))


def test_views_with_one_owner_measure_once(scene):
    def view(key, owner):
        return View(key, layout=(), parts={}, measures=(Measure("length", length, owner=owner),))

    none = panels.settings_of(VIEW, scene, {})
    one, other, third = view("one", "both"), view("other", "both"), view("third", "")
    first, second = (panels.measured(each, "length", scene, none) for each in (one, other))
    assert first is second and panels.measured(third, "length", scene, none) is not first


def test_a_steady_part_is_drawn_once_in_a_language(scene):
    parts = {
        "note": Custom("note", lambda seen: {}, of="length"),
        "lab": Steady("lab", lambda seen: {"n": seen.result}, "length", lambda words: {"n": 0}),
    }
    view = View("tried", ("note", "lab"), parts, (Measure("length", lambda scene, settings: 7, depends=()),))
    other = scene_of(
        scene.playground, PageRequest("tiny", "abc", {"edits": [{"kind": "zero", "layer": 1, "head": 2}]}, {}, {}, "en")
    )
    chinese = scene_of(scene.playground, PageRequest("tiny", "abc", None, {}, {}, "zh"))
    here, there, translated = (panels.pictures(view, each, {}) for each in (scene, other, chinese))
    assert here["tried_lab"].key == there["tried_lab"].key != translated["tried_lab"].key
    assert here["tried_note"].key != there["tried_note"].key  # it names the run
    assert here["tried_lab"].make() == {"n": 7}
    assert panels.fixed(view, scene.words) == {"tried_lab": {"n": 0}}  # as long as there is no scene


class Blank(collections.defaultdict):
    """A catalogue in which every word is empty."""

    def section(self, name):
        return {}


def test_a_view_that_is_the_whole_tab_needs_no_button(scene):
    said = Blank(str)
    view = View("tried", ("note",), {"note": Custom("note", lambda seen: {}, of=())})
    whole, one = Tab("tried", (view,)), Tab("own", (view,))
    assert whole.parts == ("tried_question", "tried_howto", "tried_note") and not whole.asks
    assert set(whole.fixed(said)) == {"tried_question", "tried_howto"}
    assert one.asks == ("own_view",) and {"own_view", "tried_about"} <= set(one.parts)
    assert set(whole.draw(scene, {})) == set(one.draw(scene, {})) == {"tried_note"}


def test_a_run_beside_this_one_is_looked_up_before_the_model_is_held(scene):
    def tokens(scene, settings):
        return len(scene.beside("tiny", Prompt("abcd")).tokens)

    def wish(scene, settings):
        return "tiny", Prompt("abcd")

    def view(beside):
        return View("tried", layout=(), parts={}, measures=(Measure("tokens", tokens, beside=beside),))

    none = panels.settings_of(VIEW, scene, {})
    with pytest.raises(RuntimeError, match="holds the lock"):
        panels.measured(view(None), "tokens", scene, none)
    assert panels.measured(view(wish), "tokens", scene, none).value == 4
    assert panels.measured(view(lambda *_: None), "tokens", scene, none).value == 4  # known by now


@pytest.mark.parametrize("name", ["tiny", "no such model"])
def test_a_run_that_cannot_be_is_for_the_measure_to_answer(scene, name):
    def tokens(scene, settings):
        try:
            return len(scene.beside(name, Prompt("x" * 10_000)).tokens)
        except InputError as error:
            return error.what

    each = Measure("tokens", tokens, beside=lambda scene, settings: (name, Prompt("x" * 10_000)))
    view = View("tried", layout=(), parts={}, measures=(each,))
    assert isinstance(panels.measured(view, "tokens", scene, panels.settings_of(VIEW, scene, {})).value, str)
    assert not scene.playground.computing.locked()
