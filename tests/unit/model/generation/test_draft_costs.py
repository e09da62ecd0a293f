"""What a draft costs and brings: predicted by hand, and summarized from rounds."""

import numpy as np
import pytest

from model.generation.draft_costs import Compared, needed_acceptance, speed_up, summary, swept, tokens_per_call
from model.generation.speculative import Proposal, Round


def test_predictions_by_hand():
    assert tokens_per_call(0.5, 2) == 1 + 0.5 + 0.25
    assert tokens_per_call(1.0, 4) == 5 and tokens_per_call(0.0, 4) == 1
    assert speed_up(0.5, 2, 0.1) == pytest.approx(1.75 / 1.2)
    assert speed_up(0.5, 2, 0.1, 1.5) == pytest.approx(1.75 / 1.7)
    assert speed_up(needed_acceptance(4, 0.2, 1.3), 4, 0.2, 1.3) == pytest.approx(1)
    assert needed_acceptance(4, 1.0, 1.2) == float("inf") and needed_acceptance(4, 0.0, 1.0) == 0


def a_round(fates, expected, token, draft, target):
    proposals = tuple(Proposal(1, 0.5, 0.5, expected, 0.1, fate) for fate in fates)
    return Round(proposals, token, "bonus" if token else "", 0.5, 0.5, draft, target)


def test_a_summary_by_hand():
    rounds = (
        a_round(["accepted", "rejected", "unread"], 0.6, 3, 3.0, 8.0),
        a_round(["accepted"] * 3, 0.6, 4, 3.0, 8.0),
    )
    plain = tuple(a_round([], 0, 3, 0.0, 5.0) for _ in range(6))
    told = summary(Compared(rounds, plain, ((1, 5.0), (2, 6.0), (4, 9.0))))
    assert (told.calls, told.written, told.proposed, told.tested, told.accepted) == (2, 6, 6, 5, 4)
    assert told.acceptance == 0.8 and told.expected == pytest.approx(0.6)
    assert told.spread == pytest.approx((5 * 0.24) ** 0.5 / 5)
    assert told.per_call == 3 and told.predicted_per_call == pytest.approx(1 + 0.6 + 0.36 + 0.216)
    assert (told.plain, told.draft, told.check, told.c, told.v) == (5, 1, 8, 0.2, 1.6)
    assert told.speculative == pytest.approx(22 / 6) and told.speed == pytest.approx(30 / 22)
    assert told.theorem == pytest.approx(2.176 / 1.6) and told.predicted == pytest.approx(2.176 / 2.2)
    assert told.covered == 1 and tokens_per_call(told.needed, 3) == pytest.approx(2.2)
    rows = swept(Compared(rounds, plain, ((1, 5.0), (2, 6.0), (4, 9.0))))
    assert rows[0] == pytest.approx((1, 1.6 / 1.2, 1.6 / 1.4)) and rows[2][2] == pytest.approx(2.176 / (0.6 + 1.8))
    assert np.isnan(rows[3][2])  # what was not measured is not predicted
    stalled = (*plain[:5], a_round([], 0, 3, 0.0, 500.0))  # counts as three times the median
    assert summary(Compared(rounds, stalled, ())).plain == pytest.approx((5 * 5 + 15) / 6)
    nothing = summary(Compared((a_round([], 0, 3, 0.0, 6.0),), plain[:1], ()))
    assert nothing.tested == 0 and np.isnan(nothing.acceptance) and nothing.predicted_per_call == 1
    assert swept(Compared((a_round([], 0, 3, 0.0, 6.0),), plain[:1], ())) == []
