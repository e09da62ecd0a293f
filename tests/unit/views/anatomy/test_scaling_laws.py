"""The view of scaling laws without a browser: plans, pictures, known models, and the visitor's own runs."""

import json
import types

import numpy as np
import pytest

from model.anatomy.known_models import KNOWN
from model.anatomy.scaling import LAWS, optimum, planned
from model.api import LanguageModel
from model.training.job import Job, Started
from model.training.loop import Report
from tests.support.helpers import VARIANTS, byte_tokenizer, serving, tiny_model
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.page.parts import unpacked
from viz.page.pipeline import Asked, payloads
from viz.server.training_process import LiveRun
from viz.views.anatomy.scaling_laws import own_runs
from viz.views.anatomy.scaling_laws import view as scaling_laws
from viz.views.anatomy.scaling_laws.figures import told_count, told_fit, told_flops, told_ratio
from viz.words import LANGUAGES

NAMED = {each.name: each for each in ENDPOINTS}


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    model = tiny_model({**VARIANTS["gpt2"], "vocab_size": 256, "n_ctx": 64})
    return serving(LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path_factory.mktemp("bytes"))))


def drawn(playground, form=None, language="en"):
    asked = Asked("tiny", "abc", None, {"anatomy_view": {"view": "laws"}, "laws_form": form}, {}, language, "anatomy")
    parts = payloads(playground, asked)[0]
    json.dumps(parts, allow_nan=False)
    return parts


# --- the plan ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_everything_is_drawn_at_once(playground, language):
    parts = drawn(playground, language=language)
    assert set(scaling_laws.PICTURES) <= set(parts)
    assert not [name for name in scaling_laws.PICTURES if "empty" in parts[name] or "problem" in parts[name]]
    assert "empty" in parts["laws_mine"] and parts["laws_mine_ask"]["state"] == "idle"
    assert "{" not in "".join(
        parts[name].get("source", "") + parts[name].get("about", "") for name in scaling_laws.PICTURES
    )


def test_the_plan_is_that_of_every_law(playground):
    table = drawn(playground)["laws_plan"]
    assert len(table["rows"]) == len(LAWS) and len(table["columns"]) == 7
    for law, row in zip(LAWS, table["lines"], strict=True):
        plan = optimum(law, 5.76e23)
        assert row[1:6] == [plan.params, plan.tokens, plan.compute, plan.ratio, plan.loss]
    assert table["rows"][1][1:3] == ["67.0 B", "1.43 T"] and "5.76 × 10²³" in table["title"]


@pytest.mark.parametrize(
    ("form", "given", "value"),
    [
        ({"given": "params", "params": 8e9}, "params", 8e9),
        ({"given": "tokens", "tokens": 1.4e12}, "tokens", 1.4e12),
        ({"given": "gpu", "hours": 2, "rate": 1000, "used": 50}, "compute", 3.6e18),
        ({"given": "compute", "flops": 1e99}, "compute", 1e30),
        ({"given": ["x"], "flops": "many"}, "compute", 5.76e23),
        ([1], "compute", 5.76e23),
    ],
)
def test_what_is_given(playground, form, given, value):
    assert scaling_laws.asked({"laws_form": form})[:2] == (given, pytest.approx(value))
    row = drawn(playground, form)["laws_plan"]["lines"][-1]
    plan = planned("besiroglu", given, value)
    assert row[1:4] == pytest.approx([plan.params, plan.tokens, plan.compute])


def test_the_pictures_show_the_plan_and_known_models(playground):
    parts = drawn(playground, {"law": "hoffmann3"})
    plan = optimum("hoffmann3", 5.76e23)
    star = json.loads(parts["laws_loss"]["figure"])["data"][-1]
    assert (star["x"], star["y"]) == ([plan.compute], [plan.loss])
    plane = json.loads(parts["laws_plane"]["figure"])["data"]
    dots = next(trace for trace in plane if trace["name"] == "published models")
    assert dots["x"] == [each.params for each in KNOWN] and dots["y"] == [each.tokens for each in KNOWN]
    assert "how many tokens it read is not known" in parts["laws_plane"]["note"]
    assert "as printed" in parts["laws_loss"]["title"]
    models = parts["laws_models"]
    assert len(models["rows"]) == len(KNOWN) + 2 and models["rows"][0][0] == "Tiny (loaded)"
    assert "not comparable" in models["check"]


def test_coefficients_have_their_errors(playground):
    rows = {row[0]: row for row in drawn(playground)["laws_fits"]["rows"]}
    assert "A 482.01 (124.58)" in rows["Besiroglu 2024, 3 refitted"][2]
    assert "N_c 8.8e+13" in rows["Kaplan 2020, size alone"][2]


