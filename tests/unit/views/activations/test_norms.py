"""The views of norms without a browser: numbers are the model's, shown digits add up, lines of Python make them."""

import json
import re

import numpy as np
import pytest
import torch

from model.activations.norm_swap import SWAPS, WHERE, places_of, swapped, swaps_of
from model.activations.norm_walk import (
    compare_batch,
    norm_input,
    norm_of,
    norm_output,
    norms_of,
    quantiles,
    walk,
)
from model.api import LanguageModel
from model.attention.effects import next_tokens
from tests.support.helpers import VARIANTS, byte_tokenizer, tiny_model
from tests.support.scripts import script
from viz.charts.distribution import prediction_rows
from viz.page import background
from viz.page.pipeline import Asked, payloads, scene_of
from viz.page.playground import Options, Playground
from viz.views.activations.norm import view as onenorm
from viz.views.activations.norm.figures import counted, decimals_for, shown_dimensions, told
from viz.views.activations.norm_swap import view as norm_swap
from viz.views.activations.norm_swap.figures import size_figure
from viz.words import LANGUAGES, words

PROMPT = "abcab"
SCRIPT = script("views/activations/norm")
WIRINGS = ("gpt2", "llama", "neox", "post", "post-rope", "mqa")


@pytest.fixture(scope="module", params=WIRINGS)
def lm(request, tmp_path_factory):
    model = tiny_model({**VARIANTS[request.param], "vocab_size": 256, "n_ctx": 300})
    return LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path_factory.mktemp("bytes")))


def asked(view="onenorm", form=None, prompt=PROMPT, language="en", shown=None, **selection):
    values = {"activations_view": {"view": view}, f"{view}_form": form}
    return Asked("tiny", prompt, selection or None, values, shown or {}, language, "activations")


def drawn(playground, *given, **changes):
    return payloads(playground, asked(*given, **changes))[0]


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def executed(code: str, lm, monkeypatch) -> dict:
    """What the lines of Python define; the value of the last one as "last"."""
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    *lines, last = code.splitlines()
    space: dict = {}
    exec("\n".join(lines), space)
    space["last"] = eval(last, space) if "=" not in last.split("#")[0].split("(")[0] else None
    return space


def trace(payload, n=0):
    return json.loads(payload["figure"])["data"][n]


# --- words ---


def test_every_change_and_place_has_its_words():
    for language in LANGUAGES:
        said = words(language)
        for key in SWAPS:
            assert said[f"swap.is_{key}"] and said[f"swap.help_{key}_rmsnorm" if key == "other" else f"swap.help_{key}"]
        for where in WHERE:
            assert [key for key in said if re.fullmatch(rf"swap\.at_{where}(_pre|_post)?", key)]


def test_the_script_has_the_words_it_asks_for():
    used = set(re.findall(r"\bwords\.(\w+)", SCRIPT))
    given = {"dimension", "dimension_help", "dimensions", "model"}
    assert used == given


# --- one norm ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_part_is_filled(playground, lm, language):
    parts = drawn(playground, language=language)
    for name in onenorm.PARTS:
        assert "problem" not in parts[name], parts[name]
    assert len(parts["onenorm_form"]["controls"][0]["options"]) == len(norms_of(lm.config))
    parts = drawn(playground, "swap", language=language)
    for name in norm_swap.PARTS:
        assert "problem" not in parts[name] and "empty" not in parts[name], parts[name]


def test_a_norm_is_named_by_where_it_stands(playground, lm):
    names = [text for _, text in drawn(playground)["onenorm_form"]["controls"][0]["options"]]
    side = "after" if lm.config.norm_placement == "post" else "before"
    assert names[:3] == [f"layer 0, {side} attention", f"layer 0, {side} the MLP", f"layer 1, {side} attention"]
    assert ("final, before the output head" in names) == lm.config.final_norm


