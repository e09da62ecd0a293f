"""The view of probes, its direction as an edit and in Steering, its function for programs and its Python lines."""

import numpy as np
import pytest

from model.gpt.edit_checks import edit_of
from model.probes.examples import typed
from model.probes.probe import probe
from tests.support.models.helpers import L, assert_close, byte_tokenizer
from tests.support.views.views import array, drawn, no_holes, perform, playground_of, run_lines, traces
from viz.api.registry import call
from viz.views.activations.probe.view import VIEW
from viz.views.effects.steering.view import VIEW as STEERING

LINES = "\n".join(f"{name}: {word} {n}" for n in range(6) for name, word in (("up", "aaa"), ("down", "zzz")))
MARKED = "\n".join(f"a [x:b{n}] c" for n in range(5))
FORM = {"set": "own", "own": LINES, "read": "mean", "site": "resid_mid", "layer": 1}


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    return playground_of(byte_tokenizer(tmp_path_factory.mktemp("bytes")), "llama")


@pytest.fixture(scope="module")
def parts(playground):
    perform(playground, "activations", VIEW, "probes", FORM)
    return drawn(playground, "activations", "probe", FORM)


def test_the_figures_are_the_probes_and_the_button_holds_the_direction(playground, parts):
    no_holes(parts)
    lm = playground.opened("tiny")
    found = probe(lm, typed(lm, LINES), read="mean", draws=19)
    at = found.at("resid_mid", 1)
    shown = [n for n, (site, _) in enumerate(found.cells) if site == "resid_mid"]
    assert_close(array(traces(parts["curve"])[-1]["y"]), found.accuracy[shown], 1e-5)
    edit = edit_of(parts["use"]["edit"], lm.config, 9)
    assert (edit.site, edit.layer, edit.name) == ("resid_mid", 1, "probe: up")
    run = lm.trace("abcabd ab")
    moved = run.edit(edit).middle(1) - run.middle(1)
    assert_close(moved, np.tile(found.directions[at, 0], (len(run.tokens), 1)), 1e-4)
    assert len(parts["cells"]["rows"]) == L + 1 and parts["cells"]["rows"][0][1]["text"].endswith("%")
    assert parts["examples"]["title"].startswith("Held-out examples in layer 1: 0 of 12 wrong")
    assert_close(run_lines(parts["curve"]["python"], lm)[1][-1], found.accuracy[shown], 1e-9)


def test_its_direction_opens_in_steering(playground, parts):
    way = parts["use"]["open"]
    assert (way["tab"], way["view"]) == ("effects", "steering")
    form = way["form"] | {"watch": "b"}
    perform(playground, "effects", STEERING, "main", form)
    steered = drawn(playground, "effects", "steering", form)
    assert {name: steered["use"]["edit"][name] for name in ("vector", "site", "layer")} == {
        name: parts["use"]["edit"][name] for name in ("vector", "site", "layer")
    }


def test_tokens_are_labeled_and_shown_in_their_texts(playground):
    form = {"set": "own", "own": MARKED, "layer": 2}
    perform(playground, "activations", VIEW, "probes", form)
    parts = drawn(playground, "activations", "probe", form, language="zh")
    no_holes(parts)
    assert parts["examples"]["columns"][1] == "词元" and parts["examples"]["lines"][2][:3] == ["a b0 c", "b", "x"]


def test_lines_that_cannot_be_read_are_said(playground):
    parts = drawn(playground, "activations", "probe", FORM | {"read": "last"})
    assert "12 texts in 12 groups (up 6, down 6)" in parts["job"]["text"] and len(parts["examples"]["lines"]) == 12
    parts = drawn(playground, "activations", "probe", {"set": "own", "own": "no label"})
    assert "has no label" in str(parts["examples"])


def test_for_programs_the_same_numbers(playground):
    found = call(playground, VIEW.api[0], {"set": "own", "own": LINES, "read": "mean"})
    lm = playground.opened("tiny")
    expected = probe(lm, typed(lm, LINES), read="mean", draws=19)
    assert found["classes"] == ["up", "down"] and found["examples"] == 12
    assert [each["accuracy"] for each in found["cells"]] == expected.accuracy.tolist()
    assert [(each["site"], each["layer"]) for each in found["cells"]] == list(expected.cells)
