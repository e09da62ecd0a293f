"""From what is picked to matrices and their map: heads one by one or together, the cell, the lines of Python."""

import json

import numpy as np
import pytest

from model import api
from model.api import LanguageModel
from model.attention.measures import MEASURES, measure, rows_undefined
from model.gpt.edits import Edit
from tests.support.models.helpers import H, byte_tokenizer, serving, tiny_model
from tests.support.picking import PROMPT, asked
from tests.support.views.views import array, traces
from viz.charts.heatmap import Window
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads
from viz.seam import panels
from viz.views.attention import patterns
from viz.views.attention.cells import cell_of
from viz.views.attention.map import view as map
from viz.views.attention.patterns import titles
from viz.views.attention.tab import TAB
from viz.words import words


def measured(scene, name="weights", of="each"):
    """What is measured for these settings beside the row of views."""
    settings = panels.settings_of(map.VIEW, scene, {"map_form": {"measure": name, "of": of}})
    return panels.measured(map.VIEW, "main", scene, settings).value


def titled(scene, name="weights", of="each"):
    return titles(panels.facts_of(scene), words("en"), name, of)


def drawn(playground, prompt=PROMPT, values=None, **changes):
    """The map's payload."""
    return payloads(playground, asked(prompt, values=values or {}, **changes))[0]["map_plot"]


def same(z, expected):
    assert np.array_equal(z, expected, equal_nan=True)


# --- what is drawn ---


def test_each_picked_head_has_its_panel_in_the_order_of_picking(scene):
    found, called = measured(scene()), titled(scene())
    assert called.heads == ((0, 1), (2, 3)) and called.panels == ("Head 0.1", "Head 2.3")
    for z, head in zip(found.z, called.heads, strict=True):
        same(z, measure(scene().trace, "weights", *head))
    assert called.title == "Heads 0.1, 2.3"


@pytest.mark.parametrize("of,fold", [("mean", lambda a, b: (a + b) / 2), ("max", np.maximum)])
def test_picked_heads_together(scene, of, fold):
    (z,) = measured(scene(), "value_weighted", of).z
    a, b = (measure(scene().trace, "value_weighted", *head) for head in ((0, 1), (2, 3)))
    same(z, fold(a, b))
    assert len(titled(scene(), "value_weighted", of).panels) == 1


def test_a_whole_layer_is_that_of_the_main_head(scene):
    (z,) = measured(scene(), "weights", "layer").z
    mean = sum(measure(scene().trace, "weights", 2, head) for head in range(H)) / H
    assert np.allclose(z, mean, atol=1e-6, equal_nan=True)
    assert titled(scene(), "weights", "layer").title == "Mean of all heads in layer 2"


def test_one_head_is_itself_however_it_is_asked_for(scene):
    alone = scene(heads=[[1, 1]])
    for of in ("each", "mean", "max"):
        same(measured(alone, "weights", of).z[0], measure(alone.trace, "weights", 1, 1))
        assert titled(alone, "weights", of).title == "Head 1.1"


@pytest.mark.parametrize("name", ["rollout", "flow"])
def test_measures_of_layers_are_computed_once_a_run(scene, monkeypatch, name):
    shown = scene()
    (first,) = measured(shown, name).z
    same(first, measure(shown.trace, name, 2, 0))
    monkeypatch.setattr(patterns, "measure", lambda *_: pytest.fail("computed again"))
    same(measured(shown, name, "mean").z[0], first)
    same(measured(scene(heads=[[2, 0]]), name).z[0], first)  # another head of the layer
    with pytest.raises(pytest.fail.Exception):
        measured(scene("other"), name)


def test_a_heads_matrix_is_not_kept(scene):
    shown, before = scene(), scene().playground.results.nbytes
    measured(shown)
    assert shown.playground.results.nbytes == before


def test_rows_without_numbers_are_counted(scene):
    shown = scene(heads=[[0, 1]], edits=[{"kind": "first_token", "layer": 0, "head": 1}])
    lost = rows_undefined(shown.trace.pattern(0, 1))
    assert measured(shown, "without_first").blank == lost > 0 == measured(shown).blank


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_layer_without_a_softmax_says_what_is_drawn_of_it(tmp_path_factory, language):
    changes = {"mixer": ("softmax", "retention", "mamba"), "vocab_size": 256, "n_ctx": 300}
    tokenizer = byte_tokenizer(tmp_path_factory.mktemp("bytes"))
    ours, said = serving(LanguageModel("tiny", "Tiny", tiny_model(changes), tokenizer)), words(language)

    def parts(view, heads, **values):
        chosen = {"attention_view": {"view": view, **values}}
        return payloads(ours, PageRequest("tiny", PROMPT, {"heads": heads}, chosen, {}, language, "attention"))[0]

    weight, hidden = said["measure.weights"], said["attention.hidden.weight"]
    told = said["attention.hidden.note"]
    for heads, layers, name in (
        ([[0, 1]], "", weight),
        ([[1, 0]], "1", hidden),
        ([[2, 1], [1, 3], [2, 0]], "1, 2", hidden),
        ([[0, 1], [2, 1]], "2", weight),
    ):
        note = told.format(layers=layers) if layers else ""
        shown = parts("map", heads)["map_plot"]
        assert shown["note"].endswith(note) and ("2024" in shown["note"]) == bool(layers)
        assert shown["columns"][2] == name and name in shown["figure"].data[0].hovertemplate
        for part in (parts("lines", heads)["lines_links"], parts("text", heads)["text_reading"]):
            assert part["note"] == note and part["measure"] == name
    assert parts("map", [[0, 1]], of="layer")["map_plot"]["note"] == ""
    assert told.format(layers="1") in parts("map", [[1, 0]], of="layer")["map_plot"]["note"]
    rollout = parts("map", [[2, 0]], measure="rollout")["map_plot"]  # all layers up to it
    assert told.format(layers="1, 2") in rollout["note"] and rollout["columns"][2] == said["measure.rollout"]


