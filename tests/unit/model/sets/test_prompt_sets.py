"""Prompt sets: templates and lines as pairs, and pairs as aligned tokens."""

import pytest

from model.errors import InputError
from model.sets.aligned import AlignedPair, align, prompt_set
from model.sets.templates import BUILT_IN, Pair, Template, draw, parse_lines, parse_templates

OWN = """clean: {name1} met {name2}
corrupt: {name2} met {name1}
target: {digit}
distractor: 0

name: a, b, c
digit: 1, 2
"""


def test_slots_of_one_list_are_different_and_the_same_slot_is_the_same():
    pairs = draw(parse_templates(OWN), 12, seed=4)
    assert len(set(pairs)) == 12  # 3 * 2 orders of names, times 2 digits: all there are
    for pair in pairs:
        one, _, other = pair.clean.split()
        assert one != other and pair.corrupt == f"{other} met {one}"
        assert pair.target in "12" and pair.distractor == "0"
    assert len(draw(parse_templates(OWN), 50)) == 12
    assert draw(parse_templates(OWN), 5, 1) == draw(parse_templates(OWN), 5, 1) != draw(parse_templates(OWN), 5, 2)


def test_templates_take_turns():
    pairs = draw(BUILT_IN["agreement"], 6)
    assert [pair.target for pair in pairs] == [" were", " was"] * 3


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("clean: {name1} {name2}\ncorrupt: x\ntarget: y\ndistractor: z\nname: a", "too few"),
        ("clean: a\ncorrupt: x\ntarget: y", "lacks a line"),
        ("clean: a\nwhat is this", "has no name"),
        ("name: a, b", "no template"),
    ],
)
def test_templates_that_cannot_be_read_are_refused(text: str, match: str):
    with pytest.raises(InputError, match=match):
        parse_templates(text)


def test_csv_and_json_lines_give_the_same_pairs():
    expected = (Pair("a, b", "c", " 1", "2"), Pair("d", 'e "f"', "3", "4"))
    lines = 'target,clean,corrupt,distractor\n 1,"a, b",c,2\n3,d,"e ""f""",4\n'
    objects = (
        '{"clean": "a, b", "corrupt": "c", "target": " 1", "distractor": "2"}\n\n'
        '{"clean": "d", "corrupt": "e \\"f\\"", "target": "3", "distractor": "4", "more": 5}'
    )
    assert parse_lines(lines) == parse_lines("\ufeff" + lines) == parse_lines(objects) == expected


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("clean,corrupt\na,b", "lacks a column"),
        ('{"clean": "a"}', "incomplete"),
        ('{"clean": 3, "corrupt": "b", "target": "c", "distractor": "d"}', "incomplete"),
        ("clean,corrupt,target,distractor\na,b,c", "incomplete"),
        ('{"clean"', "not a JSON object"),
        ("clean,corrupt,target,distractor\n" + "a,b,c,d\n" * 257, "too many pairs"),
    ],
)
def test_lines_that_cannot_be_read_are_refused(text: str, match: str):
    with pytest.raises(InputError, match=match):
        parse_lines(text)


@pytest.mark.parametrize(
    ("pair", "reason", "got"),
    [
        (Pair("ab", "abc", "1", "2"), "length", "2, 3"),
        (Pair("ab", "ab", "1", "2"), "same", ""),
        (Pair("ab", "ac", "12", "2"), "long_answer", "12"),
        (Pair("ab", "ac", "1", "1"), "same_answer", ""),
        (Pair("ab", "", "1", "2"), "empty", ""),
        (Pair("a" * 600, "b" * 600, "1", "2"), "too_long", "600"),
    ],
)
def test_pairs_that_do_not_align_are_left_out_with_the_reason(lm, pair: Pair, reason: str, got: str):
    found = prompt_set(lm, [pair, Pair("ab", "ac", "1", "2")])
    assert [(each.pair, each.reason, each.got) for each in found.left_out] == [(pair, reason, got)]
    assert [each.pair.clean for each in found.pairs] == ["ab"]


def test_tokens_of_an_aligned_pair(lm):
    found = align(lm, Pair("ab.", "ac.", "12", "31"), first_token=True)
    assert isinstance(found, AlignedPair)
    assert (found.clean, found.corrupt) == ((97, 98, 46), (97, 99, 46)) and found.differing == (1,)
    assert (found.target, found.distractor) == (49, 51)
    spaced = align(lm, Pair("ab.", "ac.", "x", "1"), first_token=True)
    assert isinstance(spaced, AlignedPair) and (spaced.target, spaced.distractor) == (32, 49)  # a letter: " x"


def test_calibration_prompts_are_not_scored(lm):
    found = prompt_set(lm, OWN, 7, calibration=3, seed=2)
    assert (len(found.pairs), len(found.calibration)) == (7, 3)
    assert not {each.pair for each in found.pairs} & {each.pair for each in found.calibration}
    few = prompt_set(lm, OWN, 10)  # of 12 pairs
    assert (len(few.pairs), len(few.calibration)) == (9, 3)
    given = [Pair(f"{a}b", f"{a}c", "1", "2") for a in "abcdefgh"]
    kept = prompt_set(lm, given, 32, calibration=16)
    assert (len(kept.pairs), len(kept.calibration)) == (6, 2)  # a quarter
    assert {each.pair for each in (*kept.pairs, *kept.calibration)} == set(given)
    with pytest.raises(InputError, match="wrong type"):
        prompt_set(lm, [given[0], Template(given[0], {})])
    with pytest.raises(InputError, match=r"No prompt set has this name.*agian.*again, "):
        prompt_set(lm, "agian")
