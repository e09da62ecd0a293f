"""The view of distance without a browser, its function for programs and its Python lines."""

import json

import numpy as np
import pytest

from model.attention.distance import (
    buckets,
    by_distance,
    layer_weights,
    over_buckets,
    position_score,
    share_of_distance,
)
from tests.support.models.helpers import VARIANTS, assert_close, byte_tokenizer
from tests.support.views.views import array, measured, no_holes, playground_of, run_lines, traces
from tests.support.views.views import drawn as drawn_in
from viz.api.registry import call
from viz.numbers import percent
from viz.seam import panels
from viz.views.design.distance.view import AXES, VIEW
from viz.words import LANGUAGES

PROMPT = "abcabd abcabe abd"
EDIT = {"kind": "zero", "layer": 1, "head": 2}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture(scope="module")
def playground(tokenizer):
    return playground_of(tokenizer)


def drawn(playground, form=None, prompt=PROMPT, **changes):
    return drawn_in(playground, "design", "distance", form, prompt=prompt, **changes)


def there(values):
    """Those that are drawn."""
    return values[~np.isnan(values)]


def named(payload):
    """Traces by their names."""
    return {trace["name"]: trace for trace in traces(payload) if "name" in trace}


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_lines_are_the_numbers_of_the_model(tokenizer, variant, axis):
    playground = playground_of(tokenizer, variant)
    heads, T = [[0, 1], [2, 3]], len(PROMPT)
    parts = drawn(playground, {"axis": axis}, heads=heads)
    read = measured(playground, "design", VIEW, form={"axis": axis}, prompt=PROMPT, heads=heads)
    run, groups = playground.opened("tiny").trace(PROMPT), buckets(T) if axis == "log" else buckets(T, T)
    lines = named(parts["scores"])
    assert read.buckets == groups and [[each.layer, each.head] for each in read.heads] == heads
    for each in read.heads:
        layer, head = each.layer, each.head
        expected = by_distance(run.scores(layer, head), run.pattern(layer, head), groups)
        assert_close(each.by_distance.median, expected.median, 0)
        assert_close(array(lines[f"head {layer}.{head}, median"]["y"]), there(expected.median), 1e-5)
        alone = position_score(run, layer, head)
        if alone is not None:
            assert_close(each.position_only, over_buckets(alone, groups), 0)
            assert_close(array(lines[f"head {layer}.{head}, position alone"]["y"])[0], alone[0], 1e-5)
        else:
            assert (f"head {layer}.{head}, position alone" in lines) == (layer == 0)
        assert f"head {layer}.{head}, to the first token" in lines
    assert len([trace for trace in traces(parts["scores"]) if trace.get("fill")]) == 2
    assert "pairs" in lines["head 0.1, median"]["hovertext"][3]
    shares = [row[4] for row in parts["table"]["rows"]]
    assert shares[1]["bar"] == pytest.approx(share_of_distance(run.scores(2, 3)))
    grid = traces(parts["layer"])[0]
    assert_close(array(grid["z"]), layer_weights(run, 2, buckets(T)), 1e-7)
    assert grid["customdata"][3][0] == {"head": [2, 3]}
    assert_close(array(traces(parts["map"])[0]["z"]), run.head_metrics()["distance"].to_numpy().reshape(3, 4), 1e-9)


def test_the_first_token_counts_only_where_asked(playground):
    apart = drawn(playground, heads=[[0, 0]])
    counted = drawn(playground, {"first": "in"}, heads=[[0, 0]])
    assert any("first token" in name for name in named(apart["scores"]))
    assert not any("first token" in name for name in named(counted["scores"]))
    last = traces(counted["weights"])[0]["y"][-1]
    run = playground.opened("tiny").trace(PROMPT)
    assert last == pytest.approx(float(run.pattern(0, 0)[-1, 0]), rel=1e-5)
    weights = [traces(parts["weights"])[0] for parts in (apart, counted)]
    assert [trace["text"][-1] for trace in weights] == ["15", "16"]  # the furthest pair is that of token 0


