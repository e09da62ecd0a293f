"""The view of sizes without a browser: what is drawn is what the survey of the residual stream found."""

import json

import numpy as np
import pytest

from model.activations.residual_statistics import STATISTICS, nearest_row, statistic, survey
from model.api import LanguageModel
from model.gpt.edits import Edit
from tests.support.models.helpers import byte_model, byte_tokenizer, serving, tiny_model
from tests.support.views.activations import PROMPT, figure, heat, traces
from tests.support.views.views import array, run_lines
from viz.numbers import number
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads
from viz.seam.panels import names_of
from viz.views.activations import stream as shared
from viz.views.activations.figures import AxisLabels, Grid, grid_figure, layer_line, token_line
from viz.views.activations.sizes.figures import LayerCurve, profile_figure, row_figure, series_of
from viz.views.activations.sizes.view import VIEW, extreme
from viz.words import LANGUAGES, words

TEXT = AxisLabels("across", ["a", "b"], [0, 1], ["a", "b"])
PROFILE = {"value": "v", "layers": "layer", "median": "median", "p10": "low", "p90": "high"}


def asked(values=None, prompt=PROMPT, language="en", shown=None, **selection):
    return PageRequest("tiny", prompt, selection or None, values or {}, shown or {}, language, "activations")


def drawn(playground, values=None, **changes):
    return payloads(playground, asked(values, **changes))[0]


# --- figures ---


def test_labels_by_hand():
    line = layer_line("layer", ["<0>", "b", "c", "d"], [0, 0, 1, 1])
    assert list(line.names) == ["&lt;0&gt;", "b", "c", "d"] and list(line.ticks) == [0, 2] and line.texts == ["0", "1"]
    long = token_line("token", ["x"] * 1024)
    assert len(set(long.names)) == 1024 and 12 <= len(long.ticks) <= 24 and len(long.texts) == len(long.ticks)


def test_the_extreme_cell():
    values = np.array([[1.0, np.nan, -7.0], [3.0, 0.5, 2.0]])
    assert extreme(values, False) == (0, 2) and extreme(values, True) == (0, 2)
    assert extreme(np.abs(values), True) == (1, 1) and extreme(np.full((2, 2), np.nan), False) == (0, 0)


def test_a_grid_keeps_the_exact_numbers_whatever_its_colors():
    values = np.array([[1.0, 500.0], [2.0, np.nan]])
    figure = grid_figure(Grid(values, "n", TEXT, TEXT, "log"))
    assert figure.data[0].meta == {"exact": True} and len(figure.data) == 1
    np.testing.assert_array_equal(figure.data[0].customdata, values)
    assert figure.layout.meta["window"] == [-2, 0, 0, 2]
    cells = grid_figure(Grid(values, "n", TEXT, TEXT, "log", [["p", "q"], ["r", "s"]], [(1, 0)]))
    assert cells.layout.meta["window"] == [-2, 0, -4, -2]  # no token is framed
    assert (cells.data[1].x, cells.data[1].y) == (("a",), ("b",))


def test_a_profile_is_the_tokens_over_the_median_and_the_band():
    values = np.arange(33.0).reshape(3, 11)
    series = series_of([2, 0], list("abcdefghijk"))
    curves = [LayerCurve("one", [0, 2], [0, 1], ["r0", "r2"]), LayerCurve("two", [1], [0], ["r1"])]
    figure = profile_figure(values, curves, series, PROFILE, False)
    low, high, middle, first, second = figure.data[:5]
    assert (list(low.y), list(middle.y), list(high.y)) == ([1, 23], [5, 27], [9, 31])
    assert list(first.y) == [2, 24] and list(second.y) == [0, 22] and first.name == "2 c"
    assert first.customdata[0] == {"tokens": [2]} and first.line.color != second.line.color
    assert [trace.yaxis for trace in figure.data[5:]] == ["y2"] * 5 and list(figure.data[7].y) == [16]
    assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]
    gaps = profile_figure(np.full((1, 2), np.nan), [LayerCurve("", [0], [0], ["r"])], [], PROFILE, True)
    assert np.isnan(np.asarray(gaps.data[2].y, float)).all()


def test_a_row_with_the_tokens_that_are_looked_at():
    row, names = np.array([1.0, 20.0, 3.0]), {"value": "v", "position": "p", "every": "all"}
    figure = row_figure(row, ["a", "<b>", "c"], series_of([1], ["a", "<b>", "c"]), names, True)
    assert list(figure.data[0].y) == [1, 20, 3] and figure.data[0].customdata[2] == {"tokens": [2]}
    assert list(figure.data[1].y) == [20] and figure.data[1].name == "1 &lt;b&gt;"
    assert figure.layout.yaxis.type == "log"


