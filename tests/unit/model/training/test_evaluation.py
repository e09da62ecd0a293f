"""The loss and what is measured on held-out tokens, by hand."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from model.training import forward, loop
from model.training.data import Batch
from model.training.tasks import IGNORE
from tests.support.models.helpers import V, tiny_model


class Table(nn.Module):
    """Logits that depend on the token alone: (0, ln 2, ln 3), which is 1/6, 2/6, 3/6, or (0, 0, 0), which is thirds."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.tensor([[0, math.log(2), math.log(3)], [0, 0, 0], [0, 0, 0]]))

    def trunk(self, ids, attend, tap):
        assert attend is forward.attend_rows
        return ids

    def logits(self, ids):
        return self.rows[ids]

    forward = logits


def test_the_summed_loss_by_hand():
    """Token 0 is followed by 1 (2/6) and by 2 (3/6), token 1 by 0 (1/3): ln 3 + ln 2 + ln 3; the rest is masked."""
    ids, targets = torch.tensor([[0, 0, 0], [1, 2, 2]]), torch.tensor([[1, IGNORE, 2], [0, IGNORE, IGNORE]])
    assert loop.summed_loss(Table(), ids, targets).item() == pytest.approx(math.log(18))
    assert loop.summed_loss(Table(), ids, torch.full((2, 3), IGNORE)).item() == 0


def held_out(rows: int, length: int):
    """Two batches that weigh 2 and 3 tokens."""
    assert (rows, length) == (16, 3)
    yield Batch(np.array([[0, 0, 0]]), np.array([[1, IGNORE, 2]]))
    yield Batch(np.array([[1, 2, 0]]), np.array([[0, 0, 2]]))


def test_an_evaluation_by_hand():
    """ln 3 + ln 2, then ln 3 + ln 3 + ln 2: ln 108 over 5 tokens. Right: 2 after 0, twice, and 0 after 1 and 2 (the
    first of equals). Bytes: 1 for token 0, 2 for token 1, 4 for token 2: 2 + 4 + 1 + 1 + 4 = 12."""
    sizes = np.array([1, 2, 4])
    found = loop.evaluate(Table(), held_out, sizes, length=3)
    assert found.loss == pytest.approx(math.log(108) / 5)
    assert (found.accuracy, found.tokens) == (4 / 5, 5)
    assert found.bits_per_byte == pytest.approx(math.log2(108) / 12)
    assert found.perplexity == pytest.approx(108 ** (1 / 5))
    first = loop.evaluate(Table(), held_out, sizes, length=3, limit=1)
    assert (first.loss, first.accuracy, first.tokens) == (pytest.approx(math.log(6) / 2), 1 / 2, 2)
    assert math.isnan(loop.evaluate(Table(), held_out, np.zeros(3, int), length=3).bits_per_byte)
    assert loop.Evaluation(1e9, 0, 0, 1).perplexity == math.exp(700)


@pytest.mark.parametrize("training", [True, False])
def test_a_model_that_knows_nothing(training: bool):
    """All weights 0: every token has 1/53. 30 tokens of 2 bytes: 30 log2(53) / 60 bits a byte."""
    model = tiny_model().train(training)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    modes = []
    model.register_forward_hook(lambda module, args, out: modes.append((module.training, out.requires_grad)))
    batch = Batch(np.ones((3, 10), int), np.arange(30).reshape(3, 10))
    found = loop.evaluate(model, lambda rows, length: iter([batch]), np.full(V, 2), length=10)
    assert found.loss == pytest.approx(math.log(53), abs=1e-6)
    assert found.perplexity == pytest.approx(53, rel=1e-5)
    assert found.bits_per_byte == pytest.approx(math.log2(53) / 2, abs=1e-6)
    assert (found.accuracy, found.tokens) == (1 / 30, 30)
    assert modes == [(False, False)] and model.training is training
