"""What sampling refuses: steps, logits, probabilities and random numbers that make no sense."""

import math

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.sampling.draw_statistics import uniforms
from model.sampling.pipeline import MOST_STEPS, Step, draw, uniform
from model.sampling.warps import WARPS, final, run_steps, shape

LOGITS = torch.randn(50, generator=torch.Generator().manual_seed(0))


def step(warp, **values) -> Step:
    return Step(warp, tuple(values.items()))


STEPS = [
    ((step("temperature", temperature=-1),), r"temperature, temperature: -1\. Choose a value from 0 to 3"),
    ((step("top_k", p=0.1),), r"No setting has this name. Got: top_k, p: 0\.1\. Choose one of: k"),
    ((step("top_k", k=2.5),), "not a whole number. Got: top_k, k: 2.5"),
    ((step("top_k", k="5"),), "top_k, k: 5"),
    ((step("top_k", k=True),), "top_k, k: True"),
    ((step("repetition_penalty", penalty=0),), "penalty: 0"),
    ((Step("top_k", ((3, 5),)),), "No setting has this name"),
    ((step("shake"),), "step is unknown. Got: shake. Choose one of: temperature, dynamic_temperature"),
    ((Step(None),), "step is unknown"),
    (("top_k",), "step is unknown. Got: top_k"),
    (step("top_k"), "steps are not a list"),
    ((step("top_k"),) * (MOST_STEPS + 1), "too many steps"),
    ((Step("logit_bias", (), ((1.5, 2.0),)),), "no token with this id. Got: 1.5"),
    ((Step("logit_bias", (), ((50, 2.0),)),), "no token with this id. Got: 50"),
    ((Step("logit_bias", (), ((5, math.nan),)),), "logit_bias: nan"),
    ((Step("logit_bias", (), ((5, 101),)),), "logit_bias: 101"),
    *(
        ((step(warp, **{parameter.name: math.nan}),), f"{parameter.name}: nan")
        for warp, each in WARPS.items()
        for parameter in each.parameters
    ),
]


@pytest.mark.parametrize(("steps", "said"), STEPS)
def test_steps_that_cannot_be_are_refused(steps, said):
    for function in (shape, final):
        with pytest.raises(InputError, match=said):
            function(LOGITS, steps)


@pytest.mark.parametrize(
    ("logits", "said"),
    [
        ([1.0, math.nan], "do not define a distribution. Got: nan"),
        ([1.0, math.inf], "do not define a distribution. Got: inf"),
        ([-math.inf] * 3, "do not define a distribution. Got: -inf"),
        ([], "logits of one position"),
        ([[1.0, 2.0]], r"logits of one position. Got: \(1, 2\)"),
        (1.0, "logits of one position"),
    ],
)
def test_logits_without_a_distribution_are_refused(logits, said):
    for steps in ((), (step("top_p"),)):
        for function in (shape, final):
            with pytest.raises(InputError, match=said):
                function(torch.tensor(logits), steps)
    assert final(np.array([1.0, -np.inf]), ()).tolist() == [1.0, -math.inf]


def test_steps_are_checked_once_a_text_and_not_at_every_token():
    """`run_steps` takes what was checked, and what it computes is what `final` does."""
    steps = (step("temperature", temperature=0.7), step("top_p", p=0.9))
    assert torch.equal(final(LOGITS, steps), run_steps(LOGITS, steps))
    assert run_steps(LOGITS, (step("temperature", temperature=-1),)).argmax() == LOGITS.argmin()


@pytest.mark.parametrize("u", [1, 1.0, 1.5, -0.1, math.nan, math.inf, True, "0.5", None])
def test_a_random_number_outside_its_interval_draws_nothing(u):
    with pytest.raises(InputError, match="random number is out of range"):
        draw(np.array([0.5, 0.5]), u)
    assert draw(np.array([0.5, 0.5]), 0) == 0


@pytest.mark.parametrize("p", [[0.5, math.nan], [0.5, math.inf], [0.0, 0.0], [0.9, -0.1], [-1.0, -1.0]])
def test_what_is_no_distribution_is_not_drawn_from(p):
    with pytest.raises(InputError, match="not probabilities"):
        draw(np.array(p), 0.5)


@pytest.mark.parametrize("wrong", [math.nan, -1, 1.5, 1.0, True, "1", None, 2**63])
def test_random_numbers_belong_to_whole_numbers(wrong):
    for given in ((wrong, 0, 0), (0, wrong, 0), (0, 0, wrong)):
        with pytest.raises(InputError, match="Choose a whole number from 0"):
            uniform(*given)
    for given in ((wrong, 3), (0, wrong), (0, 3, wrong), (0, 3, 0, wrong)):
        with pytest.raises(InputError, match="Choose a whole number from 0"):
            uniforms(*given)
    assert uniform(np.int64(3), np.int32(2)) == uniform(3, 2)
