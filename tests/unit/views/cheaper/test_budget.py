"""The view of the cache's size, and the one of what is saved, without a browser."""

import numpy as np
import pytest

from model.forgetting.costs import LENGTHS, cost_of
from model.forgetting.policies import CACHES, POLICIES, Policy
from tests.support.models.helpers import assert_close, byte_tokenizer
from tests.support.views.views import array, drawn, measured, no_holes, perform, playground_of, run_lines, traces
from viz.api.registry import call
from viz.numbers import flops, percent, size
from viz.views.cheaper.budget.view import VIEW as BUDGET
from viz.views.cheaper.savings import view as savings

SAVINGS = savings.VIEW


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    tokenizer = byte_tokenizer(tmp_path_factory.mktemp("bytes"))
    return playground_of(tokenizer, "llama", {"n_ctx": 64})


@pytest.mark.parametrize("which", ["caches", "all"])
def test_losses_against_what_is_kept(playground, which):
    form = {"which": which}
    perform(playground, "cheaper", BUDGET, "main", form)
    for language in ("en", "zh"):
        no_holes(drawn(playground, "cheaper", "budget", form, language=language))
    parts = drawn(playground, "cheaper", "budget", form)
    kinds = CACHES if which == "caches" else tuple(POLICIES)
    lines = traces(parts["figure"])[1:]  # after that of full attention
    assert len(lines) == len(kinds) == len(parts["table"]["rows"])
    assert [line["line"]["dash"] for line in lines] == ["solid" if kind in CACHES else "dash" for kind in kinds]
    model = playground.opened("tiny")
    _, values = run_lines(parts["figure"]["python"], model)
    assert_close(np.array(values[-1]), np.concatenate([array(line["y"]) for line in lines]), 1e-4)
    told = call(playground, BUDGET.api[0], {"which": which})
    assert told["budgets"] == [4, 8, 16] and told["windows"] == 4 and told["length"] == 40
    assert_close(np.array([way["loss"] for way in told["ways"]]).ravel(), np.array(values[-1]), 1e-4)


def test_what_is_saved_is_the_formula(playground):
    config = playground.opened("tiny").config
    for language in ("en", "zh"):
        no_holes(drawn(playground, "cheaper", "savings", {"budget": 64}, language=language))
    parts = drawn(playground, "cheaper", "savings", {"budget": 64})
    rows = parts["table"]["rows"]
    assert len(rows) == 1 + len(POLICIES)
    full, window = cost_of(config, None, LENGTHS[-1]), cost_of(config, Policy("window", 64), LENGTHS[-1])
    row = rows[1 + list(POLICIES).index("window")]
    assert row[4]["text"] == flops(window.operations) and row[6] == size(window.cache)
    assert row[5] == percent(window.operations / full.operations)
    assert rows[0][5] == percent(1.0)
    drawn_full = traces(parts["figure"])[0]
    assert_close(np.log(array(drawn_full["y"])), np.log([cost_of(config, None, T).operations for T in LENGTHS]), 1e-5)
    _, values = run_lines(parts["figure"]["python"], playground.opened("tiny"))
    assert values[-1][0][-1] == full.operations
    told = call(playground, SAVINGS.api[0], {"budget": 64})
    assert told["ways"][0]["kind"] == "full" and told["ways"][1]["pairs"][-1] == window.pairs


def test_times_are_measured(playground, monkeypatch):
    monkeypatch.setattr(savings, "TIMED", (32, 64))
    form = {"kind": "first", "budget": 16}
    assert "empty" in drawn(playground, "cheaper", "savings", form)["times"]
    perform(playground, "cheaper", SAVINGS, "times", form)
    parts = drawn(playground, "cheaper", "savings", form)
    no_holes(parts)
    found = measured(playground, "cheaper", SAVINGS, "times", form)
    full, sparse, masked = traces(parts["times"])
    assert_close(array(full["y"]), np.array([1e3 * each.full for each in found]), 1e-3)
    assert [each.T for each in found] == sparse["x"] == masked["x"] == [32, 64]
    told = call(playground, SAVINGS.api[1], {"kind": "first", "budget": 16})
    assert [each["T"] for each in told["times"]] == [32, 64] and told["times"][0]["pairs"] > 0
