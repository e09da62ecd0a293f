"""The view of norms and residuals without a browser, and its endpoints: what is drawn follows from the numbers."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest

from model.design.block_trials import VARIANTS, WIRINGS, Starts, Trained, Trial, chapter, exponent
from model.text.held_out import bundled_text
from tests.support.models.helpers import byte_model, serving
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.charts.lines import running_mean
from viz.numbers import decimals, number
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.jobs.result_size import nbytes_of
from viz.seam.view import Seen
from viz.views.design.norms_residuals import first_steps
from viz.views.design.norms_residuals import view as norms_residuals
from viz.views.design.norms_residuals.first_steps import last_mean
from viz.views.design.norms_residuals.view import VIEW
from viz.views.design.trials import data
from viz.words import LANGUAGES, Words, words

NAMED = {each.name: each for each in ENDPOINTS}
AFTER = ("loss", "heat", "table", "facts")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(model):
    return serving(model)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Trainings of a few steps."""
    monkeypatch.setattr(norms_residuals, "STEPS", {4: 3, 8: 3, 16: 3})


def opened(playground, language="en"):
    return scene_of(playground, PageRequest("tiny", "abc", None, {}, {}, language))


def values(form=None, training=None):
    return {"norms_residuals_form": form, "norms_residuals_training": training}


def drawn(playground, sent=None, language="en"):
    """The payloads by their short names."""
    pictures = panels.pictures(VIEW, opened(playground, language), sent or {})
    return {name.removeprefix("norms_residuals_"): picture.make() for name, picture in pictures.items()}


def job_of(playground, name, sent=None):
    scene = opened(playground)
    return panels.job_of(VIEW, name, scene, panels.settings_of(VIEW, scene, sent or {}))


def done(playground, name, sent=None, language="en"):
    list(background.perform(playground, job_of(playground, name, sent), "en"))
    return drawn(playground, sent, language)


def traces(payload):
    return payload["figure"].to_dict()["data"]


def gradients(playground, depth, start):
    scene = opened(playground)
    settings = panels.settings_of(VIEW, scene, values({"depth": str(depth), "start": start}))
    return panels.measured(VIEW, "starts", scene, settings).value


def trained(losses=None, norms=None):
    """A result of chosen numbers."""
    losses = np.full((5, 20), 3.0) if losses is None else losses
    norms = np.ones((5, 20, 4)) if norms is None else norms
    return Trained(Trial(4, steps=20), losses, norms, np.full(5, 0.02), np.full(20, 3.3))


def seen(playground, part, result, sent=None):
    """What a part of the training draws from."""
    scene = opened(playground)
    settings, own = panels.settings_of(VIEW, scene, sent or {}), Words(words("en"), "norms_residuals")
    return Seen("norms_residuals", part, result, {}, {}, {}, settings, own, panels.facts_of(scene))


def run_lines(text):
    *lines, last = text.splitlines()
    space = {}
    exec("\n".join(lines), space)
    return eval(re.sub(r"\s+#.*$", "", last), space)


# --- before the first step ---


@pytest.mark.parametrize("of", ["weights", "stream"])
def test_gradients_are_drawn_at_once(playground, of):
    parts = drawn(playground, values({"depth": "4", "start": "glorot", "of": of}))
    measured = gradients(playground, 4, "glorot")
    lines = [each for each in traces(parts["starts"]) if each.get("hoverinfo") != "skip"]
    assert len(lines) == len(WIRINGS)
    for line, lengths in zip(lines, getattr(measured, of), strict=True):
        assert line["y"] == pytest.approx(lengths.mean(0).tolist(), rel=1e-5)
        assert line["text"][0] == f"{number(lengths[:, 0].min())} – {number(lengths[:, 0].max())}"
    assert all(set(parts[name]) == {"empty"} for name in (*AFTER, "depths"))
    pre = dict(parts["start_facts"]["items"])["pre-norm"]
    first, end = getattr(measured, of)[0].mean(0)[[0, -1]]
    assert number(first) in pre and number(end) in pre and f"{number(max(first / end, end / first))} times" in pre


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([4.0, 1, 1, 2], "The first is 2 times the last."),
        ([1.0, 9, 9, 3], "The last is 3 times the first."),
        ([1.0, 9, 9, 1.05], "They differ by less than 10%."),
    ],
)
def test_a_sentence_says_what_the_numbers_do(playground, monkeypatch, row, expected):
    result = Starts(4, np.array([[row]] * 4), np.ones((4, 1, 4)), np.ones((4, 1)))
    monkeypatch.setattr(norms_residuals, "starts", lambda *_: result)
    items = dict(drawn(playground, values({"depth": "4"}))["start_facts"]["items"])
    assert items["pre-norm"].endswith(expected)
    assert items["Last layer, post-norm over pre-norm"].endswith("a ratio of 1.")


