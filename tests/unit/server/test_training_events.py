"""The events of the training tab without a browser: watching a run, whose run it is, opening its model, the tabs."""

import os
import signal
import time
import types
from pathlib import Path

import gradio as gr
import pytest

from model.training.job import Limits
from tests.support.rehearsal import LONG, SMALL, TALE, finish, in_threads, quick, until
from viz.page import build
from viz.page.loading import opened
from viz.page.parts import unpacked
from viz.page.pipeline import Asked, payloads
from viz.page.playground import Options, Playground
from viz.server import serve
from viz.views.training import view as training
from viz.views.training.view import again, own_run, piece_payload, watch


@pytest.fixture
def playground(monkeypatch):
    """One whose runs are threads of this process, and whose messages come at once."""
    monkeypatch.setattr(training, "_EVERY", 0.0)
    with in_threads():
        ours = Playground(Options())
        yield ours
        ours.workshop.close()


# --- watching ---


def told(step) -> dict:
    return unpacked(step[0])


def test_watching_a_run_to_its_end(playground):
    *pieces, (skipped, picker) = watch(playground, "me", SMALL, "en")
    payloads = [told(piece) for piece in pieces]
    (run,) = playground.workshop.of("me")
    assert payloads[0]["run"] == run.id and payloads[0]["state"] in ("starting", "running")
    assert payloads[-1]["state"] == "done" and payloads[-1]["over"]
    assert all(piece[1] == gr.skip() for piece in pieces) and skipped == gr.skip()
    reports = [report for payload in payloads for report in payload["reports"]]
    assert reports == piece_payload(run, "en", (0, 0))["reports"]
    assert [s["step"] for payload in payloads for s in payload["snapshots"]] == [0, 1, 2, 3]
    assert [(p["from_report"], p["from_snapshot"]) for p in payloads[:1]] == [(0, 0)]
    assert picker.choices[-1] == ("Repeated random sequence, 3 steps", run.model_id)


def test_a_page_that_goes_stops_its_run(playground):
    steps = watch(playground, "me", {**SMALL, **LONG}, "en")
    while not told(next(steps))["reports"]:
        pass
    (run,) = playground.workshop.of("me")
    steps.close()
    until(lambda: run.over)
    assert run.state == "stopped"


@pytest.mark.parametrize(
    ("language", "text", "hint"),
    [
        ("en", "A setting is out of bounds on this server. (layers: 99)", "Choose a value from 1 to 6."),
        ("zh", "某项设置超出此服务器的范围。 (layers: 99)", "请选择 1 到 6 之间的值。"),
    ],
)
def test_settings_that_are_refused_are_explained(playground, language, text, hint):
    (only,) = watch(playground, "me", {**SMALL, "layers": 99}, language)
    assert told(only) == {"error": {"text": text, "hint": hint}} and only[1] == gr.skip()
    assert playground.workshop.of("me") == []


@pytest.mark.parametrize("value", [None, "start", [1], {"layers": "2"}, {"steps": 10**400}])
def test_what_is_no_settings_is_refused(playground, value):
    (only,) = watch(playground, "me", value, "en")
    assert told(only)["error"]["text"] and told(only)["error"]["hint"] == "Change the settings."


def test_a_busy_server_says_so_and_goes_on_training(playground):
    going = playground.workshop.start("other", quick(**LONG))
    (only,) = watch(playground, "me", SMALL, "en")
    assert told(only)["error"]["text"] == "Another training run is using this server."
    assert not going.over


# --- whose run it is ---


def test_a_page_gets_what_it_lacks_of_its_own_run_alone(playground):
    run = finish(playground.workshop)
    value = {"run": run.id, "reports": 2, "snapshots": 3}
    piece = unpacked(again(playground, "me", value, "en"))
    assert piece == piece_payload(run, "en", (2, 3)) and len(piece["reports"]) == 1
    assert again(playground, "other", value, "en") == gr.skip()
    for wrong in (-1, None, "2", 1.0, [], {}):
        piece = unpacked(again(playground, "me", {"run": run.id, "reports": wrong, "snapshots": wrong}, "en"))
        assert (piece["from_report"], piece["from_snapshot"]) == (0, 0)


def test_another_visitors_run_is_not_found(playground):
    run = finish(playground.workshop)
    assert own_run(playground, "me", {"run": run.id}) is run
    assert own_run(playground, "other", {"run": run.id}) is None
    for value in (None, [], run.id, {}, {"run": None}, {"run": [run.id]}, {"run": run.model_id}, {"id": run.id}):
        assert own_run(playground, "me", value) is None


def test_the_picker_offers_a_visitor_the_own_models(playground):
    mine, other = finish(playground.workshop), finish(playground.workshop, "other", task="copy")
    failed = finish(playground.workshop, task="text", text=TALE, probe="a", vocabulary=257)
    ids = [model_id for _, model_id in playground.choices("me")]
    assert ids == [*(i for _, i in playground.choices()), mine.model_id]
    assert other.model_id in [i for _, i in playground.choices("other")] and failed.model_id not in ids
    assert playground.load(mine.model_id).label == "Repeated random sequence, 3 steps"


# --- the channel ---


class Events:
    """A component of which only the handlers of its events are kept."""

    def __init__(self):
        self.handlers, self.settings = {}, {}

    def __getattr__(self, name):
        def wire(handler, inputs, outputs=None, **settings):
            self.handlers[name], self.settings[name] = handler, settings

        return wire


