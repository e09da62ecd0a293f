"""The view of neurons without a browser: its numbers are those of the model code."""

from functools import partial

import numpy as np
import pytest

from model.activations.neurons import EDGES, layer_activations, promoted, ranked, survey, write_lengths
from model.gpt.edits import Edit
from tests.support.models.helpers import serving
from tests.support.scripts import names_in, script, words_in
from tests.support.views import activations
from tests.support.views.activations import PROMPT, figure, model_of
from tests.support.views.views import array, perform, run_lines
from viz.labels import quoted
from viz.numbers import number, percent
from viz.page.parts import packed
from viz.page.pipeline import payloads, scene_of
from viz.seam import panels
from viz.seam.panels import names_of
from viz.views.activations import runs
from viz.views.activations.neurons import view
from viz.views.activations.neurons.figures import bin_names, bins_figure, map_figure, signed_scales
from viz.views.activations.neurons.measure import one_question, ordered_rows, outside, span, spread
from viz.views.activations.neurons.view import VIEW
from viz.views.activations.tab import TAB
from viz.words import LANGUAGES, words
from viz.work.playground import Options

asked = partial(activations.asked, VIEW.key)
drawn = partial(activations.drawn, VIEW.key)
NAMES = {"neuron": "neuron", "activation": "activation", "token": "token", "layer": "layer", "share": "share"}
SCRIPT = script("views/activations/neurons")
ZERO = [{"kind": "zero", "layer": 0, "head": 1}]


@pytest.fixture(scope="module", params=["gpt2", "llama", "post"])
def lm(request, tmp_path_factory):
    """Its vocabulary is smaller than its output head."""
    return model_of(request.param, tmp_path_factory.mktemp("bytes"), 261)


@pytest.fixture
def playground(lm):
    return serving(lm, Options(model="tiny", max_tokens=60))


# --- words ---


def test_the_script_has_the_words_it_asks_for():
    known = {*view.TOP_WORDS, *view.ONE_WORDS}
    assert words_in(SCRIPT) <= known <= names_in(SCRIPT)


@pytest.mark.parametrize("kind", ["relu", "gelu", "gelu_tanh", "swiglu"])
def test_every_activation_function_has_a_name(kind):
    assert all(words(language)[f"neurons.function_{kind}"] for language in LANGUAGES)


# --- neurons ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_drawing_of_the_neurons_fills_every_part(playground, language):
    parts = drawn(playground, language=language)
    assert set(names_of(VIEW)) <= set(parts) and set(names_of(VIEW)) <= set(TAB.parts)
    assert not any("problem" in parts[name] or "empty" in parts[name] for name in names_of(VIEW))
    assert len(parts["neurons_form"]["controls"][0]["options"]) == 4
    assert parts["neurons_survey"]["state"] == "done"  # a quick run: nothing to press
    assert parts["neurons_about"]["text"] and len(parts["neurons_howto"]["parts"]) == 4


@pytest.mark.parametrize("order", ["here", "prompt", "writes"])
def test_the_list_and_the_map_are_those_of_the_model_code(playground, lm, order):
    values = {"neurons_form": {"layer": "1", "order": order}}
    payload = drawn(playground, values=values, tokens=[3], edits=ZERO)["neurons_top"]
    run = lm.trace(PROMPT).edit(Edit("zero", 0, 1))
    post = layer_activations(run, 1).post
    first = ranked(post, write_lengths(lm.model, 1), order, 3)
    assert [row["neuron"] for row in payload["rows"]] == first[:12].tolist()
    found = promoted(lm.model, 1, first[:12], 1, 256)
    for n, row in enumerate(payload["rows"]):
        at = row["at"] if order == "prompt" else 3
        assert row["value"] == post[at, row["neuron"]] and abs(row["peak"]) == np.abs(post[:, row["neuron"]]).max()
        toward = (found.down if row["value"] < 0 else found.up)[n, 0]
        assert row["toward"] == quoted(lm.tokenizer.piece(int(toward)))
        assert row["token"] == PROMPT[row["at"]]
        assert row["shown"] == {"value": number(row["value"]), "peak": number(row["peak"])}
    heat = figure(payload["map"])
    assert (array(heat["data"][0]["z"]) == post[:, first[:24]].T).all() and payload["map"]["neurons"] == first[
        :24
    ].tolist()
    assert heat["data"][0]["y"] == [str(n) for n in first[:24]] and heat["layout"]["meta"]["window"] == [-24, 0, 0, 5]


