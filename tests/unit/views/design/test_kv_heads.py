"""The view of shared KV heads, its function for programs and its Python lines, without a browser."""

import json

import numpy as np
import pytest

from model.design.kv_sharing import MERGES, group_counts, pattern_at, pooled, stops, survey
from model.tracing.trace import run
from tests.support.models.helpers import VARIANTS, assert_close, byte_tokenizer
from tests.support.views.views import (
    PROMPT,
    array,
    measured,
    no_holes,
    opened,
    perform,
    playground_of,
    run_lines,
    traces,
)
from tests.support.views.views import drawn as drawn_in
from viz.api.registry import call
from viz.numbers import count, nats, size
from viz.seam import panels
from viz.views.design.kv_heads import measure
from viz.views.design.kv_heads.measure import moved
from viz.views.design.kv_heads.view import VIEW

EDIT = {"kind": "zero", "layer": 1, "head": 2}
MAPS = ("before", "after", "change")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(tokenizer):
    return playground_of(tokenizer)


def drawn(playground, form=None, **changes):
    return drawn_in(playground, "design", "kv_heads", form, **changes)


def done(playground, name, form=None, **changes):
    """The payloads once a job is done."""
    perform(playground, "design", VIEW, name, form, **changes)
    return drawn(playground, form, **changes)


def last(parts, name, model):
    """The value of the last Python line of a part."""
    return run_lines(parts[name]["python"], model)[1][-1]


