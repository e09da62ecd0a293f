"""Run B: which run it is, what is said where there is none, and what a page may send."""

import dataclasses

import numpy as np
import pytest

from model.gpt.edits import Edit
from model.tracing.head_metrics import HEAD_METRICS
from tests.support.models.talking import talking_model, talking_server
from tests.support.views.compare import asked, cells, drawn
from viz.page.examples import EXAMPLES
from viz.page.pipeline import scene_of
from viz.seam import panels
from viz.views.compare import run_b
from viz.views.compare.run_b import NoRunB, RunBRequest
from viz.views.compare.runs.view import VIEW
from viz.views.tabs import TABS
from viz.work.playground import Playground
from viz.work.prompt import Prompt

EDIT = {"kind": "zero", "layer": 1, "head": 2}
QUIET = ("runs_a", "runs_b", "runs_difference", "runs_heads", "runs_next")


def other_of(playground, question):
    scene = scene_of(playground, question)
    return panels.measured(VIEW, "other", scene, panels.settings_of(VIEW, scene, question.values)).value


def test_the_run_without_edits(playground, lm):
    selection = {"heads": [[2, 0]], "edits": [EDIT]}
    parts = drawn(playground, "abcab", {"with": "unedited"}, selection=selection)
    edited = lm.trace("abcab").edit(Edit("zero", 1, 2))
    expected = edited.pattern(2, 0) - lm.trace("abcab").pattern(2, 0)
    np.testing.assert_allclose(np.nan_to_num(cells(parts["runs_difference"])), expected, atol=1e-6)
    assert np.abs(expected).max() > 1e-3
    other = other_of(playground, asked("abcab", {"with": "unedited"}, selection=selection))
    assert other.same_model and not other.same_run


def test_a_model_that_was_loaded_again_is_still_the_same(playground, lm):
    """A server with many models forgets one and loads it again: another object, with the same weights."""
    question = asked("abcab", {"prompt": "axcab"})
    scene = scene_of(playground, question)
    playground.models.drop(lambda key: False)
    playground.models.get(lm.id, lambda: dataclasses.replace(lm))
    assert playground.opened(lm.id) is not scene.model
    other = panels.measured(VIEW, "other", scene, panels.settings_of(VIEW, scene, question.values)).value
    assert other.same_model and not other.same_run


def test_an_edited_run_beside_another_prompt_says_so(playground):
    parts = drawn(playground, "abcab", {"prompt": "axcab"}, selection={"heads": [[2, 0]], "edits": [EDIT]})
    assert parts["runs_alignment"]["note"] == "A runs with your edits, B without."
    assert "Both runs are the same" in drawn(playground, "abcab", {"prompt": "abcab"})["runs_alignment"]["note"]


def test_without_edits_there_is_no_unedited_run_to_compare_with(playground):
    parts = drawn(playground, "abcab", {"with": "unedited"})
    assert parts["runs_alignment"]["empty"]["text"] == "No edits are active."
    assert "Effects" in parts["runs_alignment"]["empty"]["hint"]
    way = parts["runs_alignment"]["empty"]["way"]
    assert way["view"] in {view.key for tab in TABS if tab.key == way["tab"] for view in tab.views}
    patching = drawn(playground, "abcab", {"with": "unedited"}, "patching")
    assert set(patching["patching_job"]) == {"empty"}  # no button that does nothing
    assert all(parts[name]["absent"] for name in QUIET) and parts["notice"] == {}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    ("prompt", "what"), [("x" * 41, "too long"), ("x" * 300_000, "300000 characters"), ("\ud800", "surrogate")]
)
def test_a_bad_prompt_of_b_is_said_in_this_tab_and_breaks_nothing(playground, prompt, what, language):
    parts = drawn(playground, "abcab", {"prompt": prompt}, language=language)
    problem = parts["runs_alignment"]["problem"]
    assert problem["text"] and problem["hint"] and parts["notice"] == {}
    assert what in problem["text"] if language == "en" else "太长" in problem["text"] or "代理" in problem["text"]
    assert all(parts[name]["absent"] for name in QUIET)


@pytest.mark.parametrize(
    "form", [None, "x", [1], {"with": "nonsense"}, {"with": []}, {"prompt": 7}, {"prompt": None}, {"measure": {"a": 1}}]
)
def test_form_values_nobody_checked_become_the_first_choice(playground, form):
    scene = scene_of(playground, asked("The cat"))
    assert run_b.read(form, scene) == RunBRequest("prompt", "tiny", Prompt("The dog"))


@pytest.mark.parametrize("form", [{"measure": "rollout"}, {"measure": {"a": 1}}, 3])
def test_a_measure_nobody_checked_becomes_the_first_one(playground, form):
    first, found = drawn(playground), drawn(playground, values={"runs_form": form})
    assert found["runs_a"]["figure"] == first["runs_a"]["figure"]


def test_another_model_of_the_same_shape(with_models, lm):
    parts = drawn(with_models, "abcab", {"with": "model", "model": "alike"})
    other = with_models.load("alike").trace("abcab")
    np.testing.assert_allclose(np.nan_to_num(cells(parts["runs_b"])), other.pattern(1, 2), atol=1e-6)
    n = list(HEAD_METRICS).index("previous_token")
    expected = lm.trace("abcab").metrics[..., n] - other.metrics[..., n]
    np.testing.assert_allclose(cells(parts["runs_heads"]), expected, atol=1e-6)


