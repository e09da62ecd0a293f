"""What the checks' tests share."""

import pytest

from tests.support.models.helpers import byte_tokenizer


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))
