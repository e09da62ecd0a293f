"""The links that the page draws as lines and in the text: decoded as the page does it, against the matrix."""

import base64
import json

import numpy as np
import pytest

from model.attention.measures import measure
from tests.support.models.helpers import tokens_of
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.tasks import MeasureTask
from viz.views.attention.lines import view as lines
from viz.views.attention.links import ALL_UP_TO, MOST_LINKS, STRONGEST, links_payload, strongest
from viz.views.attention.text import view as text
from viz.words import words


def causal(T: int, seed: int = 0) -> np.ndarray:
    """Random weights whose rows sum to 1, NaN above the diagonal. float32 [T, T]"""
    weights = np.tril(np.random.default_rng(seed).random((T, T)) ** 4)
    z = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    z[np.triu_indices(T, 1)] = np.nan
    return z


def payload(*matrices: np.ndarray, tokens=None) -> dict:
    panels = [(f"Head 0.{n}", z) for n, z in enumerate(matrices)]
    found = links_payload(panels, [[0, n] for n in range(len(panels))], tokens or tokens_of(range(len(matrices[0]))))
    return json.loads(json.dumps(found))  # as it reaches the page


def numbers(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype)


def links(panel: dict) -> list[tuple[np.ndarray, np.ndarray]]:
    """Keys and weights of each row."""
    ends = np.cumsum(numbers(panel["counts"], "<u2"))[:-1]
    keys, weights = numbers(panel["keys"], "<u2"), numbers(panel["weights"], "<f4")
    assert len(keys) == len(weights) == numbers(panel["counts"], "<u2").sum()
    return list(zip(np.split(keys, ends), np.split(weights, ends), strict=True))


def matrix(panel: dict) -> np.ndarray:
    rows = links(panel)
    z = np.full((len(rows), len(rows)), np.nan, np.float32)
    for query, (keys, weights) in enumerate(rows):
        z[query, keys] = weights
    return z


@pytest.mark.parametrize("T", [1, 2, 7, ALL_UP_TO])
def test_all_links_of_a_short_prompt_give_back_the_matrix(T: int):
    z = causal(T)
    found = payload(z)
    assert found["kept"] is None
    assert np.array_equal(matrix(found["panels"][0]), z, equal_nan=True)


def test_one_token():
    found = payload(np.ones((1, 1), np.float32))
    assert [[list(part) for part in row] for row in links(found["panels"][0])] == [[[0], [1.0]]]
    assert numbers(found["panels"][0]["totals"], "<f4").tolist() == [1]
    assert len(found["tokens"]) == 1


def test_a_row_by_hand_is_ordered_by_weight_then_key():
    z = np.full((4, 4), np.nan, np.float32)
    z[0, 0], z[3] = 1, [0.25, 0.5, 0, 0.25]
    keys, weights = links(payload(z)["panels"][0])[3]
    assert keys.tolist() == [1, 0, 3, 2]
    assert weights.tolist() == [0.5, 0.25, 0.25, 0]


def test_a_long_prompt_keeps_the_strongest_of_each_row():
    T = ALL_UP_TO + 44
    z = causal(T)
    found = payload(z)
    assert found["kept"] == STRONGEST == 64
    for query, (keys, weights) in enumerate(links(found["panels"][0])):
        assert len(keys) == min(query + 1, 64)
        assert np.array_equal(weights, z[query, keys])
        assert np.array_equal(weights, -np.sort(-z[query, : query + 1])[:64])


def test_of_equal_links_the_first_tokens_are_kept():
    z = np.full((1, 5), 0.2, np.float32)
    z[0, 4] = 0.3
    assert [part.tolist() for part in strongest(z, 3)] == [[0, 0, 0], [4, 0, 1]]


@pytest.mark.parametrize("T,panels,kept", [(256, 3, None), (256, 8, 67), (1024, 1, 64), (1024, 8, 14), (2048, 8, 7)])
def test_all_panels_together_stay_within_a_megabyte(T: int, panels: int, kept: int | None):
    z = causal(T)
    found = payload(*[z] * panels)
    assert found["kept"] == kept
    sent = sum(int(numbers(panel["counts"], "<u2").sum()) for panel in found["panels"])
    assert sent <= MOST_LINKS
    if kept is not None:  # and one more would not have fitted, or was not wanted
        assert kept == STRONGEST or panels * np.minimum(np.arange(T) + 1, kept + 1).sum() > MOST_LINKS
    assert len(json.dumps(found)) < 1_100_000


def test_totals_are_of_whole_rows():
    z = causal(300, 3) * 7
    found = payload(z)["panels"][0]
    totals = numbers(found["totals"], "<f4")
    assert totals == pytest.approx(np.full(300, 7), abs=1e-5)
    assert links(found)[299][1].sum() < 6.9  # what was left out counts too


def test_rows_and_columns_without_numbers():
    z = causal(6)
    z[0] = z[4] = z[:, 0] = np.nan
    found = payload(z)["panels"][0]
    assert numbers(found["counts"], "<u2").tolist() == [0, 1, 2, 3, 0, 5]
    assert np.array_equal(matrix(found), z, equal_nan=True)
    assert numbers(found["totals"], "<f4")[[0, 4]].tolist() == [0, 0]


