"""The view of changed norms without a browser: its numbers are those of the changed run."""

import re
from functools import partial

import numpy as np
import pytest
import torch

from model.activations.norm_swap import SWAPS, WHERE, divergence_at, places_of, swapped, swaps_of
from model.api import LanguageModel
from model.attention.effects import next_tokens
from tests.support.models.helpers import VARIANTS, byte_tokenizer, tiny_model
from tests.support.scripts import words_read
from tests.support.views import activations
from tests.support.views.activations import PROMPT, figure, model_of
from tests.support.views.views import array, perform, run_lines
from viz.charts.distribution import entropy, prediction_rows
from viz.numbers import nats, number
from viz.page.pipeline import scene_of
from viz.seam import panels
from viz.seam.panels import names_of
from viz.views.activations import runs
from viz.views.activations.norm_swap import measure
from viz.views.activations.norm_swap.figures import size_figure
from viz.views.activations.norm_swap.measure import question
from viz.views.activations.norm_swap.view import VIEW, perplexity
from viz.words import LANGUAGES, words
from viz.work.playground import Options, Playground

asked = partial(activations.asked, VIEW.key)
drawn = partial(activations.drawn, VIEW.key)
WIRINGS = ("gpt2", "llama", "neox", "post", "post-rope", "mqa")


@pytest.fixture(scope="module", params=WIRINGS)
def lm(request, tmp_path_factory):
    return model_of(request.param, tmp_path_factory.mktemp("bytes"))


def test_every_change_and_place_has_its_words():
    for language in LANGUAGES:
        catalogue = words(language)
        for key in SWAPS:
            option = f"norm_swap.settings.swap_{key}"
            assert catalogue[option] and catalogue[f"{option}_help"]
        for where in WHERE:
            place = where.replace("after", "norm")  # named like the norm of a post-norm layer
            pattern = rf"norm_swap\.settings\.where_{place}(_pre|_post)?"
            assert [key for key in catalogue if re.fullmatch(pattern, key)]


def test_the_script_of_the_predictions_has_the_words_it_asks_for():
    given = {key.removeprefix("before_after.") for key in words("en") if key.startswith("before_after.")}
    assert words_read("views/effects/before_after") <= given


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_part_is_filled(playground, language):
    parts = drawn(playground, language=language)
    for name in names_of(VIEW):
        assert "problem" not in parts[name] and "empty" not in parts[name], parts[name]
    assert all("problem" not in part for part in drawn(playground, prompt="<").values())


@pytest.mark.parametrize("form", [None, 3, {"norm": "99"}, {"norm": 1}, {"swap": "x", "where": {}}])
def test_forms_that_are_none_are_the_default(playground, lm, form):
    scene = scene_of(playground, asked())
    settings = panels.settings_of(VIEW, scene, {"norm_swap_form": form})
    assert (settings.swap, settings.where) == ("other", "all")
    assert question(scene, settings).places == places_of(lm.config, "all")


# --- changed norms ---


def test_a_change_shows_what_the_changed_run_gives(playground, lm):
    edits = [{"kind": "previous_token", "layer": 0, "head": 1}]
    for key in swaps_of(lm.config):
        for form in ({"swap": key, "where": "norm2"}, {"swap": key, "where": "one", "norm": "2"}):
            parts = drawn(playground, form, tokens=[3], edits=edits)
            run = scene_of(playground, asked(edits=edits)).trace
            places = ((1, "norm1"),) if form["where"] == "one" else places_of(lm.config, "norm2")
            found = swapped(run, key, places)
            table = next_tokens(run, found, 3)
            payload, facts = parts["norm_swap_next"], dict(parts["norm_swap_facts"]["items"])
            assert payload["rows"] == prediction_rows(table, [row["text"] for row in payload["rows"]])
            assert f"{nats(found.kl)} nats, mean over 5" in facts["Change in the predictions"]
            assert f"{nats(found.losses[0])} → {nats(found.losses[1])} nats" in facts["Loss"]
            assert f"→ {number(np.exp(found.losses[1]))}" in facts["Perplexity"] or found.losses[1] > 700
            lines = figure(parts["norm_swap_sizes"])["data"]
            median = np.median(np.linalg.norm(run.residuals.numpy(), axis=-1), axis=1)
            assert lines[0]["y"] == pytest.approx(median, rel=1e-5)
            assert lines[5]["y"] == pytest.approx(found.lengths[:, 3], rel=1e-5)
            assert lines[4]["y"] == pytest.approx(found.lengths.max(1), rel=1e-5)
            logits = [each.logits_at(3) for each in (run, found)]
            assert payload["entropy"] == [entropy(each) / np.log(2) for each in logits]
            assert payload["kl"] == divergence_at(*logits)
            assert run_lines(payload["python"], lm)[1][-1].equals(table)
            assert "position 3" in payload["title"] and "edited" in payload["source"]
    assert (run_lines(parts["norm_swap_sizes"]["python"], lm)[1][-1] == found.lengths).all()


