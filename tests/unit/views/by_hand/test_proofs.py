"""Check a tutorial and Name the slip: what a page sends, what it is shown, and what programs are answered."""

import json

import pytest

from model.by_hand.claims.check import LONGEST
from model.by_hand.slips.explain import CALCULATIONS
from viz.api.json import plain
from viz.page.pipeline import PageRequest, payloads
from viz.views.by_hand.hand_slips.view import Typed, explain_number
from viz.views.by_hand.hand_slips.view import read as read_slip
from viz.views.by_hand.hand_tutorial.view import Pasted, check_tutorial
from viz.views.by_hand.hand_tutorial.view import read as read_page


def page(playground, value, language="en"):
    """The payload of Check a tutorial."""
    values = {"by_hand_view": {"view": "hand_tutorial"}, "hand_tutorial_page": value}
    asked = PageRequest("tiny", "ab", None, values, {}, language, "by_hand")
    return payloads(playground, asked)[0]["hand_tutorial_page"]


def slip(playground, value, language="en"):
    """The payload of Name the slip."""
    values = {"by_hand_view": {"view": "hand_slips"}, "hand_slips_desk": value}
    asked = PageRequest("tiny", "ab", None, values, {}, language, "by_hand")
    return payloads(playground, asked)[0]["hand_slips_desk"]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_on_arrival_three_are_right_one_loose_and_one_wrong(playground, language):
    told = page(playground, None, language)
    counts = {name: told["counts"][name] for name in ("right", "loose", "wrong")}
    assert counts == {"right": 3, "loose": 1, "wrong": 1} and told["example"]
    wrong = next(each for each in told["claims"] if each["verdict"] == "wrong")
    assert wrong["stated"] == "78.23" and wrong["right"] == "76.973" and wrong["formula"].startswith("std([0.1, 0.3")
    assert "".join(text for text, _ in told["pieces"]) == told["words"]["example"]


def test_a_pasted_page_comes_back_whole_with_its_numbers_marked(playground):
    text = "<b>12 × 64 = 769 </b>\r\n100 / 400 = 25%\n151,936 × 4,096 = 600M 😀"
    told = page(playground, {"text": text})
    assert "".join(piece for piece, _ in told["pieces"]) == text.replace("\r\n", "\n") and not told["example"]
    marked = {piece: told["claims"][n] for piece, n in told["pieces"] if n >= 0}
    assert list(marked) == ["769", "25%", "600M"]
    assert marked["25%"]["right"] == "25%"
    assert marked["600M"]["right"] == "622,329,856" and marked["600M"]["line"] == 3
    assert all(each["kind"] in told["kinds"] for each in told["claims"])


def test_what_a_page_sends(playground):
    for sent in (None, 3, [], {"text": 3}, {"text": "  "}, {"kept": 1}):
        assert read_page(sent, None) == Pasted()
    assert read_page({"kept": True, "text": "x"}, None) == Pasted(kept=True)
    long = read_page({"text": "1" * (LONGEST + 5)}, None)
    assert long.cut and len(long.text) == LONGEST
    assert read_page({"text": "\ud800 = 1"}, None).text.encode()
    kept = page(playground, {"kept": True})
    assert kept["same"] and "pieces" not in kept and kept["words"]["check"]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("calculation", CALCULATIONS)
def test_each_calculation_shows_a_filled_example_with_its_slip(playground, calculation, language):
    told = slip(playground, {"calculation": calculation}, language)
    assert not told["right"] and len(told["found"]) == 1 and all(told["found"][0]) and told["steps"]
    assert all(each["label"] and each["text"] for each in told["fields"]) and told["result"]


def test_a_result_without_a_slip_and_inputs_that_cannot_be_read(playground):
    none = slip(playground, {"calculation": "std", "result": "7.7"})
    assert none["found"] == [] and not none["right"] and none["steps"][-1][1] == "1.1180"
    assert slip(playground, {"calculation": "std", "result": "1.12"})["right"]
    for language in ("en", "zh"):
        told = slip(playground, {"calculation": "std", "inputs": {"x": "<b>"}}, language)
        assert told["problem_here"][0] and told["problem_here"][2] and "found" not in told
        assert told["fields"][0]["text"] == "<b>"
    assert told["problem_here"][0] == "无法读取这项输入。"


def test_what_a_page_sends_of_a_result():
    first = next(iter(CALCULATIONS))
    for sent in (None, 3, {"calculation": "x"}, {"calculation": []}, {"inputs": 3}, {"result": 3}):
        assert read_slip(sent, None) == read_slip(None, None) and read_slip(sent, None).calculation == first
    assert read_slip({"calculation": "std", "inputs": {"x": "1, 2", "y": "3"}, "result": "5"}, None) == Typed(
        "std", (("x", "1, 2"),), "5"
    )
    assert len(read_slip({"result": "9" * 10**5}, None).result) < 1000


def test_programs_are_answered(playground):
    told = check_tutorial(playground, "softmax([1, 2]) = [0.27, 0.70]")
    assert told["counts"] == {"right": 1, "loose": 0, "wrong": 1, "inputs": 2, "left": 0}
    assert told["claims"][1]["stated"] == "0.70" and told["claims"][1]["right"] == pytest.approx(0.7310586)
    answer = explain_number(playground, "entropy", [{"name": "p", "text": "0.5, 0.25, 0.25"}], "1.5")
    assert [each["name"] for each in answer["slips"]] == ["log2"] and not answer["right"]
    json.dumps([plain(told), plain(answer)], allow_nan=False)
