"""The views of wirings and of MLPs without a browser, and their endpoints: what is drawn follows from the numbers."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest

from model.design.block_trials import VARIANTS, WIRINGS, Starts, Trained, Trial, chapter, exponent
from model.design.mlp_trials import KINDS, Compared, MlpTrial
from model.design.past_length import bundled_text
from tests.support.helpers import byte_model, serving
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.page import background
from viz.page.pipeline import Asked, payloads, scene_of
from viz.views.design.mlps import view as mlps
from viz.views.design.mlps.figures import largest_gap, slices
from viz.views.design.norms_residuals import first_steps
from viz.views.design.norms_residuals import view as norms_residuals
from viz.views.design.norms_residuals.figures import last_mean, running_mean, told
from viz.words import LANGUAGES, section

NAMED = {each.name: each for each in ENDPOINTS}
AFTER = ("wiring_loss", "wiring_heat", "wiring_table", "wiring_facts")


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


def question(view, values=None, language="en"):
    return Asked("tiny", "abc", None, {"design_view": {"view": view}} | (values or {}), {}, language, "design")


def drawn(playground, view, values=None, language="en"):
    parts = payloads(playground, question(view, values, language))[0]
    json.dumps(parts, allow_nan=False)
    return parts


def done(playground, view, plan, values=None, language="en"):
    job = plan(scene_of(playground, question(view, values)), values or {})
    list(background.perform(playground, job, "en"))
    return drawn(playground, view, values, language)


def figure(payload):
    return json.loads(payload["figure"])


def made(trial=None, losses=None, norms=None):
    """A result of chosen numbers."""
    trial = trial or Trial(4, steps=20)
    losses = np.full((5, 20), 3.0) if losses is None else losses
    norms = np.ones((5, 20, 4)) if norms is None else norms
    return Trained(trial, losses, norms, np.full(5, 0.02), np.full(20, 3.3))


def run_lines(text):
    *lines, last = text.splitlines()
    space = {}
    exec("\n".join(lines), space)
    return eval(re.sub(r"\s+#.*$", "", last), space)


# --- before the first step ---


@pytest.mark.parametrize("of", ["weights", "stream"])
def test_gradients_are_drawn_at_once(playground, of):
    values = {"wiring_form": {"depth": "4", "start": "glorot", "of": of}}
    parts = drawn(playground, "wiring", values)
    found = norms_residuals.found_starts(playground, 4, "glorot")
    lines = [each for each in figure(parts["wiring_starts"])["data"] if each.get("hoverinfo") != "skip"]
    assert len(lines) == len(WIRINGS)
    for line, numbers in zip(lines, getattr(found, of), strict=True):
        assert line["y"] == pytest.approx(numbers.mean(0).tolist())
    assert all(set(parts[name]) == {"empty"} for name in (*AFTER, "wiring_depths"))
    pre = dict(parts["wiring_said"]["items"])["pre-norm"]
    first, end = getattr(found, of)[0].mean(0)[[0, -1]]
    assert told(first) in pre and told(end) in pre and f"{told(max(first / end, end / first))} times" in pre


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ([4.0, 1, 1, 2], "The first is 2 times the last."),
        ([1.0, 9, 9, 3], "The last is 3 times the first."),
        ([1.0, 9, 9, 1.05], "They agree within 10 %."),
    ],
)
def test_a_sentence_says_what_the_numbers_do(playground, monkeypatch, row, wanted):
    found = Starts(4, np.array([[row]] * 4), np.ones((4, 1, 4)), np.ones((4, 1)))
    monkeypatch.setattr(norms_residuals, "found_starts", lambda *_: found)
    items = dict(drawn(playground, "wiring", {"wiring_form": {"depth": "4"}})["wiring_said"]["items"])
    assert items["pre-norm"].endswith(wanted)
    assert items["Last block, post- over pre-norm"].endswith("a ratio of 1.")


def test_depths_are_measured_by_a_job(playground):
    parts = done(playground, "wiring", norms_residuals.plan_depths, {"wiring_form": {"depth": "4", "start": "glorot"}})
    lines = {each["name"]: each for each in figure(parts["wiring_depths"])["data"] if "name" in each}
    assert lines["pre-norm"]["x"] == [4, 8, 16]
    fall = lines["∝ 1/√L"]["y"]
    assert fall == pytest.approx([fall[0], fall[0] / math.sqrt(2), fall[0] / 2])
    said = dict(parts["wiring_said"]["items"])["Last block"]
    power = exponent((4, 8, 16), lines["pre-norm"]["y"])
    assert f"pre-norm {power:.2f}".replace("-0", "−0") in said and "theorem 1" in said
    assert (
        "empty" not in drawn(playground, "wiring", {"wiring_form": {"depth": "8", "start": "glorot"}})["wiring_depths"]
    )


# --- the first steps ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_training_is_shown(playground, language):
    values = {"wiring_form": {"depth": "4"}, "wiring_training": {"variant": "post"}}
    parts = done(playground, "wiring", norms_residuals.plan_training, values, language)
    found = playground.results.peek(norms_residuals.train_job(playground, Trial(4, steps=3)).key).value
    lines = figure(parts["wiring_loss"])["data"]
    assert len(lines) == 6 and lines[0]["y"] == pytest.approx(running_mean(found.losses[0]).tolist())
    assert lines[5]["y"] == pytest.approx(running_mean(found.frequencies).tolist())
    (heat,) = figure(parts["wiring_heat"])["data"]
    assert heat["x"] == [1, 2, 3] and heat["y"] == [0, 1, 2, 3]
    assert len(parts["wiring_table"]["rows"]) == len(VARIANTS)
    text = json.dumps({name: parts[name] for name in norms_residuals.PARTS if name in parts}, ensure_ascii=False)
    assert "0.003" in parts["wiring_loss"]["source"] and not re.search(r"\{[a-z_]+\}", text.replace("%{", ""))


def test_facts_follow_from_the_losses(playground):
    scene = scene_of(playground, question("wiring"))
    losses = np.full((5, 20), 3.0)
    losses[:, -10:] = np.array([2.5, 2.51, 3.0, 2.75, 3.3])[:, None]
    norms = np.ones((5, 20, 4))
    norms[2, -1, 0] = 1e-5
    facts = dict(first_steps.facts_payload(scene, made(losses=losses, norms=norms))["items"])
    assert facts["Pre- against post-norm"].endswith("The first ends 0.500 nats lower.")
    assert facts["Warm-up, pre-norm"].endswith("They end within 0.02 nats of each other.")
    assert facts["Warm-up, post-norm"].endswith("The first ends 0.250 nats higher.")
    assert facts["Vanishing gradients"].endswith("in: post-norm (1.00e−5).")
    table = first_steps.table_payload(scene, made(losses=losses, norms=norms))
    names = "pre-norm, pre-norm, no warm-up, post-norm, post-norm, no warm-up"
    assert table["check"] == f"Below the frequencies by more than 0.02 nats: {names}."
    level = first_steps.facts_payload(scene, made())["items"]
    assert "no variant" in dict(level)["Vanishing gradients"]
    flat = first_steps.table_payload(scene, made(losses=np.full((5, 20), 3.3)))
    assert flat["check"].startswith("None is below")


def test_a_run_that_went_astray_is_said(playground):
    scene = scene_of(playground, question("wiring"))
    losses, norms = np.full((5, 20), 3.0), np.ones((5, 20, 4))
    losses[1, 7:], norms[1, 7:] = np.nan, np.nan
    found = made(losses=losses, norms=norms)
    assert first_steps.table_payload(scene, found)["rows"][1][2] == "step 8: not finite"
    assert "no finite number" in dict(first_steps.facts_payload(scene, found)["items"])["Warm-up, pre-norm"]
    for payload in (first_steps.loss_payload(scene, found), first_steps.heat_payload(scene, found, "pre_cold")):
        json.dumps(payload, allow_nan=False)
    assert figure(first_steps.loss_payload(scene, found))["data"][1]["y"][7:] == [None] * 13
    nothing = made(losses=np.full((5, 20), np.nan), norms=np.full((5, 20, 4), np.nan))
    for make in (first_steps.loss_payload, first_steps.table_payload, first_steps.facts_payload):
        json.dumps(make(scene, nothing), allow_nan=False)
    json.dumps(first_steps.heat_payload(scene, nothing, "pre"), allow_nan=False)


@pytest.mark.parametrize("plan", [norms_residuals.plan_training, norms_residuals.plan_depths, mlps.plan])
def test_jobs_can_be_cancelled(playground, plan):
    steps = background.perform(playground, plan(scene_of(playground, question("wiring")), {}), "en")
    next(steps)
    steps.close()
    with playground.computing:
        pass


@pytest.mark.parametrize("sent", [None, [], {"depth": "1000000", "start": 3}, {"depth": None}])
def test_what_is_not_offered_is_the_default(sent):
    assert norms_residuals.trial_of({"wiring_form": sent, "wiring_training": sent}) == Trial(steps=3)
    assert mlps.trial_of({"mlps_training": sent}) == MlpTrial(steps=240)


def test_running_means_by_hand():
    assert running_mean(np.array([1.0, 3, 5, 7]), 2).tolist() == [1, 2, 4, 6]
    assert last_mean(np.array([[1.0, 3, 5], [1, np.nan, 5]]), 2)[0] == 4.0
    assert math.isnan(last_mean(np.array([[1.0, np.nan, 5]]), 2)[0])
    assert told(-0.05) == "−0.05" and told(math.nan) == "–" and told(1.5e-9) == "1.50e−9" and told(2736.2) == "2,736"


def test_the_chapter_is_whole_and_in_paragraphs():
    text, whole = chapter(), bundled_text()
    parts = text.split("<|endoftext|>")
    assert len(parts) > 50 and all(part.strip() in whole for part in parts)
    assert "".join(text.replace("<|endoftext|>", "").split()) == "".join(whole.split())


# --- MLPs ---


def test_functions_and_sizes_are_drawn_at_once(playground):
    parts = drawn(playground, "mlps")
    assert [len(figure(parts[name])["data"]) for name in ("mlps_left", "mlps_right")] == [4, 4]
    assert parts["mlps_cost"]["same"] and {row[4] for row in parts["mlps_cost"]["rows"]} == {"250,656"}
    assert "3 · 96 · 256 = 2 · 96 · 384" in parts["mlps_cost"]["source"]
    assert set(parts["mlps_loss"]) == set(parts["mlps_facts"]) == {"empty"}
    parts = drawn(playground, "mlps", {"mlps_form": {"show": "gate"}}, "zh")
    assert figure(parts["mlps_left"])["data"][0]["type"] == "heatmap" and len(figure(parts["mlps_right"])["data"]) == 5


def test_gaps_and_slices():
    x = np.array([-1.0, 0, 1])
    assert largest_gap(x, np.array([0.0, 1, 2]), np.array([0.0, 1, 2.5])) == (0.5, 1.0)
    values = np.arange(9.0).reshape(3, 3)
    assert [row.tolist() for row in slices(x, values, [1.0, -1.0])] == [[6, 7, 8], [0, 1, 2]]


def compared(held):
    held = np.array(held, dtype=float)
    return Compared(
        MlpTrial(steps=20),
        np.full((3, 3, 20), 2.0),
        (10, 20),
        np.repeat(held[:, :, None], 2, 2),
        np.array([0.02, 0.01, 0.01]),
        100,
        3.2,
    )


def test_the_result_says_whether_seeds_explain_it(playground):
    scene = scene_of(playground, question("mlps"))
    found = compared([[1.0, 1.1, 1.2], [2.0, 2.1, 2.3], [2.0, 2.2, 2.1]])
    facts = dict(mlps.facts_payload(scene, found)["items"])
    assert facts["SwiGLU against GELU"].startswith("SwiGLU ends 1.033 nats lower, and every seed of one is lower")
    assert "(0.300)" in facts["SwiGLU against GELU"] and "no winner" in facts["GELU against ReLU"]
    assert facts["Time"].endswith("2 times, with the same count of FLOPs.")
    beyond = compared([[3.0, 1.0, 1.0], [1.0, 4.5, 4.5], [2, 2, 2]])
    assert dict(mlps.facts_payload(scene, beyond)["items"])["SwiGLU against GELU"].startswith("SwiGLU ends 1.667 nats")
    broken = compared([[np.nan, 1, 1], [1, 1, 1], [1, 1, 1]])
    assert "nothing to compare" in dict(mlps.facts_payload(scene, broken)["items"])["SwiGLU against GELU"]
    for make in (mlps.facts_payload, mlps.table_payload, mlps.loss_payload):
        json.dumps(make(scene, broken), allow_nan=False)
    assert "smallest" in section(scene.words, "mlpstable")["spread"]


def test_a_training_of_mlps_is_shown(playground, monkeypatch):
    monkeypatch.setattr(mlps, "trial_of", lambda values: MlpTrial(steps=2))
    monkeypatch.setattr(mlps, "TAKES", {2: 1})
    parts = done(playground, "mlps", mlps.plan)
    assert parts["mlps_job"]["state"] == "done" and len(parts["mlps_table"]["rows"]) == len(KINDS)
    assert len([each for each in figure(parts["mlps_loss"])["data"] if "name" in each]) == 4


# --- Python, programs ---


def test_the_python_lines_give_the_same_numbers(playground):
    values = {"wiring_form": {"depth": "4", "start": "gpt2", "of": "stream"}}
    parts = done(playground, "wiring", norms_residuals.plan_training, values)
    again = run_lines(parts["wiring_starts"]["python"])
    np.testing.assert_allclose(again, norms_residuals.found_starts(playground, 4, "gpt2").stream, rtol=1e-4)
    found = playground.results.peek(
        norms_residuals.plan_training(scene_of(playground, question("wiring")), values).key
    ).value
    np.testing.assert_allclose(run_lines(parts["wiring_loss"]["python"]), found.losses, rtol=1e-4)
    np.testing.assert_allclose(run_lines(parts["wiring_heat"]["python"]), found.norms[0], rtol=1e-3)
    left, right = (run_lines(drawn(playground, "mlps")[name]["python"]) for name in ("mlps_left", "mlps_right"))
    assert left["silu"][80] == 0 and right["silu"][80] == pytest.approx(0.5)
    gate = run_lines(drawn(playground, "mlps", {"mlps_form": {"show": "gate"}})["mlps_left"]["python"])
    assert gate.shape == (81, 81)


def ask(playground, name, **given):
    found = call(playground, NAMED[name], given)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def test_endpoints_give_the_numbers_of_the_views(playground):
    found = ask(playground, "gradient_norms", depth=4, start="glorot")
    own = norms_residuals.found_starts(playground, 4, "glorot")
    np.testing.assert_allclose([each["weights"] for each in found["wirings"]], own.weights, rtol=1e-6)
    trained = ask(playground, "wiring_trial", depth=2, steps=2)
    assert [each["variant"] for each in trained["variants"]] == list(VARIANTS)
    assert np.shape(trained["variants"][0]["norms"]) == (2, 2) and len(trained["frequencies"]) == 2
    sizes = ask(playground, "mlp_costs")
    assert {each["params"] for each in sizes["kinds"]} == {250_656} and len(sizes["functions"]) == 4
    trial = ask(playground, "mlp_trial", steps=6)
    held = np.array([each["held_out"] for each in trial["kinds"]])[:, :, -1]
    assert trial["verdict"]["difference"] == pytest.approx(held[0].mean() - held[1].mean(), rel=1e-5)
    assert trial["moments"] == [1, 2, 3, 4, 5, 6]


def test_results_are_small():
    found = dataclasses.replace(made(), norms=np.zeros((5, 200, 16)))
    assert background.held(found) < 1 << 20
