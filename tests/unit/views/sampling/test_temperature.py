"""A prediction at every temperature: each column is the pipeline with that temperature, and nothing is run twice."""

import json

import numpy as np
import pytest
import torch

from model.sampling import temperatures as module
from model.sampling.outcomes import expected
from model.sampling.pipeline import Context, Step, entropy
from model.sampling.temperatures import HIGHEST, LOWEST, MANY, at_temperature, heat, temperatures
from model.sampling.warps import WARPS
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads
from viz.words import LANGUAGES

PROMPT = "abcab"
CUTS = (Step("top_k", (("k", 20.0),)), Step("top_p", (("p", 0.8),)))


def drawn(playground, steps=None, axis="log", language="en", prompt=PROMPT, **selection):
    values = {"sampling_view": {"view": "temperature"}, "temperature_form": {"axis": axis}}
    values |= {} if steps is None else {"pipeline": {"steps": steps}}
    return payloads(playground, PageRequest("tiny", prompt, selection or None, values, {}, language, tab="sampling"))[0]


def figure_of(payload):
    """A figure as the page gets it."""
    return json.loads(payload["figure"].to_json())


def sent(*steps):
    return [{"warp": warp, "values": values} for warp, values in steps]


# --- the numbers ---


def test_temperatures():
    for logarithmic in (True, False):
        values = temperatures(logarithmic)
        assert len(values) == MANY and (values[0], values[-1]) == pytest.approx((LOWEST, HIGHEST))
    assert np.diff(np.log(temperatures())) == pytest.approx(np.log(60) / 39)
    assert np.diff(temperatures(False)) == pytest.approx(2.95 / 39)


def test_the_first_temperature_is_replaced_and_one_is_put_first_where_there_is_none():
    warm = Step("temperature", (("temperature", 2.0),))
    assert at_temperature((), 2) == (warm,) and at_temperature(CUTS, 2) == (warm, *CUTS)
    cold = Step("temperature", (("temperature", 0.1),))
    assert at_temperature((CUTS[0], cold, CUTS[1], cold), 2) == (CUTS[0], warm, CUTS[1], cold)


def test_a_dynamic_temperature_is_heated_around_its_center():
    dynamic = Step("dynamic_temperature", (("dynamic", 1.0), ("spread", 0.25), ("exponent", 2.0)))
    warm = Step("dynamic_temperature", (("dynamic", 2.0), ("spread", 0.25), ("exponent", 2.0)))
    assert at_temperature((CUTS[0], dynamic), 2) == (CUTS[0], warm)
    plain = Step("temperature", (("temperature", 2.0),))
    assert at_temperature((dynamic, Step("temperature")), 2) == (dynamic, plain)


def test_both_outcomes_of_xtc_count_by_their_chances():
    """0.6 and 0.4 at T 1: with a chance of 1/4 the first is out."""
    xtc = Step("xtc", (("threshold", 0.3), ("xtc_probability", 0.25)))
    found = heat(torch.tensor([0.6, 0.4]).log(), (xtc,), values=[1])
    assert found.probabilities[:, 0] == pytest.approx([0.45, 0.55], abs=1e-6) and found.kept.tolist() == [2]


def test_two_tokens_by_hand():
    """Logits 0 and ln 4: at T the odds are 4 ** (1 / T)."""
    found = heat(torch.tensor([0.0, np.log(4.0)]), (), values=[0.5, 1, 2], top=2)
    assert found.ids.tolist() == [1, 0]
    assert found.probabilities[0] == pytest.approx([16 / 17, 4 / 5, 2 / 3])
    assert found.largest == pytest.approx([16 / 17, 4 / 5, 2 / 3]) and found.kept.tolist() == [2, 2, 2]
    assert found.entropy[1] == pytest.approx(-(0.8 * np.log(0.8) + 0.2 * np.log(0.2)))


@pytest.mark.parametrize("warp", WARPS)
@pytest.mark.parametrize("first", [True, False])
def test_each_column_is_the_pipeline_at_that_temperature(warp, first):
    logits = torch.randn(300, generator=torch.Generator().manual_seed(3)) * 4
    context = Context((5, 7, 5, 7, 5), 2)
    phrases = ((5, 9), (3,)) if WARPS[warp].takes_phrases else ()
    own = Step(warp, (), ((5, 3.0), (9, -100.0)) if WARPS[warp].takes_tokens else (), phrases)
    warm = Step("temperature", (("temperature", 0.7),))
    steps = (warm, own) if first else (own, warm)
    found = heat(logits, steps, context, values=[0.05, 0.7, 3])
    for n, T in enumerate((0.05, 0.7, 3.0)):
        p = expected(logits, at_temperature(steps, T), context)
        assert np.array_equal(found.probabilities[:, n], p[found.ids])
        assert found.entropy[n] == float(entropy(p)) and found.largest[n] == p.max()
        assert found.kept[n] == np.count_nonzero(p)


