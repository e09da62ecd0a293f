"""Finding a head: what a page may send, which rows are taken, and that the list and the map are rank_heads."""

import base64
import json

import numpy as np
import pytest

from model.attention.find_heads import rank_heads
from model.errors import InputError
from model.gpt.edits import Edit
from tests.support.models.helpers import byte_model
from viz.charts.layer_head_map import HeadWords
from viz.page.parts import packed
from viz.seam import panels
from viz.seam.scene import Scene, prompt_id
from viz.seam.selection import Selection
from viz.views.attention.cells import cell_of
from viz.views.attention.find import view as find
from viz.views.attention.find.figures import even_share, heads_figure, positions_of, ranked
from viz.words import words
from viz.work.playground import Options, Playground
from viz.work.prompt import Prompt

NONE = {"tokens": [], "pair": None}


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    """A shaken model of 3 layers x 4 heads over single bytes."""
    return byte_model(tmp_path_factory.mktemp("bytes"), 1024)


def scene_of(lm, prompt="abcabd", *, edits=(), language="en", head=(1, 2), tokens=(), pair=None) -> Scene:
    playground = Playground(Options(model="tiny"))
    trace = playground.trace(lm, Prompt(prompt), tuple(edits))
    picked = Selection((head,), tuple(tokens), pair, tuple(edits))
    return Scene(playground, lm, Prompt(prompt), trace, "run", words(language), language, picked)


def value_of(scene, queries, keys, measure="weights", at=NONE) -> dict:
    return {"find_rows": {"run": prompt_id(scene), "at": at, "from": queries, "to": keys, "measure": measure}}


def rows(scene, values=None) -> tuple:
    chosen = find.chosen_of((values or {}).get("find_rows"), scene)
    return chosen.queries, chosen.keys


def made(scene, values) -> tuple[dict, dict]:
    pictures = panels.pictures(find.VIEW, scene, values)
    return tuple(json.loads(packed(pictures[name].make())) for name in ("find_rows", "find_map"))


# --- numbers ---


def test_heads_are_listed_largest_first():
    found = ranked(np.array([[0.1, 0.5], [np.nan, 0.5], [0.9, 0.0]], np.float32), limit=4)
    assert [line["head"] for line in found] == [[2, 0], [0, 1], [1, 1], [0, 0]]
    assert found[0]["value"] == pytest.approx(0.9)


def test_even_share_by_hand():
    assert even_share([3], [1]) == 0.25
    assert even_share([3, 1], [1, 2]) == pytest.approx((2 / 4 + 1 / 2) / 2)
    assert even_share([0], [0]) == 1


def test_figure_has_layers_down_and_heads_across():
    values = np.arange(6, dtype=np.float32).reshape(3, 2)  # 3 layers, 2 heads
    said = HeadWords("layer", "head", "m")
    figure = heads_figure(values, said, "size")
    heat = figure.data[0]
    assert np.array_equal(heat.z, values) and (len(heat.x), len(heat.y)) == (2, 3)
    assert heat.hovertemplate == "layer %{y}, head %{x}<br>m: %{z:.4f}<extra></extra>"
    assert figure.layout.coloraxis.cmax == 5 and figure.layout.meta["heads"] is True
    assert figure.layout.yaxis.autorange == "reversed"  # layer 0 is on top
    assert heads_figure(values, said, "share").layout.coloraxis.cmax == 1


@pytest.mark.parametrize(
    ("value", "positions"),
    [
        ([3, 1, 1], (1, 3)),
        ([], ()),
        ([0, 6, -1, 5], (0, 5)),
        ([True, "1", 1.0, None, [2], 2], (2,)),
        ([10**400, float("nan")], ()),
        (None, None),
        ("123", None),
        ({"0": 1}, None),
        (3, None),
    ],
)
def test_positions_of_a_page_are_checked(value, positions):
    assert positions_of(value, 6) == positions


# --- which rows ---


def test_rows_follow_the_selection(lm):
    assert rows(scene_of(lm, tokens=[4, 1], pair=(4, 1))) == ((4,), (1,))
    assert rows(scene_of(lm, tokens=[1], pair=(1, 1))) == ((1,), (1,))
    assert rows(scene_of(lm, tokens=[3, 5, 0])) == ((5,), (0, 3))
    alone, none = scene_of(lm, tokens=[3]), scene_of(lm)
    assert rows(alone) == ((3,), (cell_of(alone)[1],))
    assert rows(none) == ((5,), (cell_of(none)[1],))
    assert rows(scene_of(lm, "a")) == ((0,), (0,))


def test_chosen_rows_are_kept_on_the_same_prompt_and_selection(lm):
    scene = scene_of(lm)
    sent = value_of(scene, [5, 4], [0, 2])
    assert rows(scene, sent) == ((4, 5), (0, 2))
    assert rows(scene_of(lm, head=(0, 3)), sent) == ((4, 5), (0, 2))
    assert rows(scene_of(lm, edits=[Edit("zero", 0, 1)]), sent) == ((4, 5), (0, 2))


def test_rows_of_another_prompt_or_selection_are_dropped(lm):
    scene = scene_of(lm)
    sent = value_of(scene, [5, 4], [0, 2])
    assert rows(scene_of(lm, "abcabe"), sent) == rows(scene_of(lm, "abcabe"))
    assert rows(scene_of(lm, tokens=[2, 1]), sent) == ((2,), (1,))
    assert rows(scene_of(lm, tokens=[4, 1], pair=(4, 1)), sent) == ((4,), (1,))
    kept = value_of(scene, [5], [0], at={"tokens": [2, 1], "pair": None})
    assert rows(scene_of(lm, tokens=[2, 1]), kept) == ((5,), (0,))


