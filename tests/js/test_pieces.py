"""Pieces of a run of reinforcement: each is joined to what the page has; one that was lost is noticed."""

import pytest

pytestmark = pytest.mark.browser


def piece(reports: tuple[int, list], snapshots: tuple[int, list], run: str = "a") -> dict:
    return {
        "run": run,
        "state": "running",
        "from_report": reports[0],
        "reports": reports[1],
        "from_snapshot": snapshots[0],
        "snapshots": snapshots[1],
    }


def known(reports: int, snapshots: int, run: str = "a") -> dict:
    return {"id": run, "reports": reports, "snapshots": snapshots, "state": "starting"}


@pytest.mark.parametrize(
    ("had", "came", "now"),
    [
        (None, piece((0, []), (0, [0])), (0, 1)),
        (known(0, 1), piece((0, [0, 1]), (1, [1])), (2, 2)),
        (known(2, 2), piece((2, []), (2, [])), (2, 2)),
        (known(3, 2), piece((0, [0, 1, 2]), (0, [0, 1, 2])), (3, 3)),  # all of it again
        (known(9, 9, "old"), piece((0, [0]), (0, [])), (1, 0)),  # the first of another run
        (known(1, 1), piece((2, [2]), (1, [])), None),  # report 1 was lost
        (known(1, 1), piece((1, [1]), (2, [])), None),
        (known(9, 9, "old"), piece((1, []), (0, [])), None),
        (None, piece((1, []), (0, [])), None),
    ],
)
def test_a_piece_is_joined_unless_one_before_it_was_lost(call, had, came, now):
    found = call("views/assistant/pieces.js", "module.joined", had, came)
    assert (found and (found["reports"], found["snapshots"])) == now
    assert found is None or (found["id"], found["state"]) == (came["run"], "running")
