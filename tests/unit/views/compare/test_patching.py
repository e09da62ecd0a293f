"""Patching: the map, what is watched, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest

from model.attention import effects
from model.attention.effects import Target, metric, recovered
from model.errors import InputError
from model.sampling.pipeline import softmax
from tests.support.models.helpers import tokens_of
from tests.support.views.compare import asked, cells, drawn, made_by
from viz.charts.layer_head_map import HeadWords
from viz.charts.packed import unpacked_figure
from viz.labels import quoted
from viz.numbers import difference
from viz.page.pipeline import scene_of
from viz.seam import panels
from viz.seam.head_list import strongest
from viz.seam.jobs.background import perform
from viz.seam.selection import Selection
from viz.views.compare.patching import measure
from viz.views.compare.patching.figures import MapWords, head_patch_figure, patch_figure
from viz.views.compare.patching.measure import Watched
from viz.views.compare.patching.view import VIEW
from viz.work.prompt import Prompt

HOSTILE = "<b>&\u202e\x00</b>"
QR = {"target": ord("q"), "distractor": ord("r")}


def opened(playground, prompt="abcab", b=None, form=None, **watched):
    """A scene on which these tokens are watched, and the settings that a page with these forms asks for."""
    selection = {"heads": [[1, 2]], **watched}
    question = asked(prompt, b, "patching", values={"patching_form": form}, selection=selection)
    scene = scene_of(playground, question)
    return scene, panels.settings_of(VIEW, scene, question.values)


def measured(playground, name, **given):
    scene, settings = opened(playground, **given)
    return panels.measured(VIEW, name, scene, settings).value


def shown(playground, prompt, b, form=None, **watched):
    """The parts of a page on which these tokens are watched."""
    selection = {"heads": [[1, 2]], **watched}
    return drawn(playground, prompt, b, "patching", values={"patching_form": form}, selection=selection)


def patched(playground, prompt, b, form, **watched):
    """Start the job as the button does, and draw again."""
    scene, settings = opened(playground, prompt, b, form, **watched)
    list(perform(playground, panels.job_of(VIEW, "patch", scene, settings), "en"))
    return shown(playground, prompt, b, form, **watched)


@pytest.mark.parametrize("site", effects.PATCH_SITES)
@pytest.mark.parametrize("into", ["a", "b"])
def test_patching_map_is_that_of_the_model_code(playground, lm, site, into):
    parts = patched(playground, "abcab", {"prompt": "axcab"}, {"site": site, "into": into}, **QR)
    a, b = lm.trace("abcab"), lm.trace("axcab")
    clean, corrupted = (a, b) if into == "b" else (b, a)
    target = Target("difference", -1, ord("q"), ord("r"))
    raw = effects.patch(clean, corrupted, target, site)
    ends = metric(clean, target), metric(corrupted, target)
    found = parts["patching_map"]
    np.testing.assert_allclose(cells(found), recovered(raw, *ends), atol=1e-5)
    assert parts["patching_job"]["state"] == "done"
    assert "logit(“q”) − logit(“r”)" in found["title"]
    assert f"of {'A' if into == 'b' else 'B'} into {'B' if into == 'b' else 'A'}" in found["title"]
    assert all(difference(end, places=2) in found["note"] for end in ends)
    if site == "resid_pre":  # the whole stream of the last token after the last layer decides; before it, token 1 does
        assert cells(found)[0, 1] == pytest.approx(1, abs=1e-4)


def test_a_map_is_of_its_own_question_only(playground):
    b = {"prompt": "axcab"}
    assert "figure" in patched(playground, "abcab", b, {}, **QR)["patching_map"]
    for form, watched in (({"site": "mlp_out"}, QR), ({"into": "a"}, QR), ({}, QR | {"target": ord("s")})):
        parts = shown(playground, "abcab", b, form, **watched)
        assert parts["patching_map"]["absent"] and parts["patching_job"]["state"] == "idle"


def test_patching_lines_make_the_map(playground, lm, monkeypatch):
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    parts = patched(playground, "abcab", {"prompt": "axcab"}, {"site": "attn_out", "into": "a"})
    np.testing.assert_allclose(made_by(parts["patching_map"]), cells(parts["patching_map"]), atol=1e-5)


def test_the_first_view_is_ready_to_start(playground):
    parts = drawn(playground, "The cat", view="patching")
    assert parts["patching_job"]["state"] == "idle" and parts["patching_map"]["absent"]
    assert parts["run_b"]["controls"][1]["placeholder"] == "The dog"
    assert "12 partial" in drawn(playground, "abcab", {"prompt": "axcab"}, "patching")["patching_job"]["text"]


# --- by head ---


@pytest.mark.parametrize("into", ["a", "b"])
@pytest.mark.parametrize("where", measure.WHERE)
def test_head_map_is_that_of_the_model_code(playground, lm, where, into):
    form = {"by": "head", "where": where, "into": into}
    parts = patched(playground, "abcab", {"prompt": "axcab"}, form, tokens=[2], **QR)
    a, b = lm.trace("abcab"), lm.trace("axcab")
    clean, corrupted = (a, b) if into == "b" else (b, a)
    target = Target("difference", -1, ord("q"), ord("r"))
    raw = effects.patch_heads(clean, corrupted, target, 2 if where == "picked" else None)
    ends = metric(clean, target), metric(corrupted, target)
    found, shares = parts["patching_heads"], recovered(raw, *ends)
    np.testing.assert_allclose(cells(found), shares, atol=1e-5)  # layers down, heads across
    assert found["figure"].layout.meta["heads"] is True and parts["patching_map"]["absent"]
    assert found["ranked"] == strongest(shares, difference)
    assert found["ranked"][0]["text"] == difference(shares.flat[abs(shares).argmax()])
    assert f"each head of {'A' if into == 'b' else 'B'} into {'B' if into == 'b' else 'A'}" in found["title"]
    assert ("at “c” (position 2)" if where == "picked" else "at all positions") in found["title"]
    assert all(difference(end, places=2) in found["note"] for end in ends)


def test_a_head_map_is_of_its_own_question_only(playground):
    b, form = {"prompt": "axcab"}, {"by": "head", "where": "picked"}
    assert "figure" in patched(playground, "abcab", b, form, tokens=[2])["patching_heads"]
    for changed, tokens in ((form | {"into": "a"}, [2]), (form, [3]), (form, []), ({"by": "head"}, [2]), ({}, [2])):
        parts = shown(playground, "abcab", b, changed, tokens=tokens)
        assert parts["patching_heads"]["absent"] and parts["patching_map"]["absent"]
        assert parts["patching_job"]["state"] == "idle"
    assert "figure" in shown(playground, "abcab", b, form | {"site": "mlp_out"}, tokens=[2])["patching_heads"]


def test_all_positions_are_one_question_whichever_token_is_picked(playground):
    b, form = {"prompt": "axcab"}, {"by": "head"}
    patched(playground, "abcab", b, form, tokens=[2])
    assert "figure" in shown(playground, "abcab", b, form, tokens=[3])["patching_heads"]


@pytest.mark.parametrize("form", [{"by": "head", "into": "a"}, {"by": "head", "where": "picked"}])
def test_lines_of_the_head_map_make_it(playground, lm, monkeypatch, form):
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    found = patched(playground, "abcab", {"prompt": "axcab"}, form, tokens=[3])["patching_heads"]
    np.testing.assert_allclose(made_by(found), cells(found), atol=1e-5)


def test_the_button_says_what_it_starts(playground):
    def job(**form):
        return shown(playground, "abcab", {"prompt": "axcab"}, form, tokens=[1])["patching_job"]

    assert job()["start"] == "Patch every layer and position"
    assert job(by="head")["start"] == "Patch every head" and "12 partial" in job(by="head")["text"]
    assert job(by="head", where="picked")["text"].startswith("At “b / x” (position 1).")
    same = shown(playground, "abcab", {"prompt": "abcab"}, {"by": "head"})["patching_job"]
    assert same["state"] == "unready" and same["start"] == "Patch every head"


def test_a_position_before_the_first_difference_is_refused(playground):
    def job(**form):
        return shown(playground, "abcab", {"prompt": "axcab"}, {"by": "head", **form}, tokens=[0])["patching_job"]

    assert job(where="picked")["state"] == "unready" and "from position 1 on" in job(where="picked")["text"]
    assert job()["state"] == "idle"


def test_heads_are_patched_in_prompts_that_are_too_long_for_every_position(playground, monkeypatch):
    monkeypatch.setattr(measure, "MOST_PLACES", 12)
    assert shown(playground, "abcab", {"prompt": "axcab"}, {"by": "head"})["patching_job"]["state"] == "idle"


# --- what is watched ---


def test_default_tokens_are_the_likeliest_of_a_and_of_b(playground, lm):
    usual = measured(playground, "usual", b={"prompt": "axcab"})
    found = measured(playground, "target", b={"prompt": "axcab"})
    a, b = (lm.trace(text).logits_at(-1) for text in ("abcab", "axcab"))
    likely = a.argmax(), b.argmax()
    if likely[0] == likely[1]:
        plausible = np.flatnonzero(np.maximum(softmax(a), softmax(b)) >= measure.PLAUSIBLE)
        change = (a - b)[plausible]
        likely = plausible[change.argmax()], plausible[change.argmin()]
    assert usual == likely and (found.token, found.distractor) == likely
    fields = drawn(playground, "abcab", {"prompt": "axcab"}, "patching")["patching_targets"]["fields"]
    empty = {each["role"]: each["empty"] for each in fields}
    for name, token in zip(("target", "distractor"), likely, strict=True):
        assert f"({quoted(lm.tokenizer.piece(int(token)))})" in empty[name]


def test_tokens_that_both_runs_find_likeliest_give_way_to_those_that_change_most(playground, monkeypatch):
    scene, settings = opened(playground, b={"prompt": "axcab"})
    other = scene.beside("tiny", Prompt("axcab"))
    logits = {id(scene.trace): [5.0, 2.0, 1.0, -9.0], id(other): [5.0, 1.0, 2.5, -19.0]}
    monkeypatch.setattr("model.tracing.trace.Trace.logits_at", lambda self, at: np.array(logits[id(self)]))
    assert panels.measured(VIEW, "usual", scene, settings).value == (1, 2)  # the last one is likely in neither run


def test_picked_tokens_are_watched(playground, lm):
    found = measured(playground, "target", b={"prompt": "axcab"}, **QR)
    assert isinstance(found, Watched) and (found.token, found.distractor) == (ord("q"), ord("r"))
    target = Target("difference", -1, ord("q"), ord("r"))
    assert (found.a, found.b) == (metric(lm.trace("abcab"), target), metric(lm.trace("axcab"), target))
    assert found.ends("b") == (found.a, found.b) and found.ends("a") == (found.b, found.a)


def test_beside_one_picked_token_stands_the_usual_one_that_is_another():
    def tokens(target, distractor):
        picked = Selection(heads=((0, 0),), target=target, distractor=distractor)
        return measure.watched(SimpleNamespace(picked=picked), (7, 8))

    assert tokens(None, None) == (7, 8) and tokens(3, None) == (3, 8) and tokens(None, 3) == (7, 3)
    assert tokens(8, None) == (8, 7) and tokens(None, 7) == (8, 7) and tokens(3, 4) == (3, 4)


# --- what cannot be patched ---


@pytest.mark.parametrize(
    ("b", "watched", "why"),
    [
        ({"prompt": "abcabc"}, {}, "A has 5, B has 6"),
        ({"prompt": "abcab"}, {}, "nothing to patch"),
        ({"prompt": "axcab"}, {"target": ord("q"), "distractor": ord("q")}, "same token"),
    ],
)
def test_what_cannot_be_patched_says_why(playground, b, watched, why):
    scene, settings = opened(playground, "abcab", b, **watched)
    job = panels.job_of(VIEW, "patch", scene, settings)
    with pytest.raises(InputError) as caught, playground.computing:
        job.work(lambda *_: None)
    assert why in caught.value.what
    parts = shown(playground, "abcab", b, **watched)
    assert parts["patching_job"]["state"] == "unready" and parts["patching_map"]["absent"]
    assert why in parts["patching_job"]["text"] and parts["notice"] == {}


@pytest.mark.parametrize(("b", "why"), [({"prompt": "x" * 41}, "too long"), ({"with": "unedited"}, "No edits")])
def test_without_a_run_b_the_reason_stands_for_the_button(playground, b, why):
    scene, settings = opened(playground, "abcab", b)
    job = panels.job_of(VIEW, "patch", scene, settings)
    with pytest.raises(InputError) as caught, playground.computing:
        job.work(lambda *_: None)
    assert "no run B" in caught.value.what
    parts = shown(playground, "abcab", b)
    ((kind, told),) = parts["patching_job"].items()
    assert kind == ("empty" if why == "No edits" else "problem") and why in told["text"]
    assert parts["patching_map"]["absent"] and parts["notice"] == {}


def test_another_model_cannot_be_patched_with(with_models):
    for model in ("alike", "unlike"):
        parts = drawn(with_models, "abcab", {"with": "model", "model": model}, "patching")
        assert "same model" in parts["patching_job"]["empty"]["text"] and "state" not in parts["patching_job"]
        assert parts["patching_form"]["controls"] == [] and parts["patching_targets"]["fields"] == []


def test_the_run_without_edits_can_be_patched_with(playground):
    selection = {"heads": [[2, 0]], "edits": [{"kind": "zero", "layer": 1, "head": 2}]}
    parts = drawn(playground, "abcab", {"with": "unedited"}, "patching", selection=selection)
    # As many tokens, the same model; but no token differs, so all of them are patched.
    assert parts["patching_job"]["state"] == "idle" and "15 partial" in parts["patching_job"]["text"]


def test_a_map_of_too_many_places_is_refused(playground, monkeypatch):
    monkeypatch.setattr(measure, "MOST_PLACES", 12)
    parts = drawn(playground, "abcab", {"prompt": "axcab"}, "patching")
    assert parts["patching_job"]["state"] == "unready" and "the limit is 4 tokens" in parts["patching_job"]["text"]


@pytest.mark.parametrize("value", [None, 3, [], {"site": "resid_post", "into": 4, "by": "layer", "where": [2]}])
def test_patch_values_nobody_checked_become_the_first_choice(playground, value):
    _, settings = opened(playground, b={"prompt": "axcab"}, form=value)
    _, usual = opened(playground, b={"prompt": "axcab"}, form={})
    assert settings == usual and (settings.site, settings.into) == ("resid_pre", "b")


# --- the figure ---


def test_patch_figure_selects_tokens_and_is_centered_on_zero():
    raw = np.array([[0.0, 3.0], [-1.5, 0.0], [0.0, 0.0]])
    figure = patch_figure(raw / 3, raw, tokens_of([1, 2], ("x", HOSTILE)), MapWords("l", "t", "raw", "share"))
    heat = figure.data[0]
    assert heat.customdata[0][1] == {"tokens": [1], "raw": 3.0} and heat.customdata[1][0]["raw"] == -1.5
    assert figure.layout.coloraxis.cmin == -1 and figure.layout.coloraxis.cmax == 1
    assert "<b>" not in figure.to_json() and "\\u003cb\\u003e" not in figure.to_json()
    assert unpacked_figure(figure.to_json())["layout"]["xaxis"]["title"]["text"] == "t"


def test_head_figure_names_both_numbers_and_is_centered_on_zero():
    raw = np.array([[0.0, 3.0], [-1.5, 0.1], [0.0, 0.0]], np.float32)
    figure = head_patch_figure(raw / 3, raw, HeadWords("l", "h", "share"), HOSTILE)
    heat = figure.data[0]
    assert heat.z[0][1] == 1 and heat.customdata[1] == [-1.5, 0.1]  # layers down
    assert figure.layout.coloraxis.cmin == -1 and figure.layout.coloraxis.cmax == 1
    assert "%{z:.4f}" in heat.hovertemplate and "%{customdata:+.4f}" in heat.hovertemplate
    assert "<b>" not in figure.to_json() and "\\u003cb\\u003e" not in figure.to_json()
