"""Numbers of a text, worked by hand; texts put together from steps; many texts of one prompt."""

import dataclasses
import math

import numpy as np
import pytest

from model.errors import InputError
from model.generation.generate import Tick
from model.generation.strategies import STRATEGIES, Change, GeneratedToken, Strategy
from model.generation.text_statistics import distinct, measure_text, written
from model.predictions.samples import Many, batches_of, certain, take_samples
from model.sampling.pipeline import Step

NAN = math.nan


def made(id, log_probability=-1.0, entropy=1.0, probability=0.5):
    return GeneratedToken(id, log_probability, 1, entropy, probability, 5, 0.1, ())


def texts_of(ids):
    return measure_text([made(each) for each in ids])


# --- the numbers ---


def test_means_are_of_the_tokens():
    text = [made(1, math.log(1 / 2), 0.5, 1.0), made(2, math.log(1 / 8), 1.5, 0.25), made(3, math.log(1 / 4), 4.0, 0.4)]
    found = measure_text(text)
    assert found.length == 3
    assert found.log_probability == pytest.approx(-2 * math.log(2))
    assert found.surprisal == pytest.approx(2)  # bits: (1 + 3 + 2) / 3
    assert found.perplexity == pytest.approx(4)  # the geometric mean of 2, 8 and 4
    assert found.entropy == pytest.approx(2)
    assert found.probability == pytest.approx(0.55)


def test_runs_are_counted_by_hand():
    found = texts_of([1, 2, 3, 1, 2, 3, 1, 2])
    assert found.distinct_1 == 3 / 8
    assert found.distinct_2 == 3 / 7  # 12 23 31 12 23 31 12
    assert found.repeated_3 == pytest.approx(3 / 6)  # 123 231 312, then the same
    assert found.repeated_4 == pytest.approx(2 / 5)  # 1231 2312 3123, then two of them
    alone = texts_of([5] * 6)
    assert (alone.distinct_1, alone.distinct_2) == (1 / 6, 1 / 5)
    assert (alone.repeated_3, alone.repeated_4) == (pytest.approx(3 / 4), pytest.approx(2 / 3))
    varied = texts_of(range(9))
    assert (varied.distinct_1, varied.distinct_2, varied.repeated_3, varied.repeated_4) == (1, 1, 0, 0)


@pytest.mark.parametrize(("n", "known"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)])
def test_what_is_too_short_for_a_run_has_no_number(n, known):
    found = texts_of(range(n))
    assert found.length == n
    means = (found.log_probability, found.surprisal, found.perplexity, found.entropy, found.probability)
    assert [math.isnan(each) for each in means] == [n == 0] * 5
    runs = (found.distinct_1, found.distinct_2, found.repeated_3, found.repeated_4)
    assert [math.isnan(each) for each in runs] == [at >= known for at in range(4)]


def test_a_text_that_was_not_drawn_has_no_probability_of_its_draws():
    found = measure_text([made(1, probability=NAN), made(2, probability=NAN)])
    assert math.isnan(found.probability) and found.perplexity == pytest.approx(math.e)


def test_a_hopeless_text_has_an_infinite_perplexity():
    with np.errstate(over="raise"):
        assert measure_text([made(1, -1000.0)]).perplexity == math.inf


def test_runs_do_not_cross_texts():
    assert distinct([[1, 2], [1, 2], [2, 1]], 2) == 2 / 3
    assert distinct([[1], [2]], 2) != distinct([[1, 2]], 2) == 1
    assert math.isnan(distinct([[1], [2]], 2))


# --- texts from steps ---


def test_steps_are_put_together():
    ticks = [
        Tick(0, (Change((made(1),)), Change((made(7),))), 0.0),
        Tick(1, (Change((made(2),)), Change((made(8), made(9)), drop=1)), 0.0),
        Tick(2, (Change((made(3),), ended="end"), Change()), 0.0),
        Tick(3, (None, Change(drop=2, made=(made(4),), ended="length")), 0.0),
    ]
    first, second = written(ticks, 2)
    assert (first.ids, first.ended) == ((1, 2, 3), "end")
    assert (second.ids, second.ended) == ((4,), "length")


