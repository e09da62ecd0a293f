"""The effects tab without a browser: its numbers are those of model.effects, and what a page sends is checked."""

import base64
import json
import re

import numpy as np
import pytest

from model.api import LanguageModel
from model.attention.effects import TARGETS, Target, metric, next_tokens, sweep
from model.errors import InputError
from model.gpt.edits import EDITS, Edit
from model.text.tokenizer import from_tiktoken
from tests.support.helpers import tiny_model
from tests.support.scripts import script, words_read
from viz.charts.distribution import entropy, prediction_rows
from viz.charts.layer_head_map import EffectWords, effect_figure
from viz.page import background
from viz.page.picking import position_of
from viz.page.pipeline import Asked, payloads, scene_of
from viz.page.typed import token_of
from viz.views.effects.edits import view as effects
from viz.views.effects.edits.figures import Swept, strongest
from viz.views.effects.edits.view import TAB, map_payload, plan_sweep, sweep_key, watched_of
from viz.words import LANGUAGES, words

PROMPT = "abcab"
SCRIPT = script("views/effects/*")
WORDS = EffectWords("layer", "head", "change", "logits")


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    """A shaken model of 3 layers x 4 heads over single bytes and a few longer tokens."""
    ranks = tmp_path_factory.mktemp("bytes") / "bytes.tiktoken"
    pieces = [bytes([i]) for i in range(256)] + [b"th", b" a", "·".encode(), "·!".encode()]
    ranks.write_text("".join(f"{base64.b64encode(piece).decode()} {i}\n" for i, piece in enumerate(pieces)))
    tokenizer = from_tiktoken(ranks, special={"<|end|>": 260})
    return LanguageModel("tiny", "Tiny", tiny_model({"vocab_size": 261, "n_ctx": 300}), tokenizer)


def asked(prompt=PROMPT, form=None, language="en", shown=None, **selection):
    return Asked("tiny", prompt, selection or None, {"sweep_form": form}, shown or {}, language, "effects")


def scene(playground, prompt=PROMPT, **changes):
    return scene_of(playground, asked(prompt, **changes))


def drawn(playground, prompt=PROMPT, **changes):
    return payloads(playground, asked(prompt, **changes))[0]


def swept(playground, form, prompt=PROMPT, **changes):
    """The payloads once the sweep is done."""
    job = plan_sweep(scene(playground, prompt, **changes), {"sweep_form": form})
    list(background.perform(playground, job, "en"))
    return drawn(playground, prompt, form=form, **changes)


# --- words ---


def test_every_kind_of_edit_and_every_target_has_its_words():
    for language in LANGUAGES:
        said = words(language)
        for kind in EDITS:
            assert said[f"effects.kind_{kind}"] and said[f"effects.about_{kind}"]
        for kind in TARGETS:
            for name in ("target", "target_help", "watching", "title", "unit"):
                assert said[f"effects.{name}_{kind}"]


def test_the_script_has_the_words_it_asks_for():
    parts = [part for line in SCRIPT.splitlines() for part in line.split("define(")]
    rules = words_read("views/effects/edit_rules")
    given = {
        '"edits"': {*effects._EDIT_WORDS, "head"},
        '"beforeafter"': {*effects._NEXT_WORDS, "column_before", "column_after"},
        '"effectmap"': {"ranked", "ranked_about", "head_effect"},
    }
    for name, known in given.items():
        (code,) = [each for each in parts if each.strip().startswith(name)]
        found = set(re.findall(r"\bwords\.(\w+)", code))
        assert len(found) > 2 and found <= known, name
    assert len(rules) > 6 and rules <= set(effects._EDIT_WORDS)
    used = set(re.findall(r"\bwords\.(\w+)", SCRIPT)) | {"column_before", "column_after"}
    assert {*effects._EDIT_WORDS, *effects._NEXT_WORDS} <= used


@pytest.mark.parametrize("language", LANGUAGES)
def test_first_drawing_fills_every_part_and_computes_no_sweep(playground, language, monkeypatch):
    monkeypatch.setattr(effects, "sweep", lambda *_: pytest.fail("the sweep ran by itself"))
    parts = drawn(playground, language=language)
    assert set(TAB.parts) <= set(parts)
    assert parts["sweep"]["state"] == "idle" and "12" in parts["sweep"]["text"]
    assert set(parts["sweep_map"]) == {"empty"}
    assert parts["edits"]["layers"] == 3 and parts["edits"]["heads"] == 4 and parts["edits"]["tokens"] == list(PROMPT)
    assert [kind["key"] for kind in parts["edits"]["kinds"]] == list(EDITS)


