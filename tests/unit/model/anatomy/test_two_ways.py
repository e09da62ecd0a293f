"""The two ways of a norm and of q, k and v: what is timed, and how much the second way saves."""

import pytest

from model.anatomy.two_ways import Pair, two_ways
from model.generation.cache_costs import Times
from model.gpt.presets import PRESETS


@pytest.mark.parametrize("name", ["minigpt", "llama"])  # llama shares keys among heads
def test_both_pairs_are_timed_in_turn(name):
    pairs = two_ways(PRESETS[name])
    assert [pair.key for pair in pairs] == ["norm", "qkv"]
    for pair in pairs:
        assert len(pair.first.seconds) == len(pair.second.seconds) >= 9
        assert min(*pair.first.seconds, *pair.second.seconds) > 0 and pair.saved < 1


def test_what_is_saved_is_a_fraction_of_the_first_ways_best_time():
    assert Pair("norm", Times((9.0, 4.0, 4.0)), Times((1.0, 1.0, 5.0))).saved == 0.75
    assert Pair("norm", Times((1.0,)), Times((3.0,))).saved == -2
