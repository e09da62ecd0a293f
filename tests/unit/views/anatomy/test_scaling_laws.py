"""The view of scaling laws without a browser: plans, pictures, known models, and the visitor's own runs."""

import numpy as np
import pytest

from model.anatomy.known_models import KNOWN
from model.anatomy.scaling import LAWS, optimum, planned
from model.api import LanguageModel
from model.training.jobs.job import Job, Started
from model.training.loop import Report
from tests.support.models.helpers import VARIANTS, byte_tokenizer, serving, tiny_model
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.numbers import count, interval, number, power
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.settings import read_all
from viz.views.anatomy.scaling_laws import own_runs
from viz.views.anatomy.scaling_laws.measure import budget
from viz.views.anatomy.scaling_laws.view import VIEW
from viz.words import LANGUAGES, words
from viz.work.processes.training_process import LiveRun

NAMED = {each.name: each for each in ENDPOINTS}


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    model = tiny_model({**VARIANTS["gpt2"], "vocab_size": 256, "n_ctx": 64})
    return serving(LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path_factory.mktemp("bytes"))))


PICTURES = [f"scaling_laws_{name}" for name in ("plan", "loss", "plane", "price", "models", "fits")]


def drawn(playground, form=None, language="en", visitor=""):
    values = {"anatomy_view": {"view": "scaling_laws"}, "scaling_laws_form": form}
    request = PageRequest("tiny", "abc", None, values, {}, language, "anatomy", visitor=visitor)
    parts = payloads(playground, request)[0]
    packed(parts)
    return parts


# --- the plan ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_everything_is_drawn_at_once(playground, language):
    parts = drawn(playground, language=language)
    assert set(PICTURES) <= set(parts)
    assert not [name for name in PICTURES if "empty" in parts[name] or "problem" in parts[name]]
    assert "empty" in parts["scaling_laws_mine"]
    assert [each["kind"] for each in parts["scaling_laws_again"]["controls"]] == ["button"]
    assert "{" not in "".join(parts[name].get("source", "") + parts[name].get("about", "") for name in PICTURES)


def test_the_plan_is_that_of_every_law(playground):
    table = drawn(playground)["scaling_laws_plan"]
    assert len(table["rows"]) == len(LAWS) and len(table["columns"]) == 7
    for law, row in zip(LAWS, table["lines"], strict=True):
        plan = optimum(law, 5.76e23)
        assert row[1:6] == [plan.params, plan.tokens, plan.compute, plan.ratio, plan.loss]
    assert table["rows"][1][1:3] == ["67.0 B", "1.43 T"] and "5.76 × 10²³" in table["title"]


@pytest.mark.parametrize(
    ("form", "kind", "value"),
    [
        ({"given": "params", "params": 8e9}, "params", 8e9),
        ({"given": "tokens", "tokens": 1.4e12}, "tokens", 1.4e12),
        ({"given": "gpu", "hours": 2, "rate": 1000, "used": 50}, "compute", 3.6e18),
        ({"given": "compute", "flops": 1e99}, "compute", 1e30),
        ({"given": ["x"], "flops": "many"}, "compute", 5.76e23),
        ([1], "compute", 5.76e23),
    ],
)
def test_the_budget_is_read(playground, form, kind, value):
    assert budget(read_all(VIEW.settings, form, None)) == (kind, pytest.approx(value))
    row = drawn(playground, form)["scaling_laws_plan"]["lines"][-1]
    plan = planned("besiroglu", kind, value)
    assert row[1:4] == pytest.approx([plan.params, plan.tokens, plan.compute])


def test_the_pictures_show_the_plan_and_known_models(playground):
    parts = drawn(playground, {"law": "hoffmann3"})
    plan = optimum("hoffmann3", 5.76e23)
    star = parts["scaling_laws_loss"]["figure"].data[-1]
    assert (star["x"], star["y"]) == ((plan.compute,), (plan.loss,))
    plane = parts["scaling_laws_plane"]["figure"].data
    dots = next(trace for trace in plane if trace["name"] == "published models")
    assert list(dots["x"]) == [each.params for each in KNOWN] and list(dots["y"]) == [each.tokens for each in KNOWN]
    assert "its training tokens are not known" in parts["scaling_laws_plane"]["note"]
    assert parts["scaling_laws_loss"]["title"].endswith("Hoffmann 2022, approach 3")
    models = parts["scaling_laws_models"]
    assert len(models["rows"]) == len(KNOWN) + 2 and models["rows"][0][0] == "Tiny (loaded)"
    assert "not comparable" in models["check"]


def test_coefficients_have_their_errors(playground):
    rows = {row[0]: row for row in drawn(playground)["scaling_laws_fits"]["rows"]}
    assert "A 482.01 (124.58)" in rows["Besiroglu 2024, refit"][2]
    assert "N_c 8.8 × 10¹³, α 0.076" in rows["Kaplan 2020, size alone"][2]


def test_the_lines_below_make_the_same_numbers(playground):
    parts = drawn(playground)
    for name in PICTURES:
        lines = parts[name]["python"].split("\n")
        start = lines.index("")
        scope: dict = {}
        exec("\n".join(lines[:start]), scope)
        values = [eval(line, scope) for line in lines[start + 1 :] if line]
        if name == "scaling_laws_plan":
            assert [each.params for each in values[0]] == [row[1] for row in parts[name]["lines"]]
        if name == "scaling_laws_loss":
            lines = parts[name]["figure"].data
            assert lines[0]["y"] == pytest.approx(values[0][0].y, rel=1e-5)
            assert lines[-2]["y"] == pytest.approx(values[1][-1].y, rel=1e-5)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999, "999"),
        (8_546_816, "8.55 M"),
        (999_999, "1.00 M"),
        (6.7e10, "67.0 B"),
        (1.5e12, "1.50 T"),
        (0, "0"),
        (np.inf, "–"),
    ],
)
def test_counts_as_they_are_read(value, text):
    assert count(value) == text