def test_the_lines_below_make_the_same_numbers(playground):
    parts = drawn(playground)
    for name in ("laws_plan", "laws_loss", "laws_plane", "laws_price", "laws_models", "laws_fits"):
        lines = parts[name]["python"].split("\n")
        start = lines.index("")
        room: dict = {}
        exec("\n".join(lines[:start]), room)
        values = [eval(line, room) for line in lines[start + 1 :] if line]
        if name == "laws_plan":
            assert [each.params for each in values[0]] == [row[1] for row in parts[name]["lines"]]
        if name == "laws_loss":
            figure = json.loads(parts[name]["figure"])["data"]
            assert figure[0]["y"] == values[0][0].y and figure[-2]["y"] == values[1][-1].y


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
    assert told_count(value) == text


def test_other_numbers_as_they_are_read():
    assert told_flops(9.999e20) == "1.00 × 10²¹" and told_flops(0.05) == "5.00 × 10⁻²"
    assert told_ratio(18.391) == "18.4" and told_ratio(14868.2) == "14,868"
    assert told_fit(0.5, -0.1, 1.1) == "0.500 (−0.100–1.100)"


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


def test_without_runs_it_is_said():
    found = own_runs.payloads([], "en")
    assert "no run of yours" in found["laws_mine"]["empty"]["text"]
    assert found["laws_mine_ask"]["state"] == "idle"
    started = own_run(1, 1000)
    started.reports.clear()
    assert "empty" in own_runs.payloads([started], "en")["laws_mine"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_run_has_its_own_exponent_and_lacks_two(language):
    found = own_runs.payloads([own_run(1, 1000)], language)
    json.dumps(found, allow_nan=False)
    (row,) = found["laws_mine_table"]["rows"]
    assert row[5].startswith("0.30") and "2" in found["laws_mine_table"]["check"]
    points = json.loads(found["laws_mine"]["figure"])["data"][0]
    assert max(points["x"]) <= 6 * 1000 * 64 * 200


def test_three_runs_have_an_exponent_across():
    runs = [own_run(n, 1000 * 4**n) for n in range(3)] + [own_run(9, 5000, 0.9, task="reverse")]
    found = own_runs.payloads(runs, "en")
    across = found["laws_mine_table"]["rows"][-1]
    assert across[0] == "all 3 runs of this task, x = 6 N D" and across[5].startswith("0.300 (")
    assert "very uncertain" in found["laws_mine_table"]["check"]
    traces = json.loads(found["laws_mine"]["figure"])["data"]
    assert traces[-1]["name"] == "across runs: last loss against compute" and len(traces[-1]["x"]) == 3
    assert "4 runs" in found["laws_mine_ask"]["text"]


def test_only_runs_of_one_task_and_vocabulary_are_compared():
    runs = [own_run(1, 1000), own_run(2, 2000, task="reverse"), own_run(3, 4000)]
    assert [len(each) for each in own_runs.groups(runs)] == [2, 1]
    assert own_runs.across(own_runs.groups(runs)[0]) is None


def test_a_visitor_sees_own_runs_only(playground, monkeypatch):
    """The event asks the workshop for the runs of the session that pressed the button."""
    events, asked = {}, []

    def start(function, inputs, outputs, **_):
        events["show"] = function

    ask = types.SimpleNamespace(start=start)
    parts = dict.fromkeys(own_runs.PARTS, ask)
    shared = types.SimpleNamespace(playground=playground, language_of=lambda request: "en")
    own_runs.wire(parts, shared)
    monkeypatch.setattr(type(playground.workshop), "of", lambda self, owner: asked.append(owner) or [own_run(1, 1000)])
    made = events["show"](types.SimpleNamespace(session_hash="visitor"))
    assert asked == ["visitor"] and len(made) == len(own_runs.PARTS)
    assert unpacked(made[2])["rows"]


# --- for programs ----------------------------------------------------------------------------------------------


def test_the_endpoint_gives_the_plans(playground):
    found = call(playground, NAMED["scaling_laws"], {"given": "params", "value": 8, "exponent": 9})
    assert found["value"] == 8e9 and [each["law"] for each in found["plans"]] == list(LAWS)
    for each in found["plans"]:
        assert each["tokens"] == pytest.approx(planned(each["law"], "params", 8e9).tokens)
    assert found["plans"][1]["loss"] is None and found["plans"][1]["half"] is None
    assert found["plans"][-1]["half"] == pytest.approx(1.259, abs=1e-3)
    assert len(found["models"]) == len(KNOWN) + 1
