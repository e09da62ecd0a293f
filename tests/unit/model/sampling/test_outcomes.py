"""Steps that act by chance: what can come of them, and draws with both random numbers."""

import numpy as np
import pytest
import torch

from model.generation.strategies import STRATEGIES, Strategy
from model.predictions.samples import certain
from model.sampling.draw_statistics import fit
from model.sampling.outcomes import Outcome, counts, expected, outcomes
from model.sampling.pipeline import Context, Step, draw, second, softmax, uniform
from model.sampling.warps import final

LOGITS = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
GREEDY = Step("temperature", (("temperature", 0),))


def xtc(probability: float, threshold: float = 0.15) -> Step:
    return Step("xtc", (("threshold", threshold), ("xtc_probability", probability)))


def test_the_outcomes_share_the_numbers_from_0_to_1():
    assert outcomes(()) == outcomes((xtc(0), xtc(1))) == (Outcome(0.0, 1.0),)
    assert outcomes((xtc(0.75), GREEDY, xtc(0.25))) == (Outcome(0, 0.25), Outcome(0.25, 0.75), Outcome(0.75, 1))
    assert [each.probability for each in outcomes((xtc(0.3),))] == pytest.approx([0.3, 0.7])


def test_what_is_expected_by_hand():
    """Without the first two, 0.2 and 0.1 are 2/3 and 1/3."""
    assert expected(LOGITS, (xtc(0.25),)) == pytest.approx(
        [0.75 * 0.4, 0.75 * 0.3, 0.75 * 0.2 + 0.25 * 2 / 3, 0.75 * 0.1 + 0.25 / 3], abs=1e-7
    )
    assert expected(LOGITS, (xtc(0.25), GREEDY)) == pytest.approx([0.75, 0, 0.25, 0])
    assert np.array_equal(expected(LOGITS, (GREEDY,)), [1, 0, 0, 0])
    both = expected(LOGITS, (xtc(0.5), xtc(0.25, 0.3)))  # the second acts on 2/3 and 1/3, where the first has acted
    assert both == pytest.approx([0.2, 0.15, 0.1 + 0.25 * 2 / 3, 0.05 + 0.25 / 3 + 0.25], abs=1e-7)


def test_counts_are_those_of_draws_one_after_the_other():
    steps, wanted = (xtc(0.4), Step("temperature", (("temperature", 1.5),))), np.zeros(4, int)
    for step in range(400):
        after = final(LOGITS, steps, Context(chance=second(7, step)))
        wanted[draw(softmax(after.numpy()), uniform(7, step))] += 1
    assert np.array_equal(counts(LOGITS, steps, 7, 400), wanted)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_draws_with_xtc_are_distributed_as_expected(probability):
    """By chi-square; and not as either outcome alone."""
    logits = 2 * torch.randn(40, generator=torch.Generator().manual_seed(4))
    steps = (xtc(probability, 0.05),)
    drawn = counts(logits, steps, 11, 8000)
    assert fit(drawn, expected(logits, steps)).p > 0.001
    assert fit(drawn, expected(logits, ())).p < 1e-6


def test_the_two_numbers_of_a_step_are_independent():
    pairs = np.array([(uniform(3, step), second(3, step)) for step in range(6400)])
    table = np.histogram2d(*pairs.T, bins=8, range=[[0, 1], [0, 1]])[0]
    assert ((table - 100) ** 2 / 100).sum() < 103.4  # the 0.999 quantile at 63 degrees of freedom
    assert second(3, 5) == second(3, 5) != second(3, 5, 1)


def test_a_strategy_that_acts_by_chance_is_not_certain():
    assert certain(Strategy((GREEDY,))) and certain(STRATEGIES["beam"]) and not certain(STRATEGIES["top_p"])
    assert not certain(Strategy((xtc(0.5), GREEDY))) and not certain(Strategy((xtc(0.5),), "beam"))
    assert certain(Strategy((GREEDY, xtc(0.5)))) and certain(Strategy((xtc(1), GREEDY)))
