"""The tab of checks without a browser: every row is there, in both languages, and red stays red."""

import dataclasses
import json
import math
import sys

import pytest

from model.api import LanguageModel
from model.checks.registry import CHECKS, GROUPS, quick, run_checks
from model.checks.result import REASONS, RULES, UNITS, Finding, unable
from tests.support.models.helpers import VARIANTS, byte_tokenizer, tiny_model
from viz.numbers import percent
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.jobs.background import perform
from viz.views import tabs
from viz.views.checks import tab
from viz.views.checks.checks import view
from viz.views.checks.checks.figures import FORMULAS, apart, place_on_scale, share_of, share_text
from viz.views.checks.checks.python_lines import EDITED_AWAY, PYTHON
from viz.words import LANGUAGES, Words, words
from viz.work.playground import Options, Playground

OURS = [key for key in CHECKS if not key.startswith("parity")]
EDIT = {"kind": "zero", "layer": 1, "head": 2}


@pytest.fixture(autouse=True)
def without_transformers(monkeypatch):
    """Its import takes seconds; tests/parity has it."""
    monkeypatch.setitem(sys.modules, "transformers", None)


def asked(prompt="abcabd ab", language="en", **selection):
    return PageRequest("tiny", prompt, selection or None, {}, {}, language, "checks")


def table(playground, *given, **named):
    parts, _ = payloads(playground, asked(*given, **named))
    json.dumps(parts, allow_nan=False)
    assert not parts["notice"]
    return parts["checks_table"]


def finish(playground, question):
    """Do the job as its button does."""
    job = tab.TAB.jobs["checks_job"](scene_of(playground, question), {})
    list(perform(playground, job, question.language))


def said(language="en"):
    return Words(words(language), "checks")


@pytest.mark.parametrize("language", LANGUAGES)
def test_quick_checks_are_there_at_once(playground, language):
    parts, _ = payloads(playground, asked(language=language))
    shown = parts["checks_table"]
    scene = scene_of(playground, asked(language=language))
    made = quick(view.subject_of(scene))
    assert [row["key"] for row in shown["rows"]] == list(CHECKS)
    assert [key for _, keys in shown["groups"] for key in keys] == list(CHECKS)
    assert {row["key"] for row in shown["rows"] if row["state"] == "agrees"} == set(made)
    assert {row["state"] for row in shown["rows"]} == {"agrees", "waiting"}
    assert shown["state"] == "agrees" and str(len(made)) in shown["verdict"][0]
    assert str(len(CHECKS) - len(made)) in shown["verdict"][1]
    assert parts["checks_job"]["state"] == "idle" and str(len(CHECKS)) in parts["checks_job"]["text"]
    assert "float32" in shown["source"] and shown["source"].count("torch") == 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_checks_stay_until_something_changes(playground, language):
    question = asked(language=language)
    finish(playground, question)
    parts, _ = payloads(playground, question)
    rows = {row["key"]: row for row in parts["checks_table"]["rows"]}
    assert {rows[key]["state"] for key in OURS} == {"agrees"}
    assert "transformers" in rows["parity_logits"]["reason"] and rows["parity_logits"]["state"] == "unable"
    assert parts["checks_job"]["state"] == "done"
    assert payloads(playground, question)[0]["checks_table"] == parts["checks_table"]
    other = table(playground, "abcabd", language)
    assert "waiting" in {row["state"] for row in other["rows"]}
    edited = table(playground, "abcabd ab", language, edits=[EDIT])
    assert "waiting" in {row["state"] for row in edited["rows"]} and edited["note"]


def test_what_the_button_found_is_not_checked_again(playground, monkeypatch):
    scene = scene_of(playground, asked())
    none = panels.settings_of(view.VIEW, scene, {})
    plan = panels.measured(view.VIEW, "plan", scene, none).value
    quickly = panels.measured(view.VIEW, "shown", scene, none).value
    assert len(quickly.findings) == len(CHECKS) - plan.waiting < len(CHECKS) and plan.seconds > 1
    finish(playground, asked())
    monkeypatch.setattr(view, "run_checks", lambda *_: pytest.fail("checked again"))
    whole = panels.measured(view.VIEW, "shown", scene, none).value
    assert list(whole.findings) == list(CHECKS) and whole is panels.measured(view.VIEW, "all", scene, none).value
    assert whole.findings["rows"] == quickly.findings["rows"]  # however long each took


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("state", ["differs", "broken"])
def test_what_does_not_agree_is_named_on_top(playground, monkeypatch, state, language):
    """In a table of ticks the one that is none is the first thing said."""
    whole = view.run_checks

    def with_one(*given, **named):
        found = whole(*given, **named)
        bad = dataclasses.replace(found["rows"], state=state, difference=0.5, reason="ValueError", got="<b>no</b>")
        return found | {"rows": bad}

    monkeypatch.setattr(view, "run_checks", with_one)
    shown = table(playground, language=language)
    name = said(language)["name.rows"]
    assert shown["state"] == state and any(name in sentence for sentence in shown["verdict"])
    row = next(row for row in shown["rows"] if row["key"] == "rows")
    assert row["state"] == state
    assert row["reason"] == (
        "" if state == "differs" else said(language)["reason.raised"].format(reason="ValueError", got="<b>no</b>")
    )


def test_a_check_that_raises_is_shown_and_the_page_stays(playground, monkeypatch, caplog):
    broken = dataclasses.replace(CHECKS["lens"], look=lambda *_: 1 / 0)
    monkeypatch.setitem(CHECKS, "lens", broken)
    shown = table(playground)
    row = next(row for row in shown["rows"] if row["key"] == "lens")
    assert row["state"] == "broken" and "ZeroDivisionError" in row["reason"] and not row["full"]
    assert shown["state"] == "broken" and "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("state", ["agrees", "differs"])
