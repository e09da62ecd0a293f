"""Damaged files of every kind are read or refused with a sentence: nothing hangs, crashes or fills the memory."""

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.support.files.corruption import damage
from tests.support.files.fuzz import READ, REFUSED, Templates, Worker
from tests.support.files.valid_kinds import KINDS

# Files that are slow to open get fewer examples.
EXAMPLES = {"run": 25, "prepared": 25}


@pytest.fixture(scope="module")
def worker():
    """One process with little memory for the whole file; it has read the whole files of every kind."""
    made = Worker()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    return Templates(folder / "whole"), folder / "damaged"


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_read_or_refused(kind, worker, folders):
    templates, to = folders

    @settings(
        max_examples=EXAMPLES.get(kind, 70),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(random=st.randoms(use_true_random=False))
    def look(random):
        folder = templates.copy(kind, to)
        note(damage(random, folder))
        outcome = worker.open(kind, folder)
        assert outcome.kind in (READ, REFUSED), outcome.detail

    look()