@pytest.fixture
def call(playground):
    """Trigger an event as a visitor: what its handler says."""
    channel = Events()
    others = dict.fromkeys(("picker", "prompt", "tabs", "told", "loaded", "wanted"))
    shared = types.SimpleNamespace(playground=playground, language_of=lambda request: "en", **others)
    training.wire({"lesson": channel}, shared)
    assert set(channel.handlers) == set(training.EVENTS)
    assert all(settings["api_visibility"] == "private" for settings in channel.settings.values())

    def trigger(name, value, owner="me"):
        more = [opened("old")] if name == "open" else []
        return channel.handlers[name](types.SimpleNamespace(session_hash=owner), value, *more)

    return trigger


def test_pausing_and_stopping_are_for_the_own_run(playground, call):
    steps = call("start", {**SMALL, **LONG})
    while not told(next(steps))["reports"]:
        pass
    (run,) = playground.workshop.of("me")
    for name in ("pause", "stop"):
        call(name, {"run": run.id}, "other")
        call(name, None)
        assert run.state == "running"
    call("pause", {"run": run.id})
    assert run.state == "paused"
    call("resume", {"run": run.id}, "other")
    assert run.state == "paused"
    call("resume", {"run": run.id})
    assert run.state == "running"
    assert told([call("again", {"run": run.id})])["run"] == run.id
    call("stop", {"run": run.id})
    until(lambda: run.over)
    assert run.state == "stopped"
    assert told(next(steps))["run"] == run.id


def test_opening_a_model_shows_its_sequence_in_the_attention_tab(playground, call):
    run = finish(playground.workshop)
    first, *_, last = call("open", {"run": run.id})
    assert first[4:] == (gr.skip(), gr.skip()) and first[1] == first[2] == gr.skip()
    _, loaded, picker, _, prompt, tabs = last
    assert loaded["id"] == picker.value == picker.choices[-1][1] == run.model_id
    assert tabs.selected == "attention"
    assert prompt == run.tokenizer.decode(run.started.ids)


def test_what_cannot_be_opened_opens_nothing(playground, call):
    run = playground.workshop.start("me", quick(**LONG))
    assert [*call("open", {"run": run.id}, "other")] == [*call("open", None)] == []
    until(lambda: run.reports)
    *_, last = call("open", {"run": run.id})  # it is still being trained
    assert unpacked(last[0])["text"].startswith("There is no model of that name.")
    assert last[1:3] == last[4:] == (gr.skip(), gr.skip())


def test_a_run_that_is_starting_cannot_be_opened_yet(playground, call):
    run = finish(playground.workshop)
    run.tokenizer = run.started = None
    run.state = "starting"
    assert [*call("open", {"run": run.id})] == []
    run.state = "done"


# --- the tabs ---


def test_only_the_open_tab_is_drawn_and_its_words_are_sent_once_a_language(playground):
    run = finish(playground.workshop)
    playground.load(run.model_id)
    turned_away = {"lines", "reading", "why", "find", "findmap"}  # views of the first tab that are not chosen
    ours, others = {*training.TAB.parts}, {*build.TABS[0].parts} - turned_away
    shown = {}

    def ask(tab, prompt="abcab", language="en"):
        nonlocal shown
        asked = Asked(run.model_id, prompt, {"heads": [[0, 1]]}, {}, shown, language, tab)
        parts, shown = payloads(playground, asked)
        return parts

    each = {"header", "notice"}  # of every view
    assert set(ask("attention")) == each | {"guide", "address", "tokens", "selection"} | others
    assert set(ask("training")) == each | ours
    assert set(ask("training")) == each
    assert set(ask("training", "abcabc")) == each | {"tokens"}
    assert set(ask("attention", "abcabc")) == each | {"heads", "plot"}
    assert set(ask("training", "abcabc")) == each
    assert set(ask("attention", "abcabc")) == each  # as it was drawn before
    chinese = ask("training", "abcabc", "zh")
    assert ours <= set(chinese) and not others & set(chinese)
    assert chinese["training_question"]["text"] == "注意力头是怎样形成的?"
    assert not ours & set(ask("training", "abcabc", "zh"))
    assert ours <= set(ask("training", "abcabc"))
    assert set(ask("no such tab", "x")) >= each | {"tokens", "heads", "plot"}


def test_the_minutes_of_the_command_line_bound_a_run():
    assert Playground(Options(training_minutes=3.5)).workshop.limits == Limits(minutes=3.5)


def test_a_terminated_server_removes_what_was_trained(playground, monkeypatch):
    run = finish(playground.workshop)

    def block():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)  # the signal comes before this ends

    quiet = types.SimpleNamespace(
        queue=lambda **_: None,
        launch=lambda **_: None,
        local_url="",
        block_thread=block,
        _queue=types.SimpleNamespace(),
        fns={},
        mcp_server_obj=None,
        server=types.SimpleNamespace(config=types.SimpleNamespace()),
        _end_streaming_responses=lambda: None,
        config={"page": {"": {"components": [], "dependencies": [], "layout": {"children": []}}}},
    )
    monkeypatch.setattr(serve, "build", lambda playground: quiet)
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("not handled"))
    try:
        with pytest.raises(KeyboardInterrupt):
            serve.launch(playground, Path(serve.__file__).parents[2] / "static", host="", port=None, open_browser=False)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not run.folder.parent.exists() and playground.workshop.of("me") == []
