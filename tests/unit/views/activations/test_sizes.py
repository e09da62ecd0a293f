"""The views of sizes and outliers without a browser: what is drawn is what model.stream found."""

import base64
import json

import numpy as np
import pytest

from model.activations import residual_statistics as module
from model.activations.norm_walk import norm_input
from model.activations.residual_statistics import (
    RULES,
    STATISTICS,
    Rule,
    carriers,
    nearest_row,
    outliers,
    statistic,
    survey,
)
from model.gpt.edits import Edit
from tests.support.helpers import byte_model, tiny_model
from viz.charts.shades import coloured, decades, plain, shade_of
from viz.page.pipeline import Asked, payloads
from viz.views.activations.figures import (
    Curve,
    Grid,
    Line,
    ProfileWords,
    RowWords,
    dimension_figure,
    extreme,
    grid_figure,
    layer_line,
    median_of_others,
    profile_figure,
    row_figure,
    said,
    series_of,
    token_line,
)
from viz.views.activations.figures import DimensionWords as Dimensions
from viz.views.activations.outliers import view as outliers_tab
from viz.views.activations.sizes import view as sizes
from viz.words import LANGUAGES, words

PROMPT = "abcab"
TEXT = Line("across", ["a", "b"], [0, 1], ["a", "b"])


def asked(values=None, prompt=PROMPT, language="en", shown=None, **selection):
    return Asked("tiny", prompt, selection or None, values or {}, shown or {}, language, "activations")


def drawn(playground, values=None, **changes):
    return payloads(playground, asked(values, **changes))[0]


def in_outliers(values=None):
    return {"activations_view": {"view": "outliers"}, **(values or {})}


def array(value):
    """Numbers as Plotly's JSON carries them."""
    if not isinstance(value, dict):
        return np.array([np.nan if each is None else each for each in value])
    shape = [int(n) for n in value.get("shape", "-1").split(",")]
    return np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"]).reshape(shape)


def traces(payload):
    """The traces of a payload's figure, as it is sent."""
    return json.loads(payload["figure"])["data"]


def heat(payload):
    """The exact numbers of a payload's map."""
    return array(traces(payload)[0]["customdata"])


# --- colours and labels ---


def test_numbers_that_span_orders_of_magnitude_get_logarithmic_colours():
    assert shade_of(np.array([[1.0, 30.0]]), False) == "log" and shade_of(np.array([[1.0, 29.0]]), False) == "even"
    assert shade_of(np.array([[-1.0, 1.0, 40.0]]), True) == "symlog"
    assert shade_of(np.array([[-0.01, 1.0, 20.0]]), True) == "signed"  # against the median: one is always near 0
    assert shade_of(np.zeros((2, 2)), False) == "even" and shade_of(np.full((1, 1), np.nan), True) == "signed"


def test_places_of_numbers_by_hand():
    z, bar, _ = coloured(np.array([[1.0, 1000.0, 0.0, np.nan]]), "log")
    assert z[0, :2].tolist() == [0, 3] and np.isnan(z[0, 2:]).all()
    assert (bar["cmin"], bar["cmax"]) == (0, 3)
    assert bar["colorbar"]["ticktext"] == ["1", "10", "100", "1,000"] and bar["colorbar"]["tickvals"] == [0, 1, 2, 3]
    z, bar, _ = coloured(np.array([[1e9, 1.0]]), "log")
    assert (bar["cmin"], z[0, 1]) == (3, 3)  # six orders of magnitude are shown
    z, bar, _ = coloured(np.array([[-2.0, 2.0, 2000.0, 0.0]]), "symlog")
    assert z[0] == pytest.approx(np.arcsinh([-1, 1, 1000, 0])) and bar["cmin"] == -bar["cmax"] == -np.arcsinh(1000)
    assert bar["colorbar"]["ticktext"] == ["-1,000", "-100", "-10", "0", "10", "100", "1,000"]
    z, bar, _ = coloured(np.array([[-2.0, 1.0]]), "signed")
    assert z.tolist() == [[-2, 1]] and (bar["cmin"], bar["cmax"]) == (-2, 2)
    z, bar, _ = coloured(np.array([[0.5, 0.9]]), "even")
    assert (bar["cmin"], bar["cmax"]) == (0.5, 0.9) and bar["colorbar"]["tickvals"][2] == pytest.approx(0.7)
    assert coloured(np.full((1, 2), 3.0), "even")[1]["cmax"] > 3  # one number only


