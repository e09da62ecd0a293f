"""A distribution after the warps: where few tokens remain these are held alone, and are drawn as all would be."""

import numpy as np
import pytest
import torch

from model.errors import CheckpointError
from model.generation import generate
from model.generation.decoder import WarpedRow, generated_token, rows_of, warped_row
from model.generation.strategies import STRATEGIES, DecodingPlan
from model.sampling.pipeline import draw, softmax, uniform
from tests.support.models.helpers import assert_close, randn, tiny_model

V = 64


def of(remain: int) -> tuple[WarpedRow, np.ndarray, object]:
    """The distribution of logits of which so many remain, as float64 has it, and the rows before."""
    logits = 4 * randn(1, V)
    warped = logits[0].clone()
    warped[logits[0].argsort()[: V - remain]] = -torch.inf
    rows = rows_of(logits)
    return warped_row(rows, 0, warped), softmax(warped.numpy()), rows


@pytest.mark.parametrize("remain", [1, 2, 7, V // 8, V // 8 + 1, V])
def test_few_or_many_remain(remain):
    after, wanted, rows = of(remain)
    assert (after.ids is not None) == (remain <= V // 8) and after.kept == remain
    assert_close(torch.from_numpy(after.probabilities), torch.from_numpy(wanted), 1e-15)
    for tokens in (np.arange(V), np.array([V - 1, 0, 5])):
        assert np.array_equal(after.of(tokens), after.probabilities[tokens])
    for step in range(40):
        u = uniform(7, step)
        assert after.draw(u) == draw(after.probabilities, u)
    best = int(wanted.argmax())
    token = generated_token(rows, 0, after, best, 0.5)
    assert token.probability == after.probabilities[best] and token.kept == remain
    assert [share for _, _, share in token.top] == [after.probabilities[id] for id, _, _ in token.top]


@pytest.mark.parametrize("size", [5, V, 3000])
def test_rows_are_the_same_where_nothing_is_compiled(size, monkeypatch):
    logits = 4 * randn(3, size)
    logits[1, 1:3] = -torch.inf
    found = rows_of(logits)
    monkeypatch.setattr("model.kernels.ready.soon", lambda: None)
    plain = rows_of(logits)
    shares = logits.double().softmax(-1)
    entropy = -(shares * torch.where(shares > 0, shares.log(), 0)).sum(-1)
    for rows in (found, plain):
        assert torch.equal(rows.top, plain.top) and rows.top.shape == (3, min(8, size))
        assert_close(torch.from_numpy(rows.total), logits.double().logsumexp(-1), 1e-14 * size)
        assert_close(torch.from_numpy(rows.entropy), entropy, 1e-14 * size)
        for row in range(3):
            assert_close(torch.from_numpy(rows.probabilities(row)), shares[row], 1e-15)
            some = rows.top[row].numpy()
            assert_close(torch.from_numpy(rows.probabilities_of(row, some)), shares[row, some], 1e-15)
        last = rows.between(2, 3)
        assert last.total.tolist() == [rows.total[2]] and torch.equal(last.top, rows.top[2:])


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
@pytest.mark.parametrize("compiled", [True, False])
def test_what_is_no_number_is_refused_by_both(number, compiled, monkeypatch):
    logits = randn(2, V)
    logits[1, 7] = number
    if not compiled:
        monkeypatch.setattr("model.kernels.ready.soon", lambda: None)
    with pytest.raises(CheckpointError, match="not finite"):
        rows_of(logits)


def test_the_states_are_computed_for_who_asks_alone(monkeypatch):
    model, asked, whole = tiny_model(), [], generate.normed

    def normed(model, stream):
        states = whole(model, stream)

        def ask():
            asked.append(stream.shape[1])
            return states()

        return ask

    monkeypatch.setattr(generate, "normed", normed)
    for name, states in (("top_p", []), ("beam", []), ("contrastive", [3, 1, 1, 1])):
        asked.clear()
        ticks = list(generate.generate(model, [1, 2, 3], [STRATEGIES[name]], DecodingPlan(max_new_tokens=3), 53))
        assert len(ticks) == 3 + bool(states) and asked == states, name
