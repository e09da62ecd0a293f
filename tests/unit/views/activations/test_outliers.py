"""The view of outliers without a browser: what is drawn is what the survey of the residual stream found."""

import numpy as np
import pytest
import torch

from model.activations import residual_statistics as module
from model.activations.norm_walk import norm_input
from model.activations.residual_statistics import RULES, Rule, carriers, outliers, survey
from model.tracing.trace import run
from tests.support.models.helpers import D, V, tiny_model, tokens_of
from tests.support.views.activations import PROMPT, heat, traces
from tests.support.views.views import array, run_lines
from viz.numbers import number, percent
from viz.page.pipeline import PageRequest, payloads
from viz.seam.panels import names_of
from viz.views.activations.outliers.figures import dimension_figure
from viz.views.activations.outliers.view import VIEW, median_of_others
from viz.words import LANGUAGES, words


def drawn(playground, values=None, **selection):
    sent = {"activations_view": {"view": "outliers"}, **(values or {})}
    return payloads(playground, PageRequest("tiny", PROMPT, selection or None, sent, {}, "en", "activations"))[0]


def test_the_dimensions_of_a_token_by_hand():
    sizes = np.array([[1.0, 9.0], [5.0, 0.0], [3.0, 4.0]])
    others, names = median_of_others(sizes, 1), {"dimension": "d", "size": "s", "others": "others", "limit": "limit"}
    assert others.tolist() == [2, 6.5] and median_of_others(sizes[:1], 0) is None
    drawing = dimension_figure(sizes[1], others, "b", 4.5, names)
    assert drawing.data[0].y[0] == 5 and drawing.data[0].y[1] is None  # 0 has no logarithm
    assert list(drawing.data[1].y) == [2, 6.5] and list(drawing.data[2].y) == [4.5, 4.5]
    alone = dimension_figure(sizes[1], None, "b", 4.5, names)
    assert len(alone.data) == 2


def test_every_rule_has_its_words():
    for language in LANGUAGES:
        for rule in RULES:
            for key in (f"settings.rule_{rule}", f"settings.rule_{rule}_help", f"list.definition_{rule}"):
                assert words(language)[f"outliers.{key}"]


def test_the_map_of_outliers(playground, lm, monkeypatch):
    monkeypatch.setitem(module.RULES, "x20", Rule(3))
    stream = survey(lm.trace(PROMPT))
    parts = drawn(playground, ({"outliers_form": {"rule": "x20", "site": "norm2"}}))
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
    payload = drawn(playground, ({"outliers_form": {"rule": "x20"}}))["outliers_list"]
    table, bearing = outliers(stream, "x20", sites), carriers(stream, "x20", sites)
    assert len(table) > 5 and payload["none"] == ""
    columns = ["dimension", "token", "value", "ratio"]
    found = [[row[name] for name in columns] for row in payload["rows"]]
    np.testing.assert_allclose(found, table[columns][:100].to_numpy(float), rtol=1e-6)
    assert [[row["token"], row["entries"], row["norms"]] for row in payload["carriers"]] == bearing.to_numpy().tolist()
    assert (
        payload["rows"][0]["row"] == f"layer {table['layer'][0]} · before attention"
        or "final" in payload["rows"][0]["row"]
    )
    assert payload["rows"][0]["text"].split()[0] == str(payload["rows"][0]["token"])
    share = lm.trace(PROMPT).head_metrics()["first_token"].mean()
    has_first = any(row["token"] == 0 for row in payload["carriers"])
    assert (percent(share) in payload["attention"]) if has_first else payload["attention"] == ""


def test_carriers_are_counted_over_norms_and_dimensions():
    stream = survey_of_hand()
    table = carriers(stream, "x100", ("norm1", "final"))
    assert table.to_dict("records") == [{"token": 1, "entries": 4, "norms": 2}]
    assert carriers(stream, "x1000", ("norm1",)).empty


def survey_of_hand():
    """One layer that adds nothing, every number 3, but a -1000 and a 400 in dimensions 7 and 9 of token 1."""
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
    parts = drawn(playground, {})  # massive: a shaken model has none
    stream = survey(lm.trace(PROMPT))
    assert parts["outliers_list"]["rows"] == [] and parts["outliers_list"]["carriers"] == []
    best = max(float((np.abs(stream.largest[n]) / stream.median[n]).max()) for n in stream.rows(["norm1", "final"]))
    assert f"{number(best)} × the median" in parts["outliers_list"]["none"]
    assert len(traces(parts["outliers_map"])) == 1  # no dots


def test_the_dimensions_of_one_token(playground, lm):
    trace = lm.trace(PROMPT)
    look = {"outliers_map": {"what": "norm1", "layer": 2}, "outliers_form": {"rule": "int8"}}
    payload = drawn(playground, look, tokens=[2])["outliers_one"]
    x = np.abs(norm_input(trace, 2, "norm1"))
    one, others, reach = (array(each["y"]) for each in traces(payload))
    np.testing.assert_allclose(one, x[2], rtol=1e-5)
    np.testing.assert_allclose(others, np.median(np.delete(x, 2, 0), 0), rtol=1e-5)
    assert (
        reach.tolist() == [6, 6]
        and "norm at layer 2 · before attention: every dimension of token 2 c" in payload["title"]
    )
    assert payload["note"].startswith(f"{(x[2] >= 6).sum()} of 48 dimensions")
    stream = survey(trace)
    final = {"outliers_map": {"what": "final", "layer": 3}}
    payload = drawn(playground, final)["outliers_one"]
    n = stream.rows(["final"])[0]
    carrier = stream.carrier[n, np.abs(stream.largest[n]).argmax()]
    assert f"token {carrier} " in payload["title"] and "No token is selected" in payload["note"]


def test_the_python_lines_make_the_numbers(playground, lm, monkeypatch):
    edits = [{"kind": "zero", "layer": 1, "head": 2}]
    monkeypatch.setitem(module.RULES, "x20", Rule(2.5))
    parts = drawn(playground, ({"outliers_form": {"rule": "x20"}}), edits=edits, tokens=[3])
    values = run_lines(parts["outliers_map"]["python"], lm)[1][-1]
    np.testing.assert_allclose(heat(parts["outliers_map"]), values, rtol=1e-6)
    table = run_lines(parts["outliers_list"]["python"], lm)[1][-1]
    assert table["dimension"].tolist()[:100] == [row["dimension"] for row in parts["outliers_list"]["rows"]]
    space, (*_, reach) = run_lines(parts["outliers_one"]["python"], lm)
    one, _, line = (array(trace["y"]) for trace in traces(parts["outliers_one"]))
    np.testing.assert_allclose(one, space["sizes"][3], rtol=1e-5)
    assert line[0] == pytest.approx(reach, rel=1e-5)


def test_every_part_is_sent(playground):
    assert set(names_of(VIEW)) <= set(drawn(playground))