def test_a_slow_model_waits_for_the_button(playground, monkeypatch):
    monkeypatch.setattr(runs, "QUICK", 0.0)
    form, shown = {"swap": "no_gain", "where": "one", "norm": "1"}, ("facts", "next", "sizes")
    with monkeypatch.context() as patch:
        patch.setattr(measure, "swapped", lambda *_: pytest.fail("it ran by itself"))
        parts = drawn(playground, form)
    assert parts["norm_swap_job"]["state"] == "idle" and "once more, in about 1.0 s" in parts["norm_swap_job"]["text"]
    assert all(set(parts[f"norm_swap_{name}"]) == {"empty"} for name in shown)
    perform(playground, "activations", VIEW, "changed", form, prompt=PROMPT)
    parts = drawn(playground, form)
    assert parts["norm_swap_job"]["state"] == "done" and parts["norm_swap_next"]["rows"]
    assert set(drawn(playground, form | {"norm": "2"})["norm_swap_next"]) == {"empty"}


def test_a_quick_change_is_computed_once(playground, monkeypatch):
    calls = []
    monkeypatch.setattr(measure, "swapped", lambda *given: (calls.append(given), swapped(*given))[1])
    drawn(playground)
    drawn(playground, tokens=[1])
    assert len(calls) == 1
    same = {"where": "one", "norm": "0"}
    drawn(playground, same)
    drawn(playground, same, tokens=[2])
    assert len(calls) == 2


def test_overflow_is_said_and_stays_out_of_the_payload(tmp_path):
    model = tiny_model({**VARIANTS["llama"], "vocab_size": 256, "n_ctx": 300, "tie_embeddings": False})
    with torch.no_grad():
        model.embed.weight[ord("c")] *= 1e15
    playground = Playground(Options(model="tiny", max_tokens=40))
    playground.models.get("tiny", lambda: LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path)))
    form = {"swap": "removed", "where": "norm2"}
    parts = drawn(playground, form)
    facts = dict(parts["norm_swap_facts"]["items"])
    assert "In layer 1" in facts["The values overflow"] and "“c” at position 2" in facts["The values overflow"]
    assert "first 2 of 5" in facts["The values overflow"]
    assert "mean over 2 positions" in facts["Change in the predictions"]
    empty = parts["norm_swap_next"]["empty"]
    assert "In layer 1" in empty["hint"] and "position 4" in empty["text"]
    lines = figure(parts["norm_swap_sizes"])["data"]
    run = scene_of(playground, asked()).trace
    found = swapped(run, "removed", places_of(run.config, "norm2"))
    gone = [np.nan, np.nan]
    median, here = np.median(found.lengths[:2], axis=1), found.lengths[:2, 4]
    largest = np.nanmax(found.lengths, axis=1)
    for line, expected in zip(lines[3:], ([*median, *gone], largest, [*here, *gone]), strict=True):
        np.testing.assert_allclose(array(line["y"]), expected, rtol=1e-5)
    assert largest[1] > 1e20 > largest[2]
    assert "rows" in drawn(playground, form, tokens=[1])["norm_swap_next"]
    assert "第 1 层" in drawn(playground, form, language="zh")["norm_swap_next"]["empty"]["hint"]
    parts = drawn(playground, form, prompt="cab")
    assert [name for name, _ in parts["norm_swap_facts"]["items"]] == ["The values overflow"]


def test_perplexities_that_no_number_can_hold():
    assert perplexity(0.0) == "1" and perplexity(2.0) == "7.39"
    assert perplexity(2302.585093) == "10^1,000"  # 1000 ln 10


def test_sizes_that_are_zero_or_gone_have_no_point():
    table = np.array([[0.0, 3.0], [1.0, np.nan]])
    names = {name: name for name in ("before", "after", "median", "largest", "here", "layer", "length")}
    drawing = size_figure(table, table, 0, names)
    assert drawing.data[0].y == (1.5, None) and drawing.data[1].y == (3.0, 1.0) and drawing.data[2].y == (None, 1.0)
