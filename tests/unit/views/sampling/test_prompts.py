"""Prompts as programs without a browser: bars, table, facts and the list are what the trial says."""

import dataclasses
import json

import numpy as np
import pytest

from model.progress import ProgressMessage
from model.prompting.answers import vote
from model.prompting.prompts import Shots
from model.prompting.question_sets import question_set
from model.prompting.react import Episode, TranscriptStep
from model.prompting.trial import Answered, Variant, VariantRow, curve, trial
from model.shares import paired
from tests.support.views.views import drawn, measured, opened, perform, traces
from viz.seam.jobs import background
from viz.seam.panels import job_of, settings_of
from viz.seam.settings import Settings
from viz.seam.view import Seen
from viz.views.sampling.prompts import measure as module
from viz.views.sampling.prompts.measure import WAYS, TrialResult, question
from viz.views.sampling.prompts.tables import compare, facts, listed, read_shown
from viz.views.sampling.prompts.view import VIEW, few_shot_curve, prompt_variants
from viz.words import LANGUAGES, Words, words

FORM = {"asked": "pairs", "count": "4", "most": "8", "order": 3}
VARIANTS = [Variant("zero", Shots(0)), Variant("few", Shots(4, 3)), Variant("few", Shots(4, 3, True))]


@pytest.fixture
def rows(lm):
    """The same by hand."""
    return trial(lm, question_set("pairs"), VARIANTS, 8)


def test_the_page_shows_the_trial(playground, rows):
    perform(playground, "sampling", VIEW, "trial", FORM)
    parts = drawn(playground, "sampling", "prompts", FORM)
    bar, guess = traces(parts["accuracies"])
    assert bar["x"] == pytest.approx([row.share for row in rows])
    assert bar["y"] == ["Zero-shot", "Few-shot (4)", "Few-shot, answers shuffled (4)"]
    low, high = zip(*(row.interval for row in rows), strict=True)
    assert np.array(bar["x"]) - bar["error_x"]["arrayminus"] == pytest.approx(low)
    assert np.array(bar["x"]) + bar["error_x"]["array"] == pytest.approx(high)
    assert guess["x"] == [0.125, 0.125]  # one of eight partners
    for row, shown in zip(rows, parts["compare"]["rows"], strict=True):
        assert shown[1] == f"{sum(row.right)} / 8"
    test = paired(rows[2].right, rows[0].right)
    assert parts["compare"]["rows"][2][4:6] == [str(test.only_first), str(test.only_second)]
    assert [(row["question"], row["right"]) for row in parts["list"]["rows"]] == [
        (each.question.text, each.right) for each in rows[2].answers
    ]
    assert parts["list"]["rows"][0]["prompt"] == rows[2].answers[0].prompt


def test_the_list_shows_the_variant_that_is_chosen(playground, rows):
    perform(playground, "sampling", VIEW, "trial", FORM)
    assert read_shown({"variant": "zero"}, None) == "zero" and read_shown({"variant": "<b>"}, None) == ""
    assert read_shown(None, None) == read_shown({"variant": 5}, None) == ""
    scene = opened(playground, "sampling", "prompts", FORM)
    values = {"prompts_form": FORM, "prompts_list": {"variant": "zero"}}
    assert settings_of(VIEW, scene, values).list == "zero"


def test_before_a_trial_the_parts_say_what_will_be_there(playground):
    for language in LANGUAGES:
        parts = drawn(playground, "sampling", "prompts", FORM, language=language)
        assert all("empty" in parts[name] for name in ("accuracies", "facts", "compare", "list", "curve"))
        assert parts["job"]["state"] == "idle" and "8" in parts["job"]["text"]


def test_the_curve_is_drawn(playground, lm, monkeypatch):
    perform(playground, "sampling", VIEW, "curve", FORM)
    found = curve(lm, question_set("pairs"), module.ON_CURVE, module.ORDERS, "sum", 8)
    lines = [each for each in traces(drawn(playground, "sampling", "prompts", FORM)["curve"]) if "error_y" in each]
    assert lines[0]["x"] == [0, 1, 2, 4, 8] and lines[1]["x"] == [0, 2, 4, 8]  # one answer cannot be shuffled
    assert lines[0]["y"] == pytest.approx(found.shares[0].mean(1), rel=1e-5)
    assert lines[1]["y"] == pytest.approx(found.shares[1, [0, 2, 3, 4]].mean(1), rel=1e-5)


def test_what_is_asked_leaves_out_what_does_not_count(playground):
    scene = opened(playground, "sampling", "prompts", FORM)

    def of(**form):
        return question(scene, settings_of(VIEW, scene, {"prompts_form": {**FORM, **form}}))

    assert of() == of(temperature=1.2, samples="9", system="Be brief.")
    assert of() != of(order=4) and of() != of(most="16") and of() != of(score="mean")
    everything = of(ways="all", asked="stories")
    assert everything.left_out == ("chat", "system")  # a model without a chat template
    assert [name for name, _ in everything.rows] == [name for name in WAYS["all"] if name not in ("chat", "system")]
    assert of(ways="reasoning").left_out == ("chain", "votes")
    assert [name for name, _ in of(count="1").rows] == ["zero", "few"]  # one answer cannot be shuffled


