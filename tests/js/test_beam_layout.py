"""Where the nodes of a beam search stand, and where the arrow keys lead."""

import pytest

pytestmark = pytest.mark.browser

LAYOUT = "views/sampling/beam_tree/layout.js"


def node(step, parent, group=0, state="kept"):
    return {"step": step, "parent": parent, "group": group, "state": state}


# Two groups; in the first, nodes 0 and 1 at step 1, and two children of 0, the second of them final.
NODES = [
    node(1, -1),
    node(1, -1, state="pruned"),
    node(1, -1, group=1),
    node(2, 0, state="pruned"),
    node(2, 0, state="final"),
    node(2, 2, group=1, state="final"),
]


@pytest.mark.parametrize("narrow", [False, True])
def test_nodes_do_not_overlap_and_stay_on_the_board(call, narrow):
    plan = call(LAYOUT, "module.layout", NODES, 2, narrow)
    high = call(LAYOUT, "() => module.HIGH")
    wide, places = plan["sizes"]["node"], plan["places"]
    for n, one in enumerate(places):
        assert 0 <= one["x"] <= plan["width"] - wide and high / 2 <= one["y"] <= plan["height"] - high / 2
        for other in places[:n]:
            assert one["x"] != other["x"] or abs(one["y"] - other["y"]) >= high
    assert [place["x"] for place in places[:3]] == [plan["columns"][0]] * 3 and places[3]["x"] == plan["columns"][1]
    assert plan["columns"][0] > plan["sizes"]["root"]
    first, second = plan["blocks"]
    assert all((place["y"] > second) == bool(each["group"]) for place, each in zip(places, NODES, strict=True))
    assert first < places[0]["y"] < places[1]["y"] < second


def test_a_path_goes_back_to_the_first_token(call):
    assert call(LAYOUT, "module.pathTo", NODES, 4) == [0, 4] and call(LAYOUT, "module.pathTo", NODES, 1) == [1]


@pytest.mark.parametrize(
    ("key", "at", "to"),
    [
        ("ArrowRight", 0, 4),  # not to the pruned child
        ("ArrowRight", 1, None),
        ("ArrowLeft", 4, 0),
        ("ArrowLeft", 0, None),
        ("ArrowDown", 0, 1),
        ("ArrowDown", 2, None),  # the next node is of another step
        ("ArrowUp", 4, 3),
        ("ArrowUp", 3, None),
        ("Home", 4, 0),
        ("End", 0, 5),
        ("a", 0, None),
    ],
)
def test_arrow_keys_follow_the_tree(call, key, at, to):
    assert call(LAYOUT, "module.stepOf", NODES, key, at) == to
