"""From what is picked to what is drawn: heads one by one or together, the cell to explain, the lines of Python."""

import numpy as np
import pytest

from model import api
from model.attention.measures import measure
from model.gpt.edits import Edit
from tests.support.helpers import H
from viz.page.picking import Shown, cell_of, prompt_id, shown_heads
from viz.page.pipeline import Asked, edit_payload, payloads, scene_of
from viz.page.playground import Options, Playground
from viz.page.python_lines import head_lines

PROMPT = "abcabcab"


@pytest.fixture
def scene(playground):
    def make(prompt=PROMPT, **selection):
        return scene_of(playground, asked(prompt, selection={"heads": [[0, 1], [2, 3]], **selection}))

    return make


def asked(prompt=PROMPT, **changes):
    first = {"model_id": "tiny", "selection": None, "values": {}, "shown": {}, "language": "en"}
    return Asked(**{**first, "prompt": prompt, **changes})


def same(z, expected):
    assert np.array_equal(z, expected, equal_nan=True)


# --- what is drawn ---


def test_each_picked_head_has_its_panel_in_the_order_of_picking(scene):
    found = shown_heads(scene(), Shown())
    assert found.heads == [(0, 1), (2, 3)] and [panel.name for panel in found.panels] == ["Head 0.1", "Head 2.3"]
    for panel, head in zip(found.panels, found.heads, strict=True):
        same(panel.z, measure(scene().trace, "weights", *head))
    assert found.title == "Heads 0.1, 2.3"


@pytest.mark.parametrize("of,fold", [("mean", lambda a, b: (a + b) / 2), ("max", np.maximum)])
def test_picked_heads_together(scene, of, fold):
    found = shown_heads(scene(), Shown("value_weighted", of))
    a, b = (measure(scene().trace, "value_weighted", *head) for head in ((0, 1), (2, 3)))
    assert len(found.panels) == 1
    same(found.panels[0].z, fold(a, b))


def test_a_whole_layer_is_that_of_the_main_head(scene):
    found = shown_heads(scene(), Shown("weights", "layer"))
    mean = sum(measure(scene().trace, "weights", 2, head) for head in range(H)) / H
    assert np.allclose(found.panels[0].z, mean, atol=1e-6, equal_nan=True)
    assert found.title == "Mean of all heads of layer 2"


def test_one_head_is_itself_however_it_is_asked_for(scene):
    for of in ("each", "mean", "max"):
        found = shown_heads(scene(heads=[[1, 1]]), Shown("weights", of))
        same(found.panels[0].z, measure(scene().trace, "weights", 1, 1))
        assert found.title == "Head 1.1"


@pytest.mark.parametrize("name", ["rollout", "flow"])
def test_measures_of_layers_are_computed_once_a_run(scene, monkeypatch, name):
    shown = scene()
    first = shown_heads(shown, Shown(name)).panels[0].z
    same(first, measure(shown.trace, name, 2, 0))
    monkeypatch.setattr("viz.page.picking.measure", lambda *_: pytest.fail("computed again"))
    same(shown_heads(shown, Shown(name, "mean")).panels[0].z, first)
    with pytest.raises(pytest.fail.Exception):
        shown_heads(scene("other"), Shown(name))


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


# --- names and lines ---


def test_a_prompt_keeps_its_name_while_it_is_edited(scene):
    edited = scene(edits=[{"kind": "zero", "layer": 1, "head": 0}])
    assert edited.picked.edits == (Edit("zero", 1, 0),) and edited.trace.key.edits
    assert prompt_id(edited) == prompt_id(scene()) != prompt_id(scene("other"))
    assert edited.run != scene().run


@pytest.mark.parametrize("of", ["each", "mean", "max", "layer"])
@pytest.mark.parametrize("name", ["weights", "rollout"])
def test_the_lines_make_what_is_drawn(scene, lm, monkeypatch, of, name):
    monkeypatch.setattr(api, "load_model", lambda model_id: lm)
    edits = [{"kind": "scale", "layer": 0, "head": 2, "factor": 0.5}, {"kind": "block_edge", "query": 6, "key": 3}]
    shown = scene('it\'s "so"\n', edits=edits)
    *first, last = head_lines(shown, Shown(name, of)).split("\n")
    found: dict = {}
    exec("\n".join([*first, f"result = {last.removeprefix('maps = ')}"]), found)
    drawn = [panel.z for panel in shown_heads(shown, Shown(name, of)).panels]
    result = found["result"] if isinstance(found["result"], list) else [found["result"]]
    for ours, theirs in zip(drawn, result, strict=True):
        assert np.allclose(ours, theirs, atol=1e-6, equal_nan=True)


# --- the page's part in it ---


def test_edits_leave_the_token_strip_alone_and_are_told_only_where_they_were_changed(playground):
    _, shown = payloads(playground, asked(selection={"heads": [[2, 3]]}))
    edits = [edit_payload(Edit("zero", 1, 0))]
    parts, shown = payloads(playground, asked(selection={"heads": [[2, 3]], "edits": edits}, shown=shown))
    assert {"heads", "plot"} <= set(parts) and not {"tokens", "selection"} & set(parts)
    wrong = [*edits, {"kind": "block_edge", "query": 30, "key": 1}]
    parts, _ = payloads(playground, asked(selection={"heads": [[2, 3]], "edits": wrong}, shown=shown))
    assert parts["selection"]["edits"] == edits and "plot" not in parts


def test_what_cannot_be_drawn_says_why_in_its_own_place(playground):
    prompt = "ab" * 35
    wide = Playground(Options(model="tiny", max_tokens=100))
    wide.models.get("tiny", lambda: playground.load("tiny"))
    parts, _ = payloads(wide, asked(prompt, values={"looking": {"measure": "flow"}}))
    assert parts["notice"] == {} and parts["heads"]["layers"] == 3
    assert parts["plot"]["problem"]["text"] and parts["plot"]["problem"]["hint"]


def test_a_job_that_ended_has_its_part_drawn_again(playground):
    page = {"tab": "effects", "values": {"effects_view": {"view": "sweep"}}}
    _, shown = payloads(playground, asked(**page))
    assert "sweep_job" not in payloads(playground, asked(**page, shown=shown))[0]
    assert "sweep_job" in payloads(playground, asked(**page, shown=shown, done="1"))[0]


@pytest.mark.parametrize("asks", [{"measure": "scores"}, {"of": "mean"}, {"curve": "log"}])
def test_another_setting_draws_the_map_again_and_the_same_one_does_not(playground, asks):
    _, shown = payloads(playground, asked())
    assert "plot" in payloads(playground, asked(values={"looking": asks}, shown=shown))[0]
    assert "plot" not in payloads(playground, asked(values={"looking": {"measure": "weights"}}, shown=shown))[0]
