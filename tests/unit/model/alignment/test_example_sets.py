"""The bundled sets: the same each time, different examples, short enough, and as they promise."""

import pytest

from model.alignment.example_sets import SETS
from model.alignment.instructions import parse_examples, to_lines


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_the_same_each_time_and_has_no_double(name):
    rows = SETS[name]()
    assert rows == SETS[name]() == parse_examples(to_lines(rows))
    assert len(set(rows)) == len(rows) >= 80
    assert all(len(each.instruction) + len(each.input) + len(each.output) < 250 for each in rows)


def test_answers_to_questions_stand_in_the_sentence():
    for each in SETS["questions"]():
        said = set(each.input.rstrip(".").split())
        told = set(each.output.rstrip(".").split()) - {"It", "A", "was", "found", "it", "in", "the"}
        assert told and told <= said, each


def test_an_opposite_goes_both_ways():
    pairs = {(each.input, each.output) for each in SETS["opposites"]()}
    assert {(b, a) for a, b in pairs} == pairs