# --- before and after ---


def test_numbers_by_hand():
    logits = np.log(np.array([0.5, 0.25, 0.25], np.float32))
    assert entropy(logits + 300) == pytest.approx(1.5 * np.log(2), abs=1e-5)
    assert strongest(np.array([[0.1, -3, 0], [2, 0, -0.5]]), 3) == [
        {"head": [0, 1], "effect": -3.0},
        {"head": [1, 0], "effect": 2.0},
        {"head": [1, 2], "effect": -0.5},
    ]
    assert len(strongest(np.zeros((2, 3)))) == 6


def test_next_tokens_of_the_plain_run(playground, lm):
    payload, run = drawn(playground)["before_after"], lm.trace(PROMPT)
    logits = run.logits_at(-1)
    order = np.argsort(-logits, kind="stable")[:10]
    assert [row["id"] for row in payload["rows"]] == order.tolist() and not payload["edited"]
    assert [row["logit_after"] for row in payload["rows"]] == logits[order].tolist()
    assert all(row["p_before"] == row["p_after"] for row in payload["rows"])
    assert payload["kl"] == 0 and payload["entropy"][0] == payload["entropy"][1]
    assert "“b” (position 4)" in payload["title"]


def test_next_tokens_with_edits_are_those_of_both_runs(playground, lm):
    edits = [{"kind": "zero", "layer": 1, "head": 2}, {"kind": "scale", "layer": 2, "head": 0, "factor": 3}]
    payload = drawn(playground, edits=edits, tokens=[3])["before_after"]
    before = lm.trace(PROMPT)
    after = before.edit(Edit("zero", 1, 2), Edit("scale", 2, 0, 3.0))
    table = next_tokens(before, after, 3)
    assert payload["rows"] == prediction_rows(table, [row["text"] for row in payload["rows"]])
    p, q = (np.exp(run.logits_at(3) - np.logaddexp.reduce(run.logits_at(3).astype(float))) for run in (before, after))
    for row in payload["rows"]:
        assert (row["p_before"], row["p_after"]) == pytest.approx((p[row["id"]], q[row["id"]]), abs=1e-6)
        assert [row["logit_before"], row["logit_after"]] == [run.logits_at(3)[row["id"]] for run in (before, after)]
    assert payload["kl"] == pytest.approx((p * np.log(p / q)).sum(), abs=1e-5) and payload["kl"] > 1e-4
    assert payload["entropy"] == pytest.approx([-(x * np.log(x)).sum() for x in (p, q)], abs=1e-4)
    assert payload["edited"] and "position 3" in payload["title"] and "edited" in payload["source"]
    for line in ("Edit('zero', layer=1, head=2)", "run.unedited()", "next_tokens(before, run, 3)", "Target('kl', 3)"):
        assert line in payload["python"]


def test_the_position_is_the_last_picked_token(playground):
    assert position_of(scene(playground)) == 4
    assert position_of(scene(playground, tokens=[3, 1])) == 3
    assert position_of(scene(playground, tokens=[99, -1, True, "2"])) == 4


@pytest.mark.parametrize("prompt", ["a", "\n", "\u202e<b>{token}</b>"])
def test_short_and_hostile_prompts_are_drawn(playground, prompt):
    parts = drawn(playground, prompt)
    assert "problem" not in parts["before_after"] and parts["before_after"]["rows"]
    assert "\u202e" not in parts["before_after"]["title"] and "\n" not in parts["before_after"]["title"]


# --- what the sweep is asked for ---


@pytest.mark.parametrize(
    "text,token",
    [
        ("a", ord("a")),
        ("th", 256),
        (" a", 257),
        ("·a", 257),
        (" ", ord(" ")),
        ("↵", ord("\n")),
        ("\n", ord("\n")),
        ("⇥", ord("\t")),
        ("<|end|>", 260),
        ("·!", 259),
    ],
)
def test_typed_text_is_a_token(lm, text, token):
    assert token_of(lm, text)[0] == token


@pytest.mark.parametrize("text,pieces", [("ab", ["a", "b"]), ("··", [" ", " "]), ("than", ["th", "a", "n"])])
def test_text_that_is_no_token_is_split(lm, text, pieces):
    assert token_of(lm, text) == (None, pieces)


