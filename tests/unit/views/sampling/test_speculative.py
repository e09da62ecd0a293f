"""The view of speculative decoding without a browser: what is shown are the numbers of model.draft_costs."""

import dataclasses
import pickle
import re

import numpy as np
import pytest

from model.api import LanguageModel
from model.generation.draft_costs import summary, swept
from model.generation.requests import DRAFTS, Draft, Request
from model.generation.speculative import speculate
from model.sampling.pipeline import Step
from tests.support.models.helpers import VARIANTS, byte_tokenizer, tiny_model
from tests.support.models.talking import after_turn, talking_model, talking_server
from tests.support.scripts import script
from tests.unit.views.test_seam import same, values_only
from viz.numbers import factor, number, percent, plain
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam.jobs import background
from viz.seam.panels import job_of, key_of, settings_of
from viz.seam.tasks import MeasureTask
from viz.views.sampling.speculative import measure
from viz.views.sampling.speculative import view as speculative
from viz.views.sampling.speculative.figures import expected_calls, records
from viz.views.sampling.speculative.view import VIEW
from viz.words import LANGUAGES, Words, section, words
from viz.work.prompt import prompt_of, read

PROMPT = "abcabdabcabd ab"
SCRIPT = script("views/sampling/speculative")
GREEDY = [{"warp": "temperature", "values": {"temperature": 0}}]
SMALL = {"draft": "layers", "layers": 2, "gamma": 3, "tokens": 16, "seed": 2}


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    model = tiny_model({**VARIANTS["gpt2"], "vocab_size": 256, "n_ctx": 300})
    return LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path_factory.mktemp("bytes")))


def asked(form=None, steps=None, prompt=PROMPT, language="en", **selection):
    values = {
        "sampling_view": {"view": "speculative"},
        "speculative_form": form,
        "pipeline": steps and {"steps": steps},
    }
    return PageRequest("tiny", prompt, selection or None, values, {}, language, "sampling")


def drawn(playground, *given, **changes):
    return payloads(playground, asked(*given, **changes))[0]


def settings(playground, *given, **changes):
    request = asked(*given, **changes)
    return settings_of(VIEW, scene_of(playground, request), request.values)


def planned(playground, *given, **changes):
    scene = scene_of(playground, asked(*given, **changes))
    return job_of(VIEW, "main", scene, settings(playground, *given, **changes))


def done(playground, *given, **changes):
    """The result, and the payloads that show it."""
    job = planned(playground, *given, **changes)
    list(background.perform(playground, job, "en"))
    return playground.results.peek(job.key).value, drawn(playground, *given, **changes)


def figure(payload):
    return payload["figure"].data


# --- words ---


def test_every_draft_has_its_words():
    for language in LANGUAGES:
        said = section(words(language), "speculative")
        for kind in DRAFTS:
            assert said[f"settings.draft_{kind}"] and said[f"settings.draft_{kind}_help"]
            assert said[f"text.named_{kind}"] and said[f"numbers.nothing_{kind}"]


