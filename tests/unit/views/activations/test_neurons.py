"""The views of neurons and of the stream's picture without a browser: their numbers are those of the model code."""

import base64
import json
import re

import numpy as np
import pytest

from model.activations.neurons import EDGES, layer_activations, promoted, ranked, survey, write_lengths
from model.activations.principal_components import principal
from model.api import LanguageModel
from model.gpt.edits import Edit
from tests.support.helpers import VARIANTS, byte_tokenizer, serving, tiny_model
from tests.support.scripts import script
from viz.page import background
from viz.page.pipeline import Asked, payloads, scene_of
from viz.page.playground import Options
from viz.views.activations.neurons import view as neurons
from viz.views.activations.neurons.figures import (
    bin_names,
    bins_figure,
    map_figure,
    ordered_rows,
    outside,
    short,
    signed_scales,
    span,
    spread,
)
from viz.views.activations.stream_picture import view as stream_picture
from viz.views.activations.stream_picture.figures import MOST_LABELS, percent
from viz.views.activations.tab import TAB
from viz.words import LANGUAGES, section, words

PROMPT = "abcab"
SCRIPT = script("views/activations/neurons")
SAID = section(words("en"), "neurons")
ZERO = [{"kind": "zero", "layer": 0, "head": 1}]


@pytest.fixture(scope="module", params=["gpt2", "llama", "post"])
def lm(request, tmp_path_factory):
    """A shaken model of 3 layers over single bytes; its vocabulary is smaller than its output head."""
    model = tiny_model({**VARIANTS[request.param], "vocab_size": 261, "n_ctx": 300})
    return LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path_factory.mktemp("bytes")))


@pytest.fixture
def playground(lm):
    return serving(lm, Options(model="tiny", max_tokens=60))


def asked(view, prompt=PROMPT, language="en", values=None, shown=None, **selection):
    values = {"activations_view": {"view": view}, **(values or {})}
    return Asked("tiny", prompt, selection or None, values, shown or {}, language, "activations")


def drawn(playground, view, prompt=PROMPT, **changes):
    return payloads(playground, asked(view, prompt, **changes))[0]


def figure(payload):
    return json.loads(payload["figure"])


def decoded(value):
    if not isinstance(value, dict):
        return np.array(value)
    found = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
    return found.reshape([int(n) for n in value["shape"].split(", ")]) if "shape" in value else found


def run_lines(code, lm, monkeypatch):
    """The value of the last of some Python lines, and the names that the others made."""
    *lines, last = code.splitlines()
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    names = {}
    exec("\n".join(lines), names)
    return eval(last, names), names


# --- words ---


def test_the_script_has_the_words_it_asks_for():
    given = {'"neurontop"': set(neurons._TOP_WORDS), '"neuronone"': set(neurons._ONE_WORDS)}
    parts = SCRIPT.split("define(")
    for name, known in given.items():
        (code,) = [each for each in parts if each.strip().startswith(name)]
        assert set(re.findall(r"\bwords\.(\w+)", code)) == known, name


@pytest.mark.parametrize("kind", ["relu", "gelu", "gelu_tanh", "swiglu"])
def test_every_activation_function_has_a_name(kind):
    assert all(words(language)[f"neurons.function_{kind}"] for language in LANGUAGES)


# --- neurons ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_drawing_of_the_neurons_fills_every_part(playground, language):
    parts = drawn(playground, "neurons", language=language)
    assert set(neurons.PARTS) <= set(parts) and set(neurons.PARTS) <= set(TAB.parts)
    assert not any("problem" in parts[name] or "empty" in parts[name] for name in neurons.PARTS)
    assert len(parts["neurons_form"]["controls"][0]["options"]) == 4
    assert parts["neurons_survey"]["state"] == "done"  # a quick run: nothing to press
    assert parts["neurons_about"]["text"] and len(parts["neurons_howto"]["parts"]) == 4


@pytest.mark.parametrize("order", ["here", "prompt", "writes"])
def test_the_list_and_the_map_are_those_of_the_model_code(playground, lm, order):
    values = {"neurons_form": {"layer": "1", "order": order}}
    payload = drawn(playground, "neurons", values=values, tokens=[3], edits=ZERO)["neurons_top"]
    run = lm.trace(PROMPT).edit(Edit("zero", 0, 1))
    post = layer_activations(run, 1).post
    first = ranked(post, write_lengths(lm.model, 1), order, 3)
    assert [row["neuron"] for row in payload["rows"]] == first[:12].tolist()
    found = promoted(lm.model, 1, first[:12], 1, 256)
    for n, row in enumerate(payload["rows"]):
        at = row["at"] if order == "prompt" else 3
        assert row["value"] == post[at, row["neuron"]] and abs(row["peak"]) == np.abs(post[:, row["neuron"]]).max()
        toward = (found.down if row["value"] < 0 else found.up)[n, 0]
        assert row["toward"] == neurons.quoted(scene_of(playground, asked("neurons")), int(toward))
        assert row["token"] == PROMPT[row["at"]]
    heat = figure(payload["map"])
    assert (decoded(heat["data"][0]["z"]) == post[:, first[:24]].T).all() and payload["map"]["neurons"] == first[
        :24
    ].tolist()
    assert heat["data"][0]["y"] == [str(n) for n in first[:24]] and heat["layout"]["meta"]["window"] == [-24, 0, 0, 5]


