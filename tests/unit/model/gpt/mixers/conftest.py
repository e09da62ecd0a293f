"""Float64 for the tests of mixers."""

import pytest
import torch


@pytest.fixture
def exact():
    """Models and caches in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
