"""The pipeline behind the page, without a browser: what is computed, what is skipped, what is said of mistakes."""

import dataclasses
import threading

import pytest

from model.api import LanguageModel
from model.errors import CheckpointError, InputError
from model.gpt import linear
from model.gpt.edits import Edit
from viz.page import build, pipeline
from viz.page.loading import Cancelled, Chosen, load_model
from viz.page.pipeline import PageRequest, payloads
from viz.views.attention.map import view as map
from viz.work import playground as context
from viz.work.playground import Playground
from viz.work.prompt import Prompt


def asked(prompt, **changes):
    first = {"model_id": "tiny", "selection": None, "values": {}, "shown": {}, "language": "en", "tab": "attention"}
    return PageRequest(**{**first, "prompt": prompt, **changes})


def test_first_view_fills_every_part(playground):
    parts, shown = payloads(playground, asked("abcab"))
    closed = {name for tab in build.TABS if tab.key != "attention" for name in tab.parts}
    # views that are not chosen
    turned_away = {"lines_links", "text_reading", "cell_steps", "find_rows", "find_map"}
    turned_away |= {"turns_reads", "turns_writes", "turns_job", "turns_rests"}
    assert set(parts) == set(pipeline.PARTS) - closed - turned_away
    assert [chip["text"] for chip in parts["tokens"]["tokens"]] == list("abcab")
    assert (parts["overview_heads"]["layers"], parts["overview_heads"]["heads"]) == (3, 4)
    assert parts["header"]["status"][2].startswith("5 tokens · ")
    assert shown["run"] == parts["overview_heads"]["run"] == parts["map_plot"]["run"].split()[0]


def test_choosing_another_head_computes_nothing_again_and_sends_only_its_picture(playground, lm, monkeypatch):
    _, shown = payloads(playground, asked("abcab"))
    monkeypatch.setattr(LanguageModel, "trace_tokens", lambda *_: pytest.fail("the model ran again"))
    parts, again = payloads(playground, asked("abcab", shown=shown, selection={"heads": [[2, 3]]}))
    assert set(parts) == {"notice", "map_plot"}
    assert parts["map_plot"]["title"] == "Head 2.3"
    assert {name for name in again["drawn"] if again["drawn"][name] != shown["drawn"][name]} == {"map_plot"}
    assert set(payloads(playground, asked("abcab", shown=again, selection={"heads": [[2, 3]]}))[0]) == {"notice"}


def test_what_is_typed_after_a_prompt_is_run_alone_and_edits_afresh(playground, lm):
    rows: list[int] = []
    handle = lm.model.blocks[0].register_forward_pre_hook(lambda block, given: rows.append(given[0].shape[1]))
    try:
        for prompt in ("abcaabcab", "abcaabcabca", "abcaabcabcbb"):
            playground.trace(lm, Prompt(prompt))
        assert rows == [9, 2, 2]
        for prompt in ("abcaabcabcbb", "abcaabcabcbba"):
            playground.trace(lm, Prompt(prompt), (Edit("zero", 0, 1),))
        assert rows == [9, 2, 2, 12, 1, 13]
    finally:
        handle.remove()


@pytest.mark.parametrize(
    "selection", [None, {}, {"heads": []}, {"heads": [[3, 0]]}, {"heads": [[0, -1]]}, {"heads": [["0", "1"]]}, "x", [1]]
)
def test_a_selection_that_is_no_head_becomes_the_default(playground, selection):
    parts, _ = payloads(playground, asked("abcab", selection=selection))
    scores = playground.trace(playground.load("tiny"), Prompt("abcab")).head_metrics()["previous_token"]
    assert tuple(parts["selection"]["heads"][0]) == scores.idxmax()


@pytest.mark.parametrize(
    "prompt,what",
    [("", "empty"), ("x" * 41, "too long"), ("x" * 300_000, "300000 characters"), ("\ud800", "surrogate")],
)
def test_bad_prompts_are_explained_and_keep_the_old_pictures(playground, prompt, what):
    _, shown = payloads(playground, asked("abcab"))
    parts, after = payloads(playground, asked(prompt, shown=shown))
    assert set(parts) == {"notice"}
    assert parts["notice"]["kind"] == "error" and what in parts["notice"]["text"] and parts["notice"]["hint"]
    assert after == shown


@pytest.mark.parametrize("allowed", [40, 10_000])
@pytest.mark.parametrize("after", ["xx", "é and more", "z" * 300_000])
def test_a_long_prompt_can_be_cut_where_the_server_or_the_context_ends(playground, allowed, after):
    """A token a byte: a letter of two bytes on the edge is left out whole."""
    playground = dataclasses.replace(playground, options=dataclasses.replace(playground.options, max_tokens=allowed))
    limit = min(allowed, playground.load("tiny").config.n_ctx)
    prompt = "x" * (limit - 1) + after
    notice = payloads(playground, asked(prompt))[0]["notice"]
    whose = "for this server" if limit == 40 else "for this model"
    assert f"too long {whose}" in notice["text"] and f"{limit} tokens" in notice["hint"]
    (cut,) = notice["actions"]
    assert (cut["name"], cut["text"]) == ("cut", f"Cut it to {limit} tokens")
    assert prompt.startswith(cut["prompt"]) and len(cut["prompt"]) == (limit - 1 if "é" in prompt else limit)
    assert payloads(playground, asked(cut["prompt"]))[0]["notice"] == {}


