"""What holds for the orders of any steps on any logits, by running each order on its own."""

from itertools import permutations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from model.sampling.orders import ROUNDING, compare_orders
from model.sampling.pipeline import Step, softmax
from model.sampling.warps import WARPS, final
from tests.property.test_warps_property import contexts, rows, steps

SETTINGS = settings(max_examples=50, deadline=None, derandomize=True, database=None)


@st.composite
def cases(draw_):
    logits = draw_(rows())
    size = len(logits)
    chosen = draw_(st.lists(steps(sorted(WARPS), size), min_size=2, max_size=4))
    return logits, tuple(chosen), draw_(contexts(size))


def distribution(logits, chosen: tuple[Step, ...], context) -> np.ndarray:
    return softmax(final(logits, chosen, context).numpy())


def kept(logits, chosen: tuple[Step, ...], context) -> tuple[bool, ...]:
    return tuple(np.isfinite(final(logits, chosen, context).numpy()).tolist())


def far(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).sum()) / 2


@SETTINGS
@given(cases())
def test_the_members_of_a_group_give_the_same_and_every_order_is_in_one(case):
    logits, chosen, context = case
    found = compare_orders(logits, chosen, context)
    listed = [order for group in found.groups for order in group.orders]
    assert sorted(listed) == sorted(permutations(range(len(chosen)))) and listed[0] == tuple(range(len(chosen)))
    sets, present = {}, distribution(logits, chosen, context)
    for group in found.groups:
        assert list(group.orders[1:]) == sorted(group.orders[1:])
        first = distribution(logits, tuple(chosen[n] for n in group.orders[0]), context)
        assert abs(far(first, present) - group.result.distance) <= 2 * ROUNDING
        for order in group.orders:
            ordered = tuple(chosen[n] for n in order)
            tokens = kept(logits, ordered, context)
            assert sets.setdefault(group.tokens, tokens) == tokens and sum(tokens) == group.result.kept
            assert far(distribution(logits, ordered, context), first) <= 2 * ROUNDING
    assert len(set(sets.values())) == len(sets)


@SETTINGS
@given(cases())
def test_the_pairs_are_those_whose_exchange_changes_a_result(case):
    logits, chosen, context = case
    wanted = set()
    for order in permutations(range(len(chosen))):
        for at in range(len(order) - 1):
            head, (a, b) = order[:at], order[at : at + 2]
            one, other = (tuple(chosen[n] for n in (*head, *pair)) for pair in ((a, b), (b, a)))
            differ = far(distribution(logits, one, context), distribution(logits, other, context)) > ROUNDING
            if differ or kept(logits, one, context) != kept(logits, other, context):
                wanted.add((min(a, b), max(a, b)))
    assert set(compare_orders(logits, chosen, context).pairs) == wanted
