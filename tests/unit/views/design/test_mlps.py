"""The view of MLPs without a browser, and its endpoints: what is drawn follows from the numbers."""

import json
import re

import numpy as np
import pytest

from model.design.mlp_trials import KINDS, Compared, MlpTrial, train_mlps
from tests.support.models.helpers import byte_model, serving
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.page.pipeline import PageRequest, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.view import Seen
from viz.views.design.mlps import view as mlps
from viz.views.design.mlps.figures import largest_gap, slices
from viz.views.design.mlps.view import VIEW
from viz.words import Words, words

NAMED = {each.name: each for each in ENDPOINTS}
SHORT = MlpTrial(steps=2)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(model):
    return serving(model)


def opened(playground, language="en"):
    return scene_of(playground, PageRequest("tiny", "abc", None, {}, {}, language))


def drawn(playground, sent=None, language="en"):
    """The payloads by their short names."""
    pictures = panels.pictures(VIEW, opened(playground, language), sent or {})
    return {name.removeprefix("mlps_"): picture.make() for name, picture in pictures.items()}


def job_of(playground, sent=None):
    scene = opened(playground)
    return panels.job_of(VIEW, "training", scene, panels.settings_of(VIEW, scene, sent or {}))


def traces(payload):
    return payload["figure"].to_dict()["data"]


def run_lines(text):
    *lines, last = text.splitlines()
    space = {}
    exec("\n".join(lines), space)
    return eval(re.sub(r"\s+#.*$", "", last), space)


def seen(playground, part, result):
    """What a part of the training draws from."""
    scene = opened(playground)
    settings, own = panels.settings_of(VIEW, scene, {}), Words(words("en"), "mlps")
    results = {"sizes": panels.measured(VIEW, "sizes", scene, settings).value}
    return Seen("mlps", part, result, results, {}, {}, settings, own, panels.facts_of(scene))


def test_functions_and_sizes_are_drawn_at_once(playground):
    parts = drawn(playground)
    assert [len(traces(parts[name])) for name in ("left", "right")] == [4, 4]
    assert parts["cost"]["same"] and {row[4] for row in parts["cost"]["rows"]} == {"250,656"}
    assert "3 · 96 · 256 = 2 · 96 · 384" in parts["cost"]["source"]
    assert set(parts["loss"]) == set(parts["facts"]) == {"empty"}
    parts = drawn(playground, {"mlps_form": {"show": "gate"}}, "zh")
    assert traces(parts["left"])[0]["type"] == "heatmap" and len(traces(parts["right"])) == 5


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


def facts_of(playground, held):
    return dict(mlps.facts(seen(playground, "facts", compared(held)))["items"])


def test_the_result_says_whether_seeds_explain_it(playground):
    facts = facts_of(playground, [[1.0, 1.1, 1.2], [2.0, 2.1, 2.3], [2.0, 2.2, 2.1]])
    assert facts["SwiGLU against GELU"].startswith("SwiGLU ends 1.033 nats lower on average, and each of its seeds")
    assert "(0.300)" in facts["SwiGLU against GELU"] and "no winner" in facts["GELU against ReLU"]
    assert facts["Time"].endswith("2 times as long for the same FLOPs.")
    beyond = facts_of(playground, [[3.0, 1.0, 1.0], [1.0, 4.5, 4.5], [2, 2, 2]])
    assert beyond["SwiGLU against GELU"].startswith("SwiGLU ends 1.667 nats")
    broken = [[np.nan, 1, 1], [1, 1, 1], [1, 1, 1]]
    assert "nothing to compare" in facts_of(playground, broken)["SwiGLU against GELU"]
    assert mlps.table(seen(playground, "table", compared(broken)))["rows"][0][2:4] == ["–", "– – –"]
    line = traces(mlps.loss(seen(playground, "loss", compared(broken))))[2]
    assert line["y"] == [None, None]
    assert "smallest" in words("en")["mlps.table.spread"]


def test_a_training_of_mlps_is_shown(playground, monkeypatch):
    monkeypatch.setattr(mlps, "train_mlps", lambda data, trial, progress: train_mlps(data, SHORT, progress))
    list(background.perform(playground, job_of(playground), "en"))
    parts = drawn(playground)
    assert parts["job"]["state"] == "done" and len(parts["table"]["rows"]) == len(KINDS)
    assert len([each for each in traces(parts["loss"]) if "name" in each]) == 4


def test_a_job_can_be_cancelled(playground):
    steps = background.perform(playground, job_of(playground), "en")
    next(steps)
    steps.close()
    with playground.computing:
        pass


@pytest.mark.parametrize("sent", [None, [], {"rate": "1000000", "start": 3}, {"steps": None}])
def test_what_is_not_offered_is_the_default(playground, sent):
    scene = opened(playground)
    settings = panels.settings_of(VIEW, scene, {"mlps_training": sent})
    assert mlps.training_question(scene, settings).trial == MlpTrial(steps=240)


def test_the_python_lines_give_the_same_numbers(playground):
    left, right = (run_lines(drawn(playground)[name]["python"]) for name in ("left", "right"))
    assert left["silu"][80] == 0 and right["silu"][80] == pytest.approx(0.5)
    gate = run_lines(drawn(playground, {"mlps_form": {"show": "gate"}})["left"]["python"])
    assert gate.shape == (81, 81)


def ask(playground, name, **given):
    answer = call(playground, NAMED[name], given)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    return answer


@pytest.mark.long
def test_endpoints_give_the_numbers_of_the_view(playground):
    sizes = ask(playground, "mlp_costs")
    assert {each["params"] for each in sizes["kinds"]} == {250_656} and len(sizes["functions"]) == 4
    trial = ask(playground, "mlp_trial", steps=6)
    held = np.array([each["held_out"] for each in trial["kinds"]])[:, :, -1]
    assert trial["verdict"]["difference"] == pytest.approx(held[0].mean() - held[1].mean(), rel=1e-5)
    assert trial["moments"] == [1, 2, 3, 4, 5, 6]
