"""Does the gradient reach layer 0: what the view draws and says of its stacks."""

import json

import numpy as np
import pytest

from model.design.depth_gradients import Stack, by_layer
from tests.support.models.helpers import byte_model, serving
from tests.support.views.endpoints import ask
from viz.numbers import number
from viz.page.pipeline import PageRequest, scene_of
from viz.seam import panels
from viz.views.training.depth_gradients.view import VIEW
from viz.words import LANGUAGES, words


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    return serving(byte_model(tmp_path_factory.mktemp("bytes")))


def drawn(playground, form=None, language="en"):
    scene = scene_of(playground, PageRequest("tiny", "abc", None, {}, {}, language))
    pictures = panels.pictures(VIEW, scene, {"depth_gradients_form": form})
    return {name.removeprefix("depth_gradients_"): picture.make() for name, picture in pictures.items()}


def curves(parts):
    """The lines of the figure that have hovers, by name."""
    return {
        each.name: each.y for each in parts["lengths"]["figure"].data if each.mode != "lines" and each.hovertemplate
    }


def test_the_lines_are_the_lengths_of_both_wirings(playground):
    parts = drawn(playground)
    for name, residual in (("without residuals", False), ("with residuals", True)):
        np.testing.assert_allclose(curves(parts)[name], by_layer(Stack(residual=residual)).mean(0), rtol=1e-5)
    guides = [each.name for each in parts["lengths"]["figure"].data if (each.name or "").startswith("chain rule")]
    assert guides == ["chain rule, without residuals", "chain rule, with residuals"]
    assert parts["lengths"]["figure"].layout.yaxis.type == "log"
    scope: dict = {}
    *lines, last = parts["lengths"]["python"].split("\n")
    exec("\n".join(lines), scope)
    ran = eval(last.split("  #")[0], scope)
    np.testing.assert_allclose(ran[0], by_layer(Stack()), rtol=1e-12)


def test_one_wiring_alone_and_none_predicted_where_no_rule_gives_it(playground):
    parts = drawn(playground, {"residual": "with", "activation": "relu", "depth": 5})
    assert list(curves(parts)) == ["with residuals"] and len(curves(parts)["with residuals"]) == 6
    assert not [each for each in parts["lengths"]["figure"].data if (each.name or "").startswith("chain rule")]


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ({"residual": "without"}, "falls"),
        ({"residual": "without", "gain": 1.1}, "grows"),
        ({"residual": "without", "gain": 1.0}, "even"),
        ({"residual": "with"}, "grows"),
    ],
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_sentences_say_what_the_numbers_are(playground, form, kind, language):
    said = words(language)
    (name, text), (_, why) = drawn(playground, form, language)["facts"]["items"]
    residual = form["residual"] == "with"
    first = float(by_layer(Stack(residual=residual, gain=form.get("gain", 0.9))).mean(0)[0])
    assert name == said["depth_gradients.with" if residual else "depth_gradients.without"]
    start = said[f"depth_gradients.facts.{kind}"].split("{")[0]
    assert text.startswith(start) and number(first) in text
    assert why == said[f"depth_gradients.facts.why_{form['residual']}"]


def test_why_follows_the_norm(playground):
    for norm, last in (("pre", "norm_pre"), ("post", "why_post")):
        items = drawn(playground, {"norm": norm})["facts"]["items"]
        assert items[-1][1] == words("en")[f"depth_gradients.facts.{last}"]


def test_the_endpoint_gives_both(playground):
    answer = ask(playground, "depth_gradients", depth=6, gain=0.5)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    np.testing.assert_allclose(answer["without"]["lengths"], by_layer(Stack(6, gain=0.5)), rtol=1e-6)
    assert answer["without"]["predicted"] == pytest.approx([0.5**n for n in range(6, -1, -1)])
    assert ask(playground, "depth_gradients", activation="tanh")["with_residuals"]["predicted"] is None