def test_nothing_at_all():
    found = payload(np.full((3, 3), np.nan, np.float32))
    assert found["kept"] is None
    assert [len(keys) for keys, _ in links(found["panels"][0])] == [0, 0, 0]


def test_a_panel_knows_its_head_and_name():
    z = causal(2)
    found = links_payload([("<b>", z), ("Head 2.1", z)], [(0, 3), (2, 1)], tokens_of(range(2)))["panels"]
    assert [(panel["name"], panel["head"]) for panel in found] == [("<b>", [0, 3]), ("Head 2.1", [2, 1])]


def test_hostile_tokens_are_plain_text_made_visible():
    pieces = ("<img src=x onerror=alert(1)>", "\u202e", "\n\n\n", " a\nb", "")
    found = payload(causal(5), tokens=tokens_of(range(5), pieces))
    assert found["tokens"] == ["<img src=x onerror=alert(1)>", "<U+202E>", "↵↵↵", "·a↵b", "∅"]
    assert found["breaks"] == [[2, 2], [3, 1]]


def test_the_matrices_are_left_alone():
    z = causal(300)
    kept = z.copy()
    z.flags.writeable = False
    payload(z)
    assert np.array_equal(z, kept, equal_nan=True)


@pytest.mark.parametrize("shape", [(3, 4), (4, 4), (3,)])
def test_a_matrix_of_another_shape_is_refused(shape: tuple[int, ...]):
    with pytest.raises(ValueError, match=r"Head 0\.0 must be \[T, T\] for 3 tokens, got \("):
        links_payload([("Head 0.0", np.zeros(shape, np.float32))], [[0, 0]], tokens_of(range(3)))


@pytest.mark.parametrize("wrong", [-0.1, np.inf])
def test_what_is_no_weight_is_refused(wrong: float):
    z = causal(3)
    z[2, 1] = wrong
    with pytest.raises(ValueError, match="at least 0"):
        payload(z)


def test_every_panel_needs_a_head():
    with pytest.raises(ValueError, match="2 panels and 1 heads"):
        links_payload([("a", causal(2)), ("b", causal(2))], [[0, 0]], tokens_of(range(2)))


# --- the two views ---

PARTS = {"lines": "lines_links", "text": "text_reading"}


def drawn(playground, view: str, settings: dict, heads=((1, 2),), language="en") -> dict:
    asked = PageRequest(
        "tiny",
        "abcabd",
        {"heads": [list(head) for head in heads]},
        {"attention_view": {"view": view, **settings}},
        {},
        language,
        "attention",
    )
    return json.loads(packed(payloads(playground, asked)[0][PARTS[view]]))


@pytest.mark.parametrize("view", PARTS)
@pytest.mark.parametrize("name", ["weights", "value_weighted", "rollout"])
def test_links_are_those_of_the_measure(playground, lm, view: str, name: str):
    found = drawn(playground, view, {"measure": name})
    assert np.array_equal(matrix(found["panels"][0]), measure(lm.trace("abcabd"), name, 1, 2), equal_nan=True)
    assert (found["panels"][0]["head"], found["note"]) == ([1, 2], "")
    assert found["measure"] == words("en")[f"measure.{name}"]


@pytest.mark.parametrize("view", PARTS)
def test_scores_give_way_to_weights_and_that_is_said(playground, lm, view: str):
    found = drawn(playground, view, {"measure": "scores"})
    assert np.array_equal(matrix(found["panels"][0]), measure(lm.trace("abcabd"), "weights", 1, 2), equal_nan=True)
    assert "shows attention weights instead" in found["note"] and found["measure"] == "attention weight"
    assert "'weights'" in found["python"]


@pytest.mark.parametrize("view", PARTS)
def test_several_heads_are_panels_or_one(playground, view: str):
    heads = ((0, 1), (2, 3))
    each, mean = (drawn(playground, view, {"of": of}, heads) for of in ("each", "mean"))
    assert [panel["head"] for panel in each["panels"]] == [[0, 1], [2, 3]] and each["title"] == "Heads 0.1, 2.3"
    assert [panel["head"] for panel in mean["panels"]] == [[2, 3]] and mean["title"] == "Mean of heads 0.1, 2.3"
    assert each["run"].split(" ", 1)[1] == "0.1, 2.3" and mean["run"].split(" ", 1)[1] == "mean 0.1, 2.3"


def test_both_views_measure_the_same_once(playground):
    asked = PageRequest(
        "tiny", "abcabd", None, {"attention_view": {"view": "lines", "measure": "rollout"}}, {}, "en", "attention"
    )
    scene = scene_of(playground, asked)
    settings = panels.settings_of(lines.VIEW, scene, {"lines_form": {"measure": "rollout"}})
    keys = {panels.key_of(MeasureTask(view, view.measure("main"), scene, settings)) for view in (lines.VIEW, text.VIEW)}
    assert len(keys) == 1


@pytest.mark.parametrize("view", PARTS)
def test_they_speak_chinese(playground, view: str):
    found = drawn(playground, view, {}, language="zh")
    assert found["title"] == "头 1.2" and found["words"]["attending"] == "查询词元"
