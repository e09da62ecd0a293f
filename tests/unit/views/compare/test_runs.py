"""What is shown of two runs: one head's maps, a number of every head, and the next tokens of both."""

import json

import numpy as np
import pytest

from model.attention import measures
from model.sampling.pipeline import softmax
from model.tracing.head_metrics import HEAD_METRICS
from tests.support.models.helpers import tokens_of
from tests.support.views.compare import cells, drawn, made_by
from viz.charts.distribution import likeliest
from viz.charts.heatmap import PatternWords
from viz.charts.layer_head_map import HeadWords
from viz.numbers import nats, percent
from viz.page.parts import packed
from viz.seam import panels
from viz.views.compare.runs import measure
from viz.views.compare.runs.figures import heads_figure, largest, map_figure
from viz.views.compare.runs.view import VIEW
from viz.work.playground import Options, Playground

WORDS = PatternWords("query", "key", "weight", "largest of {n}")
HOSTILE = "<b>&\u202e\x00</b>"
EDIT = {"kind": "zero", "layer": 1, "head": 2}


def scale(payload):
    axis = payload["figure"].layout.coloraxis
    return axis.cmin, axis.cmax


def with_metric(name):
    return {"runs_metric": {"metric": name}}


# --- one head ---


def test_first_view_compares_with_the_suggestion_and_fills_every_part(playground):
    parts = drawn(playground, "The cat")
    assert set(panels.names_of(VIEW)) <= set(parts)
    assert parts["run_b"]["controls"][1]["placeholder"] == "The dog"
    assert [step[0] for step in parts["runs_alignment"]["steps"]] == ["same"] * 4 + ["replaced"] * 3


def test_maps_are_those_of_the_two_runs_and_their_difference(playground, lm):
    parts = drawn(playground, "abcab", {"prompt": "abxcab"})
    a, b = (lm.trace(text).pattern(1, 2) for text in ("abcab", "abxcab"))
    upper = np.triu_indices(5, 1)
    z = cells(parts["runs_a"])
    np.testing.assert_allclose(np.tril(np.nan_to_num(z)), a, atol=1e-6)
    assert np.isnan(z[upper]).all() and cells(parts["runs_b"]).shape == (6, 6)
    d, kept = cells(parts["runs_difference"]), [0, 1, 3, 4, 5]
    expected = a - b[np.ix_(kept, kept)]
    expected[upper] = np.nan
    np.testing.assert_allclose(d, expected, atol=1e-6)
    low, high = scale(parts["runs_difference"])
    assert high == -low == pytest.approx(np.nanmax(np.abs(expected)))
    assert parts["runs_b"]["places"] == [0, 1, None, 2, 3, 4]
    assert "places" not in parts["runs_a"]


@pytest.mark.parametrize("name", measure.OF_HEADS)
def test_every_measure_of_heads_is_drawn_on_one_scale(playground, lm, name):
    parts = drawn(playground, "abcab", {"prompt": "xycab"}, values={"runs_form": {"measure": name}})
    a, b = (scale(parts[f"runs_{side}"]) for side in "ab")
    assert a == b
    np.testing.assert_allclose(cells(parts["runs_b"]), measures.measure(lm.trace("xycab"), name, 1, 2), atol=1e-5)
    if measures.MEASURES[name].scale == "share":
        assert a[1] == 1


def test_long_prompts_are_pooled_within_a_megabyte(lm):
    ours = Playground(Options(model="tiny", max_tokens=300))
    ours.models.get("tiny", lambda: lm)
    parts = drawn(ours, "abcdefghij" * 29, {"prompt": "abcdefghi!" * 29})
    assert cells(parts["runs_a"]).shape == (145, 145)
    assert sum(len(packed(parts[name])) for name in ("runs_a", "runs_b", "runs_difference")) < 1_200_000
    assert "2 × 2" in parts["runs_difference"]["note"]


def test_one_token_is_enough(playground):
    parts = drawn(playground, "a", {"prompt": "b"})
    assert cells(parts["runs_a"]).tolist() == [[1.0]] and cells(parts["runs_difference"]).tolist() == [[0.0]]
    assert parts["runs_next"]["rows"]


def test_hostile_prompts_are_drawn_as_text(playground):
    parts = drawn(playground, HOSTILE, {"prompt": HOSTILE + "!"})
    ours = {name: json.loads(packed(parts[name])) for name in panels.names_of(VIEW) if name != "run_b"}
    text = json.dumps(ours)
    assert "\\u202e" not in text.replace("\\\\u202e", "")  # but in the Python lines, escaped there
    assert all("<b>" not in json.dumps(ours[f"runs_{name}"]["figure"]) for name in ("a", "b", "difference"))


def test_picking_a_head_draws_its_maps_only(playground):
    from tests.support.views.compare import asked
    from viz.page.pipeline import payloads

    _, shown = payloads(playground, asked())
    parts, _ = payloads(playground, asked(shown=shown, selection={"heads": [[2, 1]]}))
    assert set(parts) & set(panels.names_of(VIEW)) == {"runs_a", "runs_b", "runs_difference"}


# --- every head ---


@pytest.mark.parametrize("name", HEAD_METRICS)
def test_heads_are_the_difference_of_their_numbers(playground, lm, name):
    parts = drawn(playground, "abcab", {"prompt": "abcabc"}, values=with_metric(name))
    n = list(HEAD_METRICS).index(name)
    expected = lm.trace("abcab").metrics[..., n] - lm.trace("abcabc").metrics[..., n]
    np.testing.assert_allclose(cells(parts["runs_heads"]), expected, atol=1e-6)


