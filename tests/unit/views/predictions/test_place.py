"""Place a vector without a browser: the cells that are picked, the grid after it, its effect, its edit, its lines."""

import dataclasses

import numpy as np
import pytest

from model.errors import InputError
from model.gpt.edit_checks import edit_of
from model.gpt.placed_vectors import vector_of
from model.steering.placing import placing, placing_edit, reachable
from model.tracing.logit_lens import read_layers
from tests.support.models.helpers import L, assert_close, byte_tokenizer
from tests.support.views.views import PROMPT, array, no_holes, playground_of, question, run_lines
from viz.api.registry import call
from viz.page.pipeline import payloads
from viz.views.predictions.place.measure import DRAWS, MOST_COLUMNS, read_cells
from viz.views.predictions.place.view import VIEW

SOURCE, T = "abd xbcd", len(PROMPT)
CELLS = {"source": [2, 5], "target": [1, 4]}


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    return playground_of(byte_tokenizer(tmp_path_factory.mktemp("bytes")), "llama")


def parts(playground, cells=CELLS, source=SOURCE, **changes):
    asked = question("predictions", "place", {"source": source}, **changes)
    asked = dataclasses.replace(asked, values=asked.values | {"place_grids": cells})
    found = payloads(playground, asked)[0]
    return {name.removeprefix("place_"): part for name, part in found.items() if name.startswith("place_")}


def test_cells_of_a_page_are_pairs_of_numbers():
    assert read_cells(CELLS, None) == ((2, 5), (1, 4))
    for bad in (None, 3, {}, {"source": [1], "target": "x"}, {"source": [True, 1], "target": [-1, 1]}):
        assert read_cells(bad, None) == (None, None)


def test_the_grids_are_the_lens_of_the_three_runs_and_mark_what_could_not_change(playground):
    found, lm = parts(playground), playground.opened("tiny")
    no_holes(found)
    run, other = lm.trace(PROMPT), lm.trace(SOURCE)
    after = run.edit(placing_edit(other.hidden(2)[5], 1, 4))
    for name, each in (("source", other), ("target", run), ("after", after)):
        grid = found["grids"]["grids"][name]
        assert grid["ids"] == read_layers(each, range(len(each.tokens)), top=3).ids.ravel().tolist()
        assert grid["cell"] == CELLS.get(name, CELLS["target"])
    reach = np.array(found["grids"]["grids"]["after"]["reach"]).reshape(L + 1, T)
    assert np.array_equal(reach, reachable(run, 1, 4)) and reach.sum() == 1 + (L - 1) * (T - 4)
    moved = array(found["grids"]["grids"]["after"]["values"])
    expected = np.linalg.norm(after.residuals - run.residuals, axis=-1) / np.linalg.norm(run.residuals, axis=-1)
    assert_close(moved.reshape(L + 1, T), expected, 1e-5)
    assert not moved.reshape(L + 1, T)[~reach].any()


def test_the_effect_stands_beside_random_vectors_and_the_edit_is_what_was_shown(playground):
    found, lm = parts(playground), playground.opened("tiny")
    run, other = lm.trace(PROMPT), lm.trace(SOURCE)
    edit = edit_of(found["use"]["edit"], lm.config, T)
    assert (edit.layer, edit.site, edit.positions, edit.name) == (0, "resid_post", "4", "“b” after 2 layers")
    assert_close(vector_of(edit.vector), other.hidden(2)[5], 1e-5)
    effect = placing(run, other.hidden(2)[5], 1, 4, int(other.logits_at(5).argmax()), draws=DRAWS)
    values = run_lines(found["grids"]["python"], lm)[1]
    assert values[-1].kl == pytest.approx(effect.kl, rel=1e-4) and np.array_equal(values[-2], reachable(run, 1, 4))
    assert found["prediction"]["kl"] == pytest.approx(effect.kl, rel=1e-4)
    earlier = parts(playground, tokens=[2])["use"]["told"]
    assert "could not change" in " ".join(earlier) and "could not change" not in " ".join(found["use"]["told"])


def test_a_cell_placed_on_itself_changes_nothing(playground):
    found = parts(playground, {"source": [2, 4], "target": [2, 4]}, "")
    assert not array(found["grids"]["grids"]["after"]["values"]).any() and found["prediction"]["kl"] == 0


def test_what_lies_outside_the_grid_becomes_its_edge_and_long_prompts_are_cut(playground):
    found = parts(playground, {"source": [99, 99], "target": [0, 99]})["grids"]["grids"]
    assert found["source"]["cell"] == [L, len(SOURCE) - 1] and found["target"]["cell"] == [1, T - 1]
    long = parts(playground, {"target": [1, 3]}, prompt="abc " * 10)["grids"]["grids"]
    assert len(long["target"]["positions"]) <= MOST_COLUMNS and 3 in long["target"]["positions"]


def test_a_hidden_token_passes_nothing_on(playground):
    found = parts(playground, edits=[{"kind": "hide_token", "positions": "4"}])["grids"]["grids"]["after"]
    reach = np.array(found["reach"]).reshape(L + 1, T)
    assert reach[1:, 4].all() and reach.sum() == L


def test_for_programs_the_same_numbers(playground):
    sent = {"prompt": PROMPT, "source": SOURCE, "source_layers": 2, "source_position": 5, "layers": 1, "target": 4}
    found, lm = call(playground, VIEW.api[0], sent), playground.opened("tiny")
    run, other = lm.trace(PROMPT), lm.trace(SOURCE)
    effect = placing(run, other.hidden(2)[5], 1, 4, found["watched"]["id"], draws=DRAWS)
    assert found["kl"] == pytest.approx(effect.kl, rel=1e-4) and found["target_cell"] == [1, 4]
    assert found["share"] == pytest.approx(effect.share, rel=1e-4)
    assert np.array_equal(found["reach"], reachable(run, 1, 4))
    assert_close(vector_of(edit_of(found["edit"], lm.config, T).vector), other.hidden(2)[5], 1e-5)
    assert call(playground, VIEW.api[0], {"prompt": PROMPT})["source_cell"][0] == 3 * L // 4
    for bad in ({"source_position": 99}, {"target": 99}, {"layers": 99}):
        with pytest.raises(InputError):
            call(playground, VIEW.api[0], sent | bad)