@pytest.mark.parametrize("variant", VARIANTS)
def test_shared_heads_at_once(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    model, parts = playground.opened("tiny"), drawn(playground, heads=[[1, 3]])
    no_holes(parts)
    counts = group_counts(model.config)
    if counts == (1,):
        assert "only one KV head" in parts["before"]["empty"]["text"]
        assert "only one KV head" in parts["damage"]["empty"]["text"] and parts["maps_job"]["state"] == "done"
        assert len(parts["table"]["rows"]) == 1
        return
    assert [n for n, *_ in parts["form"]["controls"][0]["options"]] == [str(n) for n in counts[1:]]
    found = survey(model.model, list(PROMPT.encode()))
    assert len(parts["table"]["rows"]) == 1 + 3 * (len(counts) - 1) == len(found.variants)
    assert parts["table"]["same"]
    for row, line, each in zip(parts["table"]["rows"], parts["table"]["lines"], found.variants, strict=True):
        assert line[1:3] == [each.cache, each.parameters]
        assert line[3:] == pytest.approx([each.kl, each.agree, each.loss])
        assert (row[1]["text"], row[2], row[5]) == (size(300 * each.cache), count(each.parameters), nats(each.loss))
    mean, *_ = traces(parts["damage"])
    means = [each.loss for each in found.variants if each.merge == "mean"]
    assert mean["y"] == pytest.approx(means, rel=1e-5) and mean["x"] == [str(n) for n in counts]
    chosen = next(each for each in found.variants[1:] if each.merge == "mean")
    assert_close(traces(parts["where"])[0]["y"], chosen.divergences, 1e-4)
    assert len(parts["where"]["columns"]) == 4  # the series, the token, its position, and the number


@pytest.mark.parametrize("form", [{"groups": "2", "merge": "first"}, {"groups": "1", "merge": "random"}])
def test_maps_are_those_of_whole_runs(playground, form):
    model, parts = playground.opened("tiny"), drawn(playground, form, heads=[[2, 3]])
    trace, seen = model.trace(PROMPT), np.tri(len(PROMPT), dtype=bool)
    made = run(pooled(model.model, int(form["groups"]), form["merge"]), trace.tokens).pattern(2, 3)
    past, before = np.where(seen, made, np.nan), np.where(seen, trace.pattern(2, 3), np.nan)
    maps = measured(playground, "design", VIEW, "maps", form, heads=[[2, 3]])
    assert_close(maps.before, before, 1e-6)
    assert_close(maps.after, past, 1e-5)
    assert_close(maps.change, past - before, 1e-5)
    assert maps.moved == pytest.approx(moved(before, past), abs=1e-5)
    assert_close(np.where(seen, last(parts, "before", model), np.nan), before, 1e-6)
    assert_close(last(parts, "after", model), past, 1e-5)
    assert_close(last(parts, "change", model), past - before, 1e-5)
    for name, expected in (("before", before), ("after", past), ("change", past - before)):
        assert_close(array(traces(parts[name])[0]["z"]), expected, 1e-5)
    assert parts["change"]["figure"]["layout"]["meta"]["window"] == [0, 9, 0, 9]
    assert "2.1" in traces(parts["diagram"])[-3]["hovertext"][1]


def test_what_moved_by_hand():
    before, after = np.array([[1.0, np.nan], [0.5, 0.5]]), np.array([[1.0, np.nan], [0.2, 0.8]])
    assert moved(before, after) == pytest.approx(0.3)
    assert moved(before[:1, :1], after[:1, :1]) == 0


def test_the_python_lines_of_the_survey(playground):
    model, parts = playground.opened("tiny"), drawn(playground)
    found = last(parts, "table", model)
    assert [row[0] for row in found] == [4, 2, 2, 2, 1, 1, 1] and found[0][4] < 1e-9
    losses = last(parts, "damage", model)
    means = [loss for n, merge, loss in losses if merge == "mean"]
    assert means == pytest.approx(traces(parts["damage"])[0]["y"], rel=1e-5)
    assert_close(last(parts, "where", model), traces(parts["where"])[0]["y"], 1e-4)
    assert last(parts, "diagram", model) == ((0, 0), (1, 0), (2, 1), (3, 1))


def test_edits_are_left_out_and_it_is_said(playground):
    plain, edited = drawn(playground), drawn(playground, edits=[EDIT])
    assert edited["table"]["lines"] == plain["table"]["lines"]
    assert "without your edits" in edited["table"]["source"]
    assert "edits are left out" in edited["job"]["text"] and "edits" not in plain["job"]["text"]
    assert traces(edited["before"]) == traces(plain["before"])


def test_one_token_shows_the_divergence(playground):
    parts = drawn(playground, prompt="a", language="zh")
    assert parts["table"]["rows"][1][-1] == "–"
    assert traces(parts["damage"])[0]["y"][0] == 0
    no_holes(parts)


def test_what_takes_a_while_waits_for_the_buttons(playground, monkeypatch):
    monkeypatch.setattr(measure, "QUICK", 0)
    surveyed = ("table", "damage", "where")
    parts = drawn(playground)
    assert parts["job"]["state"] == "idle" and parts["job"]["start"] == "Compute all variants"
    assert parts["maps_job"]["state"] == "idle" and parts["maps_job"]["start"] == "Run this variant"
    assert all("empty" in parts[name] for name in (*surveyed, *MAPS)) and "figure" in parts["diagram"]
    parts = done(playground, "survey")
    assert parts["job"]["state"] == "done" and not any("empty" in parts[name] for name in surveyed)
    assert parts["maps_job"]["state"] == "idle" and all("empty" in parts[name] for name in MAPS)
    parts = done(playground, "run")
    assert parts["maps_job"]["state"] == "done" and not any("empty" in parts[name] for name in MAPS)
    other = drawn(playground, {"groups": "1"})
    assert other["maps_job"]["state"] == "idle" and other["job"]["state"] == "done"
    assert "empty" in other["after"] and "empty" not in other["where"]
    monkeypatch.setattr(measure, "survey", lambda *_: pytest.fail("computed again"))
    assert "empty" not in done(playground, "run", {"groups": "1"})["after"]
    # Another head of a run that is there needs no button.
    assert "empty" not in drawn(playground, {"groups": "1"}, heads=[[0, 0]])["after"]


def test_the_model_is_held_while_it_runs(playground, monkeypatch):
    held, whole = [], measure.survey

    def spy(*given):
        held.append(playground.computing.locked())
        return whole(*given)

    monkeypatch.setattr(measure, "survey", spy)
    drawn(playground)
    assert held == [True] and not playground.computing.locked()


@pytest.mark.parametrize("form", [None, [], {"groups": 2}, {"groups": "3", "merge": "worst"}, {"groups": None}])
def test_what_is_not_offered_is_the_first_choice(playground, form):
    scene = opened(playground, "design", "kv_heads")
    settings = panels.read_all(VIEW.settings, form, scene)
    assert (settings.groups, settings.merge) == ("2", "mean")


@pytest.mark.parametrize("variant", ["gpt2", "qwen3", "post", "mqa"])
def test_the_endpoint(tokenizer, variant, monkeypatch):
    playground = playground_of(tokenizer, variant)
    if variant == "post":
        monkeypatch.setattr(measure, "QUICK", 0)  # a slow one is measured for it, too

    def ask(**given):
        found = call(playground, VIEW.api[0], {"prompt": PROMPT, **given})
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        return found

    model, found = playground.opened("tiny").model, ask(details=True)
    expected = survey(model, list(PROMPT.encode()))
    assert found["kv_heads"] == list(group_counts(model.config)) and found["loss"] == pytest.approx(expected.loss)
    assert len(found["variants"]) == len(expected.variants)
    for row, each in zip(found["variants"], expected.variants, strict=True):
        assert (row["kv_heads"], row["merge"], row["cache_a_token"]) == (each.groups, each.merge, each.cache)
        assert row["kl"] == pytest.approx(each.kl) and len(row["divergences"]) == len(PROMPT)
    first = ask(merge="first")["variants"]
    assert {row["merge"] for row in first[1:]} <= {"first"} and "divergences" not in first[0]


def test_stops_and_patterns_need_no_whole_run(playground):
    """One layer from the nearest stop on: what the page keeps of a run is enough."""
    model = playground.opened("tiny").model
    kept = stops(model, list(PROMPT.encode()), 2, "mean")
    assert set(kept.streams) == {0, 1, 2} and pattern_at(model, kept, 2, 0).shape == (9, 9)
    assert all(isinstance(stream, np.ndarray) for stream in kept.streams.values())
    assert set(MERGES) == {"mean", "first", "random"}
