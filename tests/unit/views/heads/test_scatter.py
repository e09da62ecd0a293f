"""One metric against another: points are the heads' numbers, and what is missing is said."""

import numpy as np
import pandas as pd

from model.attention.surveys import LABELS
from tests.support.models.helpers import H, L, serving
from tests.support.views.views import array, drawn, traces
from viz.numbers import exact, number
from viz.theme import HUES

PROMPT = "abcab"
INDEX = pd.MultiIndex.from_product([range(L), range(H)], names=["layer", "head"])
HEADS = [list(head) for head in INDEX]


def parts_of(playground, form=None, **changes):
    return drawn(playground, "heads", "heads", form, **{"prompt": PROMPT, "heads": [[1, 2]], **changes})


def test_points_are_the_heads_numbers(playground, lm):
    payload = parts_of(playground, form={"x": "entropy", "y": "distance"})["scatter"]
    points, rings = traces(payload)
    frame = lm.trace(PROMPT).head_metrics().astype(float)
    assert (array(points["x"]) == frame["entropy"]).all() and (array(points["y"]) == frame["distance"]).all()
    assert [point["head"] for point in points["customdata"]] == HEADS
    assert (array(points["marker"]["color"]) == INDEX.get_level_values("layer")).all()
    value = frame.loc[(1, 2)]
    told = points["hovertext"][HEADS.index([1, 2])].split("<br>")
    assert told == [
        "head 1.2",
        f"entropy: {exact(value['entropy'])}",
        f"mean distance: {exact(value['distance'])}",
        "layer: 1",
    ]
    assert [array(rings[axis]).tolist() for axis in "xy"] == [[value["entropy"]], [value["distance"]]]
    assert rings["hoverinfo"] == "skip" and "error_x" not in rings
    layout = payload["figure"]["layout"]
    assert layout["xaxis"]["title"]["text"] == "entropy (fraction of the maximum)"
    assert layout["yaxis"]["title"]["text"] == "mean distance (tokens)"
    assert payload["columns"] == ["head", "entropy", "mean distance"]


def test_picked_heads_are_ringed_in_their_hues_with_their_spread(measured):
    playground, found = measured
    picked = [(2, 3), (0, 1), (1, 1)]
    payload = parts_of(playground, form={"source": "random"}, heads=[list(h) for h in picked])["scatter"]
    points, rings = traces(payload)
    mean, spread = found.random.mean, found.random.spread
    assert rings["text"] == ["2.3", "0.1", "1.1"]
    assert rings["marker"]["color"] == list(HUES[:3])
    for axis, key in (("x", "previous_token"), ("y", "induction")):
        assert (array(rings[axis]) == mean.loc[picked, key]).all()
        assert (array(rings[f"error_{axis}"]["array"]) == spread.loc[picked, key]).all()
    assert f"± {number(spread.at[(0, 2), 'induction'])}" in points["hovertext"][2]


def test_colors_by_name(measured):
    playground, _ = measured
    form = {"source": "random", "colour": "label"}
    points = traces(parts_of(playground, form=form)["scatter"])[:-1]
    by_name = {trace["name"]: [tuple(point["head"]) for point in trace["customdata"]] for trace in points}
    assert by_name.pop("no name") == [tuple(h) for h in HEADS if tuple(h) not in ((2, 1), (0, 3))]
    assert by_name == {"first token": [(0, 3)], "induction": [(2, 1)]}
    hues = {trace["name"]: trace["marker"]["color"] for trace in points}
    assert hues["induction"] == HUES[LABELS.index("induction")] and len(set(hues.values())) == 3
    induction = next(trace for trace in points if trace["name"] == "induction")
    assert induction["hovertext"][0].endswith("induction: 0.7<br>self: 0.4")


def test_colors_that_need_the_survey_wait_for_it(playground, measured):
    fresh = serving(playground.load("tiny"))
    for color in ("label", "copying"):
        waiting = parts_of(fresh, form={"colour": color})["scatter"]
        points = traces(waiting)[0]
        assert (array(points["marker"]["color"]) == INDEX.get_level_values("layer")).all()
        assert "Colored by layer" in waiting["note"]
    instead = parts_of(fresh, form={"x": "copying"})["scatter"]
    assert instead["title"] == "All heads: first token (sink) and induction"
    assert "not been measured" in instead["note"] and "Shown: first token (sink), not copying (OV)." in instead["note"]
    found = measured[1]
    payload = parts_of(playground, form={"x": "copying", "colour": "copying"})["scatter"]
    points = traces(payload)[0]
    assert (array(points["x"]) == np.ravel(found.copying)).all()
    assert (array(points["marker"]["color"]) == np.ravel(found.copying)).all()
    assert (payload["figure"]["layout"]["coloraxis"]["cmin"], payload["figure"]["layout"]["coloraxis"]["cmax"]) == (
        -1,
        1,
    )


def test_a_metric_without_numbers_gives_way_and_that_is_said(playground, lm):
    frame = lm.trace("abcd").head_metrics().astype(float)
    payload = parts_of(playground, prompt="abcd")["scatter"]
    points = traces(payload)[0]
    assert (array(points["y"]) == frame["first_token"]).all()
    assert "earlier copy" in payload["note"] and "Shown: first token (sink), not induction" in payload["note"]
    assert payload["title"] == "All heads: previous token and first token (sink)"
    both = parts_of(playground, prompt="abcd", form={"x": "duplicate_token", "y": "induction"})["scatter"]
    points = traces(both)[0]
    assert (array(points["x"]) == frame["first_token"]).all() and (array(points["y"]) == frame["entropy"]).all()
    assert (
        parts_of(playground, prompt="a")["scatter"]["empty"]["hint"] == "A single token has no earlier token to read."
    )


def test_one_metric_against_itself(playground):
    points, rings = traces(parts_of(playground, form={"x": "self", "y": "self"})["scatter"])
    assert (array(points["x"]) == array(points["y"])).all() and len(array(rings["x"])) == 1
    assert points["hovertext"][0].count("self") == 1


def test_heads_without_a_number_are_left_out(measured):
    playground, found = measured
    found.random.mean.loc[[(0, 1), (1, 2)], "induction"] = np.nan
    points, rings = traces(parts_of(playground, form={"source": "random"})["scatter"])
    left = [head for head in HEADS if head not in ([0, 1], [1, 2])]
    assert [point["head"] for point in points["customdata"]] == left
    assert (array(points["marker"]["color"]) == [layer for layer, _ in left]).all()
    assert len(array(rings["x"])) == 0  # the picked head is one of them