def test_other_numbers_as_they_are_read():
    assert power(9.999e20) == "1.00 × 10²¹" and power(0.05) == "5.00 × 10⁻²"
    assert number(18.391) == "18.4" and number(14868.2) == "14,868"
    assert interval(0.5, -0.1, 1.1) == "0.500 (−0.100–1.100)"


# --- own runs ------------------------------------------------------------------------------------------------


def own_run(number, params, exponent=0.3, task="copy", steps=200, floor=0.0):
    reports = [
        Report(step, floor + 50 * (64 * step * params) ** -exponent, 1e-3, 1.0, 64 * step, 0.01)
        for step in range(1, steps + 1)
    ]
    started = Started(params, 300, 2, 2, 8, (1, 2), 0.1)
    choices = {"positions": "learned", "norm_placement": "pre", "norm": "layernorm"}
    job = Job(task=task, config={"n_layer": 2, "n_head": 2} | choices)
    return LiveRun(str(number), "me", job, None, "done", started, reports)


@pytest.fixture
def shown(playground, monkeypatch):
    """Return the parts that a visitor with these runs sees, while other visitors have runs of their own."""

    def show(runs, language="en"):
        others = [own_run(99, 123)]
        monkeypatch.setattr(type(playground.workshop), "of", lambda self, owner: runs if owner == "me" else others)
        return drawn(playground, language=language, visitor="me")

    return show


def test_without_runs_it_is_said(shown):
    assert "no training runs" in shown([])["scaling_laws_mine"]["empty"]["text"]
    started = own_run(1, 1000)
    started.reports.clear()
    assert "empty" in shown([started])["scaling_laws_mine"] and "empty" in shown([started])["scaling_laws_mine_table"]
    assert own_runs.own_run(started) is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_run_has_its_own_exponent_and_lacks_two(shown, language):
    parts = shown([own_run(1, 1000)], language)
    (row,) = parts["scaling_laws_mine_table"]["rows"]
    assert row[5].startswith("0.30") and "2" in parts["scaling_laws_mine_table"]["check"]
    assert row[0].startswith(words(language)["task.copy"]) and row[0].endswith("N 1.00 k")
    points = parts["scaling_laws_mine"]["figure"].data[0]
    assert max(points["x"]) <= 6 * 1000 * 64 * 200


def test_three_runs_have_an_exponent_across(shown):
    runs = [own_run(n, 1000 * 4**n) for n in range(3)] + [own_run(9, 5000, 0.9, task="reverse")]
    parts = shown(runs)
    across = parts["scaling_laws_mine_table"]["rows"][-1]
    assert across[0] == "all 3 training runs of this task, x = 6 N D" and across[5].startswith("0.300 (")
    assert "very uncertain" in parts["scaling_laws_mine_table"]["check"]
    traces = parts["scaling_laws_mine"]["figure"].data
    assert traces[-1]["name"] == "across runs: final loss against compute" and len(traces[-1]["x"]) == 3
    assert parts["scaling_laws_mine"]["note"].startswith("You have 4 training runs")


def test_only_runs_of_one_task_and_vocabulary_are_compared():
    runs = [own_run(1, 1000), own_run(2, 2000, task="reverse"), own_run(3, 4000)]
    result = own_runs.compared([own_runs.own_run(run) for run in runs])
    assert result.group == (0, 2) and result.across is None and result.lacking == 1


def test_a_run_that_goes_on_is_drawn_again(playground, shown):
    run = own_run(1, 1000, steps=20)
    before = shown([run])["scaling_laws_mine_table"]["rows"][0]
    run.reports.extend(own_run(1, 1000).reports[20:])
    assert shown([run])["scaling_laws_mine_table"]["rows"][0] != before


def test_a_visitor_sees_own_runs_only(playground, monkeypatch):
    owners = []
    monkeypatch.setattr(type(playground.workshop), "of", lambda self, owner: owners.append(owner) or [own_run(7, 500)])
    parts = drawn(playground, visitor="somebody")
    assert set(owners) == {"somebody"} and parts["scaling_laws_mine_table"]["rows"]
    scene = scene_of(playground, PageRequest("tiny", "abc", None, {}, {}, "en", visitor="somebody"))
    assert panels.depended(scene, ("visitor",)) == ((("7", 200),),)
    assert scene.key.open(playground).visitor == ""  # a scene key belongs to no visitor


# --- for programs ----------------------------------------------------------------------------------------------


def test_the_endpoint_gives_the_plans(playground):
    answer = call(playground, NAMED["scaling_laws"], {"given": "params", "value": 8, "exponent": 9})
    assert answer["value"] == 8e9 and [each["law"] for each in answer["plans"]] == list(LAWS)
    for each in answer["plans"]:
        assert each["tokens"] == pytest.approx(planned(each["law"], "params", 8e9).tokens)
    assert answer["plans"][1]["loss"] is None and answer["plans"][1]["half"] is None
    assert answer["plans"][-1]["half"] == pytest.approx(1.259, abs=1e-3)
    assert len(answer["models"]) == len(KNOWN) + 1