@pytest.mark.long
def test_depths_are_measured_by_a_job(playground):
    parts = done(playground, "depths", values({"depth": "4", "start": "glorot"}))
    lines = {each["name"]: each for each in traces(parts["depths"]) if "name" in each}
    assert lines["pre-norm"]["x"] == [4, 8, 16] and lines["∝ 1/√L"]["hoverinfo"] == "skip"
    fall = lines["∝ 1/√L"]["y"]
    assert fall == pytest.approx([fall[0], fall[0] / math.sqrt(2), fall[0] / 2], rel=1e-5)
    assert fall[0] == lines["pre-norm"]["y"][0]
    text = dict(parts["start_facts"]["items"])["Last layer"]
    power = exponent((4, 8, 16), lines["pre-norm"]["y"])
    assert f"pre-norm {decimals(power)}" in text and "theorem 1" in text
    assert "empty" not in drawn(playground, values({"depth": "8", "start": "glorot"}))["depths"]


# --- the first steps ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_training_is_shown(playground, language):
    sent = values({"depth": "4"}, {"variant": "post"})
    parts = done(playground, "training", sent, language)
    result = playground.results.peek(job_of(playground, "training", sent).key).value
    assert result.trial == Trial(4, steps=3)
    lines = traces(parts["loss"])
    assert len(lines) == 6 and lines[0]["y"] == pytest.approx(running_mean(result.losses[0]).tolist(), rel=1e-5)
    assert lines[5]["y"] == pytest.approx(running_mean(result.frequencies).tolist(), rel=1e-5)
    (heat,) = traces(parts["heat"])
    assert heat["x"] == [1, 2, 3] and heat["y"] == [0, 1, 2, 3]
    assert len(parts["table"]["rows"]) == len(VARIANTS)
    assert "0.003" in parts["loss"]["source"]
    texts = [text for part in parts.values() for text in part.values() if isinstance(text, str | list)]
    assert not re.search(r"\{[a-z_]+\}", json.dumps(texts, ensure_ascii=False))
    other = drawn(playground, values({"depth": "4"}, {"variant": "pre"}))
    assert "empty" not in other["heat"]  # it is one of those that were trained


def test_facts_follow_from_the_losses(playground):
    losses = np.full((5, 20), 3.0)
    losses[:, -10:] = np.array([2.5, 2.51, 3.0, 2.75, 3.3])[:, None]
    norms = np.ones((5, 20, 4))
    norms[2, -1, 0] = 1e-5
    result = trained(losses, norms)
    facts = dict(first_steps.facts(seen(playground, "facts", result))["items"])
    assert facts["Pre-norm against post-norm"].endswith("The first ends 0.500 nats lower.")
    assert facts["Warm-up, pre-norm"].endswith("They end within 0.02 nats of each other.")
    assert facts["Warm-up, post-norm"].endswith("The first ends 0.250 nats higher.")
    assert facts["Vanishing gradients"].endswith(f"in: post-norm ({number(1e-5)}).")
    table = first_steps.table(seen(playground, "table", result))
    names = "pre-norm, pre-norm, no warm-up, post-norm, post-norm, no warm-up"
    assert table["check"] == f"Below the unigram baseline by more than 0.02 nats: {names}."
    level = first_steps.facts(seen(playground, "facts", trained()))["items"]
    assert "no variant" in dict(level)["Vanishing gradients"]
    flat = first_steps.table(seen(playground, "table", trained(np.full((5, 20), 3.3))))
    assert flat["check"].startswith("No variant is below")


