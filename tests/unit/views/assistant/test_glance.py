"""The three numbers and two texts of a stage, from runs made by hand."""

from types import SimpleNamespace

import pytest

from model.alignment.four_prompts import PROMPTS, FourAnswers, FourChoices
from viz.views.assistant.fine_tune.view import glance_of
from viz.views.assistant.glance import Stage, fold, glance_of_choice, glance_of_training, title_after
from viz.words import Words, words

BEFORE = FourAnswers(("a", "b", "c", "d"), 0.0, 1.4)
AFTER = FourAnswers(("e", "f", "g", ""), 0.27, 1.46)


def numbers(payload) -> list[tuple[str, str]]:
    return [(value, before) for _, value, before, _ in payload["numbers"]]


def test_a_training_shows_its_number_the_distance_and_what_is_forgotten():
    found = glance_of_training("en", Stage("reward", 0.41, 0.953, ("Before", "After"), prompt=1), BEFORE, AFTER)
    assert numbers(found) == [("0.95", "0.41"), ("0.27", ""), ("1.46", "1.40")]
    assert [name for name, *_ in found["numbers"]] == [
        "Reward",
        "Distance from the reference",
        "Forgotten: loss on other stories",
    ]
    assert found["texts"] == [["a", "e"], ["b", "f"], ["c", "g"], ["d", ""]]
    assert found["prompts"] == list(PROMPTS) and found["chosen"] == 1 and "scores" not in found


def test_a_choice_leaves_the_model_as_it_is():
    four = FourChoices(("w",) * 4, ("x",) * 4, (1.0, 2.0, 3.0, 4.0), (0.0, 0.5, 0.0, -1.0), 1.204, 1.4)
    found = glance_of_choice("en", Stage("accuracy", 0.5, 0.861, ("First", "Best")), four)
    assert numbers(found)[1:] == [("≤ 1.20", ""), ("1.40", "")]
    assert found["numbers"][2][0] == "Forgotten: nothing"
    assert found["texts"][0] == ["x", "w"] and found["scores"][3] == ["−1.00", "4.00"]


def snapshot(step: int, loss: float, four: FourAnswers | None) -> SimpleNamespace:
    return SimpleNamespace(step=step, loss=loss, four=four)


def test_a_run_shows_its_first_and_its_latest_answers():
    run = SimpleNamespace(snapshots=[snapshot(0, 3.624, BEFORE), snapshot(6, 0.5, AFTER), snapshot(12, 0.1, None)])
    found = glance_of(run, "en")
    assert numbers(found) == [("0.500", "3.624"), ("0.27", ""), ("1.46", "1.40")]
    assert found["titles"] == ["Before", "After 6 steps"] and PROMPTS[found["chosen"]].startswith("Instruction:")
    assert glance_of(SimpleNamespace(snapshots=[snapshot(0, 3.6, None)]), "en") is None


@pytest.mark.parametrize(("step", "title"), [(0, "After 0 steps"), (1, "After 1 step"), (2, "After 2 steps")])
def test_one_step_is_singular(step, title):
    assert title_after(Words(words("en"), "glance"), step) == title


def test_a_fold_names_the_parts_that_it_hides():
    part = fold("more", "a_b")
    assert part.draw(SimpleNamespace(all_words=words("en"))) == {
        "label": "More: curves, tables and token by token",
        "parts": ("a_b",),
    }