@pytest.mark.parametrize("value", [None, "x", 3, [], {}, {"from": [5], "to": [0]}, {"run": [], "at": 3, "from": "a"}])
def test_what_is_no_value_is_the_default(lm, value):
    scene = scene_of(lm)
    assert rows(scene, {"find_rows": value}) == rows(scene)
    half = {**value_of(scene, [5], None)["find_rows"]}
    assert rows(scene, {"find": half}) == rows(scene)


def test_an_unknown_measure_is_the_first(lm):
    scene = scene_of(lm)
    for measure in ("rollout", None, 3, ["weights"]):
        assert find.chosen_of(value_of(scene, [5], [0], measure)["find_rows"], scene).measure == "weights"
    assert find.chosen_of({"measure": "value_weighted"}, scene).measure == "value_weighted"  # kept from run to run


# --- what is shown ---


@pytest.mark.parametrize("measure", ["weights", "value_weighted"])
@pytest.mark.parametrize("edits", [(), (Edit("uniform", 1, 2),)])
def test_list_and_map_are_rank_heads(lm, measure, edits):
    scene = scene_of(lm, edits=edits)
    values = rank_heads(scene.trace, [4, 5], [0, 2], measure)
    listed, chart = made(scene, value_of(scene, [5, 4], [0, 2], measure))
    best = np.unravel_index(values.argmax(), values.shape)
    assert listed["lines"][0]["head"] == list(best)
    assert [line["value"] for line in listed["lines"]] == sorted(values.ravel().tolist(), reverse=True)
    assert all(values[tuple(line["head"])] == np.float32(line["value"]) for line in listed["lines"])
    assert listed["sentence"].startswith(f"Head {best[0]}.{best[1]} ") and f"{values.max():.4f}" in listed["sentence"]
    for text in ("b (4), d (5)", "a (0), c (2)", "2 query tokens"):
        assert text in listed["sentence"]
    assert (listed["even"] == pytest.approx((2 / 5 + 2 / 6) / 2)) if measure == "weights" else listed["even"] is None
    assert listed["top"] == (1 if measure == "weights" else pytest.approx(values.max()))
    heat = chart["figure"]["data"][0]["z"]
    drawn = np.frombuffer(base64.b64decode(heat["bdata"]), heat["dtype"])
    assert heat["shape"] == "3, 4" and np.array_equal(drawn, values.ravel())
    assert chart["python"].endswith(f"rank_heads(run, [4, 5], [0, 2], {measure!r})  # [L, H]")
    assert len(chart["columns"]) == 3 and chart["title"] == "All heads, from b (4), d (5) to a (0), c (2)"
    json.dumps([listed, chart], allow_nan=False)


def test_many_tokens_are_counted_not_named(lm):
    scene = scene_of(lm)
    listed, chart = made(scene, value_of(scene, [5], [0, 1, 2, 3, 4]))
    assert "a (0), b (1), c (2) and 2 more" in listed["sentence"]
    assert chart["file"] == "find-weights-from-5-to-0_1_2_and_2"


@pytest.mark.parametrize(
    "queries,keys,what",
    [
        ([], [0], "No query token"),
        ([3], [], "No key token"),
        ([1], [4], "only attend to earlier tokens"),
    ],
)
def test_rows_that_cannot_be_asked_stay_to_be_corrected(lm, queries, keys, what):
    scene = scene_of(lm)
    pictures = panels.pictures(find.VIEW, scene, value_of(scene, queries, keys))
    listed = pictures["find_rows"].make()
    assert what in listed["refused"]["text"] and listed["refused"]["hint"]
    assert (listed["from"], listed["to"], listed["lines"]) == (queries, keys, [])
    with pytest.raises(InputError, match=what):
        pictures["find_map"].make()
    chinese = scene_of(lm, language="zh")
    refused = panels.pictures(find.VIEW, chinese, value_of(chinese, queries, keys))["find_rows"].make()["refused"]
    assert what not in refused["text"] and "词元" in refused["text"]


def test_too_many_tokens_at_once_are_refused(lm):
    scene = scene_of(lm, "ab" * 400)
    listed = panels.pictures(find.VIEW, scene, value_of(scene, list(range(800)), [0]))["find_rows"].make()
    assert listed["refused"]["text"] == "In a prompt of this length, at most 81 query tokens can be selected. (800)"
    assert made(scene, value_of(scene, list(range(81)), [0]))[0]["refused"] is None


def test_a_single_token_looks_at_itself(lm):
    listed, _ = made(scene_of(lm, "a"), {})
    assert (listed["from"], listed["to"], listed["even"]) == ([0], [0], 1)
    assert all(line["value"] == 1 for line in listed["lines"])


def test_the_same_question_is_ranked_once(lm, monkeypatch):
    scene, calls = scene_of(lm), []
    monkeypatch.setattr(find, "rank_heads", lambda *args: calls.append(args) or rank_heads(*args))
    made(scene, value_of(scene, [5], [0]))
    made(scene, value_of(scene, [5], [0]))
    assert len(calls) == 1
    made(scene, value_of(scene, [5], [1]))
    assert len(calls) == 2


def test_only_what_changes_is_another_picture(lm):
    scene, other = scene_of(lm), scene_of(lm, head=(0, 3))
    sent = value_of(scene, [5], [0])

    def keys(scene, values):
        return [repr(picture.key) for picture in panels.pictures(find.VIEW, scene, values).values()]

    assert keys(scene, sent) == keys(other, sent)  # picking a head of the list keeps the list
    assert all(a != b for a, b in zip(keys(scene, sent), keys(scene, value_of(scene, [5], [1])), strict=True))