def test_one_neuron_shows_its_own_numbers(playground, lm):
    values = {"neurons_form": {"layer": "2"}, "neurons_top": {"of": "tiny 2", "neuron": 17}}
    parts = drawn(playground, "neurons", values=values, tokens=[1])
    read = layer_activations(lm.trace(PROMPT), 2)
    payload = parts["neurons_one"]
    for name, column in (("pre", read.pre), ("post", read.post), ("up", read.up)):
        if column is None:
            assert name not in payload["columns"]
        else:
            assert payload["columns"][name] == pytest.approx(column[:, 17].tolist(), rel=1e-6)
    assert payload["tokens"] == list(PROMPT) and payload["at"] == 1 and "Neuron 17 of layer 2" in payload["title"]
    place = ranked(read.post, np.ones(100), "here", 1).tolist().index(17) + 1
    assert payload["facts"][0][0] == "At “b” (position 1)" and payload["facts"][-1][1] == f"number {place}"
    found = promoted(lm.model, 2, [17], 8, 256)
    assert [score for _, score in payload["pushes"]["up"]] == found.up_scores[0].tolist()
    assert [score for _, score in payload["pushes"]["down"]] == found.down_scores[0].tolist()
    gated = read.up is not None
    curve = figure(parts["neurons_curve"])["data"]
    assert (decoded(curve[1]["x"]) == read.pre[:, 17]).all()
    if not gated:
        assert (decoded(curve[1]["y"]) == read.post[:, 17]).all()
    beyond = 1 - decoded(curve[2]["y"]).sum()
    assert 0 <= beyond < 0.003 and ("the product with" in parts["neurons_curve"]["note"]) == gated
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
    parts = drawn(playground, "neurons", values=values)
    assert f"Neuron {parts['neurons_top']['rows'][0]['neuron']} of layer 2" == parts["neurons_one"]["title"]


@pytest.mark.parametrize("form", [None, 3, {"layer": 1, "order": []}, {"layer": "3"}, {"layer": "-1"}])
def test_a_form_that_is_none_is_the_main_heads_layer(playground, form):
    looked = neurons.looked_at(scene_of(playground, asked("neurons", heads=[[1, 2]])), {"neurons_form": form})
    assert (looked.layer, looked.order, looked.at, looked.asked) == (1, "here", 4, None)


def test_choosing_a_neuron_draws_the_list_not_again(playground):
    _, shown = payloads(playground, asked("neurons"))
    layer = scene_of(playground, asked("neurons")).head[0]
    values = {"neurons_top": {"of": f"tiny {layer}", "neuron": 42}}
    parts = drawn(playground, "neurons", values=values, shown=shown)
    assert set(parts) & set(neurons.PARTS) == {"neurons_one", "neurons_curve"}


def test_layers_wait_for_the_button_where_the_run_was_slow(playground, lm, monkeypatch):
    monkeypatch.setattr(neurons, "QUICK", -1)
    parts = drawn(playground, "neurons")
    assert parts["neurons_survey"]["state"] == "idle"
    assert set(parts["neurons_bins"]) == set(parts["neurons_shares"]) == {"empty"}
    list(background.perform(playground, neurons.plan_survey(scene_of(playground, asked("neurons")), {}), "en"))
    parts = drawn(playground, "neurons")
    assert parts["neurons_survey"]["state"] == "done" and "Measured here" in parts["neurons_survey"]["text"]
    assert "figure" in parts["neurons_bins"] and "figure" in parts["neurons_shares"]
    assert set(drawn(playground, "neurons", edits=ZERO)["neurons_bins"]) == {"empty"}


def test_the_pictures_of_all_layers_are_the_survey(playground, lm):
    parts = drawn(playground, "neurons", edits=ZERO)
    found = survey(lm.trace(PROMPT).edit(Edit("zero", 0, 1)))
    heat = figure(parts["neurons_bins"])["data"][0]
    names = bin_names(EDGES)
    z, rows = decoded(heat["z"]), [names.index(name) for name in heat["y"]]
    shares = found.counts / found.counts.sum(1, keepdims=True)
    assert np.nan_to_num(z) == pytest.approx(shares[:, rows].T) and np.nansum(z) == pytest.approx(3)
    lines = figure(parts["neurons_shares"])["data"]
    for line, values in zip(lines, (found.never, found.quiet, found.active), strict=True):
        assert decoded(line["y"]) == pytest.approx(values)
    relu = lm.config.mlp == "relu"
    assert ("after the ReLU" if relu else "at least 10 %") in parts["neurons_shares"]["note"]
    assert "edited run" in parts["neurons_bins"]["source"]