def test_what_was_measured_is_kept_when_the_work_is_cancelled(playground, monkeypatch):
    scene = opened(playground, "sampling", "prompts", FORM)
    settings = settings_of(VIEW, scene, {"prompts_form": FORM})
    asked, answered = [], module.answered

    def counted(lm, set_, variant, *more):
        asked.append(variant)
        return answered(lm, set_, variant, *more)

    monkeypatch.setattr(module, "answered", counted)
    told = []

    def stop(done, total, what):
        told.append(what)
        if done > 8:
            raise background.Cancelled

    job = job_of(VIEW, "trial", scene, settings)
    with pytest.raises(background.Cancelled):
        job.work(stop)
    assert asked == VARIANTS[:2] and all(isinstance(each, ProgressMessage) for each in told)
    assert told[0] == "" and told[-1].startswith("Zero-shot: ") and told[-1].endswith(" of 8 right")
    job.work(lambda *_: None)
    assert asked == [*VARIANTS[:2], *VARIANTS[1:]]  # the first one is not asked again


def test_a_bar_tells_what_was_found(playground):
    def work(progress):
        progress(1, 4, ProgressMessage("Zero-shot: 3 of 8 right"))
        progress(2, 4, "in English alone")
        return 5

    bars = [
        payload for payload, _ in background.perform(playground, background.BackgroundJob(("told",), work, False), "zh")
    ]
    assert not any(bar and "English" in bar["text"] for bar in bars)
    assert background._bar(words("en"), (1, 4, "so far"), 0.0)["text"] == "so far"
    assert background._bar(words("en"), (1, 4, "so far"), 3.0)["text"].startswith("so far · ")


# --- what is said of results that are made up ---


def made(name, right, **more):
    questions = question_set("sums").questions[: len(right)]
    answers = tuple(
        Answered(each, "Q", "42" if ok else "", ok, **more) for each, ok in zip(questions, right, strict=True)
    )
    return name, VariantRow(Variant("few" if name == "shuffled" else name, Shots(2)), answers)


def seen(found, part, language="en", **settings):
    chosen = Settings(tuple({"asked": "sums", "list": "", **settings}.items()))
    facts_ = dataclasses.make_dataclass("F", ["label", "model_id", "edits"])("Tiny", "tiny", ())
    return Seen("prompts", part, found, {"trial": found}, {}, {}, chosen, Words(words(language), "prompts"), facts_)


YES, NO = [True] * 10, [False] * 10


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_helps_is_told_apart_from_what_cannot_be_told(language):
    rows = (made("zero", NO + YES), made("few", YES + YES), made("react", [True] * 3 + NO[3:] + YES))
    found = TrialResult(rows, ("chat",))
    said = dict(facts(seen(found, "facts", language))["items"])
    here = Words(words(language), "prompts").within("facts")
    assert "(2)" in said[here["better"]] or "（2）" in said[here["better"]]
    assert here["nothing"] not in said and here["worse"] not in said
    assert "ReAct" in said[here["unclear"]] and here["left_out"] in said and here["unread"] in said
    verdicts = [row[7] for row in compare(seen(found, "compare", language))["rows"]]
    there = Words(words(language), "prompts").within("verdict")
    assert verdicts[1:] == [there["better"], there["unclear"]]


def test_no_gain_is_said_plainly():
    found = TrialResult((made("zero", YES + YES), made("few", NO + YES), made("chain", YES + YES)), ())
    items = facts(seen(found, "facts"))["items"]
    assert items[0] == ["no gain", "Tiny gains nothing from any of these here."]
    assert dict(items)["hurts"].startswith("Few-shot (2)") and dict(items)["changes nothing"].startswith("Chain")


def test_transcripts_show_votes_and_calls():
    votes = vote(["1", "2", "2", "1"])
    episode = Episode(
        "42",
        (TranscriptStep("model", "calculate[1+1]"), TranscriptStep("tool", "\nObservation: 2\n")),
        "too many steps",
    )
    found = TrialResult(
        (
            made("zero", [True], scores=(-1.5, -2.0), written=""),
            made("votes", [True], votes=votes, samples=("a", "b", "c", "d")),
            made("react", [False], episode=episode),
        ),
        (),
    )
    shown = listed(seen(found, "list", list="votes"))["rows"][0]
    assert shown["tied"] and shown["parts"][0] == ["votes", "1 × 2, 2 × 2"] and shown["parts"][4] == ["sample 4", "d"]
    shown = listed(seen(found, "list", list="react"))["rows"][0]["parts"]
    assert shown == [
        ["model", "calculate[1+1]"],
        ["tool", "\nObservation: 2\n"],
        ["end", "The limit of steps was reached."],
    ]
    items = dict(facts(seen(found, "facts"))["items"])
    assert "tied in 1 of 1" in items["votes"] and items["tools"].startswith("The model called the tools 1 times")


# --- for programs ---


def test_the_endpoints_say_the_same(playground, lm, rows):
    said = prompt_variants(playground, lm, "pairs", "examples", "4", "8", order=3)
    assert [each["right"] for each in said["variants"]] == [sum(row.right) for row in rows]
    assert said["questions"] == 8 and len(said["answers"]) == 24 and said["left_out"] == []
    assert said["variants"][0]["p"] == 1.0 and said["variants"][1]["low"] == rows[1].interval[0]
    json.dumps(said)
    curve_ = few_shot_curve(playground, lm, "pairs", "8")
    assert [row["examples"] for row in curve_["rows"]] == [0, 1, 2, 4, 8]
    assert curve_["rows"][0]["right"][0] == rows[0].share


def test_nothing_is_measured_until_it_is_asked_for(playground):
    scene = opened(playground, "sampling", "prompts", FORM)
    assert all(measure.slow for measure in VIEW.measures) and measured
    assert playground.results.peek(job_of(VIEW, "trial", scene, settings_of(VIEW, scene, {})).key) is None