def test_another_model_with_other_tokens_has_no_difference_and_says_why(with_models):
    parts = drawn(with_models, "abcab", {"with": "model", "model": "unlike"})
    assert parts["runs_difference"]["absent"] and "figure" not in parts["runs_difference"]
    assert parts["runs_alignment"]["counts"] is None
    assert "different vocabularies" in parts["runs_alignment"]["note"]
    assert "closest to those of A's head 1.2" in parts["runs_b"]["note"]
    assert "Unlike" in parts["runs_b"]["source"] and "Tiny" in parts["runs_a"]["source"]
    assert "no counterparts" in parts["runs_heads"]["empty"]["hint"]
    assert [step[0] for step in parts["runs_alignment"]["steps"]] == ["same"] * 5  # by their bytes
    assert len(parts["runs_next"]["tables"]) == 2 and "Unlike" in parts["runs_next"]["source"]
    question = asked("abcab", {"with": "model", "model": "unlike"})
    shares = panels.measured(
        VIEW,
        "next",
        scene_of(with_models, question),
        panels.settings_of(VIEW, scene_of(with_models, question), question.values),
    ).value
    assert shares.pieces_b[0] == with_models.load("unlike").tokenizer.piece(int(shares.b.argmax()))


def test_the_head_of_another_model_can_be_chosen_within_its_bounds(with_models):
    def title(**form):
        form = {"with": "model", "model": "unlike", **form}
        return drawn(with_models, "abcab", form)["runs_b"]["title"]

    assert title(layer=1, head=3) == "B: head 1.3"
    chosen = drawn(with_models, "abcab", {"with": "model", "model": "unlike", "layer": 1, "head": 3})["runs_b"]
    assert "nearest" not in chosen["note"]
    assert title(layer=99, head=-4) == "B: head 1.0"
    assert title(layer="1", head=True) == title()
    assert title(layer=float("nan")) == title()


@pytest.mark.parametrize("model_id", ["smollm2-360m", "/etc", "../x", "hub:a/b", 7, None, "tiny"])
def test_a_model_that_is_not_offered_is_never_loaded(with_models, model_id, monkeypatch):
    loaded = []
    original = Playground.load
    monkeypatch.setattr(Playground, "load", lambda self, name, *rest: (loaded.append(name), original(self, name))[1])
    drawn(with_models, "abcab", {"with": "model", "model": model_id})
    assert loaded and set(loaded) <= {"tiny", "alike"}


def test_a_model_that_failed_to_load_is_tried_again_once_it_is_loaded(with_models, monkeypatch):
    from model.errors import InputError

    question = asked("abcab", {"with": "model", "model": "alike"})
    with_models.failures["alike"] = InputError("It is broken.", "", "Choose another.")
    assert other_of(with_models, question) == NoRunB("", "It is broken.", "", "Choose another.")
    assert drawn(with_models, "abcab", {"with": "model", "model": "alike"})["runs_b"]["absent"]
    del with_models.failures["alike"]
    assert other_of(with_models, question).label == "Alike"
    assert "figure" in drawn(with_models, "abcab", {"with": "model", "model": "alike"})["runs_b"]


def test_models_offered_are_those_on_this_computer_but_not_this_one(playground, monkeypatch):
    monkeypatch.setattr(run_b, "available", lambda: ("tinygpt",))
    scene = scene_of(playground, asked())
    assert list(run_b.models_ready(scene)) == ["tinygpt"]
    monkeypatch.setattr(run_b, "available", lambda: ())
    parts = drawn(playground, "abcab", {"with": "model"})
    assert parts["runs_alignment"]["empty"]["text"] == "There is no other model on this computer."


def test_both_views_measure_run_b_once(playground, monkeypatch):
    counted = []
    original = run_b.align
    monkeypatch.setattr(run_b, "align", lambda a, b: (counted.append(1), original(a, b))[1])
    for view in ("runs", "patching", "runs"):
        drawn(playground, "abcab", {"prompt": "axcab"}, view)
    assert len(counted) == 1


def test_suggestions_differ_from_every_example():
    for prompt in (text for offered in EXAMPLES.values() for text in offered.values()):
        assert run_b.suggestion(prompt) != prompt
    for prompt, other in {
        "One day a dog met a cat.": "One day a cat met a cat.",
        "nothing to swap": "swap to nothing",
        "def add(a, b): add": "add def(a, b): add",
        "你好": "你好",
        "": "",
    }.items():
        assert run_b.suggestion(prompt) == other


def test_the_line_that_makes_the_run():
    assert RunBRequest("prompt", "m", Prompt("it's")).line == 'other = lm.trace("it\'s")'
    assert RunBRequest("model", "m", Prompt("a")).line == "other = load_model('m').trace('a')"
    assert RunBRequest("unedited", "m", Prompt("a")).line == "other = run.unedited()"
    talk = RunBRequest("model", "m", Prompt("", (("user", "a"), ("assistant", "")))).line
    assert talk.startswith("other_lm = load_model('m')\nother = other_lm.trace(other_lm.chat([")


def test_another_last_text_of_a_conversation(tmp_path):
    server = talking_server(talking_model(tmp_path))
    chat = {"on": True, "turns": [["user", "The cat"], ["assistant", ""]]}
    question = dataclasses.replace(asked("else", {"with": "prompt"}), chat=chat)
    other = other_of(server, question)
    assert other.request.prompt.turns == (("user", "The dog"), ("assistant", ""))
    lm = server.opened("tiny")
    assert other.tokens.ids.tolist() == lm.chat([{"role": "user", "content": "The dog"}]).ids.tolist()