@pytest.mark.parametrize("prompt", ["a", "\n", "\u202e<b>{token}</b>", "abcd" * 15])
@pytest.mark.parametrize("view", ["neurons", "space"])
def test_short_long_and_hostile_prompts_are_drawn(playground, prompt, view):
    parts = drawn(playground, view, prompt)
    for name in neurons.PARTS if view == "neurons" else stream_picture.PARTS:
        assert "problem" not in parts[name], name
        assert "\u202e" not in json.dumps(parts[name], ensure_ascii=False), name


def test_the_python_lines_make_the_numbers(playground, lm, monkeypatch):
    values = {"neurons_form": {"layer": "1", "order": "writes"}, "neurons_top": {"of": "tiny 1", "neuron": 9}}
    parts = drawn(playground, "neurons", values=values, tokens=[2], edits=ZERO)
    value, _ = run_lines(parts["neurons_top"]["map"]["python"], lm, monkeypatch)
    assert (value == decoded(figure(parts["neurons_top"]["map"])["data"][0]["z"])).all()
    value, names = run_lines(parts["neurons_one"]["python"], lm, monkeypatch)
    assert value.up_scores[0].tolist() == [score for _, score in parts["neurons_one"]["pushes"]["up"]]
    assert names["layer"].post[:, 9].tolist() == pytest.approx(parts["neurons_one"]["columns"]["post"], rel=1e-6)
    value, _ = run_lines(parts["neurons_curve"]["python"], lm, monkeypatch)
    assert (value == decoded(figure(parts["neurons_curve"])["data"][1]["y"])).all()
    value, _ = run_lines(parts["neurons_bins"]["python"], lm, monkeypatch)
    assert value.sum(1).tolist() == [500, 500, 500]
    value, _ = run_lines(parts["neurons_shares"]["python"], lm, monkeypatch)
    assert value[2] == pytest.approx(decoded(figure(parts["neurons_shares"])["data"][2]["y"]))


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
    assert short(-1234.5678) == "−1235"


def test_the_axis_of_the_curve_holds_the_neuron_and_nearly_all_others():
    pre = np.zeros((1, 10_000))
    pre[0, :3] = 90, -90, 3
    assert span(pre, np.array([0.0])) == pytest.approx((-4.16, 4.16))
    low, high = span(pre, np.array([30.0]))
    assert low < -4 < 30 < high < 31
    x = spread(-4.16, 5)
    assert 0 in x and (np.diff(x) > 0).all() and outside(pre, x) == pytest.approx(2e-4)


def test_signed_colours_rise_from_end_to_end():
    for scale in signed_scales().values():
        places = [place for place, _ in scale]
        assert places[0] == 0 and places[16] == 0.5 and places[-1] == 1 and places == sorted(places)
        assert places[24] == pytest.approx(0.625)  # half the ramp's way is a quarter of the size


def test_colours_end_at_the_99th_percentile_and_never_at_nothing():
    values = np.ones((2, 100), np.float32)
    values[0, 0] = 500
    assert map_figure(values, [0, 1], "x" * 100, SAID).layout.coloraxis.cmax == 1
    assert map_figure(np.zeros((1, 3)), [0], "abc", SAID).layout.coloraxis.cmax == 1


def test_bins_that_no_activation_is_in_are_cut_off():
    counts = np.zeros((2, 33), int)
    counts[:, 16] = 4
    counts[1, 18] = 4
    heat = bins_figure(counts, EDGES, SAID).data[0]
    assert list(heat.y) == bin_names(EDGES)[16:19]
    assert heat.z[:, 0].tolist()[0] == 1 and np.isnan(heat.z[1, 0]) and heat.z[2].tolist()[1] == 0.5


# --- the picture of the stream ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_first_drawing_of_the_stream_fills_every_part(playground, language):
    parts = drawn(playground, "space", language=language)
    assert set(stream_picture.PARTS) <= set(parts) and set(stream_picture.PARTS) <= set(TAB.parts)
    assert "figure" in parts["space_map"] and parts["space_job"]["state"] == "done"
    assert parts["space_form"]["controls"][0]["max"] == 3


