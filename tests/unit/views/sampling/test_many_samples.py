"""Many samples without a browser: the table, the dots and the lines are what the texts say."""

import dataclasses
import json
import re

import numpy as np
import pytest

from model.generation.samples import Many, take_samples
from model.generation.strategies import STRATEGIES
from model.generation.text_statistics import distinct
from tests.support.scripts import script
from viz.page import background
from viz.page.pipeline import Asked, payloads, scene_of
from viz.views.sampling.many_samples import view as many_samples
from viz.views.sampling.many_samples.figures import (
    MEASURES,
    beginning,
    entropy_figure,
    measure_figure,
    quartile_band,
    spread,
)
from viz.views.sampling.many_samples.view import COUNTS, OWN, key_of, plan, seconds_of, wanted_of
from viz.views.sampling.strategies import value_of
from viz.views.sampling.tab import TAB
from viz.words import LANGUAGES, words

PROMPT = "abcab"
SCRIPT = script("views/sampling/many_samples")
CARDS = value_of([STRATEGIES["greedy"], STRATEGIES["temperature"], STRATEGIES["top_p"]])
FORM = {"count": "8"}
ASKED = {"strategies": {"strategies": CARDS, "settings": {"tokens": 6, "seed": 2}}, "many_form": FORM}


def asked(values, language="en", prompt=PROMPT, **selection):
    return Asked("tiny", prompt, selection or None, {"sampling_view": {"view": "many"}} | values, {}, language, TAB.key)


def drawn(playground, values=ASKED, **changes):
    return payloads(playground, asked(values, **changes))[0]


def scene(playground, **changes):
    return scene_of(playground, asked(ASKED, **changes))


def taken(playground, values=ASKED, **changes):
    """The payloads once the samples are there."""
    list(background.perform(playground, plan(scene(playground, **changes), values), "en"))
    return drawn(playground, values, **changes)


@pytest.fixture
def samples(lm):
    """The same by hand."""
    return take_samples(lm, PROMPT, [STRATEGIES[key] for key in ("greedy", "temperature", "top_p")], Many(8, 6, 2))


# --- arrays ---


def test_a_spread_by_hand():
    found = spread([1.0, 2.0, 3.0, 6.0, float("nan")])
    assert (found.mean, found.low, found.median, found.high) == (3.0, 1.75, 2.5, 3.75)
    assert found.sd == pytest.approx(np.sqrt(14 / 3))  # squares 4, 1, 0 and 9 over 3
    assert spread([5.0]) == dataclasses.replace(spread([5.0]), mean=5.0, sd=None, low=5.0, median=5.0, high=5.0)
    assert set(vars(spread([float("nan")])).values()) == set(vars(spread([])).values()) == {None}


def test_each_step_is_of_the_texts_that_reach_it():
    band = quartile_band([np.array([1.0, 4.0]), np.array([3.0]), np.array([5.0, 8.0])])
    assert band == {"mean": [3.0, 6.0], "low": [2.0, 5.0], "high": [4.0, 7.0], "count": [3.0, 2.0]}
    assert quartile_band([]) == {"mean": [], "low": [], "high": [], "count": []}


def test_hostile_texts_and_names_are_shown_as_they_are():
    said = many_samples.Named("<b>m", "", "s")
    figure = measure_figure(["<i>a&", "b"], [[1.0, float("nan")], [2.0]], [["<img>\n", "x"], ["y" * 99]], said)
    first, second = figure["data"]
    assert first["text"] == ["&lt;img&gt;↵"] and first["y"] == ["&lt;i&gt;a&amp;"] and "<i>" not in str(figure)
    assert [each["part"] for each in (*first["customdata"], *second["customdata"])] == [0, 2]  # numbers of all texts
    assert second["text"] == [beginning("y" * 99)] and len(beginning("y" * 99)) == 60


def test_a_single_text_has_no_shade():
    said = {"step": "s", "entropy": "e", "of_texts": "n"}
    bands = [quartile_band([np.array([1.0, 2.0])]), quartile_band([np.array([1.0]), np.array([2.0])])]
    shade, alone, mean = entropy_figure(["a", "b"], bands, said)["data"]
    assert shade["fill"] == "toself" and shade["y"] == [1.75, 1.25] and mean["y"] == [1.5]
    assert alone["line"]["dash"] == "dot" and alone["y"] == [1.0, 2.0]


# --- what is asked ---


def test_settings_and_count_are_those_of_the_page(playground):
    at = scene(playground)
    wanted = wanted_of(at, ASKED)
    assert wanted.many == Many(8, 6, 2, ()) and wanted.strategies[0].name == "greedy"
    assert wanted_of(at, {}).many == Many(int(COUNTS[0]), 60, 0, ())
    for bad in ("9", 8, None, ["8"], "inf"):
        assert wanted_of(at, {"many_form": {"count": bad}}).many.count == int(COUNTS[0])
    chat = {"strategies": {"settings": {"chat": True}}}
    assert not wanted_of(at, chat).chat  # this model has no template


def test_the_key_tells_every_setting_apart_but_not_names(playground):
    def key(prompt=PROMPT, form=FORM, cards=CARDS, **changes):
        at = scene(playground, prompt=prompt)
        told = {"tokens": 6, "seed": 2} | changes
        return key_of(at, wanted_of(at, {"strategies": {"strategies": cards, "settings": told}, "many_form": form}))

    others = [
        key(prompt="abc"),
        key(form={"count": "32"}),
        key(tokens=7),
        key(seed=3),
        key(stop=["x"]),
        key(cards=CARDS[:2]),
        key(cards=CARDS[::-1]),
    ]
    assert len({key(), *others}) == 8
    assert key(cards=[card | {"name": "other"} for card in CARDS]) == key()
    assert key(shared=False) == key()  # every text has its own numbers


