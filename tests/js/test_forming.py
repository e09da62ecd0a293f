"""When an induction head of a training run formed, from the scores of its saved steps."""

import pytest

pytestmark = pytest.mark.browser


def saved(step: int, induction: list, baseline: float = 0.0) -> dict:
    return {
        "step": step,
        "induction": induction,
        "induction_baseline": [[baseline] * 2],
        "previous_token": [[0.1, 0.2]],
    }


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.0, 0.1, 0.39, 0.41, 0.8], {"step": 30, "before": 20}),  # half of 0.8 lies between the steps 20 and 30
        ([0.0, 0.9, 0.2, 0.1, 0.1], {"step": 10, "before": 0}),  # it went away again
        ([0.0, 0.1, 0.2, 0.25, 0.29], None),  # too low for a head that does it
        ([0.5, 0.6, 0.7, 0.8, 0.9], None),  # had it from the start
        ([None, None, None, None, None], None),  # a context too short to be scored
    ],
)
def test_the_step_at_which_it_forms(call, scores, expected):
    snapshots = [saved(10 * at, [[0.0, value]]) for at, value in enumerate(scores)]
    assert call("views/training/forming.js", "module.formed", snapshots, "induction") == expected


def test_what_shuffled_text_gives_is_no_induction(call):
    snapshots = [saved(10 * at, [[value, 0.0]], 0.3) for at, value in enumerate([0.0, 0.35, 0.5, 0.65])]
    assert call("views/training/forming.js", "module.formed", snapshots, "induction") == {"step": 30, "before": 20}
    assert call("views/training/forming.js", "module.formed", snapshots, "previous_token") is None
