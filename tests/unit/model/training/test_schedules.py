"""Recipes that cannot be followed, and the learning rate of every step, by hand."""

import math

import pytest

from model.training import loop
from model.training.loop import Recipe


def rates(*steps: int, **fields) -> list[float]:
    return [loop.learning_rate(step, Recipe(learning_rate=2.0, **fields)) for step in steps]


def test_a_recipe_that_cannot_be_followed_is_refused():
    for name in ("steps", "batch", "length", "accumulate"):
        assert getattr(Recipe(**{"steps": 1, name: 1}), name) == 1
        for wrong in (0, -1, 2.5, True, "3", math.nan):
            with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, got {wrong!r}"):
                Recipe(**{"steps": 1, name: wrong})
    with pytest.raises(ValueError, match="one of cosine, inverse_sqrt, trapezoid, got 'linear'"):
        Recipe(steps=1, schedule="linear")


def test_cosine_by_hand():
    """Ten steps up to 2, then half a cosine down to 0.2: 1.1 is half of the way, (1 + cos 60)/2 = 3/4 a third of it."""
    found = rates(0, 4, 9, 10, 40, 55, 70, 100, steps=101, warmup=10)
    assert found == pytest.approx([0.2, 1.0, 2.0, 2.0, 0.2 + 1.8 * 0.75, 1.1, 0.2 + 1.8 * 0.25, 0.2])
    assert rates(0, 50, 100, 1000, steps=101, warmup=0, floor=0.0) == pytest.approx([2.0, 1.0, 0.0, 0.0])


@pytest.mark.parametrize("schedule", ["cosine", "trapezoid"])
@pytest.mark.parametrize(("steps", "warmup", "decay"), [(10, 3, 0.4), (10, 0, 0.15), (5, 3, 0.5), (600, 50, 0.15)])
def test_the_last_step_has_the_floor_and_no_earlier_one(schedule, steps, warmup, decay):
    found = rates(*range(steps), steps=steps, warmup=warmup, decay=decay, floor=0.05, schedule=schedule)
    assert found[-1] == pytest.approx(0.1) and max(found) == 2.0
    assert min(found[max(warmup - 1, 0) : -1]) > 0.1


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("clip", -1),
        ("clip", 0),
        ("clip", math.nan),
        ("weight_decay", math.nan),
        ("weight_decay", -0.1),
        ("warmup", -3),
        ("warmup", 1.5),
        ("floor", 5),
        ("decay", -1),
        ("decay", 1.1),
        ("learning_rate", -1e-3),
        ("learning_rate", math.inf),
        ("beta1", 1),
        ("beta2", math.nan),
        ("seed", -1),
        ("seed", True),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(name, wrong):
    with pytest.raises(ValueError, match=f"{name} must be .*got {wrong!r}"):
        Recipe(steps=2, **{name: wrong})
    assert Recipe(steps=2, clip=math.inf).clip == math.inf


def test_inverse_sqrt_by_hand():
    """Warm-up over 4 steps; step 15 is the 16th: sqrt(4 / 16) = 1/2. Without warm-up step n has 1/sqrt(n)."""
    found = rates(0, 3, 4, 15, 63, steps=100, warmup=4, schedule="inverse_sqrt")
    assert found == pytest.approx([0.5, 2.0, 2 * math.sqrt(4 / 5), 1.0, 0.5])
    assert rates(0, 3, steps=9, warmup=0, schedule="inverse_sqrt") == pytest.approx([2.0, 1.0])


def test_trapezoid_by_hand():
    """Flat to step 79, then straight down over 20 steps to a tenth: 89 is half of the way, 98 has 1/20 of it left."""
    found = rates(0, 9, 10, 79, 89, 98, 99, steps=100, warmup=10, decay=0.2, schedule="trapezoid")
    assert found == pytest.approx([0.2, 2.0, 2.0, 2.0, 0.2 + 1.8 / 2, 0.2 + 1.8 / 20, 0.2])
    assert rates(0, 9, steps=10, warmup=0, decay=0.0, floor=0.0, schedule="trapezoid") == [2.0, 2.0]
