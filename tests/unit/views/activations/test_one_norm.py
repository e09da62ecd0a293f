"""The view of one norm without a browser: numbers are the model's, shown digits add up, lines of Python make them."""

import re
from functools import partial

import numpy as np
import pytest

from model.activations.norm_walk import (
    compare_batch,
    norm_input,
    norm_of,
    norm_output,
    norms_of,
    quantiles,
    walk,
)
from tests.support.scripts import script
from tests.support.views import activations
from tests.support.views.activations import PROMPT, figure, model_of
from tests.support.views.views import run_lines
from viz.numbers import number
from viz.page.parts import packed
from viz.page.pipeline import payloads, scene_of
from viz.seam.panels import names_of
from viz.views.activations.one_norm import measure
from viz.views.activations.one_norm.figures import counted, decimals_for, shown_dimensions
from viz.views.activations.one_norm.view import VIEW
from viz.words import LANGUAGES

asked = partial(activations.asked, VIEW.key)
drawn = partial(activations.drawn, VIEW.key)
SCRIPT = script("views/activations/norm")
WIRINGS = ("gpt2", "llama", "neox", "post", "post-rope", "mqa")


@pytest.fixture(scope="module", params=WIRINGS)
def lm(request, tmp_path_factory):
    return model_of(request.param, tmp_path_factory.mktemp("bytes"))


def read(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


# --- words ---


def test_the_script_has_the_words_it_asks_for():
    used = set(re.findall(r"\bwords\.(\w+)", SCRIPT))
    given = {"dimension", "dimension_help", "dimensions", "model"}
    assert used == given


# --- one norm ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_part_is_filled(playground, lm, language):
    parts = drawn(playground, language=language)
    for name in names_of(VIEW):
        assert "problem" not in parts[name], parts[name]
    assert len(parts["one_norm_form"]["controls"][0]["options"]) == len(norms_of(lm.config))
    kind = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}[lm.config.norm]
    assert kind in parts["one_norm_form"]["controls"][0]["label"]


def test_a_norm_is_named_by_where_it_stands(playground, lm):
    names = [text for _, text in drawn(playground)["one_norm_form"]["controls"][0]["options"]]
    side = "after" if lm.config.norm_placement == "post" else "before"
    first, second = f"{side} attention", f"{side} the MLP"
    assert names[:3] == [f"layer 0 · {first}", f"layer 0 · {second}", f"layer 1 · {first}"]
    assert ("final norm · before the output head" in names) == lm.config.final_norm


@pytest.mark.parametrize("n", [0, 3, -1])
def test_the_walk_shows_the_models_numbers_and_they_add_up(playground, lm, n):
    places = norms_of(lm.config)
    place = places[n]
    edits = [{"kind": "scale", "layer": 0, "head": 1, "factor": -2}]
    payload = drawn(playground, form={"norm": str(n % len(places))}, tokens=[2], edits=edits)["one_norm_walk"]
    run = scene_of(playground, asked(edits=edits)).trace
    found = walk(run, *place, 2)
    table, columns = payload["table"], payload["table"]["columns"]
    assert [row["d"] for row in table["rows"]] == shown_dimensions(found.x)
    arrays = {
        "x": found.x,
        "x − μ": found.centered,
        "n": found.normalized,
        "γ": found.gain,
        "n · γ": found.scaled,
        "β": found.bias,
        "n · γ + β": found.out,
        "model": found.model_out,
    }
    for row in table["rows"]:
        cells = dict(zip([*columns, "model"], row["cells"], strict=True))
        for name, (shown, exact) in cells.items():
            assert exact == arrays[name][row["d"]]
            decimals = len(shown.partition(".")[2])
            assert read(shown) == pytest.approx(exact, abs=1.01 * 10**-decimals)
        shown = {name: read(cell[0]) for name, cell in cells.items()}
        if found.mean is not None:
            assert shown["x − μ"] == pytest.approx(shown["x"] - read(table["mean"]), abs=1e-12)
        if found.bias is not None:
            assert shown["n · γ + β"] == pytest.approx(shown["n · γ"] + shown["β"], abs=1e-12)
    assert ("x − μ" in columns) == (lm.config.norm == "layernorm") and ("β" in columns) == (found.bias is not None)
    assert payload["same"] and number(found.gap) in payload["check"] and "edited" in payload["source"]
    expected = [arrays["x"], found.centered, found.normalized, found.scaled, found.out]
    names = ["x", "centred", "normalised", "scaled", "out"]
    steps = {step["name"]: step for step in payload["steps"]}
    for name, values in zip(names, expected, strict=True):
        if name in steps:
            assert steps[name]["values"] == pytest.approx(values, rel=1e-4, abs=1e-12)
    assert all(number(value) in steps["normalised"]["numbers"] for value in (found.divisor, found.spread, found.eps))
    assert ("centred" in steps, "out" in steps) == (found.mean is not None, found.bias is not None)


def test_histograms_count_every_value(playground, lm):
    parts, run = drawn(playground, form={"norm": "1"}), lm.trace(PROMPT)
    place = norms_of(lm.config)[1]
    norm, x = norm_of(lm.model, *place), norm_input(run, *place)
    for n, values in enumerate((x, norm_output(norm, x))):
        assert figure(parts["one_norm_values"])["data"][n]["y"] == counted(values).counts.tolist()
    assert sum(figure(parts["one_norm_gains"])["data"][0]["y"]) <= lm.config.d_model
    assert len(figure(parts["one_norm_gains"])["data"]) == 1 + (norm.bias is not None)


