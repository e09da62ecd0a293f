"""Every head in turn: what the form asks for, and the map of what was found."""

import numpy as np
import pytest

from model.attention.effects import TARGETS, Target, metric, sweep
from tests.support.views.effects import PROMPT, asked, drawn, scene
from viz.charts.layer_head_map import EffectWords, effect_figure
from viz.numbers import logit, nats, number, signed
from viz.page.pipeline import payloads
from viz.seam import panels
from viz.seam.head_list import STRONGEST, strongest
from viz.seam.jobs import background
from viz.views.effects.sweep import measure
from viz.views.effects.sweep.view import VIEW
from viz.words import LANGUAGES, words

AB = {"target": ord("a"), "distractor": ord("b")}


def settings_of(opened, form):
    return panels.settings_of(VIEW, opened, {"sweep_form": form})


def target_of(opened, form):
    return panels.measured(VIEW, "target", opened, settings_of(opened, form)).value


def job_of(opened, form):
    return panels.job_of(VIEW, "sweep", opened, settings_of(opened, form))


def shown(playground, form=None, prompt=PROMPT, **changes):
    return drawn(playground, prompt, "sweep", form, **changes)


def swept(playground, form, prompt=PROMPT, **changes):
    """The payloads once the sweep is done."""
    list(background.perform(playground, job_of(scene(playground, prompt, **changes), form), "en"))
    return shown(playground, form, prompt, **changes)


# --- what the sweep is asked for ---


