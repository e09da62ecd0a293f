"""What most unit tests of the page start from."""

import pytest

from tests.helpers import byte_model
from viz.tabs.context import Options, Playground


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    """A shaken model of 3 layers x 4 heads over single bytes."""
    return byte_model(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(lm):
    """A server with that model only."""
    ours = Playground(Options(model="tiny", max_tokens=40))
    ours.models.get("tiny", lambda: lm)
    return ours