def test_labels_by_hand():
    assert decades(0.1, 100) == [0.1, 1, 10, 100]
    assert decades(1, 30) == [1, 2, 5, 10, 20]
    assert decades(3, 4) == [3, 4]
    assert [plain(x) for x in (12345.6, 99.94, 0.0005, 0, -250, 2e7)] == ["12,346", "99.9", "5e-4", "0", "-250", "2e7"]
    assert [said(x) for x in (893925.2, 0.123456, -22712.4)] == ["893,925", "0.12346", "-22,712"]
    line = layer_line("layer", ["<0>", "b", "c", "d"], [0, 0, 1, 1])
    assert list(line.names) == ["&lt;0&gt;", "b", "c", "d"] and list(line.ticks) == [0, 2] and line.texts == ["0", "1"]
    long = token_line("token", ["x"] * 1024)
    assert len(set(long.names)) == 1024 and 12 <= len(long.ticks) <= 24 and len(long.texts) == len(long.ticks)


def test_the_extreme_cell():
    values = np.array([[1.0, np.nan, -7.0], [3.0, 0.5, 2.0]])
    assert extreme(values, False) == (0, 2) and extreme(values, True) == (0, 2)
    assert extreme(np.abs(values), True) == (1, 1) and extreme(np.full((2, 2), np.nan), False) == (0, 0)


# --- figures ---


def test_a_grid_keeps_the_exact_numbers_whatever_its_colours():
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
    curves = [Curve("one", [0, 2], [0, 1], ["r0", "r2"]), Curve("two", [1], [0], ["r1"])]
    figure = profile_figure(values, curves, series, ProfileWords("v", "layer", "median", "low", "high"), False)
    low, high, middle, first, second = figure.data[:5]
    assert (list(low.y), list(middle.y), list(high.y)) == ([1, 23], [5, 27], [9, 31])
    assert list(first.y) == [2, 24] and list(second.y) == [0, 22] and first.name == "2 c"
    assert first.customdata[0] == {"tokens": [2]} and first.line.color != second.line.color
    assert [trace.yaxis for trace in figure.data[5:]] == ["y2"] * 5 and list(figure.data[7].y) == [16]
    assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]
    gaps = profile_figure(np.full((1, 2), np.nan), [Curve("", [0], [0], ["r"])], [], ProfileWords(*"vlmab"), True)
    assert np.isnan(np.asarray(gaps.data[2].y, float)).all()


def test_a_row_and_the_dimensions_of_a_token():
    row = np.array([1.0, 20.0, 3.0])
    figure = row_figure(row, ["a", "<b>", "c"], series_of([1], ["a", "<b>", "c"]), RowWords("v", "p", "all"), True)
    assert list(figure.data[0].y) == [1, 20, 3] and figure.data[0].customdata[2] == {"tokens": [2]}
    assert list(figure.data[1].y) == [20] and figure.data[1].name == "1 &lt;b&gt;"
    assert figure.layout.yaxis.type == "log"
    sizes_of = np.array([[1.0, 9.0], [5.0, 0.0], [3.0, 4.0]])
    others = median_of_others(sizes_of, 1)
    assert others.tolist() == [2, 6.5] and median_of_others(sizes_of[:1], 0) is None
    drawing = dimension_figure(sizes_of[1], others, "b", 4.5, Dimensions("d", "s", "others", "limit"))
    assert drawing.data[0].y[0] == 5 and np.isnan(drawing.data[0].y[1])  # 0 has no logarithm
    assert list(drawing.data[1].y) == [2, 6.5] and list(drawing.data[2].y) == [4.5, 4.5]
    alone = dimension_figure(sizes_of[1], None, "b", 4.5, Dimensions("d", "s", "others", "limit"))
    assert len(alone.data) == 2


# --- sizes ---