# --- the cell to explain ---


def test_a_clicked_cell_comes_first(scene):
    assert cell_of(scene(pair=[4, 2], tokens=[7, 1])) == (4, 2)


def test_of_two_tokens_the_later_one_looks(scene):
    assert cell_of(scene(tokens=[2, 6])) == cell_of(scene(tokens=[6, 2])) == (6, 2)


def test_one_token_looks_at_what_the_main_head_reads_most_besides_itself_and_the_first(scene):
    shown = scene(tokens=[5])
    row = shown.trace.pattern(2, 3)[5].copy()
    row[[0, 5]] = -1
    assert cell_of(shown) == (5, int(row.argmax()))
    assert cell_of(scene())[0] == len(PROMPT) - 1  # with nothing picked, the last token


@pytest.mark.parametrize("prompt,cell", [("a", (0, 0)), ("ab", (1, 0))])
def test_short_prompts_have_a_cell_too(scene, prompt, cell):
    assert cell_of(scene(prompt)) == cell


# --- the lines of Python ---


@pytest.mark.parametrize("of", ["each", "mean", "max", "layer"])
@pytest.mark.parametrize("name", ["weights", "rollout"])
def test_the_lines_make_what_is_drawn(scene, lm, monkeypatch, of, name):
    monkeypatch.setattr(api, "load_model", lambda model_id: lm)
    edits = [{"kind": "scale", "layer": 0, "head": 2, "factor": 0.5}, {"kind": "block_edge", "query": 6, "key": 3}]
    shown = scene('it\'s "so"\n', edits=edits)
    assert shown.picked.edits == (Edit("scale", 0, 2, factor=0.5), Edit("block_edge", query=6, key=3))
    *first, last = patterns.lines_of(panels.facts_of(shown), name, of).split("\n")
    found: dict = {}
    exec("\n".join([*first, f"result = {last.removeprefix('maps = ')}"]), found)
    result = found["result"] if isinstance(found["result"], list) else [found["result"]]
    for ours, theirs in zip(measured(shown, name, of).z, result, strict=True):
        assert np.allclose(ours, theirs, atol=1e-6, equal_nan=True)


# --- the page's part in it ---


def test_the_map_shows_the_matrix_of_the_settings_beside_the_row_of_views(playground, lm):
    values = {"attention_view": {"view": "map", "measure": "scores", "of": "each", "curve": "log"}}
    payload = drawn(playground, values=values, selection={"heads": [[2, 3]]})
    (heat,) = traces(json.loads(packed(payload)))
    same(array(heat["z"]), measure(lm.trace(PROMPT), "scores", 2, 3))
    assert payload["source"].endswith("colors: logarithmic") and payload["title"] == "Head 2.3"
    assert payload["columns"][2] == "score before the softmax"


@pytest.mark.parametrize("asks", [{"measure": "scores"}, {"of": "mean"}, {"curve": "log"}])
def test_another_setting_draws_the_map_again_and_the_same_one_does_not(playground, asks):
    selection = {"heads": [[0, 1], [2, 3]]}
    _, shown = payloads(playground, asked(selection=selection))
    again = payloads(playground, asked(selection=selection, values={"attention_view": asks}, shown=shown))[0]
    assert "map_plot" in again
    usual = {"attention_view": {"measure": "weights"}}
    assert "map_plot" not in payloads(playground, asked(selection=selection, values=usual, shown=shown))[0]


def test_settings_stay_from_view_to_view_and_are_shown_where_they_count():
    controls = {each["name"]: each for each in TAB.fixed(words("en"))["attention_view"]["controls"]}
    assert list(controls) == ["view", "measure", "of", "unit", "curve"]
    assert controls["curve"]["when"] == {"view": ["map"]}
    for name in ("measure", "of", "unit"):
        assert controls[name]["when"] == {"view": ["map", "lines", "text"]}
    assert [option[0] for option in controls["measure"]["options"]] == list(MEASURES)
    texts = [option[2] for option in controls["measure"]["options"]]
    assert all(entry.source in text for entry, text in zip(MEASURES.values(), texts, strict=True))


@pytest.mark.parametrize("sent", [None, 3, {"run": 7, "window": [1, 4, 0, 4]}, {"run": [], "window": "x"}])
def test_a_window_of_no_run_is_the_whole(scene, sent):
    assert map.window_of(sent, scene()) == Window.whole(len(PROMPT))


def test_a_window_is_of_its_run(scene):
    shown = scene()
    assert map.window_of({"run": f"{shown.run} 0.1", "window": [1, 4, 0, 4]}, shown) == Window(1, 4, 0, 4)
    assert map.window_of({"run": f"{shown.run} 0.1", "window": [1, 4, 0, 4]}, scene("other")) == Window.whole(5)
