"""What is measured for one drawing only, parts that views share, and wishes that cannot be read."""

import pytest

from model.errors import InputError
from tests.support.models.helpers import byte_model, serving
from viz.page.pipeline import PageRequest, scene_of
from viz.seam import panels
from viz.seam.view import Asking, Custom, Measure, View


@pytest.fixture
def scene(tmp_path):
    return scene_of(serving(byte_model(tmp_path)), PageRequest("tiny", "abcabd ab", None, {}, {}, "en"))


def odd(sent, scene):
    if sent is not None and sent % 2 == 0:
        raise InputError("This number is even.", str(sent), "Send another.")
    return sent


def view(key, made, problems="shown"):
    """A view with a part that asks, shared with others, and one that shows what was measured."""
    parts = {
        "wish": Asking("wish", odd, lambda seen: {"editor": True}, shared=True),
        "shown": Custom("shown", lambda seen: {"n": seen.result}, settings=()),
        "again": Custom("again", lambda seen: {"n": seen.result}, settings=()),
    }
    measure = Measure("main", lambda scene, settings: made.append(settings.wish), settings=("wish",), keep=False)
    return View(key, layout=("wish", "shown", "again"), parts=parts, measures=(measure,), problems=problems)


def test_what_is_not_kept_is_measured_once_a_drawing(scene):
    made, before = [], len(scene.playground.results)
    for picture in panels.pictures(view("a", made), scene, {"wish": 3}).values():
        picture.make()
    assert made == [3] and len(scene.playground.results) == before
    again = scene.key.open(scene.playground)
    panels.pictures(view("a", made), again, {"wish": 3})["a_shown"].make()
    assert made == [3, 3]


def test_a_shared_part_is_the_same_picture_in_every_view(scene):
    pictures = [panels.pictures(view(key, []), scene, {}) for key in ("a", "b")]
    assert pictures[0]["wish"].key == pictures[1]["wish"].key and "a_wish" not in pictures[0]
    assert pictures[0]["a_shown"].key != pictures[1]["b_shown"].key


def test_one_part_says_what_cannot_be_read_and_the_rest_stays(scene):
    pictures = panels.pictures(view("a", []), scene, {"wish": 4})
    assert set(pictures) == {"wish", "a_shown"} and pictures["wish"].make()["editor"]
    with pytest.raises(InputError, match="even"):
        pictures["a_shown"].make()
    with pytest.raises(InputError, match="even"):
        panels.pictures(view("a", [], problems=""), scene, {"wish": 4})