@pytest.mark.parametrize("n", [0, 3, -1])
def test_the_walk_shows_the_models_numbers_and_they_add_up(playground, lm, n):
    places = norms_of(lm.config)
    place = places[n]
    edits = [{"kind": "scale", "layer": 0, "head": 1, "factor": -2}]
    payload = drawn(playground, form={"norm": str(n % len(places))}, tokens=[2], edits=edits)["onenorm_walk"]
    run = scene_of(playground, asked(edits=edits)).trace
    found = walk(run, *place, 2)
    table, columns = payload["table"], payload["table"]["columns"]
    assert [row["d"] for row in table["rows"]] == shown_dimensions(found.x)
    arrays = {
        "x": found.x,
        "x − μ": found.centred,
        "n": found.normalised,
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
            assert number(shown) == pytest.approx(exact, abs=1.01 * 10**-decimals)
        shown = {name: number(cell[0]) for name, cell in cells.items()}
        if found.mean is not None:
            assert shown["x − μ"] == pytest.approx(shown["x"] - number(table["mean"]), abs=1e-12)
        if found.bias is not None:
            assert shown["n · γ + β"] == pytest.approx(shown["n · γ"] + shown["β"], abs=1e-12)
    assert ("x − μ" in columns) == (lm.config.norm == "layernorm") and ("β" in columns) == (found.bias is not None)
    assert payload["same"] and told(found.gap) in payload["check"] and "edited" in payload["source"]
    wanted = [arrays["x"], found.centred, found.normalised, found.scaled, found.out]
    names = ["x", "centred", "normalised", "scaled", "out"]
    steps = {step["name"]: step for step in payload["steps"]}
    for name, values in zip(names, wanted, strict=True):
        if name in steps:
            assert steps[name]["values"] == pytest.approx(values, rel=1e-4, abs=1e-12)
    assert all(told(value) in steps["normalised"]["numbers"] for value in (found.divisor, found.spread, found.eps))
    assert ("centred" in steps, "out" in steps) == (found.mean is not None, found.bias is not None)


def test_histograms_count_every_value(playground, lm):
    parts, run = drawn(playground, form={"norm": "1"}), lm.trace(PROMPT)
    place = norms_of(lm.config)[1]
    norm, x = norm_of(lm.model, *place), norm_input(run, *place)
    for n, values in enumerate((x, norm_output(norm, x))):
        assert sum(trace(parts["onenorm_values"], n)["y"]) == counted(values).counts.sum()
    assert sum(trace(parts["onenorm_gains"])["y"]) <= lm.config.d_model
    assert len(json.loads(parts["onenorm_gains"]["figure"])["data"]) == 1 + (norm.bias is not None)


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
    assert told(-1234567) == "−1.235e+06" and told(0.00001) == "1e−05" and told(0) == "0"
    assert shown_dimensions(np.array([0.0, -9, 1, 2, 3, 4, 5, 6, 7, 8, 0.5])) == [1, 9, 8, 7, 6, 5, 4, 3, 0, 2]


def test_gains_of_all_norms(playground, lm):
    payload, found = drawn(playground)["onenorm_all"], quantiles(lm.model)
    data = json.loads(payload["figure"])["data"]
    assert len(data) == 3 * (2 + lm.config.final_norm) * len(found)
    rows = [n for n, place in enumerate(norms_of(lm.config)) if place[1] == "norm2"]
    low, high, median = (line for line in data[3:6])
    for column, line in ((0, low), (1, median), (2, high)):
        assert line["y"] == found["gain"][rows, column].tolist() and line["x"] == list(range(lm.config.n_layer))
    assert median["showlegend"] and not low["showlegend"] and high["fill"] == "tonexty"


def test_batch_norm_beside_the_models_norm(playground, lm):
    parts, place = drawn(playground), norms_of(lm.config)[0]
    found = compare_batch(norm_of(lm.model, *place), norm_input(lm.trace(PROMPT), *place))
    data = json.loads(parts["onenorm_batch"]["figure"])["data"]
    assert data[0]["y"] == found.batch_tokens.tolist() and data[1]["y"] == found.own_tokens.tolist()
    assert data[2]["y"] == found.batch_dimensions.tolist() and data[3]["y"] == found.own_dimensions.tolist()
    assert data[0]["customdata"][3] == {"tokens": [3]}
    items = dict(parts["onenorm_why"]["items"])
    assert told(found.batch_later) in items["It reads other tokens, later ones too"]
    assert told(found.own_alone) in items["One token has no spread"]


def test_one_token_and_hostile_text(playground):
    parts = drawn(playground, prompt="\u202e")  # three bytes, none of them text
    assert parts["tokens"].pop("prompt") == "\u202e"  # for the address, never shown
    assert "problem" not in parts["onenorm_walk"] and "\u202e" not in json.dumps(parts, ensure_ascii=False)
    parts = drawn(playground, prompt="<")
    assert all("problem" not in parts[name] for name in onenorm.PARTS)
    assert "at least two tokens" in parts["onenorm_why"]["items"][0][1]
    assert "<extra></extra>" in trace(parts["onenorm_batch"])["hovertemplate"]
    assert trace(parts["onenorm_batch"])["text"] == ["0 &lt;"]
    parts = drawn(playground, "swap", prompt="<")
    assert all("problem" not in parts[name] for name in norm_swap.PARTS)


@pytest.mark.parametrize("form", [None, 3, {"norm": "99"}, {"norm": ["0"]}, {"norm": 1}, {"swap": "x", "where": {}}])
def test_forms_that_are_none_are_the_default(playground, lm, form):
    first, changed = drawn(playground), drawn(playground, form=form)
    assert first["onenorm_walk"]["run"] == changed["onenorm_walk"]["run"]
    change = norm_swap.change_of(scene_of(playground, asked()), form)
    assert (change.swap, change.where, change.places) == ("other", "all", places_of(lm.config, "all"))


def test_numbers_out_of_range_are_said(playground, monkeypatch):
    monkeypatch.setattr(onenorm, "norm_input", lambda *_: np.full((5, 48), np.inf, np.float32))
    parts = drawn(playground)
    assert "float32" in parts["onenorm_walk"]["problem"]["text"] and "problem" in parts["onenorm_values"]
    assert "figure" in parts["onenorm_all"]


def test_picking_a_token_draws_the_walk_alone(playground):
    _, shown = payloads(playground, asked())
    parts, _ = payloads(playground, asked(shown=shown, tokens=[1]))
    assert {name for name in parts if name.startswith("onenorm")} == {"onenorm_walk"}
    parts, _ = payloads(playground, asked(shown=shown, heads=[[1, 1]]))
    assert not {name for name in parts if name.startswith("onenorm")}


def test_the_python_lines_make_the_numbers(playground, lm, monkeypatch):
    n = len(norms_of(lm.config)) - 1
    place = norms_of(lm.config)[n]
    edits = [{"kind": "zero", "layer": 1, "head": 2}]
    parts = drawn(playground, form={"norm": str(n)}, tokens=[3], edits=edits)
    run = scene_of(playground, asked(edits=edits)).trace
    norm, x = norm_of(lm.model, *place), norm_input(run, *place)

    def last(name):
        return executed(parts[name]["python"], lm, monkeypatch)["last"]

    assert last("onenorm_walk").out.tolist() == walk(run, *place, 3).out.tolist()
    before, after = last("onenorm_values")
    assert (before == x).all() and (after == norm_output(norm, x)).all()
    gain, bias = last("onenorm_gains")
    assert gain is norm.weight and bias is norm.bias
    assert (last("onenorm_all")["gain"] == quantiles(lm.model)["gain"]).all()
    assert (last("onenorm_batch").batch_tokens == compare_batch(norm, x).batch_tokens).all()


# --- changed norms ---


def test_a_change_shows_what_the_changed_run_gives(playground, lm, monkeypatch):
    edits = [{"kind": "previous_token", "layer": 0, "head": 1}]
    for key in swaps_of(lm.config):
        for form in ({"swap": key, "where": "norm2"}, {"swap": key, "where": "one", "norm": "2"}):
            parts = drawn(playground, "swap", form, tokens=[3], edits=edits)
            run = scene_of(playground, asked(edits=edits)).trace
            places = ((1, "norm1"),) if form["where"] == "one" else places_of(lm.config, "norm2")
            found = swapped(run, key, places)
            table = next_tokens(run, found, 3)
            payload, facts = parts["swap_next"], dict(parts["swap_facts"]["items"])
            assert payload["rows"] == prediction_rows(table, [row["text"] for row in payload["rows"]])
            assert f"{told(found.kl)} nats, mean over 5" in facts["How far the predictions move"]
            assert f"{told(found.losses[0])} → {told(found.losses[1])} nats" in facts["Loss"]
            assert f"→ {told(np.exp(found.losses[1]))}" in facts["Perplexity"] or found.losses[1] > 700
            lines = json.loads(parts["swap_sizes"]["figure"])["data"]
            assert lines[0]["y"] == pytest.approx(np.median(np.linalg.norm(run.residuals.numpy(), axis=-1), axis=1))
            assert lines[5]["y"] == pytest.approx(found.lengths[:, 3])
            assert lines[4]["y"] == pytest.approx(found.lengths.max(1))
            made = executed(payload["python"], lm, monkeypatch)
            assert made["last"].equals(table)
            assert "position 3" in payload["title"] and "edited" in payload["source"]
    space = executed(parts["swap_sizes"]["python"], lm, monkeypatch)
    assert (space["last"] == found.lengths).all()


def test_a_slow_model_waits_for_the_button(playground, lm, monkeypatch):
    monkeypatch.setattr(norm_swap, "QUICK", 0.0)
    form = {"swap": "no_gain", "where": "one", "norm": "1"}
    monkeypatch.setattr(norm_swap, "swapped", lambda *_: pytest.fail("it ran by itself"))
    parts = drawn(playground, "swap", form)
    assert parts["swap_job"]["state"] == "idle" and all(set(parts[name]) == {"empty"} for name in norm_swap.PARTS[2:])
    monkeypatch.undo()
    monkeypatch.setattr(norm_swap, "QUICK", 0.0)
    job = norm_swap.plan(scene_of(playground, asked()), {"swap_form": form})
    list(background.perform(playground, job, "en"))
    parts = drawn(playground, "swap", form)
    assert parts["swap_job"]["state"] == "done" and parts["swap_next"]["rows"]
    assert set(drawn(playground, "swap", form | {"norm": "2"})["swap_next"]) == {"empty"}


def test_a_quick_change_is_computed_once(playground, monkeypatch):
    calls = []
    monkeypatch.setattr(norm_swap, "swapped", lambda *given: (calls.append(given), swapped(*given))[1])
    drawn(playground, "swap")
    drawn(playground, "swap", tokens=[1])
    assert len(calls) == 1


def test_overflow_is_said_and_stays_out_of_the_payload(tmp_path):
    model = tiny_model({**VARIANTS["llama"], "vocab_size": 256, "n_ctx": 300, "tie_embeddings": False})
    with torch.no_grad():
        model.embed.weight[ord("c")] *= 1e15
    playground = Playground(Options(model="tiny", max_tokens=40))
    playground.models.get("tiny", lambda: LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path)))
    form = {"swap": "removed", "where": "norm2"}
    parts = drawn(playground, "swap", form)
    facts = dict(parts["swap_facts"]["items"])
    assert "In layer 1" in facts["The numbers overflow"] and "“c” at position 2" in facts["The numbers overflow"]
    assert "first 2 of 5" in facts["The numbers overflow"]
    assert "mean over 2 positions" in facts["How far the predictions move"]
    assert "In layer 1" in parts["swap_next"]["empty"]["hint"] and "position 4" in parts["swap_next"]["empty"]["text"]
    lines = json.loads(parts["swap_sizes"]["figure"])["data"]
    run = scene_of(playground, asked()).trace
    found = swapped(run, "removed", places_of(run.config, "norm2"))
    median, here = np.median(found.lengths[:2], axis=1), found.lengths[:2, 4]
    largest = np.nanmax(found.lengths, axis=1).tolist()
    assert lines[3]["y"] == pytest.approx([*median, None, None]) and lines[4]["y"] == pytest.approx(largest)
    assert lines[5]["y"] == pytest.approx([*here, None, None]) and largest[1] > 1e20 > largest[2]
    assert "rows" in drawn(playground, "swap", form, tokens=[1])["swap_next"]
    assert "第 1 层" in drawn(playground, "swap", form, language="zh")["swap_next"]["empty"]["hint"]
    parts = drawn(playground, "swap", form, prompt="cab")
    assert [name for name, _ in parts["swap_facts"]["items"]] == ["The numbers overflow"]


def test_perplexities_that_no_number_can_hold():
    assert norm_swap.perplexity(0.0) == "1" and norm_swap.perplexity(2.0) == "7.389"
    assert norm_swap.perplexity(2302.585093) == "10^1000"  # 1000 ln 10


def test_sizes_that_are_zero_or_gone_have_no_point():
    table = np.array([[0.0, 3.0], [1.0, np.nan]])
    said = {name: name for name in ("before", "after", "median", "largest", "here", "layer", "length")}
    figure = size_figure(table, table, 0, said)
    assert figure.data[0].y == (1.5, None) and figure.data[1].y == (3.0, 1.0) and figure.data[2].y == (None, 1.0)
