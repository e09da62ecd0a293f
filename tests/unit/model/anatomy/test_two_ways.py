"""The two ways of a norm and of q, k and v: what is timed, on how many tokens, and how much the second way saves."""

import pytest

from model.anatomy.two_ways import MOST_TOKENS, Pair, two_ways
from model.errors import InputError
from model.generation.cache_costs import Times
from model.gpt.config import PRESETS


def test_both_pairs_are_timed_for_the_prompt_and_for_one_token():
    pairs = two_ways(PRESETS["minigpt"], 12)
    assert [(pair.key, pair.tokens) for pair in pairs] == [("norm", 12), ("norm", 1), ("qkv", 12), ("qkv", 1)]
    for pair in pairs:
        assert len(pair.first.seconds) == len(pair.second.seconds) >= 3
        assert min(*pair.first.seconds, *pair.second.seconds) > 0 and pair.saved < 1
    assert len(two_ways(PRESETS["llama"], 1)) == 2  # shared keys; one token only


def test_what_is_saved_is_a_fraction_of_the_first_way():
    assert Pair("norm", 1, Times((2.0, 4.0, 4.0)), Times((1.0, 1.0, 5.0))).saved == 0.75
    assert Pair("norm", 1, Times((1.0,)), Times((3.0,))).saved == -2


@pytest.mark.parametrize("tokens", [0, MOST_TOKENS + 1, 1.5, "x", None])
def test_other_numbers_of_tokens_are_refused(tokens):
    with pytest.raises(InputError):
        two_ways(PRESETS["minigpt"], tokens)