def test_tokens_are_the_likeliest_of_any_temperature_in_the_models_order():
    logits = torch.randn(300, generator=torch.Generator().manual_seed(4))
    found = heat(logits, (), top=12)
    assert found.ids.tolist() == logits.argsort(descending=True)[:12].tolist()
    assert len(heat(logits, CUTS[:1], top=25).ids) == 20  # a token that is out everywhere is not shown
    assert found.nbytes >= found.probabilities.nbytes


# --- the page ---


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("axis", ["log", "linear"])
def test_both_pictures_are_those_numbers_and_so_are_the_lines(playground, lm, language, axis, monkeypatch):
    steps = sent(("temperature", {"temperature": 0.6}), ("top_k", {"k": 20}), ("top_p", {"p": 0.8}))
    parts = drawn(playground, steps, axis, language, tokens=[2])
    monkeypatch.setattr("model.api.load_model", lambda _: lm)
    *before, last = parts["temperature_map"]["python"].splitlines()
    space = {}
    exec("\n".join([*before, f"ids, T, p = {last}"]), space)
    figure = figure_of(parts["temperature_map"])
    (cells,) = figure["data"]
    assert cells["x"] == space["T"].tolist() == temperatures(axis == "log").tolist()
    assert [[value or 0 for value in row] for row in cells["z"]] == space["p"].tolist()
    assert None in cells["z"][-1]  # out at some temperature
    assert figure["layout"]["meta"]["shapes"][0]["x0"] == 0.6
    run = lm.trace(PROMPT)
    logits = torch.from_numpy(run.logits_at(2))
    expected = heat(logits, (Step("temperature"), *CUTS), values=space["T"])
    assert space["ids"].tolist() == expected.ids.tolist() and np.array_equal(space["p"], expected.probabilities)
    *before, last = parts["temperature_width"]["python"].splitlines()
    exec("\n".join([*before, f"made = {last}"]), space)
    curves = figure_of(parts["temperature_width"])["data"]
    assert len(curves) == 8  # temperature alone, and all steps
    for curve, values in zip(curves[1::2], space["made"], strict=True):
        assert curve["y"] == pytest.approx(values, rel=1e-5)
    alone = heat(logits, (), values=space["T"])
    assert curves[0]["y"] == pytest.approx(alone.entropy / np.log(2), rel=1e-5) and set(curves[6]["y"]) == {256}


def test_temperature_alone_is_one_line_and_without_one_the_mark_is_at_1(playground):
    parts = drawn(playground, sent(("temperature", {"temperature": 0.3})))
    assert len(figure_of(parts["temperature_width"])["data"]) == 4
    parts = drawn(playground, sent(("top_k", {"k": 3})))
    assert figure_of(parts["temperature_map"])["layout"]["meta"]["shapes"][0]["x0"] == 1
    assert "added in front" in parts["temperature_map"]["note"]
    parts = drawn(playground, sent(("temperature", {"temperature": 0})))
    assert figure_of(parts["temperature_map"])["layout"]["meta"]["shapes"] == []


def test_a_dynamic_temperature_varies_and_is_marked_at_its_center(playground):
    parts = drawn(playground, sent(("xtc", {}), ("dynamic_temperature", {"dynamic": 0.5})))
    assert figure_of(parts["temperature_map"])["layout"]["meta"]["shapes"][0]["x0"] == 0.5
    note = parts["temperature_map"]["note"]
    assert "Step 2 · Dynamic temperature" in note and "Both outcomes" in note and "added in front" not in note


def test_moving_the_temperature_moves_only_the_mark(playground, monkeypatch):
    first = drawn(playground, sent(("temperature", {"temperature": 0.3}), ("top_k", {"k": 9})))
    monkeypatch.setattr("viz.views.sampling.temperature.view.heat", lambda *_: pytest.fail("worked out again"))
    second = drawn(playground, sent(("temperature", {"temperature": 2}), ("top_k", {"k": 9})))
    figures = [figure_of(parts["temperature_map"]) for parts in (first, second)]
    assert figures[0]["data"] == figures[1]["data"]
    assert [figure["layout"]["meta"]["shapes"][0]["x0"] for figure in figures] == [0.3, 2]


def test_wrong_steps_are_told_in_place_of_the_map(playground):
    parts = drawn(playground, sent(("top_k", {"k": -1})))
    assert "out of range" in parts["temperature_map"]["problem"]["text"] and "temperature_width" not in parts


@pytest.mark.parametrize("prompt", ["a", "\u202e<b>"])
def test_short_and_hostile_prompts_are_drawn(playground, prompt):
    parts = drawn(playground, prompt=prompt)
    assert parts["tokens"].pop("prompt") == prompt  # for the address, never shown
    assert "problem" not in parts["temperature_map"] and "\u202e" not in packed(parts)


def test_what_comes_before_the_temperature_is_done_once(monkeypatch):
    calls, final = [], module.final
    monkeypatch.setattr(module, "final", lambda x, steps, context: (calls.append(steps), final(x, steps, context))[1])
    heat(torch.randn(50), (CUTS[0], Step("temperature"), CUTS[1]), values=[1, 2])
    assert [tuple(step.warp for step in steps) for steps in calls] == [("top_k",)] + [("temperature", "top_p")] * 2