def test_heads_undefined_in_one_run_are_said_to_be(playground):
    parts = drawn(playground, "abcd", {"prompt": "wxyz"}, values=with_metric("induction"))
    assert "undefined" in parts["runs_heads"]["empty"]["hint"]


def test_pattern_gap_of_every_head(playground, lm):
    parts = drawn(playground, "abcab", {"prompt": "abxcab"}, values=with_metric("pattern"))
    a, b, kept = lm.trace("abcab"), lm.trace("abxcab"), [0, 1, 3, 4, 5]
    for layer in range(3):
        for head in range(4):
            apart = np.abs(a.pattern(layer, head) - b.pattern(layer, head)[np.ix_(kept, kept)])
            assert cells(parts["runs_heads"])[layer, head] == pytest.approx(apart.sum() / 15, abs=1e-6)


def test_too_many_patterns_are_not_compared_by_themselves(playground, monkeypatch):
    monkeypatch.setattr(measure, "MOST_CELLS", 100)
    parts = drawn(playground, values=with_metric("pattern"))
    assert "too long" in parts["runs_heads"]["problem"]["text"] and parts["runs_heads"]["problem"]["hint"]


@pytest.mark.parametrize("value", [None, 3, {"metric": "nope"}, {"metric": [1]}])
def test_a_metric_nobody_checked_becomes_the_first(playground, value):
    parts = drawn(playground, values={"runs_metric": value})
    assert parts["runs_heads"]["file"] == f"compare-heads-{measure.METRICS[0]}"


# --- next tokens ---


def test_next_tokens_of_both_runs_at_the_aligned_token(playground, lm):
    parts = drawn(playground, "abcab", {"prompt": "abxcab"}, selection={"heads": [[1, 2]], "tokens": [2]})
    shown = parts["runs_next"]
    a, b = (softmax(lm.trace(text).logits_at(at)) for text, at in (("abcab", 2), ("abxcab", 3)))
    ids = {*likeliest(a, 10), *likeliest(b, 10)}
    for n, shares in enumerate((a, b)):
        assert sorted(line[1 + n] for line in shown["lines"]) == pytest.approx(sorted(shares[i] for i in ids), abs=1e-6)
    assert {cells[0]["token"] for cells in shown["rows"]} == ids
    assert [cell["text"] for cell in shown["rows"][0][1:3]] == [percent(share) for share in shown["lines"][0][1:]]
    kl = (a * np.log(a / b)).sum()
    assert measure.divergence(a, b) == pytest.approx(kl) and nats(kl) in parts["runs_next"]["note"]


def test_a_token_without_a_counterpart_leaves_the_last_ones_compared(playground):
    parts = drawn(playground, "abxcab", {"prompt": "abcab"}, selection={"heads": [[1, 2]], "tokens": [2]})
    assert parts["runs_next"]["title"] == "Next token after “b” (A, 5) and “b” (B, 4)"


def test_divergence_and_the_likeliest_of_both_by_hand():
    p, q = np.array([0.5, 0.25, 0.25, 0]), np.array([0.25, 0.5, 0.125, 0.125])
    assert likeliest(p, 3) == [0, 1, 2] and likeliest(q, 2) == [1, 0]
    assert measure.likely_of_both(p, q, 1) == [0, 1]
    assert measure.divergence(p, q) == pytest.approx(0.5 * np.log(2) - 0.25 * np.log(2) + 0.25 * np.log(2))
    assert measure.divergence(p, p) == 0 and measure.divergence(q, p) == np.inf


# --- Python lines ---


@pytest.mark.parametrize("b", [{"prompt": "abxab"}, {"with": "unedited"}])
@pytest.mark.parametrize("metric_name", ["entropy", "pattern"])
def test_python_lines_make_the_numbers(playground, lm, monkeypatch, b, metric_name):
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    selection = {"heads": [[2, 1]], "edits": [EDIT]}
    parts = drawn(playground, "abcab", b, selection=selection, values=with_metric(metric_name))
    for name in ("runs_a", "runs_b", "runs_difference"):
        np.testing.assert_allclose(made_by(parts[name]), cells(parts[name]), atol=1e-6)
    np.testing.assert_allclose(made_by(parts["runs_heads"]), cells(parts["runs_heads"]), atol=1e-6)


# --- figures ---


def test_two_maps_share_the_end_of_their_scale():
    a, b = np.tril(np.full((3, 3), 2.0)), np.tril(np.full((2, 2), 5.0))
    top = largest(a, b)
    found = [map_figure(z, tokens_of(range(len(z))), WORDS, "size", top).layout.coloraxis for z in (a, b)]
    assert top == 5 and {(axis.cmin, axis.cmax) for axis in found} == {(0, 5)}
    signed = map_figure(-a, tokens_of(range(3)), WORDS, "signed", top).layout.coloraxis
    assert (signed.cmin, signed.cmax) == (-5, 5)
    assert largest(np.zeros((2, 2))) == largest(np.full((2, 2), np.nan)) == 1


def test_heads_figure_has_layers_down_and_both_numbers():
    a, b = np.array([[1.0, 2.0, np.nan], [4.0, 5.0, 6.0]]), np.array([[1.0, 4.0, 2.0], [0.0, 5.0, 6.5]])
    figure = heads_figure(a - b, (a, b), HeadWords("layer", "head", "A − B"), "entropy")
    heat = figure.data[0]
    np.testing.assert_array_equal(np.array(heat.z), a - b)
    assert list(heat.customdata[0][1]) == [2, 4] and "entropy" in heat.hovertemplate
    assert figure.layout.coloraxis.cmin == -figure.layout.coloraxis.cmax == -4
    assert figure.layout.meta["heads"]
    assert heads_figure(a, None, HeadWords("layer", "head", "gap"), "").layout.coloraxis.cmin == 0