def test_errors_are_said_in_the_readers_language(playground):
    parts, _ = payloads(playground, asked("", language="zh"))
    assert parts["notice"]["text"] == "提示词为空。"
    assert parts["attention_question"]["text"] == "哪个词元关注哪个词元？"


def test_a_fault_of_ours_is_not_a_traceback(playground, monkeypatch, caplog):
    monkeypatch.setattr(map, "titles", lambda *_: 1 / 0)
    parts, _ = payloads(playground, asked("abcab"))
    assert parts["notice"]["text"] == "Something went wrong in the app."
    assert "division" not in str(parts) and "ZeroDivisionError" in caplog.text


def test_window_belongs_to_the_run_it_was_asked_for(playground):
    prompt = "abcdefghij"
    _, shown = payloads(playground, asked(prompt))
    window = [2, 6, 0, 6]

    def note(run):
        values = {"map_plot": {"run": f"{run} 0.0", "window": window}}
        return payloads(playground, asked(prompt, values=values))[0]["map_plot"]["note"]

    assert "rows 2 to 5" in note(shown["run"]) and note("other") == ""


def test_traces_are_bounded_and_come_back_the_same(playground, lm):
    first = playground.trace(lm, Prompt("hello")).pattern(1, 1)
    playground.traces.drop(lambda key: False)
    assert (playground.trace(lm, Prompt("hello")).pattern(1, 1) == first).all()


def run_loading(playground, model_id, language="en"):
    return list(load_model(playground, model_id, language))


def test_loading_ends_with_the_new_model(playground, lm, monkeypatch):
    monkeypatch.setattr(Playground, "load", lambda *_: lm)
    bar, *_, last = run_loading(playground, "other")
    assert bar["text"] == "Loading other" and last == Chosen(True, {})


@pytest.mark.parametrize("error", [InputError("No.", "x", "Do y."), CheckpointError("Broken.", "x", "Fetch it.")])
def test_failed_loading_says_why_and_keeps_the_old_model(playground, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(Playground, "load", fail)
    last = run_loading(playground, "other")[-1]
    assert not last.loaded and last.notice["text"].startswith(error.what) and last.notice["hint"] == error.hint
    assert bool(last.notice["actions"]) == isinstance(error, CheckpointError)


def test_cancelling_stops_the_work(playground, monkeypatch):
    stopped = threading.Event()

    def slow(self, model_id, progress):
        try:
            while True:
                progress(10_000_000, 100_000_000, "fetching")
                threading.Event().wait(0.01)
        finally:
            stopped.set()

    monkeypatch.setattr(Playground, "load", slow)
    steps = load_model(playground, "other", "en")
    next(steps)
    bar = next(steps)
    assert bar["hint"] == "10 of 100 MB" and bar["fraction"] == 0.1 and bar["actions"][0]["name"] == "cancel"
    steps.close()
    assert stopped.wait(5)


def test_a_cancel_of_one_visitor_does_not_stop_another(playground, lm, monkeypatch):
    answers = [Cancelled(), lm]

    def load(*_):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(Playground, "load", load)
    assert run_loading(playground, "other")[-1].loaded


def test_only_a_person_starts_another_try_to_load(playground, lm, monkeypatch):
    tries = []

    def fail(found, progress, **_):
        tries.append(found)
        raise CheckpointError("Broken.", "x", "Fetch it.")

    monkeypatch.setattr(context, "load_resolved", fail)
    monkeypatch.setattr(Playground, "_resolve", lambda self, model_id, progress: model_id)
    assert run_loading(playground, "bad")[-1].notice["text"].startswith("Broken.")
    for prompt in ("a", "ab", "abc"):
        parts, _ = payloads(playground, asked(prompt, model_id="bad"))
        assert parts["notice"]["text"].startswith("Broken.")
    assert tries == ["bad"]
    monkeypatch.setattr(context, "load_resolved", lambda found, progress, **_: lm)
    assert run_loading(playground, "bad")[-1].loaded
    assert "map_plot" in payloads(playground, asked("abc", model_id="bad"))[0]


def test_page_paths_are_not_taken_from_visitors(playground, tmp_path):
    with pytest.raises(InputError, match="No model has this name"):
        playground.load(str(tmp_path))


def test_model_is_tuned_within_rounding(lm):
    import torch

    ids = torch.arange(12)[None]
    with torch.inference_mode():
        before = lm.model(ids)
        linear.tune(lm.model)
        assert (lm.model(ids) - before).abs().max() < 1e-4