def test_a_run_that_went_astray_is_said(playground):
    losses, norms = np.full((5, 20), 3.0), np.ones((5, 20, 4))
    losses[1, 7:], norms[1, 7:] = np.nan, np.nan
    result, cold = trained(losses, norms), values(None, {"variant": "pre_cold"})
    assert first_steps.table(seen(playground, "table", result))["rows"][1][2] == "step 8: not finite"
    assert "not finite" in dict(first_steps.facts(seen(playground, "facts", result))["items"])["Warm-up, pre-norm"]
    loss = first_steps.loss(seen(playground, "loss", result))
    assert traces(loss)[1]["y"][7:] == [None] * 13
    assert packed(loss) and packed(first_steps.heat(seen(playground, "heat", result, cold)))  # as they are sent
    nothing = trained(np.full((5, 20), np.nan), np.full((5, 20, 4), np.nan))
    rows = first_steps.table(seen(playground, "table", nothing))["rows"]
    assert {len(row) for row in rows} == {7} and rows[0][4] == "–"
    for part in (first_steps.loss, first_steps.facts, first_steps.heat):
        assert packed(part(seen(playground, part.__name__, nothing)))


@pytest.mark.parametrize("name", ["training", "depths"])
def test_jobs_can_be_cancelled(playground, name):
    steps = background.perform(playground, job_of(playground, name), "en")
    next(steps)
    steps.close()
    with playground.computing:
        pass


@pytest.mark.parametrize("sent", [None, [], {"depth": "1000000", "start": 3}, {"depth": None}])
def test_what_is_not_offered_is_the_default(playground, sent):
    scene = opened(playground)
    settings = panels.settings_of(VIEW, scene, values(sent, sent))
    assert norms_residuals.training_question(scene, settings).trial == Trial(steps=3)


def test_running_means_by_hand():
    assert running_mean(np.array([1.0, 3, 5, 7]), 2).tolist() == [1, 2, 4, 6]
    assert last_mean(np.array([[1.0, 3, 5], [1, np.nan, 5]]), 2)[0] == 4.0
    assert math.isnan(last_mean(np.array([[1.0, np.nan, 5]]), 2)[0])


def test_the_chapter_is_whole_and_in_paragraphs():
    text, whole = chapter(), bundled_text()
    parts = text.split("<|endoftext|>")
    assert len(parts) > 50 and all(part.strip() in whole for part in parts)
    assert "".join(text.replace("<|endoftext|>", "").split()) == "".join(whole.split())
    assert data() is data()


# --- Python, programs ---


def test_the_python_lines_give_the_same_numbers(playground):
    sent = values({"depth": "4", "start": "gpt2", "of": "stream"})
    parts = done(playground, "training", sent)
    again = run_lines(parts["starts"]["python"])
    np.testing.assert_allclose(again, gradients(playground, 4, "gpt2").stream, rtol=1e-4)
    result = playground.results.peek(job_of(playground, "training", sent).key).value
    np.testing.assert_allclose(run_lines(parts["loss"]["python"]), result.losses, rtol=1e-4)
    np.testing.assert_allclose(run_lines(parts["heat"]["python"]), result.norms[0], rtol=1e-3)


def ask(playground, name, **given):
    answer = call(playground, NAMED[name], given)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    return answer


def test_endpoints_give_the_numbers_of_the_view(playground):
    answer = ask(playground, "gradient_norms", depth=4, start="glorot")
    own = gradients(playground, 4, "glorot")
    np.testing.assert_allclose([each["weights"] for each in answer["wirings"]], own.weights, rtol=1e-6)
    answer = ask(playground, "wiring_trial", depth=2, steps=2)
    assert [each["variant"] for each in answer["variants"]] == list(VARIANTS)
    assert np.shape(answer["variants"][0]["norms"]) == (2, 2) and len(answer["frequencies"]) == 2


def test_results_are_small():
    result = dataclasses.replace(trained(), norms=np.zeros((5, 200, 16)))
    assert nbytes_of(result) < 1 << 20
