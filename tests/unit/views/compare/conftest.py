"""Other models beside the one of the page."""

import numpy as np
import pytest

from model.api import LanguageModel
from tests.support.models.helpers import tiny_model
from viz.views.compare import run_b


@pytest.fixture
def with_models(playground, lm, monkeypatch):
    """The playground with a second model of the same shape and vocabulary, and one of neither."""
    alike = LanguageModel("alike", "Alike", tiny_model({"vocab_size": 256, "n_ctx": 300}, seed=5), lm.tokenizer)
    mapping = {i: (i + 1) % 256 for i in range(256)}

    class Shifted:
        """The same bytes under other ids."""

        vocab_size, bos_id, add_bos = 256, None, False

        def prompt_ids(self, text, special=False):
            return [mapping[i] for i in lm.tokenizer.encode(text).ids.tolist()]

        def tokens(self, ids):
            found = lm.tokenizer.tokens([(i - 1) % 256 for i in ids])
            return type(found)(np.array(list(ids)), found.pieces, found.raw, found.spans)

        def piece(self, i):
            return lm.tokenizer.piece((i - 1) % 256)

    small = tiny_model({"vocab_size": 256, "n_ctx": 300, "n_layer": 2})
    unlike = LanguageModel("unlike", "Unlike", small, Shifted())
    for model in (alike, unlike):
        playground.models.get(model.id, lambda model=model: model)
    monkeypatch.setattr(run_b, "models_ready", lambda scene: {"alike": "Alike", "unlike": "Unlike"})
    return playground
