"""What tests of the functions for programs start from."""

import pytest

from model.api import LanguageModel
from tests.support.models.helpers import VARIANTS, byte_tokenizer, tiny_model
from viz.work.playground import Options, Playground


@pytest.fixture(scope="module", params=list(VARIANTS))
def wired(request, tmp_path_factory):
    """A server with a shaken byte model of every wiring, and that model."""
    changes = VARIANTS[request.param] | {"vocab_size": 256}
    lm = LanguageModel("tiny", "Tiny", tiny_model(changes), byte_tokenizer(tmp_path_factory.mktemp("bytes")))
    ours = Playground(Options(model="tiny", max_tokens=40))
    ours.models.get("tiny", lambda: lm)
    return ours, lm
