"""The table of the orders: its numbers are those of the model code, and its orders are indices of the steps."""

import pytest

from model.generation.next_token import context_at
from model.sampling.orders import MOST_ORDERED, compare_orders
from model.sampling.pipeline import Step
from model.sampling.tool_orders import TOOLS
from tests.support.scripts import script, words_in
from tests.unit.views.sampling.test_distribution import OURS, PROMPT, STEPS, drawn, run_lines
from viz.labels import quoted
from viz.numbers import percent
from viz.views.sampling.distribution.orders_table import MOST_RESULTS
from viz.words import section, words

SCRIPT = script("views/sampling/orders")
PART = "distribution_orders"
DYNAMIC = {"warp": "dynamic_temperature", "values": {"dynamic": 1, "spread": 0.5, "exponent": 1}}


def table(playground, steps, **changes):
    return drawn(playground, values={"pipeline": {"steps": steps}}, **changes)[PART]


@pytest.mark.parametrize("at", [0, 4])
def test_the_results_are_those_of_the_model_code(playground, lm, at, monkeypatch):
    drawn_table = drawn(playground, tokens=[at])[PART]
    run = lm.trace(PROMPT)
    found = compare_orders(run.logits_at(at), OURS, context_at(run, at))
    assert len(found.groups) > 1 and len(drawn_table["results"]) == len(found.groups)
    for shown, group in zip(drawn_table["results"], found.groups, strict=True):
        assert shown["orders"] == group.orders and shown["set"] == group.tokens
        assert shown["cells"]["left"] == str(group.result.kept)
        assert shown["cells"]["top"] == quoted(chr(group.result.top))
        assert shown["cells"]["distance"] == percent(group.result.distance)
    assert drawn_table["steps"] == ["Temperature", "Top-k", "Top-p (nucleus)"]
    assert drawn_table["note"].startswith(f"Yes: the 6 orders give {len(found.groups)} different distributions")
    assert "Temperature and Top-p (nucleus)" in drawn_table["lines"][0]
    assert run_lines(drawn_table["python"], lm, monkeypatch)["_"] == found


def test_steps_that_commute_are_told_in_one_line(playground):
    shown = table(playground, [STEPS[0], STEPS[1]])
    assert shown["note"] == "No: all 2 orders of these steps give the same distribution here."
    assert shown["lines"] == [] and len(shown["results"]) == 1


def test_one_step_has_no_order(playground):
    assert table(playground, STEPS[:1])["absent"] and table(playground, [])["absent"]


def test_what_limits_the_comparison_is_told(playground):
    many = table(playground, [STEPS[1]] * (MOST_ORDERED + 1))
    assert len(many["lines"]) == 1 and f"With {MOST_ORDERED + 1} steps" in many["lines"][0]
    assert many["steps"] == ["Top-k 20"] * (MOST_ORDERED + 1)  # steps of one warp are told by their numbers
    xtc = {"warp": "xtc", "values": {"threshold": 0.01, "xtc_probability": 0.4}}
    sent = {"pipeline": {"steps": [STEPS[0], xtc]}, "distribution_form": {"chance": "acts"}}
    chance = drawn(playground, values=sent)[PART]
    assert "Steps by chance" in chance["lines"][-1] and "context_at(run, at, 0.0)" in chance["python"]
    assert chance["results"][0]["cells"]["left"] != table(playground, [STEPS[0], xtc])["results"][0]["cells"]["left"]


def test_the_tools_run_the_steps_in_their_orders(playground, lm):
    steps = [*STEPS, {"warp": "top_a"}]
    shown = {each["name"]: each for each in table(playground, steps)["tools"]}
    assert list(shown) == [each.name for each in TOOLS]
    assert shown["llama.cpp"]["order"] == (1, 2, 0) and shown["llama.cpp"]["off"] == (3,)
    assert shown["vLLM"]["order"] == (0, 1, 2) and shown["text-generation-webui"]["off"] == ()
    assert all("/" in each["source"] for each in shown.values())
    run = lm.trace(PROMPT)
    present = (*OURS, Step("top_a"))
    groups = compare_orders(run.logits_at(-1), present, context_at(run, -1)).groups
    own = next(group for group in groups if (0, 1, 2, 3) in group.orders)
    assert shown["text-generation-webui"]["cells"]["left"] == str(own.result.kept)
    assert shown["text-generation-webui"]["cells"]["distance"] == percent(0)


def test_the_words_of_the_script_exist_in_both_languages():
    for language in ("en", "zh"):
        known = set(section(words(language), "distribution.orders.labels"))
        assert words_in(SCRIPT) <= known


def test_the_payload_of_many_orders_is_small(playground):
    steps = [STEPS[0], DYNAMIC, STEPS[2], {"warp": "typical"}, {"warp": "min_p"}]
    shown = table(playground, steps)
    assert sum(len(each["orders"]) for each in shown["results"]) == 120 and shown["most"] == MOST_RESULTS
    assert len(repr(shown)) < 20_000
