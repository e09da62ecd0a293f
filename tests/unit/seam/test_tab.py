"""A tab of views: settings that several of them share, a view that stands beside all of them, what is not kept."""

import dataclasses

import pytest

from viz.page.pipeline import PageRequest, scene_of
from viz.seam import panels
from viz.seam.layout import Box, slots
from viz.seam.settings import Choice, Settings
from viz.seam.tab import Tab
from viz.seam.tasks import MeasureTask
from viz.seam.view import Custom, Measure, View
from viz.words import Catalogue, Words, words

SIZE = Choice("size", ("small", "large"), help=lambda words, option: f"{words['why']}: {option}")
COLOR = Choice("color", ("blue", "red"))
WORDS = {f"t.settings.{key}": key for key in ("size", "size_small", "size_large", "color", "color_blue", "color_red")}
WORDS |= {f"{view}.{key}": key for view in ("all", "one", "two") for key in ("view", "about")}
WORDS |= {"t.settings.why": "because", "page.view": "View", "howto.title": "How", "tab.t_question": "What?"}
WORDS |= {"form.help": "What these settings mean"}


def lengths(scene, asked: Settings) -> int:
    return len(scene.tokens) if asked.size == "small" else 2 * len(scene.tokens)


def large(asked: Settings) -> bool:
    return asked.size == "large"


def view(key: str, *settings: Choice, keep=True) -> View:
    names = tuple(each.name for each in settings)
    measure = Measure("main", lengths, settings=("size",), keep=keep) if "size" in names else None
    part = Custom("shown", lambda seen: {"is": seen.settings["size"]} if names else {}, of=("main",) if measure else ())
    return View(key, ("shown",), {"shown": part}, (measure,) if measure else (), tab_settings=settings)


ALL = view("all")
TAB = Tab("t", (view("one", SIZE, COLOR), view("two", SIZE)), beside=ALL)


@pytest.fixture
def scene(playground):
    return scene_of(playground, PageRequest("tiny", "abc", None, {}, {}, "en"))


def test_a_setting_of_the_tab_stands_beside_the_row_of_views_and_is_shown_with_those_that_name_it():
    views, size, color = TAB.fixed(Catalogue(WORDS))["t_view"]["controls"]
    assert views["options"] == [["one", "view", "", ""], ["two", "view", "", ""]]
    assert size["when"] == {"view": ["one", "two"]} and color["when"] == {"view": ["one"]}
    assert size["options"][1] == ["large", "size_large", "because: large"]


@pytest.mark.parametrize("name", ["one", "two"])
def test_its_value_is_the_same_for_all_of_them(scene, name):
    sent = {"t_view": {"view": name, "size": "large", "color": 7}}
    assert TAB.draw(scene, sent)[f"{name}_shown"].make()["is"] == "large"
    assert TAB.draw(scene, {"t_view": {"view": name, "size": []}})[f"{name}_shown"].make()["is"] == "small"
    assert TAB.draw(scene, {"t_view": "x"})["one_shown"].make()["is"] == "small"


def test_what_stands_beside_is_drawn_with_every_view_and_takes_no_turn(scene):
    assert set(TAB.draw(scene, {"t_view": {"view": "two"}})) == {"all_shown", "two_shown"}
    assert TAB.all_views[0] is ALL and not any(
        "all_shown" in parts for parts in TAB.fixed(Catalogue(WORDS))["t_view"]["shows"].values()
    )
    assert "all_shown" in TAB.parts and not {"all_howto", "all_about"} & set(TAB.parts)


def test_it_has_a_column_of_its_own():
    nodes = TAB.layout
    chooser, _, row = nodes  # the row of views, what is said of the chosen one, the columns
    assert chooser.name == "t_view" and isinstance(row, Box)
    left, right = ([slot.name for slot in slots(column.children)] for column in row.children)
    assert left == ["all_shown"] and right[-1] == "two_shown"


def test_parts_of_its_views_can_stand_to_the_left():
    tab = Tab("t", (view("one", SIZE), view("two", SIZE)), left=("two_shown",))
    left, right = ([slot.name for slot in slots(column.children)] for column in tab.layout[-1].children)
    assert left == ["two_shown"] and "one_shown" in right and "two_shown" not in right


@pytest.mark.parametrize("size", ["small", "large"])
def test_what_is_kept_may_depend_on_the_settings(scene, size):
    some = view("some", SIZE, keep=large)
    settings = panels.settings_of(some, scene, {"some_form": {"size": size}})
    assert panels.measured(some, "main", scene, settings).value in (3, 6)
    key = panels.key_of(MeasureTask(some, some.measure("main"), scene, settings))
    assert (scene.playground.results.peek(key) is not None) == (size == "large")


def test_a_help_that_is_no_word_of_its_own():
    assert SIZE.control(Words(WORDS, "t.settings"), None)["options"][0][2] == "because: small"


@pytest.mark.parametrize("fits", [False, True])
def test_a_view_that_is_not_for_the_model_has_no_button_but_is_drawn_on_request(scene, fits):
    some = Tab("t", (view("one", SIZE), dataclasses.replace(view("two", SIZE), offered=lambda config: fits)))
    scene = dataclasses.replace(scene, words=Catalogue({**words("en"), **WORDS}))
    before, now = some.fixed(scene.words)["t_view"], some.draw(scene, {})["t_view"].make()
    assert before["controls"][0]["absent"] == ([] if fits else ["two"])  # before a model is known
    assert now["controls"][0]["absent"] == ([] if fits else ["two"])
    assert now["controls"][0]["options"] == before["controls"][0]["options"]
    assert some.draw(scene, {"t_view": {"view": "two"}})["two_shown"].make()["is"] == "small"
