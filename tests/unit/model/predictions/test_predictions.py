"""What a run expects, against a softmax of all its logits; ranks against counting; a case worked by hand."""

import math

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.gpt.edits import Edit
from model.predictions import predictions
from model.predictions.predictions import Followed, follow, follow_all, predict, summarize
from model.tracing.trace import run
from tests.support.models.helpers import VARIANTS, V, assert_close, random_ids, tiny_model, tokens_of

T = 9
ROUNDING = 2e-6  # of float32 logits that are made for few positions at a time or for all at once


def trace_of(changes, T=T, tap=None):
    return run(tiny_model(changes), tokens_of(random_ids(1, T)[0]), tap=tap)


def coarse(site, layer, x):
    """A tap that leaves logits of few values, so that many are equal."""
    return (2 * x).round() / 2 if site == "logits" else x


def flat(site, layer, x):
    """All tokens equally likely."""
    return torch.zeros_like(x) if site == "logits" else x


def ordered(logits):
    """Ids of each row by falling logit, of equals the smaller id first: sorted as pairs, one by one."""
    return [sorted(range(len(row)), key=lambda number, row=row: (-row[number], number)) for row in logits.tolist()]


def shares(trace):
    """log p of all tokens after every position, float64 [T, V]"""
    return torch.from_numpy(trace.logits).double().log_softmax(-1).numpy()


