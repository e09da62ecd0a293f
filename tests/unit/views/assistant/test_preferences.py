"""The events of the preferences view: two texts, a rule that chooses, agreement; what a page sends is a stranger's."""

import itertools

import pytest

from model.errors import InputError
from tests.support.views.views import drawn
from viz.seam.view import Visit
from viz.views.assistant.preferences import view as preferences
from viz.views.assistant.preferences.view import MOST_RULED, judge, let_rule, read_listed, rule_rewards, write
from viz.work.prompt import Prompt


def visit(playground, **form):
    form = {"prompts": "ab\ncd", "tokens": 8, "rule": "length: 2"} | form
    return Visit(playground, "me", "en", "tiny", Prompt("x"), {"preferences_form": form})


def test_two_texts_with_what_the_rule_gives_them(playground):
    (first,) = write(visit(playground), {"tag": "t", "at": 0})
    (second,) = write(visit(playground), {"tag": "t", "at": 1})
    assert first["tag"] == "t" and (first["prompt"], second["prompt"]) == ("ab", "cd")
    assert len(first["texts"]) == len(first["scores"]) == 2 and first["texts"] != second["texts"]
    assert list(write(visit(playground), {"tag": "t", "at": 0})) == [first]  # the same numbers, the same texts
    assert next(write(visit(playground, rule="nonsense"), {}))["scores"] is None


def test_a_rule_chooses_and_every_piece_holds_all_before(playground):
    pieces = list(let_rule(visit(playground), {"tag": "t"}))
    last = pieces[-1]
    assert len(pieces) == last["done"] == last["total"] == MOST_RULED
    assert len(last["pairs"]) + last["ties"] == MOST_RULED and last["pairs"]
    assert all(a["pairs"] == b["pairs"][: len(a["pairs"])] for a, b in itertools.pairwise(pieces))
    assert len(read_listed(last)) == len(last["pairs"]) and {pair.by for pair in read_listed(last)} == {"rule"}
    with pytest.raises(InputError):
        list(let_rule(visit(playground, rule="nonsense"), {}))


def test_agreement_is_that_of_the_person_alone(playground):
    pairs = [
        ["p", "a b", "a", "person"],
        ["p", "a", "a b", "person"],
        ["p", "a", "b", "person"],
        ["p", "a b", "a", "rule"],
    ]
    (found,) = judge(visit(playground), {"tag": "t", "pairs": pairs})
    assert found["agreement"] == {"same": 1, "other": 1, "ties": 1}
    assert list(judge(visit(playground, rule="no"), {"tag": "t", "pairs": pairs})) == [{"tag": "t"}]


@pytest.mark.parametrize(
    "sent",
    [
        None,
        {},
        {"pairs": 3},
        {
            "pairs": [
                3,
                [],
                ["a", "b", "b", "person"],
                ["a", "b", "c", "me"],
                ["a", 1, "c", "person"],
                ["", "b", "c", "rule"],
            ]
        },
        {"pairs": [["a", "b" * 9000, "c", "person"]]},
    ],
)
def test_what_is_no_pair_is_left_out(sent):
    assert read_listed(sent) == ()


@pytest.mark.parametrize("at", [-1, 10**9, "1", True, None, 1.5])
def test_a_number_that_is_none_is_the_first(playground, at):
    assert next(write(visit(playground), {"at": at}))["prompt"] == "ab"


def test_the_page_says_what_the_rule_reads(playground):
    desk = drawn(playground, "assistant", "preferences", {"rule": "contains: Happy,  glad * 2"})["desk"]
    assert "contains: happy, glad * 2" in desk["range"] and "from 0 to 2" in desk["range"] and "wrong" not in desk
    assert "No rule" in drawn(playground, "assistant", "preferences", {"rule": "x"})["desk"]["wrong"]


def test_rewards_for_programs(playground):
    found = rule_rewards(playground, ["a happy dog", "no"], ["contains: happy * 2", "length: 3"])
    assert found["rewards"].tolist() == pytest.approx([3, 1 / 3]) and found["parts"].shape == (2, 2)
    assert (found["low"], found["high"]) == (0, 3) and found["rules"] == ["contains: happy * 2", "length: 3"]
    with pytest.raises(InputError):
        rule_rewards(playground, ["a"] * (preferences.MOST_TEXTS + 1), ["length"])