# --- the view ---


def test_every_number_has_its_words():
    for language in LANGUAGES:
        catalogue = words(language)
        for name, kind in STATISTICS.items():
            for key in (
                f"map.title_{name}",
                f"value_{name}",
                f"settings.number_{name}",
                f"settings.number_{name}_help",
            ):
                assert catalogue[f"sizes.{key}"]
            assert catalogue[f"sizes.map.rows_{kind}"]
        for shade in ("log", "even", "symlog", "signed"):
            assert catalogue[f"activations.colours_{shade}"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", STATISTICS)
def test_the_map_is_the_statistic(playground, lm, name, language):
    parts = drawn(playground, {"sizes_form": {"number": name}}, language=language)
    assert {"sizes_map", "sizes_profile", "sizes_row"} <= set(parts) and "outliers_map" not in parts
    rows, values = statistic(survey(lm.trace(PROMPT)), name)
    payload = parts["sizes_map"]
    np.testing.assert_allclose(heat(payload), values, rtol=1e-6)
    assert payload["rows"] == [list(row) for row in rows] and len(payload["names"]) == len(set(payload["names"]))
    assert traces(payload)[0]["x"] == ["0 a", "1 b", "2 c", "3 a", "4 b"]
    row, token = extreme(values, name == "cosine")
    assert payload["row"] == row and payload["left"] == 0
    shown = [trace for trace in traces(parts["sizes_profile"]) if trace["name"] == f"{token} {PROMPT[token]}"]
    drawn_rows = np.concatenate([array(trace["y"]) for trace in shown])
    assert sorted(drawn_rows) == pytest.approx(sorted(values[:, token]), rel=1e-5)
    np.testing.assert_allclose(array(traces(parts["sizes_row"])[0]["y"]), values[row], rtol=1e-5)
    assert words(language)[f"sizes.settings.number_{name}"] in parts["sizes_row"]["title"]


def test_a_click_looks_at_a_row_and_picked_tokens_are_the_series(playground, lm):
    stream = survey(lm.trace(PROMPT))
    parts = drawn(playground, {"sizes_map": {"what": "norm2", "layer": 1}}, tokens=[3, 1])
    assert "layer 1 · before the MLP" in parts["sizes_row"]["title"]
    every, *picked = traces(parts["sizes_row"])
    np.testing.assert_allclose(array(every["y"]), stream.rms[3], rtol=1e-5)
    assert [trace["name"] for trace in picked] == ["3 a", "1 b"]
    note = parts["sizes_row"]["note"]
    assert "“a” (position 3)" in note and f"RMS {number(stream.rms[3, 3])}" in note
    assert f"divides by {number(stream.divisor[3, 3])}" in note and f"mean {number(stream.mean[3, 3])}" in note
    assert "selected" in parts["sizes_profile"]["note"]


def test_a_row_stays_where_another_number_has_other_rows(playground, lm):
    stream = survey(lm.trace(PROMPT))
    look = {"sizes_map": {"what": "norm2", "layer": 1}, "sizes_form": {"number": "update"}}
    parts = drawn(playground, look, tokens=[2])
    assert "layer 1 · MLP" in parts["sizes_row"]["title"] and parts["sizes_map"]["row"] == 3
    assert number(stream.update[1, 1, 2]) in parts["sizes_row"]["note"]
    look["sizes_form"] = {"number": "cosine"}
    assert "layer 1" in drawn(playground, look)["sizes_row"]["title"]
    rows = [("attn", 0), ("mlp", 0), ("attn", 1), ("mlp", 1)]
    assert [nearest_row(rows, *row) for row in (("norm1", 1), ("final", 2), ("mlp", 0), ("block", 0))] == [2, 3, 1, 1]


def test_a_change_of_settings_or_language_does_not_run_the_model(playground, monkeypatch):
    _, shown = payloads(playground, asked(heads=[[0, 0]]))
    monkeypatch.setattr(shared, "survey", lambda run: pytest.fail("the survey was made again"))
    parts, _ = payloads(playground, asked({"sizes_form": {"number": "mean"}}, shown=shown, heads=[[0, 0]]))
    assert set(parts) == {"notice", "sizes_map", "sizes_profile", "sizes_row"}
    parts, _ = payloads(playground, asked({"sizes_map": {"what": "norm1", "layer": 2}}, shown=shown, heads=[[0, 0]]))
    assert set(parts) == {"notice", "sizes_row"}  # the map is not sent again
    assert "outliers_map" in drawn(playground, {"activations_view": {"view": "outliers"}}, language="zh")


@pytest.mark.parametrize(
    "value",
    [
        None,
        3,
        [],
        "x",
        {"what": ["norm1"]},
        {"what": "nope", "layer": "1"},
        {"what": "final", "layer": 10**9},
        {"what": "norm2", "layer": float("nan")},
        {"layer": 2},
    ],
)
@pytest.mark.parametrize("view", ["sizes", "outliers"])
def test_what_a_page_sends_is_checked(playground, value, view):
    form = {"number": value, "rule": value, "site": value}
    parts = drawn(playground, {"activations_view": {"view": view}, f"{view}_map": value, f"{view}_form": form})
    assert "figure" in parts[f"{view}_map"] and parts["notice"] == {}


@pytest.mark.parametrize("view", ["sizes", "outliers"])
@pytest.mark.parametrize("prompt", ["a", "\n", "\u202e<b>{token}</b>", "x" * 40])
def test_short_long_and_hostile_prompts_are_drawn(playground, prompt, view):
    parts = drawn(playground, {"activations_view": {"view": view}}, prompt=prompt)
    mine = {name: part for name, part in parts.items() if name.startswith(view)}
    assert len(mine) >= 5 and not any("problem" in part for part in mine.values())
    assert "<b>" not in json.dumps(traces(mine[f"{view}_map"])) and "\u202e" not in packed(mine)


@pytest.mark.parametrize(
    ("wiring", "note", "rows"),
    [
        ({"norm_placement": "sandwich"}, "four LayerNorms", "its four norms in order"),
        ({"norm_placement": "output"}, "the outputs of attention and MLP", "first norm above second"),
        ({"parallel_residual": True, "shared_norm": True}, "attention and MLP share it", "layer"),
        ({"mlp": "none"}, "there is no MLP", "layer"),
    ],
)
def test_norms_of_later_families_are_named(tmp_path, wiring, note, rows):
    model = tiny_model({"vocab_size": 256, "n_ctx": 40, **wiring})
    shown = drawn(serving(LanguageModel("tiny", "Tiny", model, byte_tokenizer(tmp_path))))["sizes_map"]
    assert note in shown["note"]
    title = figure(shown)["layout"]["yaxis"]["title"]["text"]
    assert rows in title and (title == "layer") == (rows == "layer")


@pytest.mark.parametrize("placement", [{"norm_placement": "post", "final_norm": False}, {"parallel_residual": True}])
def test_other_wirings_say_what_their_norms_read(playground, tmp_path, placement):
    other = byte_model(tmp_path)
    object.__setattr__(other, "model", tiny_model({"vocab_size": 256, "n_ctx": 40, **placement}))
    playground.models.drop(lambda key: False)
    playground.models.get("tiny", lambda: other)
    note = drawn(playground)["sizes_map"]["note"]
    assert ("after the sublayer's output" if "norm_placement" in placement else "in parallel") in note
    rows = drawn(playground, {"activations_view": {"view": "outliers"}})["outliers_map"]["rows"]
    last = [] if "norm_placement" in placement else [["final", 3]]
    assert rows == [["norm1", 0], ["norm1", 1], ["norm1", 2], *last]


def test_edits_are_in_what_is_drawn(playground, lm):
    edits = [{"kind": "zero", "layer": 1, "head": 2}]
    edited = lm.trace(PROMPT).edit(Edit("zero", 1, 2))
    found = heat(drawn(playground, edits=edits)["sizes_map"])
    np.testing.assert_allclose(found, survey(edited).rms, rtol=1e-6)
    assert np.abs(found - heat(drawn(playground)["sizes_map"])).max() > 1e-4


def test_the_python_lines_make_the_numbers(playground, lm):
    edits = [{"kind": "zero", "layer": 1, "head": 2}]
    look = {"sizes_form": {"number": "update"}, "sizes_map": {"what": "mlp", "layer": 1}}
    parts = drawn(playground, look, edits=edits, tokens=[1, 3])
    space, _ = run_lines(parts["sizes_map"]["python"], lm)
    np.testing.assert_allclose(heat(parts["sizes_map"]), space["values"], rtol=1e-6)
    band = run_lines(parts["sizes_profile"]["python"], lm)[1][-1]
    for trace, expected in zip(traces(parts["sizes_profile"])[:3], (band[0], band[2], band[1]), strict=True):
        np.testing.assert_allclose(array(trace["y"]), expected[::2], rtol=1e-5)  # every other row is of attention
    row = run_lines(parts["sizes_row"]["python"], lm)[1][-1]
    np.testing.assert_allclose(array(traces(parts["sizes_row"])[0]["y"]), row, rtol=1e-5)


def test_every_part_is_sent(playground):
    assert set(names_of(VIEW)) <= set(drawn(playground))
