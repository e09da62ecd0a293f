"""Rules that reward a text: numbers worked by hand, texts and rules of any kind."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.alignment.rewards import (
    GLAD,
    MOST_PHRASES,
    MOST_RULES,
    RULES,
    SAD,
    Rule,
    as_text,
    endings,
    parse_rules,
    parts,
    rhymes,
    rime,
    score,
    span,
    words,
)
from model.errors import InputError

TEXTS = st.text(max_size=80) | st.lists(
    st.sampled_from(["happy", "sad", " ", "\n", ".", "?", '"', "day", "play", "🙂", "\x00", "\u202e", "高兴", "don't"])
).map("".join)
RULE = st.sampled_from([Rule(name) for name in RULES] + [Rule("contains", "day, very sad", -3), Rule("length", 4, 2)])


@pytest.mark.parametrize(
    "rule, text, number",
    [
        (Rule("contains", "happy"), "A Happy dog.", 1),
        (Rule("contains", "happy"), "An unhappy dog.", 0),
        (Rule("contains", "sad, very glad"), "She was very, glad", 1),
        (Rule("contains", "very glad"), "glad, very", 0),
        (Rule("contains", "高兴"), "他很高兴。", 1),
        (Rule("contains", "don’t"), "I don't know", 1),
        (Rule("share", "the"), "The cat saw the dog", 2 / 5),
        (Rule("share", "the"), "...", 0),
        (Rule("length", 4), "one two three four", 1),
        (Rule("length", 4), "one two three", 0.75),
        (Rule("length", 4), "one two three four five six", 0.5),
        (Rule("length", 4), "1 2 3 4 5 6 7 8 9 10", 0),
        (Rule("length", 4), "", 0),
        (Rule("sentiment"), "She was happy and not sad, but happy", 1 / 3),
        (Rule("sentiment"), "She cried.", -1),
        (Rule("sentiment"), "It is a table", 0),
        (Rule("rhyme"), "We sing all day\nand then we play\nand go to bed", 2 / 3),
        (Rule("rhyme"), "We sing all day. Then we play.", 1),
        (Rule("rhyme"), "a cat\na dog\na hat\na log", 1),
        (Rule("rhyme"), "a day\na day", 0),
        (Rule("rhyme"), "We play", 0),
        (Rule("no_repeats", 1), "a b a b", 1 / 2),
        (Rule("no_repeats", 2), "a b a b", 2 / 3),
        (Rule("no_repeats", 3), "a b", 1),
        (Rule("full_stop"), 'He said "no!" ', 1),
        (Rule("full_stop"), "他走了。", 1),
        (Rule("full_stop"), "He went. Then", 0),
        (Rule("full_stop"), "", 0),
        (Rule("question"), "Why? No", 1),
        (Rule("question"), "No.", 0),
        (Rule("speech"), '"No," he said', 1),
        (Rule("speech"), 'the 5" nail', 0),
        (Rule("speech"), "“No”", 1),
    ],
)
def test_a_rule_gives_the_number_worked_by_hand(rule, text, number):
    assert parts([rule], [text])[0, 0] == pytest.approx(number, abs=1e-15)


def test_the_reward_is_the_weighted_sum():
    rules = parse_rules("contains: happy * 2; length: 4 * -0.5; full_stop")
    texts = ["happy dog one two", "He ran away now."]
    assert parts(rules, texts).tolist() == [[1, 1, 0], [0, 1, 1]]
    assert score(rules, texts).tolist() == [1.5, 0.5]
    assert score(rules, texts).dtype == np.float64
    assert span(rules) == (-0.5, 3)


def test_no_texts_have_no_reward():
    assert score([Rule("speech")], []).shape == (0,)
    assert parts([Rule("speech"), Rule("rhyme")], []).shape == (0, 2)


@pytest.mark.parametrize("one, other", [("day", "play"), ("lake", "cake"), ("tree", "free"), ("night", "light")])
def test_words_rhyme_by_their_letters(one, other):
    assert rhymes(one, other)


@pytest.mark.parametrize(
    "one, other", [("day", "day"), ("lake", "like"), ("cat", "dog"), ("hm", "tsk"), ("the", "lake")]
)
def test_words_that_do_not_rhyme(one, other):
    assert not rhymes(one, other)


def test_rimes_and_endings():
    assert [rime(word) for word in ("lake", "the", "night", "see", "hm")] == ["ake", "e", "ight", "ee", ""]
    assert endings('He ran. "Stop!" she said\n') == ["ran", "stop", "said"]
    assert endings("one two.\n\nthree. four\n") == ["two", "four"]
    assert words("Don’t stop — it's 3 o’clock, well-known 高兴") == [
        "don't",
        "stop",
        "it's",
        "3",
        "o'clock",
        "well-known",
        "高",
        "兴",
    ]


def test_the_word_lists_share_no_word_and_are_words():
    assert len(GLAD) > 150 and len(SAD) > 150 and not GLAD & SAD
    assert all(words(word) == [word] for word in GLAD | SAD)


@given(st.lists(RULE, min_size=1, max_size=4), st.lists(TEXTS, max_size=4))
def test_any_text_has_a_number_in_the_range_of_each_rule(rules, texts):
    numbers = parts(rules, texts)
    assert numbers.shape == (len(texts), len(rules))
    for at, rule in enumerate(rules):
        kind = RULES[rule.name]
        assert ((numbers[:, at] >= kind.low) & (numbers[:, at] <= kind.high)).all()
    low, high = span(rules)
    assert all(low - 1e-9 <= each <= high + 1e-9 for each in score(rules, texts))


@given(st.lists(RULE, min_size=1, max_size=MOST_RULES))
def test_rules_are_read_again_from_their_text_and_from_objects(rules):
    assert parse_rules(as_text(rules)) == tuple(rules)
    assert parse_rules([dataclasses.asdict(rule) for rule in rules]) == tuple(rules)
    assert parse_rules(rules) == tuple(rules)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=30),
        lambda each: (
            st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(["name", "value", "weight", "x"]), each)
        ),
        max_leaves=6,
    )
)
def test_hostile_rules_are_refused_or_usable(value):
    try:
        rules = parse_rules(value)
    except InputError as error:
        assert error.what and error.hint
    else:
        assert np.isfinite(score(rules, ["happy\x00", ""])).all()


@pytest.mark.parametrize(
    "value",
    [
        "",
        [],
        None,
        7,
        "nonsense",
        "contains: ,,",
        "contains: " + ", ".join(map(str, range(MOST_PHRASES + 1))),
        "contains: " + "a" * 5000,
        "length: many",
        "length: 0",
        "length: nan",
        "length: 1e9",
        "full_stop: 3",
        "full_stop * 99",
        "full_stop * -11",
        "full_stop * inf",
        "full_stop * many",
        ["full_stop"] * (MOST_RULES + 1),
        [{"name": "full_stop", "wait": 3}],
        [{"value": "full_stop"}],
        [{"name": ["full_stop"]}],
        [{"name": "full_stop", "weight": math.nan}],
        [{"name": "full_stop", "weight": True}],
        [{"name": "contains", "value": 5}],
        [{"name": "length", "value": "5"}],
        [3],
    ],
)
def test_rules_that_are_none_are_refused(value):
    with pytest.raises(InputError):
        parse_rules(value)


def test_a_rule_without_a_value_has_its_default():
    assert parse_rules("length; no_repeats: 2") == (Rule("length", 30.0), Rule("no_repeats", 2.0))