def test_every_target_has_its_words():
    for language in LANGUAGES:
        catalogue = words(language)
        for kind in TARGETS:
            assert catalogue[f"sweep.settings.kind_{kind}"] and catalogue[f"sweep.settings.kind_{kind}_help"]
            assert catalogue[f"sweep.watching_{kind}"]
            assert catalogue[f"sweep.map.title_{kind}"] and catalogue[f"sweep.map.unit_{kind}"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_first_drawing_fills_every_part_and_computes_no_sweep(playground, language, monkeypatch):
    monkeypatch.setattr(measure, "sweep", lambda *_: pytest.fail("the sweep ran by itself"))
    parts = shown(playground, language=language)
    assert set(panels.names_of(VIEW)) <= set(parts)
    assert parts["sweep_job"]["state"] == "idle" and "12" in parts["sweep_job"]["text"]
    assert set(parts["sweep_map"]) == {"empty"}


@pytest.mark.parametrize("form", [None, 3, [], "x", {"kind": ["logit"]}, {"kind": "nope", "how": {}}])
def test_a_form_that_is_none_is_the_default(playground, form):
    opened = scene(playground)
    likely = int(opened.trace.logits_at(-1).argmax())
    assert target_of(opened, form) == Target("logit", 4, likely) and settings_of(opened, form).how == "zero"


def test_empty_fields_mean_the_likeliest_tokens_without_edits(playground, lm):
    edits = [{"kind": "scale", "layer": 0, "head": 0, "factor": 40}]
    first, second = np.argsort(-lm.trace(PROMPT).logits_at(2), kind="stable")[:2]
    there = scene(playground, edits=edits, tokens=[2])
    assert int(there.trace.logits_at(2).argmax()) != first
    assert target_of(there, {"kind": "difference"}) == Target("difference", 2, first, second)
    picked = scene(playground, edits=edits, tokens=[2], **AB)
    assert target_of(picked, {"kind": "difference"}) == Target("difference", 2, ord("a"), ord("b"))


def test_an_empty_distractor_is_never_the_target_itself(playground, monkeypatch):
    logits = np.zeros(261, np.float32)
    logits[[ord("a"), ord("b")]] = 2, 1
    monkeypatch.setattr(type(scene(playground).trace), "logits_at", lambda *_: logits)
    for picked, other in (("a", "b"), ("b", "a"), ("c", "a")):
        target = target_of(scene(playground, target=ord(picked)), {"kind": "difference"})
        assert (target.token, target.distractor) == (ord(picked), ord(other))


def test_two_same_tokens_have_no_difference_and_one_token_no_loss(playground):
    same = shown(playground, {"kind": "difference"}, target=ord("a"), distractor=ord("a"))["sweep_job"]
    assert same["state"] == "unready" and "always 0" in same["text"]
    alone = shown(playground, {"kind": "loss"}, "a")["sweep_job"]
    assert alone["state"] == "unready" and "two tokens" in alone["text"]


def test_a_distractor_that_is_not_shown_is_not_read(playground):
    assert target_of(scene(playground, **AB), {"kind": "logit"}) == Target("logit", 4, ord("a"))
    assert target_of(scene(playground, **AB), {"kind": "kl"}) == Target("kl", 4)
    fields = {
        kind: [each["role"] for each in shown(playground, {"kind": kind})["sweep_targets"]["fields"]]
        for kind in TARGETS
    }
    both = ["target", "distractor"]
    assert fields == {"logit": both[:1], "difference": both, "probability": both[:1], "kl": [], "loss": []}


def test_the_key_tells_every_question_apart(playground):
    forms = [{"how": how, "kind": kind} for how in ("zero", "mean") for kind in TARGETS]
    places = [{}, {"tokens": [2]}, {"edits": [{"kind": "zero", "layer": 0, "head": 0}]}]
    pairs = [{"target": token, "distractor": other} for token in b"ab" for other in b"cd"]
    scenes = [scene(playground, **place, **pair) for place in places for pair in pairs]
    scenes += [scene(playground, "abcac", **pair) for pair in pairs]
    keys = {job_of(each, form).key for each in scenes for form in forms}
    # A distractor counts for "difference" only, and the position does not for "loss".
    assert len(keys) == 4 * 2 * (2 + 4 + 2 + 1 + 1) - 2


# --- the sweep ---


@pytest.mark.parametrize("how", ["zero", "mean"])
@pytest.mark.parametrize("kind", TARGETS)
def test_the_map_shows_what_the_sweep_finds(playground, lm, how, kind):
    parts = swept(playground, {"how": how, "kind": kind}, tokens=[3], **AB)
    run = lm.trace(PROMPT)
    token, other = (ord("a") if "token" in TARGETS[kind].needs else None), (ord("b") if kind == "difference" else None)
    target = Target(kind, -1 if kind == "loss" else 3, token, other)
    effect = sweep(run, how, target) * (1 if kind == "kl" else -1)  # what a head adds is missed without it
    payload = parts["sweep_map"]
    assert parts["sweep_job"]["state"] == "done"
    heat, layout = payload["figure"].data[0], payload["figure"].layout
    assert np.array_equal(heat.z, effect) and layout.meta["heads"] is True  # layers down, heads across
    top = float(np.abs(effect).max())
    assert (layout.coloraxis.cmin, layout.coloraxis.cmax) == (0 if kind == "kl" else -top, top)
    assert payload["ranked"] == strongest(effect, nats if kind == "kl" else signed)
    written = {"probability": number, "loss": nats}.get(kind, logit)
    assert kind == "kl" or f"Original value: {written(metric(run, target))} " in payload["note"]
    said = {"logit": "logit(“a”) at", "difference": "logit(“a”) − logit(“b”) at", "probability": "p(“a”) at"}
    ending = f"each head {'switched off' if how == 'zero' else 'replaced with its mean'} in turn"
    assert said.get(kind, {"kl": "KL"}.get(kind, kind)) in payload["title"]
    assert kind == "kl" or payload["title"].endswith(ending)
    assert kind == "loss" or "position 3" in payload["title"]


def test_the_python_lines_make_the_numbers_of_the_map(playground, lm, monkeypatch):
    form = {"how": "mean", "kind": "difference"}
    edits = [{"kind": "first_token", "layer": 0, "head": 1}, {"kind": "block_edge", "query": 3, "key": 1}]
    parts = swept(playground, form, edits=edits, **AB)
    *lines, last = parts["sweep_map"]["python"].splitlines()
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    space = {}
    exec("\n".join(lines), space)
    effect = eval(last, space)
    assert strongest(effect) == swept(playground, form, edits=edits, **AB)["sweep_map"]["ranked"]
    assert "on top of the active edits" in parts["sweep_map"]["source"]
    assert strongest(effect) != strongest(-sweep(lm.trace(PROMPT), "mean", space["target"]))


def test_a_result_is_shown_only_for_its_own_settings(playground):
    form = {"kind": "kl"}
    assert "figure" in swept(playground, form)["sweep_map"]
    for change in (
        {"form": {"kind": "loss"}},
        {"form": form, "tokens": [1]},
        {"form": {**form, "how": "mean"}},
        {"form": form, "edits": [{"kind": "zero", "layer": 0, "head": 0}]},
    ):
        found = shown(playground, **change)["sweep_map"]
        assert set(found) == {"empty"} or (found["absent"] and found["waiting"] and "figure" not in found)
    assert "figure" in shown(playground, form, heads=[[2, 2]])["sweep_map"]


def test_picking_a_head_sends_nothing_of_the_view_again(playground):
    _, before = payloads(playground, asked(view="sweep"))
    parts, _ = payloads(playground, asked(view="sweep", shown=before, heads=[[1, 1]]))
    assert set(parts).isdisjoint(panels.names_of(VIEW))


def test_a_sweep_can_be_cancelled(playground):
    def stop(*_):
        raise background.Cancelled

    with pytest.raises(background.Cancelled):
        job_of(scene(playground), None).work(stop)


# --- the figure ---


def test_the_strongest_heads_by_hand():
    assert strongest(np.array([[0.1, -3, 0], [2, 0, -0.5]]))[:3] == [
        {"head": [0, 1], "effect": -3.0, "text": "−3"},
        {"head": [1, 0], "effect": 2.0, "text": "+2"},
        {"head": [1, 2], "effect": -0.5, "text": "−0.5"},
    ]
    assert len(strongest(np.zeros((2, 3)))) == 6 and len(strongest(np.zeros((9, 3)))) == STRONGEST


def test_the_line_below_says_how_long_it_took(playground):
    opened, form = scene(playground), {"kind": "loss"}
    effect = np.zeros((3, 4), np.float32)
    effect[2, 1] = -0.25
    made = background.Result(measure.Swept(1.5, effect), 2.0)
    playground.results.get(job_of(opened, form).key, lambda: made)
    payload = shown(playground, form)["sweep_map"]
    assert payload["ranked"][0] == {"head": [2, 1], "effect": 0.25, "text": "+0.25"}
    assert "1.500 nats per token" in payload["note"] and "in 2.0 s" in payload["source"]
    assert payload["columns"] == ["layer", "head", "effect of the head (nats per token)"]


def test_hover_and_axes_name_what_they_show():
    figure = effect_figure(np.zeros((3, 4), np.float32), EffectWords("layer", "head", "<b>&", "nats"), signed=True)
    assert "&lt;b&gt;&amp;" in figure.data[0].hovertemplate and "<b>" not in figure.data[0].hovertemplate
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("head", "layer")
    assert figure.layout.coloraxis.cmax == 1  # of an effect that is 0 everywhere
