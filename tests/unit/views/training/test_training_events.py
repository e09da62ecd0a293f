"""The events of the training tab without a browser: watching a run, whose run it is, opening its model, the tabs."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from model.errors import InputError
from model.training.jobs.job import Job
from tests.support.training.rehearsal import LONG, SMALL, TALE, finish, in_threads, quick, until
from tests.support.views.endpoints import ask as endpoint
from tests.support.views.streams import ask, channel_of, trigger
from viz.page.address import is_available
from viz.page.loading import load_model
from viz.page.pipeline import PageRequest, payloads
from viz.page.wire.streams import answers
from viz.seam.jobs import live_runs
from viz.seam.jobs.live_runs import own_run
from viz.seam.view import ModelsChanged, Open, Visit
from viz.views.attention import tab as attention
from viz.views.compare.run_b import models_ready
from viz.views.training import tab
from viz.views.training.training import view as training
from viz.views.training.training.view import RUN, piece_payload
from viz.work.playground import Options, Playground
from viz.work.processes import training_process
from viz.work.prompt import Prompt


@pytest.fixture
def playground(monkeypatch):
    """One whose runs are threads of this process, and whose messages come at once."""
    monkeypatch.setattr(live_runs, "EVERY", 0.0)
    with in_threads():
        ours = Playground(Options())
        yield ours
        ours.workshop.close()


def visit(playground, owner="me", language="en"):
    return Visit(playground, owner, language, "tiny", Prompt("abc"), {})


def watch(playground, owner, sent, language="en"):
    """What a page is sent of the run that it starts."""
    return answers(RUN.events["start"], visit(playground, owner, language), sent)


def again(playground, owner, sent):
    """What a page gets that says what it has."""
    return list(answers(RUN.events["again"], visit(playground, owner), sent))


# --- watching ---


def test_watching_a_run_to_its_end(playground):
    *pieces, last = watch(playground, "me", SMALL)
    (run,) = playground.workshop.of("me")
    assert pieces[0]["run"] == run.id and pieces[0]["state"] in ("starting", "running")
    assert pieces[-1]["state"] == "done" and pieces[-1]["over"]
    assert isinstance(last, ModelsChanged)
    reports = [report for piece in pieces for report in piece["reports"]]
    assert reports == piece_payload(run, "en", (0, 0))["reports"]
    assert [s["step"] for piece in pieces for s in piece["snapshots"]] == [0, 1, 2, 3]
    assert (pieces[0]["from_report"], pieces[0]["from_snapshot"]) == (0, 0)


def left(playground, owner="me"):
    """A run that is under way, and whose page has gone."""
    steps = watch(playground, owner, {**SMALL, **LONG})
    while not next(steps)["reports"]:
        pass
    (run,) = playground.workshop.of(owner)
    steps.close()
    return run


def test_a_page_that_goes_stops_its_run(playground, monkeypatch):
    monkeypatch.setattr(training_process, "ABSENT", 0.1)
    run = left(playground)
    until(lambda: run.over)
    assert run.state == "stopped"


def test_a_page_that_is_loaded_again_finds_its_run(playground, monkeypatch):
    monkeypatch.setattr(training_process, "ABSENT", 0.3)
    finish(playground.workshop, "other")
    run = left(playground)
    steps = answers(RUN.events["return"], visit(playground), None)
    piece = next(steps)
    assert piece["run"] == run.id and piece["from_report"] == 0 and piece["reports"] and piece["state"] == "running"
    time.sleep(0.4)
    assert not run.over and next(steps)["from_report"] == len(piece["reports"])
    run.tell("stop")
    *_, last, after = steps
    assert last["over"] and last["state"] == "stopped" and isinstance(after, ModelsChanged)
    assert list(answers(RUN.events["return"], visit(playground, "nobody"), None)) == []


def test_a_run_whose_page_has_gone_gives_way_to_another(playground):
    run = left(playground)
    assert not run.over
    assert playground.workshop.start("other", quick(**LONG)).state == "starting" and run.state == "stopped"


@pytest.mark.parametrize(
    ("language", "text", "hint"),
    [
        ("en", "A setting is out of bounds on this server. (layers: 99)", "Choose a value from 1 to 6."),
        ("zh", "某项设置超出此服务器的范围。 (layers: 99)", "请选择 1 到 6 之间的值。"),
    ],
)
def test_settings_that_are_refused_are_explained(playground, language, text, hint):
    (only,) = watch(playground, "me", {**SMALL, "layers": 99}, language)
    assert only == {"error": {"text": text, "hint": hint}}
    assert playground.workshop.of("me") == []


@pytest.mark.parametrize("value", [None, "start", [1], {"layers": "2"}, {"steps": 10**400}])
def test_what_is_no_settings_is_refused(playground, value):
    (only,) = watch(playground, "me", value)
    assert only["error"]["text"] and only["error"]["hint"] == "Change the settings."


def test_a_busy_server_says_so_and_goes_on_training(playground):
    going = playground.workshop.start("other", quick(**LONG))
    (only,) = watch(playground, "me", SMALL)
    assert only["error"]["text"] == "Another training run is in progress on this server."
    assert not going.over


# --- whose run it is ---


def test_a_page_gets_what_it_lacks_of_its_own_run_alone(playground):
    run = finish(playground.workshop)
    sent = {"run": run.id, "reports": 2, "snapshots": 3}
    (piece,) = again(playground, "me", sent)
    assert piece == piece_payload(run, "en", (2, 3)) and len(piece["reports"]) == 1
    assert again(playground, "other", sent) == []
    for wrong in (-1, None, "2", 1.0, [], {}):
        (piece,) = again(playground, "me", {"run": run.id, "reports": wrong, "snapshots": wrong})
        assert (piece["from_report"], piece["from_snapshot"]) == (0, 0)


def test_another_visitors_run_is_not_found(playground):
    run = finish(playground.workshop)
    assert own_run(visit(playground), {"run": run.id}, Job) is run
    assert own_run(visit(playground, "other"), {"run": run.id}, Job) is None
    for value in (None, [], run.id, {}, {"run": None}, {"run": [run.id]}, {"run": run.model_id}, {"id": run.id}):
        assert own_run(visit(playground), value, Job) is None


def test_the_picker_offers_a_visitor_the_own_models(playground):
    mine, other = finish(playground.workshop), finish(playground.workshop, "other", task="copy")
    failed = finish(playground.workshop, task="text", text=TALE, probe="a", vocabulary=257)
    ids = [model_id for _, model_id in playground.choices("me")]
    assert ids == [*(i for _, i in playground.choices()), mine.model_id]
    assert other.model_id in [i for _, i in playground.choices("other")] and failed.model_id not in ids
    assert playground.load(mine.model_id).label == "Repeated random sequence, 3 steps"


def test_a_link_opens_a_trained_model_and_it_can_be_run_b_of_its_visitor_alone(playground):
    run, going = finish(playground.workshop), playground.workshop.start("me", quick(**LONG))
    assert is_available(playground, run.model_id) and not is_available(playground, going.model_id)
    assert not is_available(playground, "trained:0")

    def offered(visitor, model_id="tinygpt"):
        return models_ready(SimpleNamespace(playground=playground, visitor=visitor, model=SimpleNamespace(id=model_id)))

    assert run.model_id in offered("me") and going.model_id not in offered("me")
    assert run.model_id not in offered("other") and run.model_id not in offered("me", run.model_id)
    assert "tinygpt" in offered("me", run.model_id)


# --- for programs ---


def test_a_run_is_read_by_its_number(playground):
    run = finish(playground.workshop)
    found = endpoint(playground, "training_run", run=run.id)
    assert found["state"] == "done" and found["losses"] == pytest.approx([each.loss for each in run.reports], rel=1e-5)
    assert [each["step"] for each in found["looks"]] == [0, 1, 2, 3] and found["cliff"] is None
    last = run.snapshots[-1]
    assert found["looks"][-1]["accuracy"] == pytest.approx(last.accuracy, abs=1e-6)
    assert np.allclose(found["looks"][-1]["induction"], last.induction, rtol=1e-5)
    best = found["best"]
    assert found["score"] == pytest.approx(last.induction[best["layer"], best["head"]], rel=1e-5)
    assert found["score"] == pytest.approx(last.induction.max(), rel=1e-5)
    with pytest.raises(InputError, match="run does not exist"):
        endpoint(playground, "training_run", run="0" * 32)
    short = finish(playground.workshop, task="modular_addition", length=4)
    assert endpoint(playground, "training_run", run=short.id)["best"] is None  # too short to score a head


def test_the_cliff_and_the_highest_head_by_hand():
    """From 4: three quarters are 3, a quarter is 1."""
    assert training.cliff([(0, 4.0), (5, 3.5), (10, 3.0), (15, 2.0), (20, 1.0), (25, 0.1)]) == {
        "before": 10,
        "after": 20,
    }
    assert training.cliff([(0, 4.0), (5, 1.1)]) is None
    assert training.highest(np.array([[0.1, np.nan], [0.7, 0.2]])) == {"layer": 1, "head": 0}
    assert training.highest(np.full((2, 2), np.nan)) is None


# --- the channel ---


@pytest.fixture
def lesson(playground):
    """The channel as the page wires it."""
    channel = channel_of(training.VIEW)
    assert set(channel.stream.events) == {"start", "pause", "resume", "stop", "again", "return", "open"}
    return channel


def test_a_finished_run_joins_the_list_of_models(playground, lesson):
    assert ask(playground, lesson, "start", SMALL)[-1] == ModelsChanged()
    (run,) = playground.workshop.of("me")
    assert playground.choices("me")[-1] == ("Repeated random sequence, 3 steps", run.model_id)


def test_pausing_and_stopping_are_for_the_own_run(playground, lesson):
    steps = trigger(playground, lesson, "start", {**SMALL, **LONG})
    while not next(steps)["reports"]:
        pass
    (run,) = playground.workshop.of("me")

    def do(name, sent, owner="me"):
        assert ask(playground, lesson, name, sent, owner=owner) == []

    for name in ("pause", "stop"):
        do(name, {"run": run.id}, owner="other")
        do(name, None)
        assert run.state == "running"
    do("pause", {"run": run.id})
    assert run.state == "paused"
    do("resume", {"run": run.id}, owner="other")
    assert run.state == "paused"
    do("resume", {"run": run.id})
    assert run.state == "running"
    assert ask(playground, lesson, "again", {"run": run.id})[0]["run"] == run.id
    do("stop", {"run": run.id})
    until(lambda: run.over)
    assert run.state == "stopped"
    assert next(steps)["run"] == run.id


def test_opening_a_model_shows_its_sequence_in_the_attention_tab(playground, lesson):
    run = finish(playground.workshop)
    text = run.tokenizer.decode(run.started.ids)
    assert list(training.open_model(visit(playground), {"run": run.id})) == [Open(run.model_id, text, "attention")]
    assert ask(playground, lesson, "open", {"run": run.id}) == [Open(run.model_id, text, "attention")]
    assert playground.choices("me")[-1][1] == run.model_id


def test_what_cannot_be_opened_opens_nothing(playground, lesson):
    run = playground.workshop.start("me", quick(**LONG))
    assert ask(playground, lesson, "open", {"run": run.id}, owner="other") == ask(playground, lesson, "open") == []
    until(lambda: run.reports)
    (wish,) = ask(playground, lesson, "open", {"run": run.id})  # it is still being trained
    *_, last = load_model(playground, wish.model_id, "en")
    assert not last.loaded and last.notice["text"].startswith("No model has this name.")


def test_a_run_that_is_starting_cannot_be_opened_yet(playground, lesson):
    run = finish(playground.workshop)
    run.tokenizer = run.started = None
    run.state = "starting"
    assert ask(playground, lesson, "open", {"run": run.id}) == []
    run.state = "done"


# --- the tabs ---


def test_only_the_open_tab_is_drawn_and_its_words_are_sent_once_a_language(playground):
    run = finish(playground.workshop)
    playground.load(run.model_id)
    turned_away = {
        "lines_links",
        "text_reading",
        "cell_steps",
        "find_rows",
        "find_map",
        "turns_reads",
        "turns_writes",
        "turns_job",
        "turns_rests",
    }  # not chosen
    beside = {view.part_name(name) for view in tab.TAB.views if view.key != "training" for name in view.parts}
    ours, others = {*tab.TAB.parts} - beside, {*attention.TAB.parts} - turned_away
    shown = {}

    def ask(tab, prompt="abcab", language="en"):
        nonlocal shown
        asked = PageRequest(run.model_id, prompt, {"heads": [[0, 1]]}, {}, shown, language, tab)
        parts, shown = payloads(playground, asked)
        return parts

    each = {"notice"}  # of every view
    assert (
        set(ask("attention"))
        == each
        | {
            "nav",
            "header",
            "guide",
            "address",
            "examples",
            "chat",
            "tokens",
            "shortfall",
            "selection",
            "edited",
            "programs",
        }
        | others
    )
    assert set(ask("training")) == each | ours
    assert set(ask("training")) == each
    assert set(ask("training", "abcabc")) == each | {"header", "tokens", "shortfall"}
    assert set(ask("attention", "abcabc")) == each | {"overview_heads", "map_plot"}
    assert set(ask("training", "abcabc")) == each
    assert set(ask("attention", "abcabc")) == each  # as it was drawn before
    chinese = ask("training", "abcabc", "zh")
    assert ours <= set(chinese) and not others & set(chinese)
    assert chinese["training_question"]["text"] == "它是怎样学习的？"
    assert not ours & set(ask("training", "abcabc", "zh"))
    assert ours <= set(ask("training", "abcabc"))
    assert set(ask("no such tab", "x")) >= each | {"tokens", "start_next", "start_way"}
