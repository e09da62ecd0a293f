"""One token through a block on its own: whatever the mixer, as in the whole prompt; and what is built on it."""

import pytest
import torch

from model.predictions.attribution import attribute, components
from model.tracing.logit_lens import middle_at
from model.tracing.one_token import single_token_pass
from model.tracing.trace import run
from tests.support.models.helpers import L, assert_close, random_ids, tiny_model, tokens_of

T = 15
MIXED = [("sliding_window", "retention", "mamba"), ("delta", "softmax", "linear")]


@pytest.fixture(scope="module", params=MIXED, ids=str)
def trace(request):
    model = tiny_model({"mixer": request.param, "window": 4, "positions": "rope", "norm": "rmsnorm"})
    return run(model, tokens_of(random_ids(1, T)[0]))


@pytest.mark.parametrize("position", [0, 6, T - 1])
def test_a_token_alone_leaves_a_block_as_in_the_prompt(trace, position: int):
    for layer in range(L):
        each = single_token_pass(trace.model, trace.residuals[layer], layer, position)
        with torch.no_grad():
            out = trace.model.blocks[layer](trace.residuals[layer][None, position : position + 1], layer, each)
        assert_close(out[0, 0], trace.residuals[layer + 1][position], 2e-5)


def test_the_parts_of_a_logit_add_up(trace):
    for position in (0, T - 1):
        outputs = components(trace, position)
        for token in (3, 40):
            parts = attribute(outputs, trace.model, token)
            assert abs(parts.total - parts.logit) < 1e-4


@pytest.mark.parametrize("position", [0, 6, T - 1])
def test_the_stream_between_mixer_and_mlp(trace, position: int):
    for layer in range(L):
        assert_close(middle_at(trace, layer, position), trace.middle(layer)[position], 2e-5)
