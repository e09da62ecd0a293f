"""The view without the softmax: what is drawn is what was measured, the sentences follow, programs get the same."""

import dataclasses

import numpy as np
import pytest

from model.attention.approximations import costs
from model.attention.approximations.measure import approximate
from model.attention.approximations.ways import Way
from model.attention.approximations.whole_model import Experiment, Replaced
from model.errors import InputError
from model.tracing.divergence import PredictionDivergence
from tests.support.models.helpers import byte_tokenizer
from tests.support.views.views import (
    array,
    drawn,
    measured,
    no_holes,
    opened,
    perform,
    playground_of,
    run_lines,
    traces,
)
from viz.api.endpoints import ENDPOINTS
from viz.api.registry import call
from viz.numbers import flops, nats, size
from viz.seam import panels
from viz.seam.tasks import MeasureTask
from viz.seam.view import Seen
from viz.views.cheaper.approximations import tables
from viz.views.cheaper.approximations.measure import way_of
from viz.views.cheaper.approximations.view import VIEW
from viz.words import LANGUAGES, Words, words

AT = ("cheaper", "approximations")
HEAD = {"heads": [[1, 2]]}
FORMS = {
    "performer": {"method": "performer", "features": "16", "orthogonal": True, "seed": 5, "projection": "mean"},
    "linear": {"method": "linear", "seed": 5},
    "random": {"method": "linformer", "projected": "4", "seed": 5, "orthogonal": True},
    "mean": {"method": "linformer", "projected": "4", "projection": "mean", "seed": 5},
    "nystrom": {"method": "nystrom", "landmarks": "4", "seed": 5, "projection": "mean"},
}
WAYS = {
    "performer": Way("performer", 16, 5, True),
    "linear": Way("linear"),
    "random": Way("linformer", 4, 5),
    "mean": Way("linformer", 4, projection="mean"),
    "nystrom": Way("nystrom", 4),
}


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    return playground_of(byte_tokenizer(tmp_path_factory.mktemp("bytes")))


def found(playground, name):
    return measured(playground, "cheaper", VIEW, form=FORMS[name], **HEAD)


@pytest.mark.parametrize("name", FORMS)
def test_settings_name_a_way_and_nothing_else_counts(playground, name):
    """What does not concern the method is no part of the question, so that it is not measured anew."""
    scene = opened(playground, *AT, FORMS[name], **HEAD)
    settings = panels.settings_of(VIEW, scene, {"approximations_form": FORMS[name]})
    assert way_of(settings) == WAYS[name]
    key = panels.key_of(MeasureTask(VIEW, VIEW.measure("main"), scene, settings))
    other = {"performer": "landmarks", "linear": "features", "random": "landmarks", "mean": "seed", "nystrom": "seed"}
    changed = settings.but(**{other[name]: 7 if other[name] == "seed" else "8"}, error="rows", on="prompt")
    assert panels.key_of(MeasureTask(VIEW, VIEW.measure("main"), scene, changed)) == key


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", FORMS)
def test_what_is_drawn_is_what_was_measured(playground, name, language):
    parts = drawn(playground, *AT, FORMS[name], language=language, **HEAD)
    no_holes(parts)
    result = found(playground, name)
    layer, head = HEAD["heads"][0]
    expected = approximate(playground.opened("tiny").trace("abcabd ab").qkv(layer, head), WAYS[name], layer)
    assert result.error == expected.error and np.array_equal(result.matrix, expected.matrix)
    future = np.triu(np.ones(result.exact.shape, bool), 1)
    exact, made = (array(trace["z"]) for trace in traces(parts["maps"]))
    assert np.isnan(exact[future]).all() and np.isnan(made[future]).all()
    assert np.allclose(exact[~future], result.exact[~future]) and np.allclose(made[~future], result.matrix[~future])
    apart = array(traces(parts["difference"])[0]["z"])
    assert np.allclose(apart[~future], (result.matrix - result.exact)[~future], atol=1e-7)
    lines = traces(parts["rows"])
    assert array(lines[0]["y"]) == pytest.approx(result.distance, rel=1e-5)
    assert array(lines[1]["y"]) == pytest.approx(result.off, rel=1e-5)