def test_bins_by_hand():
    found = counted(np.array([0.0, 1.0, 2.0, 3.0]))
    assert found.edges[0] == 0 and found.edges[-1] == 3 and found.counts.sum() == 4 and found.outside == 0
    values = np.concatenate([np.linspace(-1, 1, 9998), [-500.0, 900.0]])
    found = counted(values)
    assert (found.low, found.high) == (-500, 900) and found.edges[-1] < 1.01
    assert found.outside == 10_000 - found.counts.sum() > 1
    assert counted(np.full(8, 2.5)).counts.sum() == 8  # all gains alike
    assert counted(np.append(np.zeros(5000), 7.0)).outside == 0  # nearly all alike


def test_digits_by_hand():
    assert [decimals_for(np.array([value])) for value in (2000.0, 30.0, 0.3, 1e-9, 0.0)] == [3, 4, 6, 8, 3]
    assert shown_dimensions(np.array([0.0, -9, 1, 2, 3, 4, 5, 6, 7, 8, 0.5])) == [1, 9, 8, 7, 6, 5, 4, 3, 0, 2]


def test_gains_of_all_norms(playground, lm):
    payload, found = drawn(playground)["one_norm_all"], quantiles(lm.model)
    data = figure(payload)["data"]
    assert len(data) == 3 * (2 + lm.config.final_norm) * len(found)
    rows = [n for n, place in enumerate(norms_of(lm.config)) if place[1] == "norm2"]
    low, high, median = (line for line in data[3:6])
    for column, line in ((0, low), (1, median), (2, high)):
        assert line["y"] == pytest.approx(found["gain"][rows, column], rel=1e-5) and line["x"] == list(
            range(lm.config.n_layer)
        )
    assert median["showlegend"] and not low["showlegend"] and high["fill"] == "tonexty"


def test_batch_norm_beside_the_models_norm(playground, lm):
    parts, place = drawn(playground), norms_of(lm.config)[0]
    found = compare_batch(norm_of(lm.model, *place), norm_input(lm.trace(PROMPT), *place))
    data = figure(parts["one_norm_batch"])["data"]
    names = ("batch_tokens", "own_tokens", "batch_dimensions", "own_dimensions")
    for line, name in zip(data, names, strict=True):
        assert line["y"] == pytest.approx(getattr(found, name), rel=1e-5)
    assert data[0]["customdata"][3] == {"tokens": [3]}
    items = dict(parts["one_norm_why"]["items"])
    assert number(found.batch_later) in items["It depends on other tokens, even later ones"]
    assert number(found.own_alone) in items["A single token has no variance"]


def test_one_token_and_hostile_text(playground):
    parts = drawn(playground, prompt="\u202e")  # three bytes, none of them text
    assert parts["tokens"].pop("prompt") == "\u202e"  # for the address, never shown
    assert "problem" not in parts["one_norm_walk"] and "\u202e" not in packed(parts)
    parts = drawn(playground, prompt="<")
    assert all("problem" not in parts[name] for name in names_of(VIEW))
    assert "at least two tokens" in parts["one_norm_why"]["items"][0][1]
    first = figure(parts["one_norm_batch"])["data"][0]
    assert "<extra></extra>" in first["hovertemplate"] and first["text"] == ["0 &lt;"]


@pytest.mark.long
@pytest.mark.parametrize("form", [None, 3, {"norm": "99"}, {"norm": ["0"]}, {"norm": 1}])
def test_forms_that_are_none_are_the_default(playground, lm, form):
    first, changed = drawn(playground), drawn(playground, form=form)
    assert first["one_norm_walk"]["run"] == changed["one_norm_walk"]["run"]


def test_numbers_out_of_range_are_said(playground, monkeypatch):
    monkeypatch.setattr(measure, "norm_input", lambda *_: np.full((5, 48), np.inf, np.float32))
    parts = drawn(playground)
    assert "float32" in parts["one_norm_walk"]["problem"]["text"] and "problem" in parts["one_norm_values"]
    assert "figure" in parts["one_norm_all"]
    assert "float32 的范围" in drawn(playground, language="zh")["one_norm_walk"]["problem"]["text"]


def test_picking_a_token_draws_the_walk_alone(playground):
    _, shown = payloads(playground, asked())
    parts, _ = payloads(playground, asked(shown=shown, tokens=[1]))
    assert {name for name in parts if name.startswith("one_norm")} == {"one_norm_walk"}
    parts, _ = payloads(playground, asked(shown=shown, heads=[[1, 1]]))
    assert not {name for name in parts if name.startswith("one_norm")}


def test_the_python_lines_make_the_numbers(playground, lm):
    n = len(norms_of(lm.config)) - 1
    place = norms_of(lm.config)[n]
    edits = [{"kind": "zero", "layer": 1, "head": 2}]
    parts = drawn(playground, form={"norm": str(n)}, tokens=[3], edits=edits)
    run = scene_of(playground, asked(edits=edits)).trace
    norm, x = norm_of(lm.model, *place), norm_input(run, *place)

    def last(name):
        return run_lines(parts[name]["python"], lm)[1][-1]

    assert last("one_norm_walk").out.tolist() == walk(run, *place, 3).out.tolist()
    before, after = last("one_norm_values")
    assert (before == x).all() and (after == norm_output(norm, x)).all()
    gain, bias = last("one_norm_gains")
    assert gain is norm.weight and bias is norm.bias
    assert (last("one_norm_all")["gain"] == quantiles(lm.model)["gain"]).all()
    assert (last("one_norm_batch").batch_tokens == compare_batch(norm, x).batch_tokens).all()
