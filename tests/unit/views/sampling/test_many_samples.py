"""Many samples without a browser: the table, the dots and the lines are what the texts say."""

import dataclasses
import math
import pickle

import numpy as np
import pytest

from model.generation.strategies import STRATEGIES
from model.generation.text_statistics import distinct
from model.predictions.samples import Many, take_samples
from tests.support.models.helpers import serving
from tests.support.models.talking import after_turn, talking_model, talking_server
from tests.support.scripts import words_read
from tests.unit.views.test_seam import same, values_only
from viz.numbers import plain
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam.jobs import background
from viz.seam.panels import job_of, key_of, measured, settings_of
from viz.seam.tasks import MeasureTask
from viz.views.sampling.many_samples.figures import (
    MEASURES,
    beginning,
    entropy_figure,
    measure_figure,
    quartile_band,
    spread,
)
from viz.views.sampling.many_samples.view import COUNTS, VIEW
from viz.views.sampling.strategies import value_of
from viz.views.sampling.tab import TAB
from viz.words import LANGUAGES, section, words
from viz.work.prompt import prompt_of, read

PROMPT = "abcab"
CARDS = value_of([STRATEGIES["greedy"], STRATEGIES["temperature"], STRATEGIES["top_p"]])
FORM = {"count": "8"}
RESULTS = [f"many_samples_{name}" for name in ("table", "plot", "entropy", "texts")]
ASKED = {"strategies": {"strategies": CARDS, "settings": {"tokens": 6, "seed": 2}}, "many_samples_form": FORM}


def asked(values, language="en", prompt=PROMPT, **selection):
    return PageRequest(
        "tiny", prompt, selection or None, {"sampling_view": {"view": "many_samples"}} | values, {}, language, TAB.key
    )


def drawn(playground, values=ASKED, **changes):
    return payloads(playground, asked(values, **changes))[0]


def scene(playground, **changes):
    return scene_of(playground, asked(ASKED, **changes))


def settings(playground, values=ASKED, **changes):
    return settings_of(VIEW, scene(playground, **changes), values)


def job(playground, values=ASKED, **changes):
    return job_of(VIEW, "main", scene(playground, **changes), settings(playground, values, **changes))


def taken(playground, values=ASKED, **changes):
    """The payloads once the samples are there."""
    list(background.perform(playground, job(playground, values, **changes), "en"))
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
    wide = measure_figure(["a", "b"], [[2.0, 3.0], [4000.0]], [["x", "y"], ["z"]], "perplexity")
    assert wide.layout.xaxis.type == "log"  # one text of thousands leaves the others apart
    figure = measure_figure(["<i>a&", "b"], [[1.0, float("nan")], [2.0]], [["<img>\n", "x"], ["y" * 99]], "<b>m")
    assert figure.layout.xaxis.type is None
    figure = figure.to_dict()
    first, second = figure["data"]
    assert first["text"] == ["&lt;img&gt;↵"] and first["y"] == ["&lt;i&gt;a&amp;"] and "<i>" not in str(figure)
    assert [each["part"] for each in (*first["customdata"], *second["customdata"])] == [0, 2]  # numbers of all texts
    assert second["text"] == [beginning("y" * 99)] and len(beginning("y" * 99)) == 60


def test_a_single_text_has_no_shade():
    said = {"step": "s", "entropy": "e", "of_texts": "n"}
    bands = [quartile_band([np.array([1.0, 2.0])]), quartile_band([np.array([1.0]), np.array([2.0])])]
    low, high, alone, mean = entropy_figure(["a", "b"], bands, said).data
    assert high.fill == "tonexty" and (low.y, high.y) == ((1.25,), (1.75,)) and mean.y == (1.5,)
    assert alone.line.dash == "dot" and alone.y == (1.0, 2.0)


# --- what is asked ---


def test_settings_and_count_are_those_of_the_page(playground):
    read = settings(playground)
    assert read.count == "8" and read.strategies.strategies[0].name == "greedy"
    assert (read.strategies.common.tokens, read.strategies.common.seed) == (6, 2)
    usual = settings(playground, {})
    assert usual.count == "16" and (usual.strategies.common.tokens, usual.strategies.common.seed) == (60, 0)
    for bad in ("9", 8, None, ["8"], "inf"):
        assert settings(playground, {"many_samples_form": {"count": bad}}).count == "16"


def test_a_server_offers_only_as_many_texts_as_it_allows(playground):
    allowed = dataclasses.replace(playground.options.allowed, samples=8)
    object.__setattr__(playground, "options", dataclasses.replace(playground.options, allowed=allowed))
    (control,) = drawn(playground)["many_samples_form"]["controls"]
    assert [option for option, _ in control["options"]] == [control["value"]] == ["8"]
    assert settings(playground, {"many_samples_form": {"count": "32"}}).count == "8"
    assert COUNTS == ("8", "16", "32")


