"""A prompt set on the page: its pairs, the map with its tests, one cell's examples, and what is exported."""

import dataclasses

import numpy as np
import pytest

from model.sets.aligned import prompt_set
from model.sets.effects import set_effects
from model.sets.statistics import random_column, statistics
from tests.support.views.effects import asked, scene
from viz.page.pipeline import payloads
from viz.seam import panels
from viz.seam.jobs import background
from viz.views.effects.prompt_set.measure import summarized
from viz.views.effects.prompt_set.view import VIEW, read_cell

OWN = """clean: {a1}{b1}{a1}
corrupt: {a2}{b1}{a2}
target: 1
distractor: 2
a: k, l, m, n, o, p
b: x, y, z
"""
LONG = '{"clean": "ab", "corrupt": "abc", "target": "1", "distractor": "2"}\n' * 5


def form(**changes) -> dict:
    return {"set": "own", "own": OWN, "n": 6, "effect": "zero"} | changes


def shown(playground, cell=None, language="en", **changes) -> dict:
    request = asked(view="prompt_set", language=language)
    request.values.update({"prompt_set_form": form(**changes), "prompt_set_map": cell})
    return payloads(playground, request)[0]


def measured(playground, cell=None, language="en", **changes) -> dict:
    opened = scene(playground, view="prompt_set")
    settings = panels.settings_of(VIEW, opened, {"prompt_set_form": form(**changes)})
    list(background.perform(playground, panels.job_of(VIEW, "set", opened, settings), "en"))
    return shown(playground, cell, language, **changes)


def means(part: dict) -> np.ndarray:
    return np.array(part["figure"]["data"][0]["z"]) if isinstance(part["figure"], dict) else part["figure"].data[0].z


def expected(lm, effect: str = "zero"):
    pairs = prompt_set(lm, OWN, 6)
    return pairs, set_effects(lm, pairs.pairs, effect, calibration=pairs.calibration)


def test_the_map_and_the_strongest_cell_are_the_statistics_of_the_pairs(playground, lm):
    parts = measured(playground)
    pairs, effects = expected(lm)
    values = -effects.values.reshape(6, -1)
    found = statistics(values)
    assert np.allclose(means(parts["prompt_set_map"]).reshape(-1), values.mean(0), atol=1e-6)
    best = int(np.abs(values.mean(0)).argmax())
    assert f"Head {best // 4}.{best % 4}: effect on each of 6 pairs" in parts["prompt_set_cell"]["title"]
    assert f"{found.corrected[best]:.4f}" in parts["prompt_set_cell"]["note"]
    control = random_column(values, best).mean()
    assert float(parts["prompt_set_strongest"]["rows"][0][-1].replace("−", "-")) == pytest.approx(control, rel=1e-2)
    lines, names = (parts["prompt_set_strongest"][key] for key in ("lines", "names"))
    assert names[6:] == [f"{layer}.{head}" for layer in range(3) for head in range(4)]
    assert [line[0] for line in lines] == [pair.pair.clean for pair in pairs.pairs]
    assert np.allclose([line[6:] for line in lines], values, rtol=1e-4, atol=1e-6)
    exported = parts["prompt_set_strongest"]["json"]
    assert exported["comparisons"] == 12 and np.allclose(exported["corrected"], found.corrected, atol=1e-6)


def test_a_cell_is_picked_for_its_own_map_only(playground, lm):
    parts = measured(playground, {"cell": [2, 1], "of": "zero"})
    assert parts["prompt_set_cell"]["title"].startswith("Head 2.1:")
    other = measured(playground, {"cell": [2, 1], "of": "mean"})
    assert other["prompt_set_cell"]["title"] != parts["prompt_set_cell"]["title"]


@pytest.mark.parametrize("value", [None, 3, {"cell": [1]}, {"cell": [-1, 0]}, {"cell": [True, 0]}, {"cell": ["1", 0]}])
def test_an_odd_cell_is_not_read(value: object):
    assert read_cell(value, None) is None


def test_keys_belong_to_kv_heads_and_positions_to_tokens(playground, lm):
    keys = measured(playground, effect="k", language="zh")
    heads = lm.config.n_head // lm.config.n_kv_head
    assert means(keys["prompt_set_map"]).shape == (3, lm.config.n_kv_head) and heads > 1
    assert "KV 头" in keys["prompt_set_cell"]["title"]
    places = measured(playground, effect="resid_pre")
    _, effects = expected(lm, "resid_pre")
    assert np.allclose(means(places["prompt_set_map"]), effects.values.mean(0), atol=1e-6)
    assert "random direction" in str(places["prompt_set_cell"]["figure"])


def test_pairs_that_are_left_out_are_listed_with_their_reason(playground):
    parts = shown(playground, own=LONG)
    assert (
        parts["prompt_set_job"]["state"] == "unready"
        and "5 left out: 5 of unequal length" in parts["prompt_set_job"]["text"]
    )
    assert parts["prompt_set_pairs"]["rows"][0] == ["ab", "abc", "1", "2", "left out: unequal lengths (2, 3 tokens)"]
    wrong = shown(playground, own="clean: {x}")
    assert "lacks a line" in str(wrong["prompt_set_pairs"]) and "corrupt" in str(wrong["prompt_set_pairs"])


def test_a_model_is_able_if_most_targets_win_and_the_prompts_differ(lm):
    _, effects = expected(lm)

    def able(clean, corrupt) -> bool:
        ends = {"clean": np.array(clean, float), "corrupt": np.array(corrupt, float)}
        return summarized(dataclasses.replace(effects, **ends)).able

    assert able([1, 2, 1, 2, 1, -1], [-1, -2, -1, -2, -2, -3])
    assert not able([1, 2, 1, -2, -1, -1], [-1, -2, -1, -3, -2, -3])  # half of the targets win
    assert not able([1, 2, 1, 2, 1, 1], [1, 2, 1, 2, 1.1, 1])  # whichever the prompt


def test_the_job_shows_the_numbers_so_far(playground):
    opened = scene(playground, view="prompt_set")
    settings = panels.settings_of(VIEW, opened, {"prompt_set_form": form(seed=3)})
    told = []
    job = panels.job_of(VIEW, "set", opened, settings)
    job.work(lambda done, total, what: told.append((done, total, what.grid)))
    assert told[0] == (0, 6, None) and told[-1][:2] == (6, 6)
    assert np.array(told[-1][2]).shape == (3, 4)
    bar = background._bar({"job.left": "", "job.cancel": ""}, (1, 6, _message([[0.5]])), 0.0)
    assert bar["grid"] == [[0.5]]


def _message(grid):
    message = background.ProgressMessage("1 of 6")
    message.grid = grid
    return message
