"""The orders of the steps: worked by hand where they differ, and the default orders of four tools."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.sampling import orders
from model.sampling.orders import LARGE, MOST_ORDERED, Group, compare_orders, result_of
from model.sampling.pipeline import Context, Step
from model.sampling.tool_orders import TOOLS, arranged
from model.sampling.warps import WARPS, run_steps
from tests.unit.model.sampling.test_fits import FULL, fits_step

LOGITS = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()


def step(warp: str, *numbers: float) -> Step:
    names = [parameter.name for parameter in WARPS[warp].parameters]
    return Step(warp, tuple(zip(names, numbers, strict=False)))


HOT, NUCLEUS = step("temperature", 2.0), step("top_p", 0.65)


def tool(name: str):
    return next(each for each in TOOLS if each.name == name)


def test_top_p_before_and_after_a_temperature_by_hand():
    """At 2 the probabilities are proportional to their roots: 0.325, 0.282, 0.230, 0.163; two of them reach 0.607."""
    found = compare_orders(LOGITS, (HOT, NUCLEUS))
    assert [group.orders for group in found.groups] == [((0, 1),), ((1, 0),)]
    assert [group.tokens for group in found.groups] == [0, 1] and found.pairs == ((0, 1),) and found.every
    hot_first, cut_first = (group.result for group in found.groups)
    assert (hot_first.kept, cut_first.kept) == (3, 2) and hot_first.top == cut_first.top == 0
    roots = np.sqrt([0.4, 0.3, 0.2])
    three, two = roots / roots.sum(), roots[:2] / roots[:2].sum()
    assert hot_first.largest == pytest.approx(three[0]) and cut_first.largest == pytest.approx(two[0])
    assert cut_first.entropy == pytest.approx(-(two * np.log(two)).sum())
    assert hot_first.distance == 0
    assert cut_first.distance == pytest.approx(three[2])  # what the third token has, the two others share
    other = compare_orders(LOGITS, (NUCLEUS, HOT))
    assert [group.result.kept for group in other.groups] == [2, 3]  # the present order comes first


def test_steps_that_commute_give_one_group():
    bias = Step("logit_bias", tokens=((2, 1.0),))
    for steps in (
        (HOT, step("top_k", 3)),
        (step("top_k", 3), step("min_p", 0.1), step("top_k", 2)),
        (step("frequency_penalty", 1), bias, step("presence_penalty", 1)),
        (step("top_p", 0.5), step("top_p", 0.5)),  # the same step twice
    ):
        found = compare_orders(LOGITS, steps, Context((0, 1, 1, 3), 1))
        assert len(found.groups) == 1 and found.pairs == () and found.groups[0].orders[0] == tuple(range(len(steps)))
        assert found.count == (2 if len(steps) == 2 else 6)


def test_rounding_divides_no_group():
    logits = torch.randn(2000, generator=torch.Generator().manual_seed(0)) * 8 - 100
    steps = (step("temperature", 0.7), step("temperature", 1.3), step("temperature", 0.9))
    found = compare_orders(logits, steps)
    assert len(found.groups) == 1 and found.pairs == () and found.groups[0].result.distance == 0


def test_the_same_tokens_can_have_other_probabilities():
    found = compare_orders(LOGITS, (step("smoothing", 0.3), HOT))
    assert [group.tokens for group in found.groups] == [0, 0] and found.pairs == ((0, 1),)
    assert 0 < found.groups[1].result.distance < 1


def test_orders_with_the_same_result_are_one_group_and_the_largest_set_follows():
    steps = (step("temperature", 2.0), step("top_k", 2), step("top_p", 0.65))
    found = compare_orders(LOGITS, steps)
    brute = {
        (0, 1, 2): 2,  # of 0.536 and 0.464 both are needed
        (0, 2, 1): 2,
        (1, 0, 2): 2,
        (1, 2, 0): 2,
        (2, 0, 1): 2,
        (2, 1, 0): 2,
    }
    assert {order: group.result.kept for group in found.groups for order in group.orders} == brute
    assert len(found.groups) == 1 and found.pairs == ((0, 2),)  # what they do to each other is undone by top-k


def test_a_step_by_chance_reads_the_same_number_in_every_order():
    steps = (step("xtc", 0.15, 0.5), step("top_k", 2))
    acts, rests = (compare_orders(LOGITS, steps, Context(chance=u)) for u in (0.2, 0.7))
    assert [group.result.top for group in acts.groups] == [2, 1] and [g.result.kept for g in acts.groups] == [2, 1]
    assert len(rests.groups) == 1 and rests.groups[0].result.top == 0


def test_an_order_after_which_no_token_fits_is_a_result_without_tokens():
    """The likeliest token is "b", and the rule allows only "a"."""
    a, b = FULL.raw.index(b"a"), FULL.raw.index(b"b")
    logits = torch.full((len(FULL.raw),), -torch.inf)
    logits[[a, b]] = torch.tensor([0.4, 0.6]).log()
    rule = fits_step("choice", "a")
    found = compare_orders(logits, (rule, step("top_k", 1)))
    assert [(each.orders, each.result.kept, each.result.top) for each in found.groups] == [
        (((0, 1),), 1, a),
        (((1, 0),), 0, -1),
    ]
    assert found.groups[1].result.distance == 1 and found.pairs == ((0, 1),)
    assert result_of(logits, (step("top_k", 1), rule, HOT), (rule,)) == found.groups[1].result


def test_too_many_steps_are_exchanged_with_their_neighbors_only():
    steps = (HOT, *(step("top_k", 4),) * (MOST_ORDERED - 1), NUCLEUS)
    found = compare_orders(LOGITS, steps)
    assert not found.every and found.count == len(steps)
    assert found.groups[0].orders[0] == tuple(range(len(steps)))
    large = compare_orders(torch.zeros(LARGE + 1), (step("top_k", 0),) * MOST_ORDERED)
    assert not large.every and large.count == MOST_ORDERED
    assert compare_orders(LOGITS, (step("top_k", 0),) * 4).count == 24
    few = compare_orders(LOGITS, (HOT,)), compare_orders(LOGITS, ())
    assert [each.groups[0].orders for each in few] == [((0,),), ((),)]
    assert all(isinstance(each.groups[0], Group) and len(each.groups) == 1 for each in few)


def test_wrong_steps_are_refused():
    for steps in ((Step("nope"), HOT), (step("top_p", 7), HOT)):
        with pytest.raises(InputError):
            compare_orders(LOGITS, steps)
        with pytest.raises(InputError):
            result_of(LOGITS, (HOT,), steps)


# --- the tools ---


def test_the_steps_in_the_orders_of_the_tools():
    warps = ("temperature", "min_p", "dry", "top_p", "top_k", "top_a", "banned_words", "fits")
    steps = tuple(map(Step, warps))
    names = {each.name: [[steps[n].warp for n in indices] for indices in arranged(steps, each)] for each in TOOLS}
    assert names == {
        "llama.cpp": [["fits", "banned_words", "dry", "top_k", "top_p", "min_p", "temperature"], ["top_a"]],
        "transformers": [["banned_words", "fits", "temperature", "top_k", "top_p", "min_p"], ["dry", "top_a"]],
        "vLLM": [["fits", "banned_words", "temperature", "min_p", "top_k", "top_p"], ["dry", "top_a"]],
        "text-generation-webui": [
            ["fits", "banned_words", "dry", "temperature", "top_k", "top_p", "top_a", "min_p"],
            [],
        ],
    }
    twice = (HOT, step("top_k", 4), step("top_k", 2))
    assert arranged(twice, tool("llama.cpp")) == ((1, 2, 0), ())  # steps of one warp keep their order
    assert all(set(each.warps) <= set(WARPS) and len(set(each.warps)) == len(each.warps) for each in TOOLS)


def test_the_result_of_other_steps_is_compared_with_the_present_ones():
    found = compare_orders(LOGITS, (HOT, NUCLEUS))
    assert result_of(LOGITS, (NUCLEUS, HOT), (HOT, NUCLEUS)) == found.groups[1].result
    assert result_of(LOGITS, (), (HOT,)).kept == 4


def test_orders_share_their_beginnings_and_equal_results(monkeypatch):
    """One result for each set of steps that commute: 6 steps are run 6 x 2^5 times instead of 6 x 720 times."""
    ran = []
    monkeypatch.setattr(orders, "run_steps", lambda *given: (ran.append(1), run_steps(*given))[1])
    assert compare_orders(LOGITS, tuple(step("top_k", k) for k in (4, 3, 3, 2, 2, 1))).count == 720
    assert len(ran) == 6 * 2**5
