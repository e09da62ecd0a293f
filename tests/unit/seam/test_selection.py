"""What a page says is picked is taken only where it fits the model and the prompt."""

import pytest

from model.gpt.edits import Edit
from tests.support.models.helpers import H, L, M, tiny_config
from viz.seam.selection import MOST_EDITS, MOST_HEADS, Selection, picked

T = 6


def of(**given) -> Selection:
    return picked(given, tiny_config(), T)


def test_everything_that_fits_is_taken_in_its_order():
    edit = {"kind": "zero", "layer": 1, "head": 2}
    assert of(heads=[[2, 1], [0, 3]], tokens=[5, 0], pair=[4, 4], edits=[edit]) == Selection(
        ((2, 1), (0, 3)), (5, 0), (4, 4), (Edit("zero", 1, 2),)
    )


@pytest.mark.parametrize("value", [None, "x", 7, [], [["heads"]], {"heads": None, "tokens": {}, "edits": "zero"}])
def test_what_is_no_selection_is_empty(value: object):
    assert picked(value, tiny_config(), T) == Selection()


@pytest.mark.parametrize(
    "head", [[L, 0], [0, H], [-1, 0], [0, -1], [0], [0, 1, 2], ["0", "1"], [True, 0], [0.0, 1.0], None, {}, [[0], 1]]
)
def test_a_head_that_is_not_of_the_model_is_left_out(head: object):
    assert of(heads=[head, [1, 1]]).heads == ((1, 1),)


@pytest.mark.parametrize("token", [T, -1, "0", 1.0, True, None, [1]])
def test_a_token_that_is_not_of_the_prompt_is_left_out(token: object):
    assert of(tokens=[3, token]).tokens == (3,)


@pytest.mark.parametrize("pair", [[2, 3], [T, 0], [3, -1], [3], "32", [3.0, 1.0], None])
def test_a_cell_that_is_masked_or_outside_is_left_out(pair: object):
    assert of(pair=pair).pair is None


def test_an_edit_that_does_not_fit_is_left_out():
    good = {"kind": "block_edge", "query": 5, "key": 1}
    assert of(edits=[{"kind": "zero", "layer": L, "head": 0}, {"kind": "boom"}, good, 3]).edits == (
        Edit("block_edge", query=5, key=1),
    )
    assert picked({"edits": [good]}, tiny_config(), 5).edits == ()  # the prompt became shorter


@pytest.mark.parametrize(
    "edit",
    [
        {"kind": "mlp_zero", "layer": L},
        {"kind": "mlp_zero", "layer": "0"},
        {"kind": "neuron_zero", "layer": 0, "neuron": M},
        {"kind": "neuron_value", "layer": 0, "neuron": 0, "value": 1e9},
        {"kind": "add_direction", "layer": 0, "token": -1, "factor": 1},
        {"kind": "add_direction", "layer": 0, "token": 40, "factor": 1},
        {"kind": "project_out", "layer": 0, "token": "<b>"},
    ],
)
def test_an_edit_of_what_is_not_there_is_left_out(edit: dict):
    good = [
        {"kind": "mlp_mean", "layer": 1},
        {"kind": "neuron_value", "layer": 0, "neuron": M - 1, "value": -2},
        {"kind": "add_direction", "layer": 2, "token": 39, "factor": 1},
    ]
    found = picked({"edits": [edit, *good]}, tiny_config(), T, size=40)
    assert found.edits == (
        Edit("mlp_mean", 1),
        Edit("neuron_value", 0, neuron=M - 1, value=-2.0),
        Edit("add_direction", 2, token=39, factor=1.0),
    )


def test_there_are_bounds():
    heads = [[layer, head] for layer in range(L) for head in range(H)]
    assert of(heads=heads + heads).heads == tuple(map(tuple, heads[-MOST_HEADS:]))
    assert len(of(edits=[{"kind": "zero", "layer": 0, "head": 0}] * 1000).edits) == MOST_EDITS


def test_heads_ids_and_edits_of_another_model_go():
    sent = {
        "heads": [[0, 1]],
        "edits": [{"kind": "zero", "layer": 0, "head": 0}],
        "target": 3,
        "distractor": 0,
        "of": "tiny",
    }
    here, there = picked(sent, tiny_config(), T, "tiny"), picked(sent, tiny_config(), T, "other")
    assert (here.heads, here.target, here.distractor, len(here.edits)) == (((0, 1),), 3, 0, 1)
    assert (there.heads, there.target, there.distractor, there.edits) == ((), None, None, ())
    assert picked({"target": 3}, tiny_config(), T, "tiny").target == 3  # a link names its model itself


@pytest.mark.parametrize("token", [-1, 40, "1", 1.0, True, [1], {}])
def test_a_watched_token_outside_the_vocabulary_is_none(token: object):
    found = picked({"target": token, "distractor": token}, tiny_config(), T, size=40)
    assert (found.target, found.distractor) == (None, None)