def test_a_number_that_is_none_is_sent_as_text(playground, state):
    scene = scene_of(playground, asked())
    found = Finding(state, math.inf, 1e-6, "logit", "sum", 4, 1.0, 7, 2, 1, 3)
    row = view.row(said(), panels.facts_of(scene), "fused", found)
    assert json.dumps(row, allow_nan=False) and row["full"][0] == "inf" and row["difference"] == "∞"
    assert row["at"] == {"heads": [[2, 1]], "tokens": [3]} and "2.1" in row["where"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_drawn_for_every_wiring_edited_and_with_one_token(tmp_path, variant):
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300})
    ours = Playground(Options(model="tiny", max_tokens=300))
    ours.models.get("tiny", lambda: LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path)))
    for prompt, edits in (("abcabd ab", [EDIT]), ("a", []), ("ab c" * 70, [])):
        shown = table(ours, prompt, edits=edits)
        assert shown["state"] == "agrees"
        assert {row["state"] for row in shown["rows"]} <= {"agrees", "waiting", "unable"}


@pytest.mark.parametrize("prompt", ['<img src=x onerror="x()">', "\u202eabc\u0000", "=1+1", "½ 文\n\n"])
def test_hostile_prompts_are_text(playground, prompt):
    shown = table(playground, prompt)
    assert repr(prompt) in shown["python"] and shown["state"] == "agrees"


def test_long_prompts_send_little(playground):
    shown = table(playground, "ab c" * 10)
    assert len(json.dumps(shown)) < 80_000


# --- words ---


def test_every_check_has_its_words_formula_and_group():
    english = said()
    for key in CHECKS:
        assert english[f"name.{key}"] and english[f"says.{key}"] and FORMULAS[key]
    assert set(FORMULAS) == set(CHECKS) >= set(PYTHON)
    for section, keys in (
        ("unit", UNITS),
        ("rule", RULES),
        ("group", GROUPS),
        ("reason", (*REASONS, "raised")),
    ):
        assert set(english.within(section)) == set(keys)


def test_the_verdict_counts():
    found = {"rows": Finding("agrees"), "fused": Finding("differs"), "lens": unable("one_token")}
    told, state = view.verdict(said(), found)
    assert told == [
        "1 of 2 disagrees: Traced = fused.",
        "1 cannot be checked here.",
        f"{len(CHECKS) - 3} have not been run yet.",
    ]
    assert state == "differs"
    assert view.verdict(said(), found | {"rows": Finding("differs")})[0][0] == (
        "2 of 2 disagree: Rows sum to 1, Traced = fused."
    )


# --- numbers as text ---


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (3.0, "3"),
        (2.46e-6, "2.5 × 10⁻⁶"),
        (1e-12, "1.0 × 10⁻¹²"),
        (0.05, "0.05"),
        (12.34, "12"),
        (123456.0, "123,456"),
        (1234567.0, "1.2 × 10⁶"),
        (math.inf, "∞"),
        (math.nan, "∞"),
    ],
)
def test_how_far_apart(value, text):
    assert apart(value) == text


def test_shares_and_places():
    assert share_of(1.0, 4.0) == 0.25 and share_of(0.0, 0.0) == 0.0
    assert share_of(1.0, 0.0) is None and share_of(math.inf, 1.0) is None
    assert [place_on_scale(share) for share in (0.0, 1e-6, 1.0, 10.0, 1e9, None)] == [0, 0, 6 / 7, 1, 1, 1]
    assert share_text(None) == "∞"
    assert [share_text(share) for share in (0.0, 0.25, 1e-6, 50.0)] == [percent(each) for each in (0, 0.25, 1e-6, 50)]
    assert share_text(0.25) == "25.0%"


# --- the lines ---


@pytest.mark.parametrize("edits", [[], [EDIT]])
def test_the_lines_repeat_what_is_shown(playground, lm, monkeypatch, edits):
    """The plain lines give a number within the bound that is shown, and the last line the check itself."""
    scene = scene_of(playground, asked(edits=edits))
    found = run_checks(view.subject_of(scene), OURS)
    monkeypatch.setattr("model.api.load_model", lambda *_: lm)
    for key in OURS:
        code = view.row(said(), panels.facts_of(scene), key, found[key])["python"].splitlines()
        plain = len(PYTHON.get(key, ())) if not (edits and key in EDITED_AWAY) else 0
        space: dict = {}
        exec("\n".join(code[:-1]), space)
        assert eval(code[-1], space).state == found[key].state == "agrees"
        if plain and key not in ("tokens", "numbers", "weights"):
            value = eval(code[-3], space)
            assert float(value) <= found[key].bound + 1e-5, key


def test_the_whole_table_as_python(playground, lm, monkeypatch):
    monkeypatch.setattr("model.api.load_model", lambda *_: lm)
    code = table(playground)["python"].splitlines()
    space: dict = {}
    exec("\n".join(code[:-1]), space)
    assert list(eval(code[-1], space)) == list(CHECKS)


# --- beside others ---


def test_drawing_holds_the_model_only_while_it_checks(playground, monkeypatch):
    held = []
    whole = view.run_checks
    monkeypatch.setattr(
        view, "run_checks", lambda *given: (held.append(playground.computing.locked()), whole(*given))[1]
    )
    table(playground)
    assert held == [True] and not playground.computing.locked()


def test_a_problem_of_the_prompt_is_the_pages(playground):
    parts, _ = payloads(playground, asked(""))
    assert parts["notice"]["kind"] == "error" and "checks_table" not in parts


def test_it_is_the_last_of_what_proves():
    assert dict(tabs.GROUPS)["prove"][-1] is tab.TAB