@pytest.mark.parametrize(
    "form,axes,scaled,first",
    [
        ({}, (0, 1), True, True),
        ({"axes": "23", "states": "raw", "layer": 3}, (1, 2), False, True),
        ({"axes": "13", "first": False, "layer": 0}, (0, 2), True, False),
    ],
)
def test_points_and_paths_are_the_projection(playground, lm, form, axes, scaled, first):
    payload = drawn(playground, "space", values={"space_form": form}, edits=ZERO)["space_map"]
    found = principal(lm.trace(PROMPT).edit(Edit("zero", 0, 1)), scaled=scaled, first=first)
    layer = form.get("layer", 1)
    *paths, points = figure(payload)["data"]
    for name, axis in (("x", axes[0]), ("y", axes[1])):
        assert (decoded(points[name]) == found.coordinates[layer, :, axis]).all()
        assert (decoded(paths[0][name]) == found.coordinates[:, 4 - found.start, axis]).all()
        assert decoded(paths[1][name]).tolist() == [found.coordinates[layer, 4 - found.start, axis]]
    assert len(paths) == (4 if first else 2)
    assert [each["tokens"] for each in points["customdata"]] == [[at] for at in range(found.start, 5)]
    for share in found.shares:
        assert percent(share) in payload["note"]
    axis = figure(payload)["layout"]["xaxis"]
    assert percent(found.shares[axes[0]]) in axis["title"]["text"]
    x = found.coordinates[..., axes[0]]
    assert axis["range"][0] < x.min() and x.max() < axis["range"][1]  # of all layers
    assert f"{(3 + 1) * (5 - found.start)} states" in payload["note"]


def test_picked_tokens_are_followed(playground):
    def followed(tokens, form=None):
        values = {"space_form": form}
        there = scene_of(playground, asked("space", "abcab" * 4, values=values, tokens=tokens))
        return stream_picture.paths_of(there, stream_picture.shown_of(there, form))

    assert followed([]) == (19, 0) and followed([3, 1]) == (3, 1)
    assert followed([0, 2], {"first": False}) == (2,) and followed([0], {"first": False}) == ()
    assert followed(list(range(12))) == tuple(range(4, 12))


def test_moving_the_layer_works_nothing_out_again(playground, monkeypatch):
    _, shown = payloads(playground, asked("space"))
    monkeypatch.setattr(stream_picture, "principal", lambda *_, **__: pytest.fail("worked out again"))
    parts = drawn(playground, "space", values={"space_form": {"layer": 3, "axes": "13"}}, shown=shown)
    assert set(parts) & set(stream_picture.PARTS) == {"space_map"}
    assert "after the last layer" in parts["space_map"]["title"]


def test_a_wide_model_is_asked_about_first(playground, monkeypatch):
    monkeypatch.setattr(stream_picture, "QUICK", 0)
    parts = drawn(playground, "space")
    assert set(parts["space_map"]) == {"empty"} and parts["space_job"]["state"] == "idle"
    list(background.perform(playground, stream_picture.plan_space(scene_of(playground, asked("space")), {}), "en"))
    parts = drawn(playground, "space")
    assert "figure" in parts["space_map"] and "Measured here" in parts["space_job"]["text"]
    other = drawn(playground, "space", values={"space_form": {"states": "raw"}})
    assert set(other["space_map"]) == {"empty"}


@pytest.mark.parametrize("language,said", [("en", "Nothing is left"), ("zh", "什么都不剩")])
def test_one_token_without_itself_is_said_in_the_readers_language(playground, language, said):
    parts = drawn(playground, "space", "a", values={"space_form": {"first": False}}, language=language)
    assert said in parts["space_map"]["problem"]["text"]


@pytest.mark.parametrize("form", [None, 3, {"layer": "x", "states": 1, "axes": [], "first": 0}, {"layer": 99}])
def test_a_form_that_is_none_is_the_usual_picture(playground, form):
    shown = stream_picture.shown_of(scene_of(playground, asked("space")), form)
    assert (shown.scaled, shown.first, shown.axes) == (True, True, (0, 1))
    assert shown.layer == (3 if form == {"layer": 99} else 1)


def test_labels_stand_beside_few_points_only(playground):
    few, many = (
        figure(drawn(playground, "space", "a" * n)["space_map"])["data"][-1] for n in (MOST_LABELS, MOST_LABELS + 1)
    )
    assert few["mode"] == "markers+text" and many["mode"] == "markers"


def test_the_python_lines_make_the_points(playground, lm, monkeypatch):
    form = {"states": "raw", "first": False, "axes": "23", "layer": 2}
    payload = drawn(playground, "space", values={"space_form": form}, edits=ZERO)["space_map"]
    value, _ = run_lines(payload["python"], lm, monkeypatch)
    points = figure(payload)["data"][-1]
    assert (value == np.stack([decoded(points["x"]), decoded(points["y"])], 1)).all()
