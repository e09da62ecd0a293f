"""The picture of the residual stream without a browser: its points are the projection of the model code."""

from functools import partial

import numpy as np
import pytest

from model.activations.principal_components import principal
from model.gpt.edits import Edit
from tests.support.models.helpers import serving
from tests.support.views import activations
from tests.support.views.activations import PROMPT, figure, model_of
from tests.support.views.views import array, perform, run_lines
from viz.numbers import percent
from viz.page.parts import packed
from viz.page.pipeline import payloads, scene_of
from viz.seam import panels
from viz.seam.panels import names_of
from viz.views.activations.stream_picture import view
from viz.views.activations.stream_picture.figures import MOST_LABELS
from viz.views.activations.stream_picture.view import VIEW
from viz.views.activations.tab import TAB
from viz.words import LANGUAGES
from viz.work.playground import Options

asked = partial(activations.asked, VIEW.key)
drawn = partial(activations.drawn, VIEW.key)
ZERO = [{"kind": "zero", "layer": 0, "head": 1}]


@pytest.fixture(scope="module", params=["gpt2", "llama", "post"])
def lm(request, tmp_path_factory):
    """Its vocabulary is smaller than its output head."""
    return model_of(request.param, tmp_path_factory.mktemp("bytes"), 261)


@pytest.fixture
def playground(lm):
    return serving(lm, Options(model="tiny", max_tokens=60))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_drawing_of_the_stream_fills_every_part(playground, language):
    parts = drawn(playground, language=language)
    assert set(names_of(VIEW)) <= set(parts) and set(names_of(VIEW)) <= set(TAB.parts)
    assert "figure" in parts["stream_picture_map"] and parts["stream_picture_job"]["state"] == "done"
    assert parts["stream_picture_form"]["controls"][0]["max"] == 3


@pytest.mark.parametrize(
    "form,axes,scaled,first",
    [
        ({}, (0, 1), True, True),
        ({"axes": "23", "states": "raw", "layer": 3}, (1, 2), False, True),
        ({"axes": "13", "first": False, "layer": 0}, (0, 2), True, False),
    ],
)
def test_points_and_paths_are_the_projection(playground, lm, form, axes, scaled, first):
    payload = drawn(playground, values={"stream_picture_form": form}, edits=ZERO)["stream_picture_map"]
    found = principal(lm.trace(PROMPT).edit(Edit("zero", 0, 1)), scaled=scaled, first=first)
    layer = form.get("layer", 1)
    *paths, points = figure(payload)["data"]
    for name, axis in (("x", axes[0]), ("y", axes[1])):
        assert (array(points[name]) == found.coordinates[layer, :, axis]).all()
        assert (array(paths[0][name]) == found.coordinates[:, 4 - found.start, axis]).all()
        assert array(paths[1][name]).tolist() == [found.coordinates[layer, 4 - found.start, axis]]
    assert len(paths) == (4 if first else 2)
    assert [each["tokens"] for each in points["customdata"]] == [[at] for at in range(found.start, 5)]
    for share in found.shares:
        assert percent(share) in payload["note"]
    axis = figure(payload)["layout"]["xaxis"]
    assert percent(found.shares[axes[0]]) in axis["title"]["text"]
    x = found.coordinates[..., axes[0]]
    assert axis["range"][0] < x.min() and x.max() < axis["range"][1]  # of all layers
    assert f"{(3 + 1) * (5 - found.start)} states" in payload["note"]


def test_picked_tokens_are_followed(playground):
    def followed(tokens, form=None):
        payload = drawn(playground, prompt="abcab" * 4, values={"stream_picture_form": form}, tokens=tokens)[
            "stream_picture_map"
        ]
        return tuple(trace["customdata"][0]["tokens"][0] for trace in figure(payload)["data"][:-1:2])

    assert followed([]) == (19, 0) and followed([3, 1]) == (3, 1)
    assert followed([0, 2], {"first": False}) == (2,) and followed([0], {"first": False}) == ()
    assert followed(list(range(12))) == tuple(range(4, 12))


def test_moving_the_layer_computes_nothing_again(playground, monkeypatch):
    _, shown = payloads(playground, asked())
    monkeypatch.setattr(view, "principal", lambda *_, **__: pytest.fail("computed again"))
    parts = drawn(playground, values={"stream_picture_form": {"layer": 3, "axes": "13"}}, shown=shown)
    assert set(parts) & set(names_of(VIEW)) == {"stream_picture_map"}
    assert "after the last layer" in parts["stream_picture_map"]["title"]


def test_a_wide_model_is_asked_about_first(playground, monkeypatch):
    monkeypatch.setattr(view, "QUICK", 0)
    parts = drawn(playground)
    assert set(parts["stream_picture_map"]) == {"empty"} and parts["stream_picture_job"]["state"] == "idle"
    perform(playground, "activations", VIEW, "space", prompt=PROMPT)
    parts = drawn(playground)
    assert "figure" in parts["stream_picture_map"] and "Measured here" in parts["stream_picture_job"]["text"]
    other = drawn(playground, values={"stream_picture_form": {"states": "raw"}})
    assert set(other["stream_picture_map"]) == {"empty"}


@pytest.mark.parametrize("language,said", [("en", "nothing is left"), ("zh", "什么都不剩")])
def test_one_token_without_itself_is_said_in_the_readers_language(playground, language, said):
    parts = drawn(playground, prompt="a", values={"stream_picture_form": {"first": False}}, language=language)
    assert said in parts["stream_picture_map"]["problem"]["text"]


@pytest.mark.parametrize("form", [None, 3, {"layer": "x", "states": 1, "axes": [], "first": 0}, {"layer": 99}])
def test_a_form_that_is_none_is_the_usual_picture(playground, form):
    settings = panels.settings_of(VIEW, scene_of(playground, asked()), {"stream_picture_form": form})
    assert (settings.states, settings.first, settings.axes) == ("unit", True, "12")
    assert settings.layer == (3 if form == {"layer": 99} else 1)


def test_labels_stand_beside_few_points_only(playground):
    few, many = (
        figure(drawn(playground, prompt="a" * n)["stream_picture_map"])["data"][-1]
        for n in (MOST_LABELS, MOST_LABELS + 1)
    )
    assert few["mode"] == "markers+text" and many["mode"] == "markers"


@pytest.mark.parametrize("prompt", ["a", "\n", "\u202e<b>{token}</b>", "abcd" * 15])
def test_short_long_and_hostile_prompts_are_drawn(playground, prompt):
    parts = drawn(playground, prompt=prompt)
    for name in names_of(VIEW):
        assert "problem" not in parts[name], name
        assert "\u202e" not in packed(parts[name]), name


def test_the_python_lines_make_the_points(playground, lm):
    form = {"states": "raw", "first": False, "axes": "23", "layer": 2}
    payload = drawn(playground, values={"stream_picture_form": form}, edits=ZERO)["stream_picture_map"]
    value = run_lines(payload["python"], lm)[1][-1]
    points = figure(payload)["data"][-1]
    assert (value == np.stack([array(points["x"]), array(points["y"])], 1)).all()