def test_nothing_runs_by_itself(playground):
    parts = drawn(playground)
    assert all(set(parts[name]) == {"empty"} for name in OWN[2:])
    assert parts["many_job"]["state"] == "idle" and "17 texts" in parts["many_job"]["text"]
    assert "run once" in parts["many_job"]["text"] and "edits" not in parts["many_job"]["text"]
    assert "edits" in drawn(playground, edits=[{"kind": "zero", "layer": 0, "head": 0}])["many_job"]["text"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_bad_card_is_said_where_the_button_stands(playground, language):
    bad = {"strategies": {"strategies": [{"method": "none"}]}}
    parts = drawn(playground, bad, language=language)
    assert not parts["notice"]
    told = parts["many_job"]["problem"]["text"]
    assert told.startswith({"en": "This method is not known.", "zh": "没有这种方法。"}[language])
    assert all(set(parts[name]) == {"empty"} for name in OWN[2:])


# --- what is found ---


def test_the_table_is_what_the_texts_say(playground, samples):
    rows = taken(playground)["many_table"]["rows"]
    assert [row["name"] for row in rows] == ["Greedy", "Temperature", "Top-p"]
    assert [(row["texts"], row["once"]) for row in rows] == [(1, True), (8, False), (8, False)]
    for row, mine in zip(rows, samples, strict=True):
        ids = [sample.ids.tolist() for sample in mine]
        assert row["together"] == distinct(ids, 2) and row["different"] == len(set(map(tuple, ids)))
        assert row["ended"] == sum(sample.ended == "end" for sample in mine)
        for measure in MEASURES:
            expected = spread([getattr(sample.measured, measure) for sample in mine])
            assert row["spread"][measure] == list(vars(expected).values())


def test_a_stop_text_ends_texts(playground):
    said = {
        "strategies": {"strategies": CARDS[1:2], "settings": {"tokens": 30, "stop": list("etao")}},
        "many_form": FORM,
    }
    parts = taken(playground, said)
    row, texts = parts["many_table"]["rows"][0], parts["many_texts"]["samples"]
    assert row["ended"] == sum(sample["ended"] == "stop" for sample in texts)
    assert all((sample["ended"] == "stop") == bool(set(sample["text"]) & set("etao")) for sample in texts)


@pytest.mark.parametrize("measure", MEASURES)
def test_every_measure_is_drawn(playground, samples, measure):
    payload = taken(playground, ASKED | {"many_table": {"measure": measure}})["many_plot"]
    figure = json.loads(payload["figure"])
    drawn_values = [trace["x"] for trace in figure["data"]]
    assert drawn_values == [[getattr(sample.measured, measure) for sample in mine] for mine in samples]
    assert payload["title"].startswith(words("en")[f"many.{measure}"])


def test_a_measure_that_is_none_is_the_first(playground):
    for bad in ("x", None, 3, ["length"], {"a": 1}):
        payload = taken(playground, ASKED | {"many_table": {"measure": bad}})["many_plot"]
        assert payload["title"] == "Perplexity"


def test_a_search_has_no_probability_of_its_draws(playground):
    said = {"strategies": {"strategies": value_of([STRATEGIES["beam"]]), "settings": {"tokens": 5}}, "many_form": FORM}
    parts = taken(playground, said | {"many_table": {"measure": "probability"}})
    assert parts["many_table"]["rows"][0]["spread"]["probability"] == [None] * 5
    assert parts["many_texts"]["samples"][0]["measured"]["probability"] is None
    assert json.loads(parts["many_plot"]["figure"])["data"][0]["x"] == []
    json.dumps(parts, allow_nan=False)


def test_the_python_lines_take_the_same_samples(playground, lm, samples, monkeypatch):
    parts = taken(playground)
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    for name, expected in (
        ("many_texts", [[sample.text for sample in mine] for mine in samples]),
        ("many_plot", [[sample.measured.perplexity for sample in mine] for mine in samples]),
    ):
        *lines, last = parts[name]["python"].splitlines()
        space = {}
        exec("\n".join(lines), space)
        assert eval(last, space) == expected
    *lines, last = parts["many_entropy"]["python"].splitlines()
    assert len(eval(last, space)[1]) == 8
    assert [sample["text"] for sample in parts["many_texts"]["samples"]] == [s.text for mine in samples for s in mine]


def test_a_name_that_changes_needs_no_new_samples(playground):
    taken(playground)
    cards = [card | {"name": "my <b>"} for card in CARDS[:1]] + CARDS[1:]
    parts = drawn(playground, {"strategies": ASKED["strategies"] | {"strategies": cards}, "many_form": FORM})
    assert parts["many_table"]["rows"][0]["name"] == "my <b>"
    other = drawn(playground, {**ASKED, "many_form": {"count": "32"}})
    assert set(other["many_table"]) == {"empty"}


def test_the_time_is_told_from_the_last_time(playground):
    at, wanted = scene(playground), wanted_of(scene(playground), ASKED)
    assert seconds_of(at, wanted) > 0
    background.kept(playground, ("many speed", "tiny", False), lambda: 0.5)
    assert seconds_of(at, wanted) == pytest.approx(3 * (at.unedited.seconds + 6 * 0.5))  # a batch a strategy


def test_a_job_can_be_cancelled(playground):
    job = plan(scene(playground), ASKED)

    def stop(*_):
        raise background.Cancelled

    with pytest.raises(background.Cancelled):
        job.work(stop)


def test_the_script_uses_words_that_are_there():
    there = {key.removeprefix("many.") for key in words("en") if key.startswith("many.")} | {"plot"}
    assert set(re.findall(r"\bwords\.(\w+)", SCRIPT)) <= there
    assert {f"why_{why}" for why in ("end", "stop", "length", "context")} <= there