def test_what_was_typed_wrongly_is_said_in_both_languages(playground):
    for language, said in (("en", "is 3 tokens here: “th” “a” “n”"), ("zh", "是 3 个词元：“th” “a” “n”")):
        parts = drawn(playground, form={"token": "than"}, language=language)
        assert parts["sweep"]["state"] == "unready" and said in parts["sweep"]["text"]
        assert set(parts["sweep_map"]) == {"empty"}
        with pytest.raises(InputError, match="than"):
            plan_sweep(scene(playground, language=language), {"sweep_form": {"token": "than"}})


@pytest.mark.parametrize("text", ["\ud800", "x" * 5000, " " * 5000])
def test_text_that_cannot_be_a_token_leaves_the_rest_of_the_tab(playground, text):
    parts = drawn(playground, form={"token": text})
    assert parts["sweep"]["state"] == "unready" and len(parts["sweep"]["text"]) < 600
    assert parts["before_after"]["rows"]


@pytest.mark.parametrize(
    "form", [None, 3, [], "x", {"kind": ["logit"]}, {"kind": "nope", "how": {}}, {"token": 7, "distractor": None}]
)
def test_a_form_that_is_none_is_the_default(playground, form):
    at = scene(playground)
    likely = int(at.trace.logits_at(-1).argmax())
    assert watched_of(at, form) == effects.Watched("zero", Target("logit", 4, likely))


def test_empty_fields_mean_the_likeliest_tokens_without_edits(playground, lm):
    edits = [{"kind": "scale", "layer": 0, "head": 0, "factor": 40}]
    first, second = np.argsort(-lm.trace(PROMPT).logits_at(2), kind="stable")[:2]
    there = scene(playground, edits=edits, tokens=[2])
    assert int(there.trace.logits_at(2).argmax()) != first
    assert watched_of(there, {"kind": "difference"}).target == Target("difference", 2, first, second)
    both = {"kind": "difference", "token": "a", "distractor": "b"}
    assert watched_of(there, both).target == Target("difference", 2, ord("a"), ord("b"))


def test_an_empty_distractor_is_never_the_target_itself(playground, monkeypatch):
    there = scene(playground)
    logits = np.zeros(261, np.float32)
    logits[[ord("a"), ord("b")]] = 2, 1
    monkeypatch.setattr(type(there.trace), "logits_at", lambda *_: logits)
    for typed, other in (("a", "b"), ("b", "a"), ("c", "a")):
        target = watched_of(there, {"kind": "difference", "token": typed}).target
        assert (target.token, target.distractor) == (ord(typed), ord(other))


def test_two_same_tokens_have_no_difference_and_one_token_no_loss(playground):
    same = drawn(playground, form={"kind": "difference", "token": "a", "distractor": "a"})["sweep"]
    assert same["state"] == "unready" and "always 0" in same["text"]
    alone = drawn(playground, "a", form={"kind": "loss"})["sweep"]
    assert alone["state"] == "unready" and "two tokens" in alone["text"]


def test_a_distractor_that_is_not_shown_is_not_read(playground):
    form = {"kind": "logit", "token": "a", "distractor": "not one token"}
    assert watched_of(scene(playground), form).target == Target("logit", 4, ord("a"))
    assert watched_of(scene(playground), {"kind": "kl", "token": "not one token"}).target == Target("kl", 4)


def test_the_key_tells_every_setting_apart(playground):
    forms = [
        {"how": how, "kind": kind, "token": token, "distractor": other}
        for how in ("zero", "mean")
        for kind in ("logit", "difference", "probability")
        for token in ("a", "b")
        for other in ("c", "d")
    ] + [{"how": how, "kind": kind} for how in ("zero", "mean") for kind in ("kl", "loss")]
    places = [{}, {"tokens": [2]}, {"edits": [{"kind": "zero", "layer": 0, "head": 0}]}]
    scenes = [scene(playground, **place) for place in places] + [scene(playground, "abcac")]
    keys = {sweep_key(each, watched_of(each, form)) for each in scenes for form in forms}
    # A distractor counts for "difference" only, and the position does not for "loss".
    assert len(keys) == 4 * 2 * (2 + 4 + 2 + 1 + 1) - 2


# --- the sweep ---


