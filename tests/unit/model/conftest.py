"""What tests of the model share."""

import pytest

from model.kernels import products as kernels


@pytest.fixture
def fresh():
    """No choice remembered from, or for, another test."""
    kernels.fastest.cache_clear()
    kernels.packing_pays.cache_clear()
    yield
    kernels.fastest.cache_clear()
    kernels.packing_pays.cache_clear()