def test_one_neuron_shows_its_own_numbers(playground, lm):
    values = {"neurons_form": {"layer": "2"}, "neurons_top": {"of": "tiny 2", "neuron": 17}}
    parts = drawn(playground, values=values, tokens=[1])
    read = layer_activations(lm.trace(PROMPT), 2)
    payload = parts["neurons_one"]
    for name, column in (("pre", read.pre), ("post", read.post), ("up", read.up)):
        if column is None:
            assert name not in payload["columns"]
        else:
            assert payload["columns"][name] == pytest.approx(column[:, 17].tolist(), rel=1e-6)
    assert payload["tokens"] == list(PROMPT) and payload["at"] == 1 and "Neuron 17 of layer 2" in payload["title"]
    assert payload["shown"] == [number(value) for value in read.post[:, 17].tolist()]
    place = ranked(read.post, np.ones(100), "here", 1).tolist().index(17) + 1
    assert payload["facts"][0][0] == "At “b” (position 1)" and payload["facts"][-1][1] == str(place)
    found = promoted(lm.model, 2, [17], 8, 256)
    assert [score for _, score, _ in payload["pushes"]["up"]] == found.up_scores[0].tolist()
    assert [score for _, score, _ in payload["pushes"]["down"]] == found.down_scores[0].tolist()
    gated = read.up is not None
    curve = figure(parts["neurons_curve"])["data"]
    assert (array(curve[1]["x"]) == read.pre[:, 17]).all()
    if not gated:
        assert array(curve[1]["y"]) == pytest.approx(read.post[:, 17], rel=1e-5)
    beyond = 1 - array(curve[2]["y"]).sum()
    assert 0 <= beyond < 0.003 and ("second input" in parts["neurons_curve"]["note"]) == gated
    assert curve[1]["customdata"][4] == {"tokens": [4]}


@pytest.mark.parametrize(
    "chosen",
    [
        None,
        3,
        [],
        {"neuron": 5},
        {"of": "tiny 1", "neuron": 5},
        {"of": "tiny 2", "neuron": -1},
        {"of": "tiny 2", "neuron": 100},
        {"of": "tiny 2", "neuron": True},
        {"of": "tiny 2", "neuron": "5"},
    ],
)
def test_a_neuron_of_another_layer_or_none_is_the_first_of_the_list(playground, chosen):
    values = {"neurons_form": {"layer": "2"}, "neurons_top": chosen}
    parts = drawn(playground, values=values)
    assert f"Neuron {parts['neurons_top']['rows'][0]['neuron']} of layer 2" == parts["neurons_one"]["title"]


@pytest.mark.parametrize("form", [None, 3, {"layer": 1, "order": []}, {"layer": "3"}, {"layer": "-1"}])
def test_a_form_that_is_none_is_the_main_heads_layer(playground, form):
    scene = scene_of(playground, asked(heads=[[1, 2]]))
    settings = panels.settings_of(VIEW, scene, {"neurons_form": form})
    assert dict(one_question(scene, settings)) == {"layer": 1, "order": "here", "neuron": None}


def test_choosing_a_neuron_draws_the_list_not_again(playground):
    _, shown = payloads(playground, asked())
    layer = scene_of(playground, asked()).head[0]
    values = {"neurons_top": {"of": f"tiny {layer}", "neuron": 42}}
    parts = drawn(playground, values=values, shown=shown)
    assert set(parts) & set(names_of(VIEW)) == {"neurons_one", "neurons_curve"}


def test_layers_wait_for_the_button_where_a_run_is_slow(playground, monkeypatch):
    monkeypatch.setattr(runs, "QUICK", -1)
    parts = drawn(playground)
    assert parts["neurons_survey"]["state"] == "idle"
    assert set(parts["neurons_bins"]) == set(parts["neurons_shares"]) == {"empty"}
    perform(playground, "activations", VIEW, "survey", prompt=PROMPT)
    parts = drawn(playground)
    assert parts["neurons_survey"]["state"] == "done" and "Measured here" in parts["neurons_survey"]["text"]
    assert "figure" in parts["neurons_bins"] and "figure" in parts["neurons_shares"]
    assert set(drawn(playground, edits=ZERO)["neurons_bins"]) == {"empty"}


def test_the_pictures_of_all_layers_are_the_survey(playground, lm):
    parts = drawn(playground, edits=ZERO)
    found = survey(lm.trace(PROMPT).edit(Edit("zero", 0, 1)))
    heat = figure(parts["neurons_bins"])["data"][0]
    names = bin_names(EDGES)
    z, bins = array(heat["z"]), [names.index(name) for name in heat["x"]]
    shares = found.counts / found.counts.sum(1, keepdims=True)
    assert np.nan_to_num(z) == pytest.approx(shares[:, bins]) and np.nansum(z) == pytest.approx(3)
    lines = figure(parts["neurons_shares"])["data"]
    for line, values in zip(lines, (found.never, found.quiet, found.active), strict=True):
        assert array(line["y"]) == pytest.approx(values, rel=1e-5)
    relu = lm.config.mlp == "relu"
    assert ("after the ReLU" if relu else f"at least {percent(0.1)}") in parts["neurons_shares"]["note"]
    assert "edited run" in parts["neurons_bins"]["source"]


