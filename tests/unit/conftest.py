"""What most unit tests of the page start from."""

from functools import partial

import pytest

from tests.support.models.helpers import byte_model, serving
from tests.support.picking import opened


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    """A shaken model of 3 layers x 4 heads over single bytes."""
    return byte_model(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(lm):
    """A server with that model only."""
    return serving(lm)


@pytest.fixture
def scene(playground):
    """What makes the scene of a page on which two heads are picked."""
    return partial(opened, playground)