# --- many texts ---


def test_strategies_without_chance():
    assert [key for key in STRATEGIES if certain(STRATEGIES[key])] == ["greedy", "no_repeat", "beam", "contrastive"]
    assert certain(Strategy((Step("top_k", (("k", 1),)),)))
    assert certain(Strategy((Step("top_p", (("p", 0),)),)))
    assert not certain(Strategy((Step("top_k", (("k", 0),)),)))
    assert not certain(Strategy((Step("top_k", (("k", 2),)), Step("temperature", (("temperature", 0.01),)))))
    assert not certain(Strategy())


def test_batches_hold_at_most_eight_and_one_where_nothing_is_drawn():
    asked = (STRATEGIES["greedy"], STRATEGIES["top_p"], STRATEGIES["beam"])
    assert batches_of(asked, 20) == [(0, 0, 1), (1, 0, 8), (1, 8, 16), (1, 16, 20), (2, 0, 1)]


def test_samples_are_what_each_alone_writes(lm):
    """Sample 10 is row 2 of the second batch: the same text as that batch by hand."""
    strategies = (STRATEGIES["greedy"], STRATEGIES["temperature"])
    many = Many(11, 6, seed=3)
    greedy, drawn = take_samples(lm, "abc", strategies, many)
    assert (len(greedy), len(drawn)) == (1, 11)
    by_hand = written(lm.generate("abc", [strategies[1]] * 3, 6, 3001, shared=False), 3)
    assert [sample.ids.tolist() for sample in drawn[8:]] == [list(text.ids) for text in by_hand]
    assert len({tuple(sample.ids) for sample in drawn}) > 5  # different numbers, different texts
    text = by_hand[2]
    assert drawn[10].measured == measure_text(text.made)
    assert drawn[10].entropies.tolist() == pytest.approx([each.entropy for each in text.made])
    assert drawn[10].text == lm.decode(text.ids)
    again = take_samples(lm, lm.encode("abc").ids, strategies, many)
    assert [sample.text for sample in again[1]] == [sample.text for sample in drawn]
    other = take_samples(lm, "abc", strategies, dataclasses.replace(many, seed=4))
    assert [sample.text for sample in other[1]] != [sample.text for sample in drawn]
    assert other[0][0].text == greedy[0].text


def test_sample_i_of_all_strategies_has_the_same_luck(lm):
    first, second = take_samples(lm, "abc", [STRATEGIES["temperature"]] * 2, Many(9, 5))
    assert [sample.text for sample in first] == [sample.text for sample in second]


def test_the_token_that_ends_a_text_is_not_shown(lm, monkeypatch):
    (greedy,) = take_samples(lm, "abc", [STRATEGIES["greedy"]], Many(1, 5))[0]
    last = int(greedy.ids[-1])
    monkeypatch.setattr("model.api.ending", lambda tokenizer: frozenset((last,)))
    (ended,) = take_samples(lm, "abc", [STRATEGIES["greedy"]], Many(1, 9))[0]
    first = greedy.ids.tolist().index(last)
    assert (ended.ended, ended.ids.tolist()) == ("end", greedy.ids[: first + 1].tolist())
    assert ended.text == lm.decode(ended.ids[:-1]) and ended.measured.length == first + 1


def test_progress_goes_up_to_all_steps(lm):
    told = []
    take_samples(lm, "abc", [STRATEGIES["greedy"], STRATEGIES["top_k"]], Many(9, 4), lambda *at: told.append(at[:2]))
    assert [done for done, _ in told] == list(range(1, 13)) and {total for _, total in told} == {12}


def test_work_stops_where_progress_says_so(lm):
    def stop(done, total, what):
        if done == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        take_samples(lm, "abc", [STRATEGIES["top_k"]], Many(8, 200), stop)


def test_a_bad_setting_is_said_at_once(lm):
    with pytest.raises(InputError, match="out of range"):
        take_samples(lm, "abc", [Strategy((Step("temperature", (("temperature", 99),)),))], Many(8, 4))