def test_the_key_tells_every_setting_apart_but_not_names(playground):
    def key(prompt=PROMPT, form=FORM, cards=CARDS, **changes):
        told = {"tokens": 6, "seed": 2} | changes
        values = {"strategies": {"strategies": cards, "settings": told}, "many_samples_form": form}
        return key_of(
            MeasureTask(VIEW, VIEW.measure("main"), scene(playground, prompt=prompt), settings(playground, values))
        )

    others = [
        key(prompt="abc"),
        key(form={"count": "32"}),
        key(tokens=7),
        key(seed=3),
        key(stop=["x"]),
        key(eight=True),
        key(cards=CARDS[:2]),
        key(cards=CARDS[::-1]),
    ]
    assert len({key(), *others}) == 9
    assert key(cards=[card | {"name": "other"} for card in CARDS]) == key()
    assert key(shared=False) == key()  # every text has its own numbers
    assert key(chat=True) == key()  # this model has no template


def test_nothing_runs_by_itself(playground):
    parts = drawn(playground)
    assert all(set(parts[name]) == {"empty"} for name in RESULTS)
    assert parts["many_samples_job"]["state"] == "idle" and "17 texts" in parts["many_samples_job"]["text"]
    assert "one text each" in parts["many_samples_job"]["text"] and "edits" not in parts["many_samples_job"]["text"]
    assert "edits" in drawn(playground, edits=[{"kind": "zero", "layer": 0, "head": 0}])["many_samples_job"]["text"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_bad_card_is_said_where_the_button_stands(playground, language):
    bad = {"strategies": {"strategies": [{"method": "none"}]}}
    parts = drawn(playground, bad, language=language)
    assert not parts["notice"]
    told = parts["many_samples_job"]["problem"]["text"]
    assert told.startswith({"en": "This method is unknown.", "zh": "没有这种方法。"}[language])
    assert all(set(parts[name]) == {"empty"} for name in RESULTS)


# --- what is found ---


def test_the_table_is_what_the_texts_say(playground, samples):
    rows = taken(playground)["many_samples_table"]["rows"]
    assert [row["name"] for row in rows] == ["Greedy", "Temperature", "Top-p"]
    assert [(row["texts"], row["once"]) for row in rows] == [(1, True), (8, False), (8, False)]
    for row, mine in zip(rows, samples, strict=True):
        ids = [sample.ids.tolist() for sample in mine]
        assert row["together"] == plain(distinct(ids, 2)) and row["different"] == len(set(map(tuple, ids)))
        assert row["ended"] == sum(sample.ended == "end" for sample in mine)
        for measure in MEASURES:
            expected = spread([getattr(sample.measured, measure) / unit(measure) for sample in mine])
            assert row["spread"][measure] == list(map(plain, vars(expected).values()))


def test_a_stop_text_ends_texts(playground):
    said = {
        "strategies": {"strategies": CARDS[1:2], "settings": {"tokens": 30, "stop": list("etao")}},
        "many_samples_form": FORM,
    }
    parts = taken(playground, said)
    row, texts = parts["many_samples_table"]["rows"][0], parts["many_samples_texts"]["samples"]
    assert row["ended"] == sum(sample["ended"] == "stop" for sample in texts)
    assert all((sample["ended"] == "stop") == bool(set(sample["text"]) & set("etao")) for sample in texts)


def unit(measure):
    """By what a measure is divided as it is shown: entropy is measured in nats and shown in bits."""
    return math.log(2) if measure == "entropy" else 1


@pytest.mark.parametrize("measure", MEASURES)
def test_every_measure_is_drawn(playground, samples, measure):
    payload = taken(playground, ASKED | {"many_samples_table": {"measure": measure}})["many_samples_plot"]
    drawn_values = [list(trace.x) for trace in payload["figure"].data]
    assert drawn_values == [[getattr(sample.measured, measure) / unit(measure) for sample in mine] for mine in samples]
    assert payload["title"].startswith(words("en")[f"many_samples.measures.{measure}"])


def test_a_measure_that_is_none_is_the_first(playground):
    for bad in ("x", None, 3, ["length"], {"a": 1}):
        payload = taken(playground, ASKED | {"many_samples_table": {"measure": bad}})["many_samples_plot"]
        assert payload["title"] == "Perplexity"


def test_a_search_has_no_probability_of_its_draws(playground):
    said = {
        "strategies": {"strategies": value_of([STRATEGIES["beam"]]), "settings": {"tokens": 5}},
        "many_samples_form": FORM,
    }
    parts = taken(playground, said | {"many_samples_table": {"measure": "probability"}})
    assert parts["many_samples_table"]["rows"][0]["spread"]["probability"] == [None] * 5
    assert parts["many_samples_texts"]["samples"][0]["measured"]["probability"] is None
    assert parts["many_samples_plot"]["figure"].data[0].x == ()
    assert packed(parts)  # JSON without NaN


def test_the_python_lines_take_the_same_samples(playground, lm, samples, monkeypatch):
    parts = taken(playground)
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    for name, expected in (
        ("many_samples_texts", [[sample.text for sample in mine] for mine in samples]),
        ("many_samples_plot", [[sample.measured.perplexity for sample in mine] for mine in samples]),
    ):
        *lines, last = parts[name]["python"].splitlines()
        space = {}
        exec("\n".join(lines), space)
        assert eval(last, space) == expected
    *lines, last = parts["many_samples_entropy"]["python"].splitlines()
    exec("\n".join(lines), space)
    assert len(eval(last, space)[1]) == 8
    single = next(line for line in parts["many_samples_entropy"]["figure"].data if line.line.dash == "dot")  # greedy
    assert list(single.y) == pytest.approx(eval(last, space)[0][0].tolist(), rel=1e-5)
    assert [sample["text"] for sample in parts["many_samples_texts"]["samples"]] == [
        s.text for mine in samples for s in mine
    ]


def test_a_name_that_changes_needs_no_new_samples(playground):
    taken(playground)
    cards = [card | {"name": "my <b>"} for card in CARDS[:1]] + CARDS[1:]
    parts = drawn(playground, {"strategies": ASKED["strategies"] | {"strategies": cards}, "many_samples_form": FORM})
    assert parts["many_samples_table"]["rows"][0]["name"] == "my <b>"
    other = drawn(playground, {**ASKED, "many_samples_form": {"count": "32"}})
    assert set(other["many_samples_table"]) == {"empty"}


def test_the_time_is_told_from_the_last_time(playground):
    taken(playground)
    assert playground.results.peek(("pace", "many_samples", "main", "tiny", False)).value > 0
    slow = serving(playground.opened("tiny"))
    background.computed_once(slow, ("pace", "many_samples", "main", "tiny", False), lambda: 0.5)
    assert "about 9 s" in drawn(slow)["many_samples_job"]["text"]  # a batch a strategy, of 6 steps each
    eight = ASKED["strategies"] | {"settings": {"tokens": 6, "eight": True}}
    assert "about 1 s" in drawn(slow, ASKED | {"strategies": eight})["many_samples_job"]["text"]  # another pace


def test_samples_are_values(playground):
    taken(playground)
    result = measured(VIEW, "main", scene(playground), settings(playground)).value
    assert values_only(result) and same(pickle.loads(pickle.dumps(result)), result)


def test_a_job_can_be_cancelled(playground):
    work = job(playground).work

    def stop(*_):
        raise background.Cancelled

    with pytest.raises(background.Cancelled):
        work(stop)


def test_the_script_uses_words_that_are_there():
    section_words = [section(words("en"), f"many_samples.{name}") for name in ("table", "texts")]
    there = {*section_words[0], *section_words[1], "strategy", "plot"}
    assert words_read("views/sampling/many_samples") <= there
    assert {f"why_{why}" for why in ("end", "stop", "length", "context")} <= there


def test_samples_of_a_conversation_continue_all_of_it(tmp_path):
    server = talking_server(talking_model(tmp_path))
    lm, turns = server.opened("tiny"), [["user", "ab"], ["assistant", "c"], ["user", "d"], ["assistant", ""]]
    question = dataclasses.replace(asked(ASKED), chat={"on": True, "turns": turns})
    scene = scene_of(server, question)
    planned = job_of(VIEW, "main", scene, settings_of(VIEW, scene, ASKED))
    server.results.get(planned.key, lambda: background.Result(planned.work(lambda *_: None), 0.0))
    texts = payloads(server, question)[0]["many_samples_texts"]
    messages = [{"role": role, "content": text} for role, text in turns[:3]]
    assert texts["about"]["chat"] and texts["about"]["messages"] == messages and texts["about"]["prompt"] == ""
    expected = take_samples(lm, lm.chat(messages).ids, [STRATEGIES["greedy"]], Many(8, 6, 2))
    assert texts["samples"][0]["ids"] == expected[0][0].ids.tolist()
    # A text that the page makes the last turn is in its place between the template's tokens.
    sample = texts["samples"][0]
    inside = prompt_of("", {"on": True, "turns": [*texts["turns"], ["assistant", sample["text"]]]})
    assert sample["typed"] and read(lm, inside).tokens.ids.tolist() == after_turn(lm, messages, sample["text"])