def test_it_is_said_what_positions_alone_explain(tokenizer):
    def note(variant, **changes):
        return drawn(playground_of(tokenizer, variant), **changes)["scores"]["note"]

    assert "mean query against the mean key, rotated" in note("llama", heads=[[1, 0]])
    assert "no positions" in note("mqa")
    assert "exact" in note("gpt2", heads=[[0, 1]]) and "exact" in note("post", heads=[[0, 1]])
    assert "Select a head of layer 0" in note("gpt2", heads=[[1, 1]])
    assert "without edits" in note("gpt2", heads=[[0, 1]], edits=[EDIT])


@pytest.mark.parametrize("prompt", ["a", "ab", PROMPT * 2])
@pytest.mark.parametrize("language", LANGUAGES)
def test_short_prompts_and_other_languages(tokenizer, language, prompt):
    for variant in ("gpt2", "llama", "mqa"):
        parts = drawn(playground_of(tokenizer, variant), prompt=prompt, language=language)
        assert not [name for name, part in parts.items() if "problem" in part]
        no_holes(parts)


@pytest.mark.parametrize("sent", [None, [], {"axis": 3}, {"axis": "cubic", "first": "last"}])
def test_what_is_not_offered_is_the_default(sent):
    settings = panels.read_all(VIEW.settings, sent, None)
    assert (settings.axis, settings.first) == ("log", "apart")


def test_the_map_of_all_heads_stays_while_heads_are_picked(playground):
    """What a part does not depend on does not draw it again."""
    one, other = (drawn(playground, heads=[[1, n]]) for n in (0, 3))
    assert one["map"]["run"] == other["map"]["run"] and one["layer"]["run"] == other["layer"]["run"]
    assert one["scores"]["run"] != other["scores"]["run"]


@pytest.mark.parametrize(("variant", "head"), [("gpt2", [0, 2]), ("gpt2", [1, 2]), ("llama", [1, 2])])
def test_the_python_lines(tokenizer, variant, head):
    playground = playground_of(tokenizer, variant)
    parts, lm = drawn(playground, heads=[head]), playground.opened("tiny")
    _, values = run_lines(parts["scores"]["python"], lm)
    median = named(parts["scores"])[f"head {head[0]}.{head[1]}, median"]["y"]
    assert_close(there(values[0].median), array(median), 1e-5)
    assert len(values) == (1 if head == [1, 2] and variant == "gpt2" else 2)
    (weight,) = run_lines(parts["weights"]["python"], lm)[1]
    assert array(traces(parts["weights"])[0]["y"]) == pytest.approx(there(weight), rel=1e-5)
    frame, close, share = run_lines(parts["table"]["python"], lm)[1]
    row = parts["table"]["rows"][0]
    assert row[4]["bar"] == share and row[3] == percent(close)
    assert len(frame) == 12
    (rows,) = run_lines(parts["layer"]["python"], lm)[1]
    assert_close(rows, array(traces(parts["layer"])[0]["z"]), 1e-7)
    (means,) = run_lines(parts["map"]["python"], lm)[1]
    assert len(means) == 12


@pytest.mark.parametrize("variant", ["gpt2", "llama", "post"])
def test_the_endpoint(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    asked = {"prompt": PROMPT, "layer": 1, "head": 3, "first": "in", "axis": "linear"}
    found = call(playground, VIEW.api[0], asked)
    json.dumps(found, allow_nan=False)
    run = playground.opened("tiny").trace(PROMPT)
    groups = buckets(len(PROMPT), len(PROMPT))
    expected = by_distance(run.scores(1, 3), run.pattern(1, 3), groups, first=True)
    assert_close([row["median"] for row in found["rows"]], expected.median, 1e-6)
    assert [row["pairs"] for row in found["rows"]] == expected.pairs.tolist()
    alone = position_score(run, 1, 3, first=True)
    assert_close(array([row["alone"] for row in found["rows"]]), np.full(17, np.nan) if alone is None else alone, 1e-6)
    assert found["share"] == pytest.approx(share_of_distance(run.scores(1, 3), first=True))