def test_every_number_and_rule_has_its_words():
    for language in LANGUAGES:
        found = words(language)
        for name, kind in STATISTICS.items():
            for start in ("", "help_", "title_", "value_"):
                assert found[f"sizes.{start}{name}"]
            assert found[f"sizes.rows_{kind}"]
        for shade in ("log", "even", "symlog", "signed"):
            assert found[f"sizes.colours_{shade}"]
        for rule in RULES:
            assert all(found[f"outliers.{start}_{rule}"] for start in ("rule", "help", "definition"))


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
    assert sorted(drawn_rows) == pytest.approx(sorted(values[:, token]), rel=1e-6)
    np.testing.assert_allclose(array(traces(parts["sizes_row"])[0]["y"]), values[row], rtol=1e-6)
    assert words(language)[f"sizes.{name}"] in parts["sizes_row"]["title"]


def test_a_click_looks_at_a_row_and_picked_tokens_are_the_series(playground, lm):
    stream = survey(lm.trace(PROMPT))
    parts = drawn(playground, {"sizes_map": {"what": "norm2", "layer": 1}}, tokens=[3, 1])
    assert "layer 1, norm 2" in parts["sizes_row"]["title"]
    every, *picked = traces(parts["sizes_row"])
    np.testing.assert_allclose(array(every["y"]), stream.rms[3], rtol=1e-6)
    assert [trace["name"] for trace in picked] == ["3 a", "1 b"]
    told = parts["sizes_row"]["note"]
    assert "“a” (position 3)" in told and f"RMS {said(stream.rms[3, 3])}" in told
    assert f"divides by {said(stream.divisor[3, 3])}" in told and f"mean {said(stream.mean[3, 3])}" in told
    assert "picked" in parts["sizes_profile"]["note"]


def test_a_row_stays_where_another_number_has_other_rows(playground, lm):
    stream = survey(lm.trace(PROMPT))
    look = {"sizes_map": {"what": "norm2", "layer": 1}, "sizes_form": {"number": "update"}}
    parts = drawn(playground, look, tokens=[2])
    assert "layer 1, MLP" in parts["sizes_row"]["title"] and parts["sizes_map"]["row"] == 3
    assert said(stream.update[1, 1, 2]) in parts["sizes_row"]["note"]
    look["sizes_form"] = {"number": "cosine"}
    assert "layer 1" in drawn(playground, look)["sizes_row"]["title"]
    rows = [("attn", 0), ("mlp", 0), ("attn", 1), ("mlp", 1)]
    assert [nearest_row(rows, *row) for row in (("norm1", 1), ("final", 2), ("mlp", 0), ("block", 0))] == [2, 3, 1, 1]


def test_a_change_of_settings_or_language_does_not_run_the_model(playground, monkeypatch):
    _, shown = payloads(playground, asked(heads=[[0, 0]]))
    monkeypatch.setattr(sizes, "survey", lambda run: pytest.fail("the survey was made again"))
    parts, _ = payloads(playground, asked({"sizes_form": {"number": "mean"}}, shown=shown, heads=[[0, 0]]))
    assert set(parts) == {"header", "notice", "sizes_map", "sizes_profile", "sizes_row"}
    parts, _ = payloads(playground, asked({"sizes_map": {"what": "norm1", "layer": 2}}, shown=shown, heads=[[0, 0]]))
    assert set(parts) == {"header", "notice", "sizes_row"}  # the map is not sent again
    assert "outliers_map" in drawn(playground, in_outliers(), language="zh")


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
    assert "<b>" not in mine[f"{view}_map"]["figure"] and "\u202e" not in json.dumps(mine, ensure_ascii=False)


@pytest.mark.parametrize("placement", [{"norm_placement": "post", "final_norm": False}, {"parallel_residual": True}])
def test_other_wirings_say_what_their_norms_read(playground, tmp_path, placement):
    other = byte_model(tmp_path)
    object.__setattr__(other, "model", tiny_model({"vocab_size": 256, "n_ctx": 40, **placement}))
    playground.models.drop(lambda key: False)
    playground.models.get("tiny", lambda: other)
    note = drawn(playground)["sizes_map"]["note"]
    assert ("after the sublayer's output" if "norm_placement" in placement else "side by side") in note
    rows = drawn(playground, in_outliers())["outliers_map"]["rows"]
    last = [] if "norm_placement" in placement else [["final", 3]]
    assert rows == [["norm1", 0], ["norm1", 1], ["norm1", 2], *last]


