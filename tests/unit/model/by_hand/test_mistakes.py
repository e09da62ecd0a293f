"""The exercises: the mistake is where it was put, and the rest is what NumPy computes."""

import numpy as np
import pytest

from model.by_hand.calculations.exercises import EXERCISE_SHEETS
from model.by_hand.mistakes import MISTAKES, answer, exercise
from model.by_hand.sheets import example, worked
from model.by_hand.writing import as_numpy
from model.errors import InputError
from tests.support.sheets import array


@pytest.mark.parametrize("name", MISTAKES)
def test_the_mistake_is_where_it_was_put_and_nowhere_else(name):
    made = exercise(name)
    found = set()
    for line, shown in enumerate(made.rows):
        for column in range(len(shown.texts)):
            told = answer(made, line, column)
            if told.wrong:
                found.add((told.step, told.row, told.column))
    assert found == set(MISTAKES[name].wrong)
    with pytest.raises(InputError):
        answer(made, len(made.rows), 0)


def shown(name: str) -> dict[str, np.ndarray]:
    """The rows of an exercise as they ought to be: step -> its numbers."""
    made = exercise(name)
    return {each.name: array(each) for each in (*made.given, *made.steps)}


def test_the_exercises_of_their_own_sheets_against_numpy():
    """Qwen3-8B's config.json: 4,096 and 12,288; speculative sampling gives p; Kaplan et al. 2020, equation 1.5."""
    sizes = shown("mlp_width")
    assert sizes["d_mlp"] == 12_288 and sizes["parameters"] == 3 * 4096 * 12_288 == 150_994_944
    draft = shown("rejected")
    p, q = draft["large"][0], draft["draft"][0]
    excess = np.maximum(0, p - q)
    assert np.allclose(draft["kept_share"], np.minimum(1, p / q)) and np.allclose(draft["again"], excess / excess.sum())
    assert np.allclose(draft["out"], p)
    law = shown("law")
    by_hand = ((88e12 / 1.5e9) ** (0.076 / 0.095) + 54e12 / 22e9) ** 0.095
    assert np.allclose(law["loss_law"], by_hand)


def test_what_stands_in_an_exercise_is_the_mistake_that_it_names():
    scores = shown("mask")["S"]
    for row in (0, 1):
        powers = np.exp(scores[row] * np.tri(3)[row])  # multiplied by a mask of 0 and 1
        stands = [float(MISTAKES["mask"].wrong["A", row, column]) for column in range(3)]
        assert np.allclose(stands, powers / powers.sum(), atol=0.005)
    stands = [float(text) for text in MISTAKES["rejected"].wrong.values()]
    assert np.allclose(stands, shown("rejected")["large"][0])
    added = (88e12 / 1.5e9) ** 0.076 + (54e12 / 22e9) ** 0.095
    assert float(MISTAKES["law"].wrong["loss_law", 0, 0]) == pytest.approx(added, abs=0.005)


@pytest.mark.parametrize("name", EXERCISE_SHEETS)
def test_numpy_lines_of_the_exercises_make_the_same_numbers(name):
    sheet = EXERCISE_SHEETS[name]
    given_, steps = worked(sheet, example(sheet, next(iter(sheet.examples))))
    made: dict = {}
    exec(as_numpy(given_, steps), made)
    for step in steps:
        assert np.allclose(made[step.name], array(step), rtol=1e-9, atol=1e-13), step.name