def test_the_script_has_the_words_it_asks_for():
    used = set(re.findall(r"\bwords\.(\w+)", SCRIPT)) | set(re.findall(r"\bcsv_\w+", SCRIPT))
    used |= {"accepted", "rejected", "corrected", "bonus", "alone", "unread", "told_corrected", "told_bonus"}
    used |= {"told_alone", "below", "not_below"}
    assert used <= set(section(words("en"), "speculative.text"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_runs_by_itself(playground, language, monkeypatch):
    monkeypatch.setattr(measure, "compare", lambda *_: pytest.fail("it ran by itself"))
    parts = drawn(playground, language=language)
    assert parts["speculative_job"]["state"] == "idle"
    assert all("empty" in parts[f"speculative_{name}"] for name in ("text", "numbers", "times", "calls", "sweep"))
    controls = {each["name"]: each for each in parts["speculative_form"]["controls"]}
    assert [option[0] for option in controls["draft"]["options"]] == list(DRAFTS)
    assert (controls["layers"]["max"], controls["layers"]["value"]) == (3, 2)


# --- what is asked for ---


def test_what_a_page_sends_is_kept_within_bounds(playground, lm):
    wild = {"draft": "nobody", "layers": 99, "gamma": -3, "tokens": 1e9, "seed": "x", "suffix": None}
    read = settings(playground, wild)
    steps = (Step("temperature", (("temperature", 0.8),)), Step("top_k", (("k", 40.0),)), Step("top_p", (("p", 0.9),)))
    assert read.pipeline.steps == steps and (read.draft, read.layers, read.suffix) == ("layers", 3, 3)
    assert (read.gamma, read.tokens, read.seed, read.model) == (1, measure.MOST_TOKENS, 0, "")
    small = {"draft": "layers", "layers": 1, "tokens": 8}
    found, _ = done(playground, small)
    assert found.request == Request(256, steps, 4, 8, 0) and len(found.compared.tokens) == 8
    parts = drawn(playground, steps=[{"warp": "nothing"}])
    assert "unknown" in parts["speculative_text"]["problem"]["text"] and parts["speculative_job"]["state"] == "unready"
    assert all("empty" in parts[f"speculative_{name}"] for name in ("numbers", "times", "calls", "sweep"))


def test_the_key_knows_only_what_the_draft_uses(playground):
    def key(form, *more):
        scene = scene_of(playground, asked(form, *more))
        return key_of(MeasureTask(VIEW, VIEW.measure("main"), scene, settings(playground, form, *more)))

    assert key(SMALL) == key({**SMALL, "suffix": 5}) == key({**SMALL, "suffix": 1})
    lookup = {**SMALL, "draft": "ngram"}
    assert key(lookup) == key({**lookup, "layers": 1}) != key({**lookup, "suffix": 5})
    changes = ({"layers": 1}, {"gamma": 4}, {"tokens": 24}, {"seed": 3}, {"draft": "ngram"})
    assert len({key(SMALL), key(SMALL, GREEDY), *(key({**SMALL, **change}) for change in changes)}) == 7


def test_another_model_drafts_only_where_the_tokens_are_the_same(playground, lm, tmp_path, monkeypatch):
    parts = drawn(playground, {"draft": "model"})
    assert parts["speculative_job"]["state"] == "unready" and "same bytes" in parts["speculative_job"]["text"]
    other = LanguageModel("tinygpt", "Small", tiny_model({"vocab_size": 256, "n_layer": 1}), byte_tokenizer(tmp_path))
    playground.models.get("tinygpt", lambda: other)
    controls = {each["name"]: each for each in drawn(playground)["speculative_form"]["controls"]}
    assert controls["model"]["options"] == [["tinygpt", "Small"]]
    found, parts = done(playground, {**SMALL, "draft": "model"})
    assert "drafted by Small" in parts["speculative_text"]["title"]
    alone = list(speculate(lm.model, list(PROMPT.encode()), Draft("model", model=other.model), found.request))
    assert found.compared.tokens == tuple(token for each in alone for token in each.tokens)


# --- what is shown ---


def test_the_text_is_shown_round_by_round(playground, lm):
    found, parts = done(playground, SMALL)
    payload = parts["speculative_text"]
    shown, rounds = payload["rounds"], found.compared.rounds
    assert shown == records(rounds, lm.tokenizer.piece) and len(shown) == len(rounds)
    for each, told in zip(rounds, shown, strict=True):
        for one, (_, token, p, q, expected, u, fate) in zip(each.proposals, told["proposals"], strict=True):
            assert (token, fate) == (one.id, one.fate)
            assert (p, q, expected) == pytest.approx((one.p, one.q, one.expected), rel=1e-5)
            assert u == pytest.approx(one.uniform, rel=1e-5) if fate != "unread" else u is None
        assert told["token"][1] == each.token and told["token"][4] == each.kind
    assert f"16 tokens in {len(shown)} forward passes" in payload["title"] and "first 2 of 3 layers" in payload["title"]
    assert payload["before"] == list(PROMPT.replace(" ", "·")[-10:]) and payload["cut"]
    assert parts["speculative_job"]["state"] == "done"
    assert "empty" in drawn(playground, {**SMALL, "gamma": 4})["speculative_text"]  # only for its own settings
    assert "empty" in drawn(playground, SMALL, GREEDY)["speculative_text"]


def test_the_numbers_are_those_of_the_summary(playground):
    found, parts = done(playground, SMALL)
    told, payload = found.summary, parts["speculative_numbers"]
    assert same(told, summary(found.compared))
    cells = {row[0]["text"]: row[1:] for row in payload["rows"]}
    assert cells["Proposals accepted"][0] == f"{percent(told.acceptance)} ({told.accepted} / {told.tested})"
    assert cells["Tokens per forward pass"] == [number(told.per_call), number(told.predicted_per_call)]
    assert cells["Speed-up, theorem 3.8"] == [factor(told.speed), factor(told.theorem)]
    assert cells["Speed-up, verification as slow as here"][1] == factor(told.predicted)
    alone, draft, check, totals = figure(parts["speculative_times"])
    assert alone.x == (None, plain(1000 * told.plain))
    assert draft.x[0] + check.x[0] == pytest.approx(1000 * told.speculative, rel=1e-5)
    assert totals.x[0] == pytest.approx(1000 * told.speculative)
    measured, predicted = figure(parts["speculative_calls"])
    assert sum(measured.y) == len(found.compared.rounds) == pytest.approx(sum(predicted.y), rel=1e-4)
    assert np.dot(measured.x, measured.y) == 16
    assert np.dot(predicted.x, predicted.y) == pytest.approx(told.predicted_per_call * told.calls, rel=1e-4)
    theorem, costs, star = figure(parts["speculative_sweep"])
    rows = swept(found.compared)
    assert list(theorem.y) == [plain(row[1]) for row in rows] and list(costs.y) == [plain(row[2]) for row in rows]
    assert (star.x, star.y) == ((3,), (plain(told.speed),))


def test_slower_or_faster_is_said_and_why(playground):
    found, _ = done(playground, SMALL)
    told, said = found.summary, Words(words("en"), "speculative.numbers")
    given = {**vars(told), "per_call": 2.0, "proposed": 3 * told.calls, "c": 0.5, "v": 1.5}

    def verdict(**changes):
        return speculative.verdict(said, "layers", type(told)(**{**given, **changes}))

    slow = verdict(speed=0.6, needed=0.8)
    assert slow[0].startswith("Slower") and "0.6 times" in slow[0] and "as long as 3 plain steps" in slow[1]
    assert percent(0.8) in slow[2] and "not trained" in slow[3]
    assert "always right" in verdict(speed=0.6, needed=float("inf"))[2]
    assert verdict(speed=2.5)[0].startswith("2.5 times as fast")
    assert verdict(speed=1.02)[0].startswith("About")


def test_a_draft_that_proposes_nothing(playground):
    form = {**SMALL, "draft": "ngram", "tokens": 8}
    hot = [{"warp": "temperature", "values": {"temperature": 3}}]
    runs = (done(playground, {**form, "seed": seed}, hot, prompt="a") for seed in range(20))
    _found, parts = next(run for run in runs if not run[0].summary.tested)  # no token came twice
    assert "Nothing was proposed" in parts["speculative_numbers"]["verdict"][0]
    assert "empty" in parts["speculative_sweep"] and not [p for p in parts.values() if "problem" in p]


def test_how_the_text_lies_beside_the_plain_one(playground):
    _, parts = done(playground, SMALL, GREEDY)
    assert "the same 16 tokens" in parts["speculative_text"]["same"] and parts["speculative_text"]["plain"] is None
    found, parts = done(playground, {**SMALL, "layers": 1})
    found = found.compared
    at = next(n for n, (a, b) in enumerate(zip(found.tokens, found.plain_tokens, strict=True), 1) if a != b)
    assert (
        f"from token {at} on" in parts["speculative_text"]["same"]
        and "same distribution" in parts["speculative_text"]["same"]
    )
    said = Words(words("en"), "speculative.text")
    assert "another text" in speculative.same(said, type(found)(found.rounds, found.plain[::-1], ()))
    greedy = done(playground, SMALL, GREEDY)[0].compared
    assert "rounding decides" in speculative.same(said, type(greedy)(greedy.rounds, greedy.plain[::-1], ()))


def test_edits_are_left_out_and_it_says_so(playground, lm):
    edits = [{"kind": "zero", "layer": 1, "head": 2}]
    unedited, _ = done(playground, SMALL)
    parts = drawn(playground, SMALL, edits=edits)
    assert "without your edits" in parts["speculative_text"]["source"]
    assert parts["speculative_text"]["rounds"] == records(unedited.compared.rounds, lm.tokenizer.piece)
    assert "without your edits" in drawn(playground, {**SMALL, "seed": 9}, edits=edits)["speculative_job"]["text"]


def test_the_python_lines_make_the_numbers(playground, lm, monkeypatch):
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    steps = [*GREEDY, {"warp": "top_k", "values": {"k": 7}}]
    for form in (SMALL, {**SMALL, "draft": "ngram", "suffix": 2}):
        found, parts = done(playground, form, steps)
        values = {}
        for name in ("text", "numbers", "sweep"):
            *lines, last = parts[f"speculative_{name}"]["python"].splitlines()
            space: dict = {}
            exec("\n".join(lines), space)
            values[name] = eval(last, space)
        assert values["text"] == [each.tokens for each in found.compared.rounds]
        told = found.summary
        for field in ("calls", "tested", "accepted", "expected", "predicted_per_call"):
            assert getattr(values["numbers"], field) == pytest.approx(getattr(told, field)), field
        assert [row[0] for row in values["sweep"]] == list(range(1, 9))


def test_what_was_written_is_a_value(playground):
    found, _ = done(playground, SMALL)
    assert values_only(found) and same(pickle.loads(pickle.dumps(found)), found)


def test_expected_calls_by_hand():
    assert expected_calls(0.5, [2, 2]) == [1.0, 0.5, 0.5]
    assert expected_calls(0.5, [2, 0]) == [1.5, 0.25, 0.25]
    assert expected_calls(1.0, [3]) == [0, 0, 0, 1] and expected_calls(0.3, []) == [0.0]
    found = expected_calls(0.7, [4, 4, 1, 0])
    assert sum(found) == pytest.approx(4)


def test_it_can_be_stopped(playground, monkeypatch):
    def stop(*_):
        raise background.Cancelled

    monkeypatch.setattr("model.generation.draft_costs._TELL", 0)
    with pytest.raises(background.Cancelled):
        planned(playground, SMALL).work(stop)


# --- conversations ---


@pytest.mark.parametrize("opens", [True, False])
def test_a_text_becomes_the_turn_that_it_was_written_for(tmp_path, opens):
    lm = talking_model(tmp_path)
    server, turns = talking_server(lm), [["user", "ab"], ["assistant", "c"], ["user", "d"]]
    question = asked(SMALL, GREEDY)
    question = dataclasses.replace(
        question, chat={"on": True, "turns": [*turns, ["assistant", ""]] if opens else turns}
    )
    scene = scene_of(server, question)
    job = job_of(VIEW, "main", scene, settings_of(VIEW, scene, question.values))
    list(background.perform(server, job, "en"))
    shown = payloads(server, question)[0]["speculative_text"]
    assert shown["prompt"] is None and shown["turns"] == (turns if opens else None)
    messages = [{"role": role, "content": text} for role, text in turns]
    inside = prompt_of("", {"on": True, "turns": [*turns, ["assistant", shown["typed"]]]})
    assert read(lm, inside).tokens.ids.tolist() == after_turn(lm, messages, shown["typed"])