def test_edits_are_in_what_is_drawn(playground, lm):
    edits = [{"kind": "zero", "layer": 1, "head": 2}]
    edited = lm.trace(PROMPT).edit(Edit("zero", 1, 2))
    found = heat(drawn(playground, edits=edits)["sizes_map"])
    np.testing.assert_allclose(found, survey(edited).rms, rtol=1e-6)
    assert np.abs(found - heat(drawn(playground)["sizes_map"])).max() > 1e-4


# --- outliers ---


def test_the_map_of_outliers(playground, lm, monkeypatch):
    monkeypatch.setitem(module.RULES, "x20", Rule(3))
    stream = survey(lm.trace(PROMPT))
    parts = drawn(playground, in_outliers({"outliers_form": {"rule": "x20", "site": "norm2"}}))
    assert "sizes_map" not in parts
    found, (cells, dotted) = heat(parts["outliers_map"]), traces(parts["outliers_map"])
    rows = stream.rows(["norm2", "final"])
    dimensions = [int(name[1:]) for name in cells["x"]]
    assert found.shape == (4, 16) and len(set(dimensions)) == 16
    np.testing.assert_allclose(found, np.abs(stream.largest[rows][:, dimensions]), rtol=1e-6)
    assert parts["outliers_map"]["cells"] == stream.carrier[rows][:, dimensions].tolist()
    dots = set(zip(dotted["y"], dotted["x"], strict=True))
    reach = 3 * stream.median[rows][:, None]
    assert dots == {(cells["y"][r], cells["x"][c]) for r, c in np.argwhere(found >= reach)}
    assert 0 < len(dots) < found.size
    assert f"at token {stream.carrier[rows[0], dimensions[0]]} " in cells["text"][0][0]


def test_the_tables_of_outliers(playground, lm, monkeypatch):
    monkeypatch.setitem(module.RULES, "x20", Rule(2.5))
    stream, sites = survey(lm.trace(PROMPT)), ("norm1", "final")
    payload = drawn(playground, in_outliers({"outliers_form": {"rule": "x20"}}))["outliers_list"]
    table, bearing = outliers(stream, "x20", sites), carriers(stream, "x20", sites)
    assert len(table) > 5 and payload["none"] == ""
    columns = ["dimension", "token", "value", "ratio"]
    found = [[row[name] for name in columns] for row in payload["rows"]]
    np.testing.assert_allclose(found, table[columns][:100].to_numpy(float), rtol=1e-6)
    assert [[row["token"], row["entries"], row["norms"]] for row in payload["carriers"]] == bearing.to_numpy().tolist()
    assert payload["rows"][0]["row"] == f"layer {table['layer'][0]}, norm 1" or "final" in payload["rows"][0]["row"]
    assert payload["rows"][0]["text"].split()[0] == str(payload["rows"][0]["token"])
    share = lm.trace(PROMPT).head_metrics()["first_token"].mean()
    has_first = any(row["token"] == 0 for row in payload["carriers"])
    assert (f"{100 * share:.0f}%" in payload["attention"]) if has_first else payload["attention"] == ""


def test_carriers_are_counted_over_norms_and_dimensions():
    stream = survey_of_hand()
    table = carriers(stream, "x100", ("norm1", "final"))
    assert table.to_dict("records") == [{"token": 1, "entries": 4, "norms": 2}]
    assert carriers(stream, "x1000", ("norm1",)).empty


def survey_of_hand():
    """One layer that adds nothing, every number 3, but a -1000 and a 400 in dimensions 7 and 9 of token 1."""
    import torch

    from model.gpt.trace import run
    from tests.support.helpers import D, V, tokens_of

    model = tiny_model({"positions": "none", "n_layer": 1})
    model.embed.weight.data = torch.full((V, D), 3.0)
    model.embed.weight.data[2, 7] = -1000
    model.embed.weight.data[2, 9] = 400
    model.tie()
    for part in (model.blocks[0].attn.o, model.blocks[0].mlp.down):
        part.weight.data.zero_()
        part.bias.data.zero_()
    return survey(run(model, tokens_of([1, 2, 1])))


