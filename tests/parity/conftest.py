"""Two tiny shaken models of transformers, beside ours on the same weights."""

import pytest
import torch

from model.in_memory import language_model
from tests.parity.common import shake
from tests.parity.two_models import MODELS
from tests.support.models import hooked


@pytest.fixture(scope="module", params=MODELS)
def both(request):
    """The model of transformers, and ours on the same weights."""
    pytest.importorskip("transformers")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        hf = MODELS[request.param]().eval()
    shake(hf)
    return hf, language_model(hf, hooked.tokenizer())
