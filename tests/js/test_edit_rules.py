"""What the editor puts in force, and what a list of heads does to the edits in force."""

import pytest

from model.gpt.edits import EDITS

pytestmark = pytest.mark.browser

LIMITS = {
    "words": {name: name for name in ("no_heads", "key_later", "query_first", "row_empty", "nothing_new")}
    | {"bad_factor": "{low} to {high}", "bad_value": "{low} to {high}", "bad_neuron": "0 to {last}",
       "too_many": "at most {most}"},
    "kinds": [{"key": key, "of": kind.of, "site": kind.site, "needs": kind.needs} for key, kind in EDITS.items()],
    "factor": 4, "value": 9, "neurons": 8, "most": 3,
}  # fmt: skip
ZERO = {"kind": "zero", "layer": 0, "head": 1}
HOLD = {"kind": "neuron_value", "layer": 1, "neuron": 7, "value": -2}
ADD = {"kind": "add_direction", "layer": 0, "token": 5, "factor": 3}
HIDE, MEAN = {"kind": "hide_token", "positions": "2"}, {"kind": "embed_mean", "positions": "2"}
NEURON = {"kind": "neuron_value", "block": 1, "neuron": "7", "value": "-2"}


@pytest.mark.parametrize(("form", "pair", "heads", "edits", "found"), [
    ({"kind": "zero"}, [1, 0], [[0, 1]], [], {"next": [ZERO]}),
    ({"kind": "zero"}, [1, 0], [], [], {"problem": "no_heads"}),
    ({"kind": "zero"}, [1, 0], [[0, 1]], [ZERO], {"note": "nothing_new"}),
    ({"kind": "scale", "factor": "2"}, [1, 0], [[0, 1]], [ZERO], {"next": [ZERO | {"kind": "scale", "factor": 2}]}),
    ({"kind": "scale", "factor": ""}, [1, 0], [[0, 1]], [], {"problem": "-4 to 4"}),
    ({"kind": "scale", "factor": "-5"}, [1, 0], [[0, 1]], [], {"problem": "-4 to 4"}),
    ({"kind": "uniform"}, [1, 0], [[0, 1]], [ZERO], {"next": [ZERO, ZERO | {"kind": "uniform"}]}),
    ({"kind": "zero"}, [1, 0], [[0, n] for n in range(4)], [], {"problem": "at most 3"}),
    ({"kind": "block_edge", "everywhere": True}, [2, 1], [], [],
     {"next": [{"kind": "block_edge", "query": 2, "key": 1}]}),
    ({"kind": "block_edge"}, [1, 2], [[0, 1]], [], {"problem": "key_later"}),
    ({"kind": "block_edge"}, [0, 0], [[0, 1]], [], {"problem": "query_first"}),
    ({"kind": "block_edge", "everywhere": True}, [1, 1], [], [{"kind": "block_edge", "query": 1, "key": 0}],
     {"problem": "row_empty"}),
    ({"kind": "block_edge"}, [1, 1], [[0, 1]], [{"kind": "block_edge", "query": 1, "key": 0}],
     {"problem": "row_empty"}),
    ({"kind": "block_edge"}, [2, 1], [[0, 1]], [{"kind": "block_edge", "query": 2, "key": 0, "layer": 1, "head": 1}],
     {"next": [{"kind": "block_edge", "query": 2, "key": 0, "layer": 1, "head": 1},
               {"kind": "block_edge", "layer": 0, "head": 1, "query": 2, "key": 1}]}),
    ({"kind": "mlp_zero", "block": 1}, [1, 0], [], [ZERO], {"next": [ZERO, {"kind": "mlp_zero", "layer": 1}]}),
    ({"kind": "mlp_scale", "block": 1, "factor": "2"}, [1, 0], [[0, 1]], [{"kind": "mlp_zero", "layer": 1}],
     {"next": [{"kind": "mlp_scale", "layer": 1, "factor": 2}]}),
    ({"kind": "mlp_scale", "block": 1, "factor": "5"}, [1, 0], [], [], {"problem": "-4 to 4"}),
    (NEURON, [1, 0], [], [], {"next": [HOLD]}),
    (NEURON | {"neuron": "3"}, [1, 0], [], [HOLD], {"next": [HOLD, HOLD | {"neuron": 3}]}),
    (NEURON | {"value": "4"}, [1, 0], [], [HOLD], {"next": [HOLD | {"value": 4}]}),
    (NEURON, [1, 0], [], [HOLD], {"note": "nothing_new"}),
    (NEURON | {"neuron": "8"}, [1, 0], [], [], {"problem": "0 to 7"}),
    (NEURON | {"neuron": "1.5"}, [1, 0], [], [], {"problem": "0 to 7"}),
    (NEURON | {"neuron": ""}, [1, 0], [], [], {"problem": "0 to 7"}),
    (NEURON | {"value": ""}, [1, 0], [], [], {"problem": "-9 to 9"}),
    (NEURON | {"value": "10"}, [1, 0], [], [], {"problem": "-9 to 9"}),
    ({"kind": "add_direction", "block": 0, "token": 5, "factor": "3"}, [1, 0], [], [], {"next": [ADD]}),
    ({"kind": "project_out", "block": 0, "token": 6}, [1, 0], [], [ADD],
     {"next": [ADD, {"kind": "project_out", "layer": 0, "token": 6}]}),
    ({"kind": "project_out", "block": 0, "token": 5}, [1, 0], [], [ADD],
     {"next": [{"kind": "project_out", "layer": 0, "token": 5}]}),
    ({"kind": "hide_token", "positions": "2"}, [1, 0], [], [{"kind": "block_edge", "query": 2, "key": 1}],
     {"next": [{"kind": "block_edge", "query": 2, "key": 1}, {"kind": "hide_token", "positions": "2"}]}),
    ({"kind": "hide_token", "positions": "2"}, [1, 0], [], [HIDE], {"note": "nothing_new"}),
    ({"kind": "embed_token", "positions": "2", "token": 5}, [1, 0], [], [HIDE, MEAN],
     {"next": [HIDE, {"kind": "embed_token", "positions": "2", "token": 5}]}),
    ({"kind": "embed_zero", "positions": "1"}, [1, 0], [], [MEAN],
     {"next": [MEAN, {"kind": "embed_zero", "positions": "1"}]}),
])  # fmt: skip
def test_a_form_becomes_edits_or_says_why_not(call, form, pair, heads, edits, found):
    given = (LIMITS, form, pair, {"heads": heads, "edits": edits})
    assert call("views/effects/edit_rules.js", "module.wantedEdits", *given) == found


SITES = {"zero": "z", "mean": "z", "scale": "z", "uniform": "pattern", "block_edge": "scores"}


@pytest.mark.parametrize(("edits", "heads", "next_"), [
    ([], [[0, 1], [1, 1]], [ZERO, ZERO | {"layer": 1}]),
    ([ZERO, ZERO | {"kind": "uniform"}], [[0, 1]], [ZERO | {"kind": "uniform"}, ZERO]),
    ([ZERO | {"kind": "scale", "factor": 2}, ZERO | {"head": 3}], [[0, 1]], [ZERO | {"head": 3}, ZERO]),
    ([{"kind": "block_edge", "query": 2, "key": 1}], [[0, 1]], [{"kind": "block_edge", "query": 2, "key": 1}, ZERO]),
])  # fmt: skip
def test_heads_that_are_switched_off_lose_other_edits_of_their_output_only(call, edits, heads, next_):
    assert call("page/selection/off.js", "module.switchedOff", edits, heads, SITES) == next_