def test_where_nothing_is_outlying_the_largest_is_said(playground, lm):
    parts = drawn(playground, in_outliers())  # massive: a shaken model has none
    stream = survey(lm.trace(PROMPT))
    assert parts["outliers_list"]["rows"] == [] and parts["outliers_list"]["carriers"] == []
    best = max(float((np.abs(stream.largest[n]) / stream.median[n]).max()) for n in stream.rows(["norm1", "final"]))
    assert f"{plain(best)} × the median" in parts["outliers_list"]["none"]
    assert len(traces(parts["outliers_map"])) == 1  # no dots


def test_the_dimensions_of_one_token(playground, lm):
    run = lm.trace(PROMPT)
    look = in_outliers({"outliers_map": {"what": "norm1", "layer": 2}, "outliers_form": {"rule": "int8"}})
    payload = drawn(playground, look, tokens=[2])["outliers_one"]
    x = np.abs(norm_input(run, 2, "norm1"))
    one, others, reach = (array(trace["y"]) for trace in traces(payload))
    np.testing.assert_allclose(one, x[2], rtol=1e-6)
    np.testing.assert_allclose(others, np.median(np.delete(x, 2, 0), 0), rtol=1e-6)
    assert reach.tolist() == [6, 6] and "layer 2, norm 1 reads: every dimension of token 2 c" in payload["title"]
    assert payload["note"].startswith(f"{(x[2] >= 6).sum()} of 48 dimensions")
    stream = survey(run)
    final = in_outliers({"outliers_map": {"what": "final", "layer": 3}})
    payload = drawn(playground, final)["outliers_one"]
    n = stream.rows(["final"])[0]
    carrier = stream.carrier[n, np.abs(stream.largest[n]).argmax()]
    assert f"token {carrier} " in payload["title"] and "No token is picked" in payload["note"]


# --- the Python lines ---


def made_by(payload, lm, monkeypatch):
    """What the lines of a payload make; the last one's value."""
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    *lines, last = payload["python"].splitlines()
    space = {}
    exec("\n".join(lines), space)
    return eval(last, space), space


def test_the_python_lines_make_the_numbers(playground, lm, monkeypatch):
    edits = [{"kind": "zero", "layer": 1, "head": 2}]
    look = {"sizes_form": {"number": "update"}, "sizes_map": {"what": "mlp", "layer": 1}}
    parts = drawn(playground, look, edits=edits, tokens=[1, 3])
    _, space = made_by(parts["sizes_map"], lm, monkeypatch)
    np.testing.assert_allclose(heat(parts["sizes_map"]), space["values"], rtol=1e-6)
    band, _ = made_by(parts["sizes_profile"], lm, monkeypatch)
    for trace, wanted in zip(traces(parts["sizes_profile"])[:3], (band[0], band[2], band[1]), strict=True):
        np.testing.assert_allclose(array(trace["y"]), wanted[::2], rtol=1e-6)  # every other row is of attention
    row, _ = made_by(parts["sizes_row"], lm, monkeypatch)
    np.testing.assert_allclose(array(traces(parts["sizes_row"])[0]["y"]), row, rtol=1e-6)
    monkeypatch.setitem(module.RULES, "x20", Rule(2.5))
    parts = drawn(playground, in_outliers({"outliers_form": {"rule": "x20"}}), edits=edits, tokens=[3])
    values, _ = made_by(parts["outliers_map"], lm, monkeypatch)
    np.testing.assert_allclose(heat(parts["outliers_map"]), values, rtol=1e-6)
    table, _ = made_by(parts["outliers_list"], lm, monkeypatch)
    assert table["dimension"].tolist()[:100] == [row["dimension"] for row in parts["outliers_list"]["rows"]]
    reach, space = made_by(parts["outliers_one"], lm, monkeypatch)
    one, _, line = (array(trace["y"]) for trace in traces(parts["outliers_one"]))
    np.testing.assert_allclose(one, space["sizes"][3], rtol=1e-6)
    assert line[0] == pytest.approx(reach)


def test_both_views_send_what_their_parts_are(playground):
    assert set(sizes.VIEW.parts) <= set(drawn(playground))
    assert set(outliers_tab.VIEW.parts) <= set(drawn(playground, in_outliers()))