def test_a_map_of_shares_and_one_of_others_have_their_colors(playground):
    for name, kind in (("performer", "share"), ("random", "signed")):
        layout = drawn(playground, *AT, FORMS[name], **HEAD)["maps"]["figure"]["layout"]
        assert (layout["coloraxis"]["cmin"] < 0) == (kind == "signed")


@pytest.mark.parametrize("by", ["output", "rows"])
def test_the_sweep_marks_what_the_maps_show(playground, by):
    parts = drawn(playground, *AT, FORMS["performer"] | {"error": by}, **HEAD)
    swept = measured(playground, "cheaper", VIEW, "sweep", **HEAD)
    lines = {trace["name"]: trace for trace in traces(parts["sweep"])[1:] if trace.get("name")}
    result, said = found(playground, "performer"), words("en")
    chosen = lines[said["approximations.sweep.chosen"]]
    assert array(chosen["x"])[0] == 16
    assert array(chosen["y"])[0] == pytest.approx(result.error if by == "output" else result.mean_distance, rel=1e-5)
    for each in swept.curves:
        values = (each.errors if by == "output" else each.distances).mean(0)
        shown = array(lines[said[f"approximations.is_{each.key}"]]["y"])
        assert shown == pytest.approx(values[values > 0] if each.sizes != (0,) else [values[0]] * 2, rel=1e-5)
    without = traces(drawn(playground, *AT, FORMS["linear"], **HEAD)["sweep"])  # which has no size
    assert said["approximations.sweep.chosen"] not in [trace.get("name") for trace in without]


@pytest.mark.parametrize("name", FORMS)
def test_the_facts_follow_from_the_numbers(playground, name):
    items = dict(drawn(playground, *AT, FORMS[name], **HEAD)["facts"]["items"])
    result = found(playground, name)
    assert ("worse than" in items["Output"]) == (result.error > result.uniform_error)
    shares = result.least > -5e-4 and max(abs(each - 1) for each in result.sums) < 5e-4
    assert ("not distributions" in items["As a matrix"]) == (not shares) == (name in ("random", "nystrom"))
    assert ("Token by token" in items) == (name in ("performer", "linear"))
    if result.gap is not None:
        assert "are the same" in items["Token by token"] and result.gap < 1e-12


def test_forms_that_differ_are_said(playground):
    scene = opened(playground, *AT, FORMS["linear"], **HEAD)
    settings = panels.settings_of(VIEW, scene, {"approximations_form": FORMS["linear"]})
    wrong = dataclasses.replace(found(playground, "linear"), gap=1e-3)
    said = Words(words("en"), "approximations")
    shown = tables.facts(Seen("approximations", "facts", wrong, {}, {}, {}, settings, said, panels.facts_of(scene)))
    assert "more than rounding" in dict(shown["items"])["Token by token"]


@pytest.mark.parametrize("name", FORMS)
def test_costs_are_by_formula(playground, name):
    part, way = drawn(playground, *AT, FORMS[name])["costs"], WAYS[name]
    assert [row[0] for row in part["rows"]] == [f"{n:,}" for n in tables.LENGTHS]
    assert part["rows"][1][1:3] == [flops(costs.softmax_operations(512, 12)), flops(costs.operations(way, 512, 12))]
    assert part["rows"][1][-2:] == [size(costs.softmax_bytes(512, 12)), size(costs.state_bytes(way, 512, 12))]
    begins = costs.cheaper_from(way, 12)
    assert ("more operations than softmax at every length" in part["about"]) == (begins is None) == (name == "nystrom")
    assert begins is None or f"from {begins:,} tokens on" in part["about"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["linear", "mean", "random"])
def test_the_whole_model_is_measured_by_the_button(playground, name, language):
    form = FORMS[name] | {"on": "prompt"}
    perform(playground, "cheaper", VIEW, "model", form)
    parts = drawn(playground, *AT, form, language=language)
    no_holes(parts)
    scene = opened(playground, *AT, form)
    settings = panels.settings_of(VIEW, scene, {"approximations_form": form})
    result = panels.measured(VIEW, "model", scene, settings).value
    assert result.uniform.positions == len(scene.tokens)
    losses = [np.mean([each.loss for each in group]) for group in tables.by_size(result).values()]
    rows = parts["results"]["rows"]
    assert len(rows) == len(losses) + 2
    assert [row[1].split(" ")[0] for row in rows[1:-1]] == [nats(float(loss)) for loss in losses]
    if name != "linear":
        assert array(traces(parts["losses"])[-1]["y"]) == pytest.approx(losses, rel=1e-5)


