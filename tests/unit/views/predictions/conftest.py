"""A model with longer tokens, and rows that no token uses."""

import pytest

from tests.support.views.predictions import model_of, serve


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return model_of(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(lm):
    return serve(lm)
