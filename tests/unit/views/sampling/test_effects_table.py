"""The table of what a step did to each token, and both outcomes of a step by chance."""

import json
import math

import numpy as np
import pytest
import torch

from model.generation.next_token import context_at
from model.sampling.pipeline import Step, entropy, second, softmax
from model.sampling.warps import shape
from tests.unit.views.sampling.test_distribution import PROMPT, drawn, run_lines, shaped_at


def test_the_table_of_effects_tells_what_the_selected_step_did(playground, lm, monkeypatch):
    steps = [
        {"warp": "dry", "values": {"multiplier": 2, "allowed": 2}, "text": ""},
        {"warp": "top_k", "values": {"k": 3}},
    ]
    values = {"pipeline": {"steps": steps}, "distribution_form": {"stage": "1"}}
    table = drawn(playground, "abcxabc", values=values)["distribution_effects"]
    assert "DRY" in table["title"] and table["rows"][0][0] == "x"
    assert table["rows"][0][-1] == "would extend 3 repeated tokens: “abc”"
    found = run_lines(table["python"], lm, monkeypatch)["_"]
    assert [each.id for each in found] == [ord("x")]
    last = drawn(playground, "abcxabc", values={"pipeline": {"steps": steps}})["distribution_effects"]
    assert "Top-k 3" in last["title"] and "removed" in {row[-1] for row in last["rows"]}
    none = drawn(playground, "abcxabc", values={"pipeline": {"steps": []}})["distribution_effects"]
    assert none["rows"] == []


def test_a_dynamic_temperature_is_told(playground):
    steps = [{"warp": "dynamic_temperature", "values": {"dynamic": 1, "spread": 0.5, "exponent": 1}}]
    shaped = shaped_at(playground.opened("tiny"), 4, ())
    p = softmax(shaped.stages[0].numpy())
    t = 0.5 + float(entropy(p)) / math.log(len(p))
    table = drawn(playground, values={"pipeline": {"steps": steps}})["distribution_effects"]
    assert f"the temperature is {t:.3f}" in table["note"]


@pytest.mark.parametrize("chance", ["seed", "acts", "rests"])
def test_both_outcomes_of_xtc_can_be_seen(playground, lm, chance, monkeypatch):
    """The number of seed 0 at the first new token is 0.41."""
    values = {"threshold": 0.01, "xtc_probability": 0.4}
    steps = [{"warp": "xtc", "values": values}]
    sent = {"pipeline": {"steps": steps}, "distribution_form": {"chance": chance}}
    parts = drawn(playground, values=sent)
    fact = parts["distribution_facts"]["facts"][-1]
    assert "acts with 40" in fact[0] and fact[1] == fact[2] == "seed 0: rests (u = 0.410)"
    ours = (Step("xtc", tuple(values.items())),)
    number = {"seed": second(0, 0), "acts": 0.0, "rests": 1.0}[chance]
    run = lm.trace(PROMPT)
    after = shape(torch.from_numpy(run.logits_at(-1)), ours, context_at(run, -1, number)).probabilities()
    made = run_lines(parts["distribution_bars"]["python"], lm, monkeypatch)
    assert np.array_equal(made["shaped"].probabilities(), after)
    assert (np.count_nonzero(after) < 256) == (chance == "acts")
    rows = parts["distribution_effects"]["rows"]
    assert ("removed" in {row[-1] for row in rows}) == (chance == "acts")


def test_the_choice_of_an_outcome_is_shown_only_where_there_is_one(playground):
    form = json.dumps(drawn(playground)["distribution_form"])
    assert "Steps by chance" not in form
    steps = [{"warp": "xtc"}]
    assert "Steps by chance" in json.dumps(
        drawn(playground, values={"pipeline": {"steps": steps}})["distribution_form"]
    )
