"""What a step did to each token, and why."""

import math

import pytest
import torch

from model.sampling.effects import Reason, effects
from model.sampling.pipeline import Context, Step, softmax
from model.sampling.warps import WARPS, final

TEXT = Context((1, 2, 3, 1, 2), 2, chance=0.0)
LOGITS = torch.log(torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05]))


def reasons(warp: str, values: dict[str, float], tokens=(), phrases=()) -> dict[int, Reason | None]:
    found = effects(LOGITS, Step(warp, tuple(values.items()), tokens, phrases), TEXT)
    return {each.id: each.reason for each in found}


@pytest.mark.parametrize("warp", WARPS)
def test_the_numbers_are_those_before_and_after(warp):
    step = Step(warp, tokens=((0, 2.0),), phrases=((2, 3),))
    after = final(LOGITS, (step,), TEXT)
    before, now = softmax(LOGITS.numpy()), softmax(after.numpy())
    found = effects(LOGITS, step, TEXT)
    assert found
    for each in found:
        assert each.logits == (float(LOGITS[each.id]), float(after[each.id]))
        assert each.probabilities == (before[each.id], now[each.id])
    moved = [abs(each.probabilities[1] - each.probabilities[0]) for each in found]
    assert moved == sorted(moved, reverse=True)
    assert len(effects(LOGITS, step, TEXT, 1)) <= 1


def test_a_penalty_tells_why():
    assert reasons("dry", {"allowed": 2}) == {3: Reason("repeat", 2, (1, 2))}
    assert reasons("no_repeat_ngram", {"ngram": 3}) == {3: Reason("ngram", ids=(1, 2, 3))}
    assert reasons("repetition_penalty", {}) == {n: Reason("count", (0, 2, 2, 1)[n]) for n in (1, 2, 3)}
    assert reasons("repetition_penalty", {"window": 2}) == {n: Reason("count", 1) for n in (1, 2)}
    assert reasons("frequency_penalty", {}) == {n: Reason("count", 1) for n in (1, 2, 3)}
    assert reasons("presence_penalty", {"window": 5})[1] == Reason("count", 2)
    assert reasons("logit_bias", {}, ((4, 2.0), (4, 1.5))) == {4: Reason("bias", 3.5)}
    assert reasons("banned_words", {}, (), ((2, 4), (4,), (1, 4))) == {4: Reason("banned", ids=(2, 4))}


def test_other_steps_have_none():
    assert set(reasons("xtc", {"threshold": 0.12}).values()) == {None}
    found = {each.id: each for each in effects(LOGITS, Step("xtc", (("threshold", 0.12),)), TEXT)}
    assert (
        found[0].logits[1] == -math.inf
        and found[0].probabilities[1] == 0
        and found[2].probabilities[1] == pytest.approx(0.5)
    )


def test_what_was_out_before_is_left_out():
    logits = torch.tensor([0.0, 1, -math.inf])
    assert {each.id for each in effects(logits, Step("top_k", (("k", 1),)))} == {0, 1}