@pytest.mark.parametrize("how", ["zero", "mean"])
@pytest.mark.parametrize("kind", TARGETS)
def test_the_map_shows_what_the_sweep_finds(playground, lm, how, kind):
    form = {"how": how, "kind": kind, "token": "a", "distractor": "b"}
    parts = swept(playground, form, tokens=[3])
    run = lm.trace(PROMPT)
    token, other = (ord("a") if "token" in TARGETS[kind].needs else None), (ord("b") if kind == "difference" else None)
    target = Target(kind, -1 if kind == "loss" else 3, token, other)
    effect = sweep(run, how, target)
    payload = parts["sweep_map"]
    assert parts["sweep"]["state"] == "done"
    figure = json.loads(payload["figure"])
    heat, meta = figure["data"][0], figure["layout"]["meta"]
    z = np.frombuffer(base64.b64decode(heat["z"]["bdata"]), np.float32).reshape(4, 3)
    assert (z == effect.T).all() and meta["heads"] is True  # layers across, heads down
    axis = figure["layout"]["coloraxis"]
    top = float(np.abs(effect).max())
    assert (axis["cmin"], axis["cmax"]) == (0 if kind == "kl" else -top, top)
    assert payload["ranked"] == strongest(effect)
    if kind != "kl":
        assert f"{metric(run, target):.4g}" in payload["note"]
    said = {"logit": "logit(“a”) at", "difference": "logit(“a”) − logit(“b”) at", "probability": "p(“a”) at"}
    ending = "is switched off" if how == "zero" else "is replaced by its mean"
    assert said.get(kind, {"kl": "KL"}.get(kind, kind)) in payload["title"]
    assert payload["title"].endswith(f"when each head {ending}")
    assert kind == "loss" or "position 3" in payload["title"]


def test_the_python_lines_make_the_numbers_of_the_map(playground, lm, monkeypatch):
    form = {"how": "mean", "kind": "difference", "token": "a", "distractor": "b"}
    edits = [{"kind": "first_token", "layer": 0, "head": 1}, {"kind": "block_edge", "query": 3, "key": 1}]
    parts = swept(playground, form, edits=edits)
    *lines, last = parts["sweep_map"]["python"].splitlines()
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    space = {}
    exec("\n".join(lines), space)
    effect = eval(last, space)
    shown = swept(playground, form, edits=edits)["sweep_map"]["ranked"]
    assert strongest(effect) == shown
    assert "on top of the edits" in parts["sweep_map"]["source"]
    assert strongest(effect) != strongest(sweep(lm.trace(PROMPT), "mean", space["target"]))


def test_a_result_is_shown_only_for_its_own_settings(playground):
    form = {"kind": "kl"}
    assert "figure" in swept(playground, form)["sweep_map"]
    for change in (
        {"form": {"kind": "loss"}},
        {"form": form, "tokens": [1]},
        {"form": {**form, "how": "mean"}},
        {"form": form, "edits": [{"kind": "zero", "layer": 0, "head": 0}]},
    ):
        assert set(drawn(playground, **change)["sweep_map"]) == {"empty"}
    assert "figure" in drawn(playground, form=form, heads=[[2, 2]])["sweep_map"]


def test_picking_a_head_sends_nothing_of_the_tab_again(playground):
    _, shown = payloads(playground, asked())
    parts, _ = payloads(playground, asked(shown=shown, heads=[[1, 1]]))
    assert set(parts).isdisjoint(TAB.parts)


def test_hover_and_axes_name_what_they_show():
    figure = effect_figure(np.zeros((3, 4), np.float32), EffectWords("layer", "head", "<b>&", "nats"), signed=True)
    assert "&lt;b&gt;&amp;" in figure.data[0].hovertemplate and "<b>" not in figure.data[0].hovertemplate
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("layer", "head")
    assert figure.layout.coloraxis.cmax == 1  # of an effect that is 0 everywhere


def test_a_sweep_can_be_cancelled(playground):
    job = plan_sweep(scene(playground), {"sweep_form": None})

    def stop(*_):
        raise background.Cancelled

    with pytest.raises(background.Cancelled):
        job.work(stop)


def test_the_map_of_a_made_up_result(playground):
    at = scene(playground)
    effect = np.zeros((3, 4), np.float32)
    effect[2, 1] = -0.25
    watched = effects.Watched("zero", Target("loss"))
    payload = map_payload(at, watched, background.Result(Swept(1.5, effect), 2.0))
    assert payload["ranked"][0] == {"head": [2, 1], "effect": -0.25} and "1.5 nats a token" in payload["note"]
    assert payload["columns"] == ["head", "layer", "change (nats a token)"] and "in 2.0 s" in payload["source"]
