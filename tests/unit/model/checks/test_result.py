"""The comparison behind every check, by hand: what is worst, where it is, and what never agrees."""

import math

import pytest
import torch

from model.checks.result import EPS, Finding, Worst, counted


def test_worst_by_hand():
    worst = Worst("logit", "sum", 4)  # 4 sqrt(4) = 8 roundings
    worst.rows(torch.tensor([[1.0, 2.0], [100.0, 0.0]]), torch.tensor([[1.0, 2.0], [100.0, 1e-4]]))
    worst.rows(torch.tensor([[[4.0]], [[4.0]]]), torch.tensor([[[4.0]], [[4.0 + 2 * EPS]]]), layer=2)
    found = worst.finding()
    assert (found.state, found.position, found.layer, found.head, found.compared) == ("differs", 1, None, None, 6)
    assert found.difference == pytest.approx(1e-4) and found.bound == 8 * EPS * 100 and found.scale == 100


def test_worst_names_the_head_it_was_given():
    worst = Worst("weight", "sum", 1)
    values = torch.zeros(2, 3, 4)
    values[1, 2, 0] = 1e-9
    worst.rows(values, torch.zeros(2, 3, 4), torch.ones(2, 3), 5, torch.tensor([1, 7]))
    found = worst.finding()
    assert (found.state, found.layer, found.head, found.position) == ("agrees", 5, 7, 2)


@pytest.mark.parametrize(("actual", "expected"), [(math.nan, 1.0), (1.0, math.nan), (math.inf, math.inf), (1e-30, 0.0)])
def test_what_is_not_a_number_or_beyond_a_bound_of_0_never_agrees(actual, expected):
    worst = Worst("logit", "sum", 1)
    worst.rows(torch.tensor([[actual]], dtype=torch.float64), torch.tensor([[expected]], dtype=torch.float64))
    assert worst.finding().state == "differs"


def test_nothing_compared_is_no_agreement():
    assert Worst("logit", "sum", 1).finding().state == "unable"
    assert Worst("logit", "exact").roundings == 0


def test_shapes_must_be_equal():
    with pytest.raises(ValueError, match="shapes differ"):
        Worst("logit").rows(torch.zeros(2, 3), torch.zeros(3, 2))


def test_counts():
    assert counted(0, 5, "bytes").state == "agrees"
    assert counted(1, 5, "bytes") == Finding("differs", 1.0, 0.0, "bytes", compared=5)