@pytest.mark.parametrize("prompt", ["a", "\n", "\u202e<b>{token}</b>", "abcd" * 15])
def test_short_long_and_hostile_prompts_are_drawn(playground, prompt):
    parts = drawn(playground, prompt=prompt)
    for name in names_of(VIEW):
        assert "problem" not in parts[name], name
        assert "\u202e" not in packed(parts[name]), name


def test_the_python_lines_make_the_numbers(playground, lm):
    values = {"neurons_form": {"layer": "1", "order": "writes"}, "neurons_top": {"of": "tiny 1", "neuron": 9}}
    parts = drawn(playground, values=values, tokens=[2], edits=ZERO)
    value = run_lines(parts["neurons_top"]["map"]["python"], lm)[1][-1]
    assert (value == array(figure(parts["neurons_top"]["map"])["data"][0]["z"])).all()
    names, (*_, value) = run_lines(parts["neurons_one"]["python"], lm)
    assert value.up_scores[0].tolist() == [score for _, score, _ in parts["neurons_one"]["pushes"]["up"]]
    assert names["layer"].post[:, 9].tolist() == pytest.approx(parts["neurons_one"]["columns"]["post"], rel=1e-6)
    value = run_lines(parts["neurons_curve"]["python"], lm)[1][-1]
    assert value == pytest.approx(array(figure(parts["neurons_curve"])["data"][1]["y"]), rel=1e-5)
    value = run_lines(parts["neurons_bins"]["python"], lm)[1][-1]
    assert value.sum(1).tolist() == [500, 500, 500]
    value = run_lines(parts["neurons_shares"]["python"], lm)[1][-1]
    assert value[2] == pytest.approx(array(figure(parts["neurons_shares"])["data"][2]["y"]), rel=1e-5)


# --- the parts of the pictures ---


def test_rows_by_hand():
    post = np.array([[1.0, -3], [-5, 2], [4, 0]])
    assert ordered_rows(post, [1, 0], 2) == [
        {"neuron": 1, "value": 0.0, "peak": -3.0, "at": 0},
        {"neuron": 0, "value": 4.0, "peak": -5.0, "at": 1},
    ]
    assert ordered_rows(post, [0], None)[0]["value"] == -5.0


def test_names_of_bins():
    assert bin_names(np.array([-np.inf, -0.5, 2, np.inf])) == ["< −0.5", "−0.5 … 2", "≥ 2"]


def test_the_axis_of_the_curve_holds_the_neuron_and_nearly_all_others():
    pre = np.zeros((1, 10_000))
    pre[0, :3] = 90, -90, 3
    assert span(pre, np.array([0.0])) == pytest.approx((-4.16, 4.16))
    low, high = span(pre, np.array([30.0]))
    assert low < -4 < 30 < high < 31
    x = spread(-4.16, 5)
    assert 0 in x and (np.diff(x) > 0).all() and outside(pre, x) == pytest.approx(2e-4)


def test_signed_colors_rise_from_end_to_end():
    for scale in signed_scales().values():
        places = [place for place, _ in scale]
        assert places[0] == 0 and places[16] == 0.5 and places[-1] == 1 and places == sorted(places)
        assert places[24] == pytest.approx(0.625)  # half the ramp's way is a quarter of the size


def test_colors_end_at_the_99th_percentile_and_never_at_nothing():
    values = np.ones((2, 100), np.float32)
    values[0, 0] = 500
    assert map_figure(values, [0, 1], "x" * 100, NAMES).layout.coloraxis.cmax == 1
    assert map_figure(np.zeros((1, 3)), [0], "abc", NAMES).layout.coloraxis.cmax == 1


def test_bins_that_no_activation_is_in_are_cut_off():
    counts = np.zeros((2, 33), int)
    counts[:, 16] = 4
    counts[1, 18] = 4
    heat = bins_figure(counts, EDGES, NAMES).data[0]
    assert list(heat.x) == bin_names(EDGES)[16:19]
    assert heat.z[0].tolist()[0] == 1 and np.isnan(heat.z[0, 1]) and heat.z[1].tolist()[2] == 0.5