def test_one_token_and_edits(playground):
    form = {"method": "linear", "on": "prompt"}
    edits = [{"kind": "zero", "layer": 1, "head": 2}]
    perform(playground, "cheaper", VIEW, "model", form, prompt="a")
    parts = drawn(playground, *AT, form, prompt="a", edits=edits)
    assert parts["results"]["about"] == words("en")["approximations.results.one_token"]
    assert parts["results"]["source"].endswith("without your edits")
    assert "KL" in parts["losses"]["columns"][-1]


def reading(loss, kl=0.1):
    return PredictionDivergence(100, kl, 0.5, loss, 2.0)


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        (3.5, 2.8, "falls from 3.500 to 2.800 nats; with softmax it is 2.000. Uniform attention gives 4.000 nats"),
        (3.5, 2.5, "gives 4.000 nats, so 75.0% of the gap is closed"),
        (3.5, 2.04, "within 0.05 nats"),
        (3.0, 3.1, "does not fall: 3.000 and 3.100"),
        (6.0, 5.0, "no better than uniform attention (4.000 nats)"),
        (3.0, 1.5, "lower than with softmax"),
    ],
)
def test_the_sentence_follows_from_the_losses(first, last, said):
    rows = [Replaced(Way("performer", 16, seed), reading(first + off)) for seed, off in enumerate((-0.1, 0.1))]
    rows += [Replaced(Way("performer", 1024, seed), reading(last + off)) for seed, off in enumerate((-0.1, 0.1))]
    result = Experiment(tuple(rows), reading(4.0))
    assert said in tables.conclusion(Words(words("en"), "approximations.results"), result)


@pytest.mark.parametrize("name", FORMS)
def test_the_python_lines_make_the_numbers(playground, name):
    lm = playground.opened("tiny")
    parts = drawn(playground, *AT, FORMS[name] | {"error": "rows"}, **HEAD)
    result = found(playground, name)
    space, values = run_lines(parts["maps"]["python"], lm)
    assert np.array_equal(values[-1][1], result.matrix) and space["found"].error == result.error
    assert np.array_equal(run_lines(parts["rows"]["python"], lm)[1][-1][1], result.off)
    ours, softmax = run_lines(parts["costs"]["python"], lm)[1][-1][1]
    assert [flops(softmax), flops(ours)] == parts["costs"]["rows"][1][1:3]
    if name == "mean":
        values = run_lines(parts["sweep"]["python"], lm)[1][-1]
        swept = measured(playground, "cheaper", VIEW, "sweep", **HEAD)
        assert values[0][2] == pytest.approx(swept.curves[0].distances.mean(0))
        perform(playground, "cheaper", VIEW, "model", FORMS[name])
        text = drawn(playground, *AT, FORMS[name])["results"]
        made = run_lines(text["python"], lm)[1][-1]
        assert [nats(row[2]) for row in made] == [row[1] for row in text["rows"][1:-1]]


def test_programs_get_the_same(playground):
    one, all_layers = (
        next(each for each in ENDPOINTS if each.name == name) for name in ("softmax_approximation", "softmax_replaced")
    )
    given = {
        "prompt": "abcabd ab",
        "layer": 1,
        "head": 2,
        "method": "performer",
        "size": 16,
        "orthogonal": True,
        "seed": 5,
    }
    answer, result = call(playground, one, given), found(playground, "performer")
    assert answer["error"] == pytest.approx(result.error) and answer["gap"] == pytest.approx(result.gap)
    assert [row["off"] for row in answer["rows"]] == pytest.approx(result.off.tolist())
    assert {each["kind"] for each in answer["sweep"]} == {
        each.key for each in measured(playground, "cheaper", VIEW, "sweep", **HEAD).curves
    }
    with pytest.raises(InputError, match="unknown value"):
        call(playground, one, given | {"method": "nystrom", "size": 512})
    answer = call(playground, all_layers, {"prompt": "abcabd ab", "method": "linear", "on": "prompt"})
    assert answer["tokens"] == 9 and len(answer["rows"]) == 1 and answer["rows"][0]["size"] == 0
    assert answer["uniform"]["loss"] != answer["softmax"] != answer["rows"][0]["loss"]
