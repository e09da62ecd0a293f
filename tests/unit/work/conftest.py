"""What tests of the workshop start from besides a model."""

import pytest

from tests.support.models.helpers import serving
from tests.support.public import TIGHT
from viz.work.playground import Options


@pytest.fixture
def shared(lm):
    """A shared server with one model."""
    return serving(lm, Options(model="tiny", max_tokens=40, training_minutes=0.0, allowed=TIGHT, public=True))
