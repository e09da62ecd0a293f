"""A tiny mixture trained with and without the load-balancing loss: the same start, and what is noted on the way."""

import numpy as np
import pytest

from model.anatomy.anatomy import n_params
from model.design import expert_trial
from model.design.expert_trial import LAYERS, SAMPLE, ExpertTrial, config_of, text, train_mixtures, train_one
from model.gpt.transformer import Transformer

SHORT = ExpertTrial(balances=(0.0, 1.0), steps=3)


@pytest.fixture(scope="module")
def found():
    return train_mixtures(SHORT)


def test_both_start_alike_and_part_at_the_first_step(found):
    without, balanced = found.runs
    assert (without.balance, balanced.balance) == (0.0, 1.0)
    assert without.steps.tolist() == balanced.steps.tolist() == [0, 1, 2, 3]
    assert np.array_equal(without.load[0], balanced.load[0])
    assert abs(without.losses[0] - balanced.losses[0]) < 1e-5  # with a router to watch, norms round otherwise
    assert not np.array_equal(without.entropy[1], balanced.entropy[1])


def test_what_is_noted_fits_together(found):
    assert len(found.pieces) == SAMPLE and "".join(found.pieces).isascii()
    for run in found.runs:
        assert run.load.shape == (4, LAYERS, 4) and np.allclose(run.load.sum(-1), 1)
        assert ((run.entropy > 0) & (run.entropy <= np.log(4) + 1e-6)).all()
        assert ((run.dropped >= 0) & (run.dropped < 1)).all() and (run.dropped > 0).any()
        assert run.experts.shape == run.weights.shape == run.lost.shape == (LAYERS, SAMPLE, 1)
        assert ((run.weights > 0) & (run.weights <= 1)).all()
        assert run.lost.any()  # the sample is of the last row
        # An expert with more than 5/16 of the tokens drops what is over that: capacity 1.25 of a quarter.
        over = np.maximum(run.load - 5 / 16, 0).sum(-1)
        assert np.allclose(run.dropped, over, atol=1e-3)


def test_parameters_that_one_token_uses(found):
    config = config_of(SHORT, text().tokenizer.vocab_size)
    model = Transformer(config)
    assert found.n_params == n_params(config) == sum(p.numel() for p in model.parameters())
    idle = sum(p[:3].numel() for name, p in model.named_parameters() if ".experts." in name)
    assert found.n_active == found.n_params - idle


def test_a_training_is_the_same_again():
    again = train_one(SHORT, 1.0)
    assert np.array_equal(again.losses, expert_trial.train_one(SHORT, 1.0).losses)
