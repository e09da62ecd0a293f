"""Pairs of texts: lines of JSON, choices by rule, agreement, and prompts that are held out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.alignment.preferences import (
    MOST_PAIRS,
    PROMPTS,
    Pair,
    PairSettings,
    agreement,
    chosen_by,
    pairs_by_rule,
    read_pairs,
    split,
    write_pairs,
    write_texts,
)
from model.alignment.rewards import Rule, parse_rules, score
from model.errors import InputError

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
PAIRS = st.lists(
    st.tuples(TEXT.filter(bool), TEXT, TEXT, st.sampled_from(["person", "rule"]))
    .filter(lambda each: each[1] != each[2])
    .map(lambda each: Pair(*each)),
    min_size=1,
    max_size=12,
)
SHORT = [Rule("length", 5.0)]


@given(PAIRS)
def test_pairs_are_read_as_they_were_written(pairs):
    assert read_pairs(write_pairs(pairs)) == tuple(pairs)


def test_a_line_may_say_nothing_of_who_chose():
    assert read_pairs('\n{"prompt": "a", "chosen": "b", "rejected": ""}\n') == (Pair("a", "b", "", "person"),)


@pytest.mark.parametrize(
    "text, got",
    [
        ('{"prompt": "a", "chosen": "b", "rejected": "c"}\n{"prompt": 3}', "line 2"),
        ("\n\nno json", "line 3"),
        ('{"prompt": "a", "chosen": "b", "rejected": "b"}', "line 1"),
        ('{"prompt": "", "chosen": "b", "rejected": "c"}', "line 1"),
        ('{"prompt": "a", "chosen": "b", "rejected": "c", "by": "me"}', "line 1"),
        ('{"prompt": "a", "chosen": "b", "rejected": "c", "more": 1}', "line 1"),
        ('{"prompt": "a", "chosen": "b", "rejected": ["c"]}', "line 1"),
        ('{"prompt": "a", "chosen": "b", "rejected": NaN}', "line 1"),
        ("[1]", "line 1"),
        ("", "0"),
        ("{}\n" * (MOST_PAIRS + 1), str(MOST_PAIRS + 1)),
    ],
)
def test_a_line_that_is_no_pair_is_named(text, got):
    with pytest.raises(InputError) as caught:
        read_pairs(text)
    assert caught.value.got.startswith(got) and caught.value.hint


@given(st.text(max_size=60))
def test_any_text_is_refused_or_read(text):
    try:
        assert read_pairs(text)
    except InputError as error:
        assert error.hint


def test_a_rule_chooses_the_better_text_and_leaves_ties_out():
    assert chosen_by(SHORT, "p", "a b c", "a b c d") == Pair("p", "a b c d", "a b c", "rule")
    assert chosen_by(SHORT, "p", "a b c d", "a b c") == Pair("p", "a b c d", "a b c", "rule")
    assert chosen_by(SHORT, "p", "a b c d", "d c b a") is None
    assert chosen_by(SHORT, "p", "a", "a") is None


def test_agreement_counts_what_the_rule_would_choose():
    pairs = [Pair("p", "a b c d", "a"), Pair("p", "a", "a b"), Pair("p", "a", "b"), Pair("q", "a b", "a")]
    found = agreement(pairs, SHORT)
    assert (found.same, found.other, found.ties, found.share) == (2, 1, 1, 2 / 3)
    assert math.isnan(agreement([], SHORT).share)


@given(PAIRS.filter(lambda pairs: len(pairs) > 1), st.integers(0, 9))
def test_no_prompt_is_on_both_sides(pairs, seed):
    pairs = list(dict.fromkeys(pairs))
    if len(pairs) < 2:
        return
    found = split(pairs, 0.25, seed)
    assert sorted(map(repr, found.train + found.held_out)) == sorted(map(repr, pairs))
    assert found.by == ("prompt" if len({pair.prompt for pair in pairs}) > 1 else "pair")
    if found.by == "prompt":
        assert not {pair.prompt for pair in found.train} & {pair.prompt for pair in found.held_out}
    assert found.train or len({(pair.chosen, pair.rejected) for pair in pairs}) == 1


def test_a_quarter_is_held_out_and_another_seed_holds_out_others():
    pairs = [Pair(prompt, str(n), "") for prompt in PROMPTS for n in range(4)]
    held = [{pair.prompt for pair in split(pairs, 0.25, seed).held_out} for seed in range(3)]
    assert all(len(each) == 3 for each in held) and len(set(map(frozenset, held))) > 1
    assert split(pairs, 0.25, 1) == split(pairs, 0.25, 1)


@pytest.mark.parametrize("pairs, share", [([Pair("p", "a", "b")], 0.25), ([], 0.5), ([Pair("p", "a", "b")] * 3, 1.0)])
def test_what_cannot_be_split_is_refused(pairs, share):
    with pytest.raises(InputError):
        split(pairs, share)


def test_the_model_writes_and_the_rule_chooses(lm):
    rules, ask = parse_rules("length: 4"), PairSettings(pairs=3, new_tokens=6, seed=5)
    told = []
    made = pairs_by_rule(lm, ["Once", "The"], rules, ask, lambda *report: told.append(report[:2]))
    assert len(made.pairs) + made.ties == 6 and made.pairs
    for pair in made.pairs:
        better, worse = score(rules, [pair.chosen, pair.rejected])
        assert better > worse and pair.by == "rule"
    assert told[-1] == (12, 12) and told == sorted(told)
    assert pairs_by_rule(lm, ["Once", "The"], rules, ask) == made
    assert write_texts(lm, "Once", 2, ask) != write_texts(lm, "Once", 2, PairSettings(3, 6, seed=6))


@pytest.mark.parametrize("prompts, pairs", [([], 1), (["a"] * 2 + [str(n) for n in range(101)], 1), (["a", "b"], 4000)])
def test_too_many_pairs_are_refused(prompts, pairs):
    with pytest.raises(InputError):
        pairs_by_rule(None, prompts, SHORT, PairSettings(pairs))


@pytest.mark.parametrize("wrong", [{"pairs": 0}, {"new_tokens": 0}, {"temperature": 0}, {"seed": -1}])
def test_a_setting_out_of_range_is_refused(wrong):
    with pytest.raises(InputError):
        PairSettings(**wrong)
