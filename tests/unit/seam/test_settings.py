"""Settings that depend on the scene, and measures whose settings mean the same."""

from types import SimpleNamespace

from viz.seam import panels
from viz.seam.settings import Choice, Settings, Text, form, read_all
from viz.seam.tasks import MeasureTask
from viz.seam.view import Measure, View
from viz.words import Words

NAMES = {f"v.settings.{key}": key for key in ("kind", "kind_a", "kind_b", "size", "size_1")}
WORDS = Words(NAMES | {"form.help": "What?"}, "v.settings")


def kinds(scene):
    return ("a", "b") if scene else ()


KIND = Choice("kind", kinds)
SIZE = Choice("size", ("1",), when={"kind": ("a",)})


def test_a_choice_without_options_is_not_shown_and_hides_no_other():
    shown = form((KIND, SIZE), WORDS, True)["controls"]
    assert [each["name"] for each in shown] == ["kind", "size"] and shown[1]["when"] == {"kind": ["a"]}
    (alone,) = form((KIND, SIZE), WORDS, False)["controls"]
    assert alone["name"] == "size" and "when" not in alone
    assert read_all((KIND, SIZE), {"kind": "b"}, False).kind == ""
    assert read_all((KIND, SIZE), {"kind": "b"}, True).kind == "b"


def test_a_default_can_depend_on_the_scene():
    choice = Choice("kind", ("a", "b"), default=lambda scene: scene)
    assert [choice.read(None, scene) for scene in ("b", "a", "none of them")] == ["b", "a", "a"]
    assert choice.control(WORDS, "b")["value"] == "b" and choice.read("a", "b") == "a"


def test_an_option_is_named_in_its_scene():
    choice = Choice("size", ("1",), scene_label=lambda words, option, scene: f"{words['size']} {option} of {scene}")
    assert choice.control(WORDS, 7)["options"] == [["1", "size 1 of 7"]]


def test_equal_questions_are_one_measurement():
    def question(scene, settings):
        return Settings((("even", settings.n % 2 == 0),))

    measure = Measure("main", lambda scene, settings: settings.even, (), ("n",), question=question)
    view = View("v", (), {}, (measure,))
    scene = SimpleNamespace()
    keys = [panels.key_of(MeasureTask(view, measure, scene, Settings((("n", n), ("other", n))))) for n in (2, 4, 5)]
    assert keys[0] == keys[1] != keys[2]
    assert MeasureTask(view, measure, scene, Settings((("n", 4),))).answer() is True


def test_a_file_may_be_opened_into_a_text_that_says_so():
    words = Words({"v.settings.own": "Own"}, "v.settings")
    assert Text("own", file=".jsonl").control(words, None)["file"] == ".jsonl"
    assert "file" not in Text("own").control(words, None)