@pytest.fixture(params=[None, 2], ids=["at once", "two rows at a time"])
def rows(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(predictions, "_LOGIT_BYTES", 4 * V * request.param)


@pytest.mark.parametrize("name", VARIANTS)
def test_numbers_are_those_of_a_softmax_of_all_logits(name, rows):
    trace = trace_of(VARIANTS[name])
    found, log_p, wanted = predict(trace), shares(trace), trace.tokens.ids[1:]
    p, order = np.exp(log_p), np.array(ordered(trace.logits))
    assert_close(found.normalizer, torch.from_numpy(trace.logits).double().logsumexp(-1), ROUNDING)
    assert_close(found.entropy, -(p * log_p).sum(-1), ROUNDING)
    assert found.ids.tolist() == order[:, :10].tolist()
    assert_close(found.logits, np.take_along_axis(trace.logits, order[:, :10], 1), ROUNDING)
    assert_close(found.probabilities, np.take_along_axis(p, order[:, :10], 1), ROUNDING)
    at = np.arange(T - 1)
    assert_close(found.next_logit, trace.logits[at, wanted], ROUNDING)
    assert_close(found.next_log_probability, log_p[at, wanted], ROUNDING)
    assert_close(found.surprisal, -np.log2(p[at, wanted]), 2 * ROUNDING)
    assert found.rank.tolist() == [list(order[t]).index(wanted[t]) + 1 for t in at]


@pytest.mark.parametrize("tap", [coarse, flat])
def test_of_equals_the_smaller_id_comes_first(tap, rows):
    trace = trace_of({}, tap=tap)
    order, wanted = ordered(trace.logits), trace.tokens.ids[1:]
    assert len(np.unique(trace.logits[0])) < V / 2
    for top in (1, 4, V):
        assert predict(trace, top).ids.tolist() == [row[:top] for row in order]
    assert predict(trace).rank.tolist() == [order[t].index(wanted[t]) + 1 for t in range(T - 1)]
    for token in (0, 7, V - 1):
        assert follow(trace, token).rank.tolist() == [row.index(token) + 1 for row in order]


def test_worked_by_hand():
    p = [[0.5, 0.25, 0.125, 0.125], [0.125, 0.125, 0.5, 0.25], [0.25, 0.25, 0.25, 0.25]]
    table = torch.tensor(p).log() + torch.tensor([[100.0], [0.0], [-3.0]])  # what is added to a row drops out
    ids = tokens_of([0, 3, 1], ("He", "llo", "é"))
    trace = run(tiny_model({"vocab_size": 4}), ids, tap=lambda site, layer, x: table[None] if site == "logits" else x)
    found = predict(trace, 3)
    assert found.ids.tolist() == [[0, 1, 2], [2, 3, 0], [0, 1, 2]]
    assert_close(found.probabilities, [[0.5, 0.25, 0.125], [0.5, 0.25, 0.125], [0.25, 0.25, 0.25]], 1e-5)
    assert_close(found.entropy, np.array([1.75, 1.75, 2]) * math.log(2), 1e-5)
    assert_close(found.normalizer, [100, 0, -3], 1e-5)
    assert_close(found.surprisal, [3, 3], 2e-5)  # token 3 after position 0, token 1 after position 1
    assert found.rank.tolist() == [4, 4]
    assert_close(found.next_logit, [table[0, 3], table[1, 1]], 0)
    told = summarize(found, ids)
    assert (told.scored, told.bytes) == (2, 5)  # "llo" and "é"
    assert (told.bits, told.perplexity) == (pytest.approx(3, abs=1e-5), pytest.approx(8, abs=1e-4))
    assert told.bits_per_byte == pytest.approx(6 / 5, abs=1e-5)
    one = follow(trace, 3)
    assert_close(one.probability, [0.125, 0.25, 0.25], 1e-5)
    assert one.rank.tolist() == [4, 2, 4] and one.logit.tolist() == table[:, 3].tolist()


@pytest.mark.parametrize("name", ["llama", "post"])
def test_perplexity_is_exp_of_the_mean_loss(name):
    trace = trace_of(VARIANTS[name])
    told, loss = summarize(predict(trace), trace.tokens), -shares(trace)[np.arange(T - 1), trace.tokens.ids[1:]].mean()
    assert told.nats == pytest.approx(loss, abs=ROUNDING)
    assert told.perplexity == pytest.approx(math.exp(loss), rel=ROUNDING)
    assert told.perplexity == pytest.approx(2**told.bits, rel=1e-12)
    size = sum(len(raw) for raw in trace.tokens.raw[1:])
    assert told.bits_per_byte * told.bytes == pytest.approx(told.bits * told.scored, rel=1e-12) and told.bytes == size


@pytest.mark.parametrize("name", ["gpt2", "post"])
def test_edits_are_in_the_numbers(name):
    plain = trace_of(VARIANTS[name])
    edited = plain.edit(Edit("zero", 1, 2), Edit("scale", 0, 1, 3.0))
    found = predict(edited)
    assert_close(found.next_log_probability, shares(edited)[np.arange(T - 1), plain.tokens.ids[1:]], ROUNDING)
    assert np.abs(found.surprisal - predict(plain).surprisal).max() > 0.01
    assert_close(follow(edited, 5).probability, np.exp(shares(edited))[:, 5], ROUNDING)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_followed_token_is_a_column_of_the_softmax(name, rows):
    trace = trace_of(VARIANTS[name])
    order, chosen = ordered(trace.logits), [4, V - 1, 4]
    for token, found in zip(chosen, follow_all(trace, chosen), strict=True):
        assert isinstance(found, Followed)
        assert_close(found.logit, trace.logits[:, token], ROUNDING)
        assert_close(found.probability, np.exp(shares(trace))[:, token], ROUNDING)
        assert found.rank.tolist() == [row.index(token) + 1 for row in order]


def test_followed_and_predicted_agree():
    trace = trace_of({})
    found = predict(trace, V)
    for token in range(V):
        one = follow(trace, token)
        assert found.ids[np.arange(T), one.rank - 1].tolist() == [token] * T
        assert_close(np.take_along_axis(found.probabilities, one.rank[:, None] - 1, 1)[:, 0], one.probability, 1e-12)
    assert_close(found.probabilities.sum(-1), np.ones(T), 1e-12)


def test_one_token_is_predicted_from_but_not_scored():
    trace = trace_of({}, T=1)
    found = predict(trace)
    assert found.ids.shape == (1, 10) and len(found.rank) == len(found.surprisal) == len(found.next_logit) == 0
    assert_close(found.entropy, -(np.exp(shares(trace)) * shares(trace)).sum(-1), ROUNDING)
    with pytest.raises(InputError, match="single token"):
        summarize(found, trace.tokens)
    assert len(follow(trace, 3).rank) == 1


def test_tokens_without_bytes_have_no_bits_per_byte():
    trace = run(tiny_model({}), tokens_of([1, 2], ("a", "")))
    told = summarize(predict(trace), trace.tokens)
    assert math.isnan(told.bits_per_byte) and told.perplexity == pytest.approx(math.exp(told.nats))


def test_what_does_not_fit_is_refused():
    trace = trace_of({})
    assert predict(trace, 1000).ids.shape == (T, V)
    with pytest.raises(InputError, match="top: 0"):
        predict(trace, 0)
    for token in (-1, V, True, 2.0, "x", None):
        with pytest.raises(InputError, match="no token with this id"):
            follow(trace, token)
    with pytest.raises(ValueError, match="9 positions, but 3 tokens"):
        summarize(predict(trace), tokens_of([1, 2, 3]))
    assert follow_all(trace, []) == []


def test_what_is_kept_is_small():
    trace = trace_of({})
    assert "logits" not in vars(trace)
    predict(trace), follow(trace, 1)
    assert "logits" not in vars(trace)  # [T, V], which a trace would keep
    assert predict(trace).nbytes == T * (8 + 8) + 10 * T * (8 + 4 + 8) + (T - 1) * (4 + 8 + 8)
    assert follow(trace, 1).nbytes == T * (4 + 8 + 8)
