"""Cards of named heads: grouped by name, with the evidence and the example of the survey."""

import dataclasses
import json
import math

import pytest

from tests.support.scripts import words_read
from tests.support.views.views import drawn
from viz.theme import HUES
from viz.views.heads.heads.cards import LABELS, ORDER
from viz.words import LANGUAGES, words


def cards_of(playground, **changes):
    return drawn(playground, "heads", "heads", **{"prompt": "abcab", "heads": [[1, 2]], **changes})["cards"]


def test_each_name_is_a_group_with_its_heads(measured):
    shown = cards_of(measured[0])
    assert [group["name"] for group in shown["groups"]] == ["induction", "self", "first_token"]  # none is empty
    assert {tuple(card["head"]): group["name"] for group in shown["groups"] for card in group["cards"]} == {
        (2, 1): "self",  # of the two names of 2.1, the later one
        (0, 3): "first_token",
    }
    for group in shown["groups"]:
        assert group["hue"] == HUES[LABELS.index(group["name"])]
        assert group["label"] == words("en")[f"label.{group['name']}"]
        assert group["does"].startswith("Attends to") and group["does"].endswith(".")
    assert shown["source"] == "Tiny · float32 · both probes measured here in 2.5 s"
    json.dumps(shown, allow_nan=False)


def test_the_evidence_is_the_score_its_error_and_the_baseline(measured):
    playground, found = measured
    (card,) = cards_of(playground)["groups"][0]["cards"]
    error = 2 * found.random.spread.at[(2, 1), "induction"] / math.sqrt(12)
    assert card["head"] == [2, 1] and card["numbers"] == pytest.approx([0.7, error, 0.05])
    assert card["texts"] == ["0.700", f"{error:.3f}", "0.050"] and cards_of(playground)["sequences"] == 12


def test_the_example_is_that_of_the_survey_with_visible_tokens(measured):
    shown = cards_of(measured[0])
    induction, itself, first = (group["cards"][0] for group in shown["groups"])
    assert induction["example"] == [1, 2, [1], 0.75] and induction["weight"] == "75.0%"
    assert first["example"] == [0, 1, [0], 0.5] and itself["example"] is None and itself["weight"] == ""
    assert shown["sentences"] == [["A", "·b"], ["x", "·y", "·x", "↵"]]


def test_heads_of_a_name_stand_by_their_score(playground, found, survey):
    names = {(layer, 1): [("self", score, 0.1)] for layer, score in enumerate((0.3, 0.9, 0.5))}
    survey(playground, dataclasses.replace(found, names=names))
    (group,) = cards_of(playground)["groups"]
    assert [card["head"] for card in group["cards"]] == [[1, 1], [2, 1], [0, 1]]


def test_cards_need_the_survey_and_not_the_prompt(playground, found, survey):
    assert cards_of(playground)["absent"] is True
    survey(playground, dataclasses.replace(found, names={}))
    assert cards_of(playground)["groups"] == []


def test_every_name_has_a_place():
    assert set(ORDER) == set(LABELS) and len(ORDER) == len(LABELS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_of_the_script_is_there(measured, language):
    shown = cards_of(measured[0], language=language)
    wanted = words_read("views/heads/head_cards")
    assert {"switch_off", "switch_on", "evidence", "more", "none"} <= wanted
    assert wanted - set(shown["words"]) == set()
