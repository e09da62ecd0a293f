"""One token through a block on its own: whatever the mixer, as in the whole prompt; and what is built on it."""

import pytest
import torch

from model.gpt.rope_scaling import RopeScaling
from model.predictions.attribution import attribute, components
from model.tracing.logit_lens import middle_at
from model.tracing.one_token import single_token_pass
from model.tracing.trace import run
from tests.support.models.helpers import L, assert_close, random_ids, tiny_model, tokens_of

T = 15
SCALINGS = [  # both depend on the length of the text
    RopeScaling(kind="dynamic", factor=4.0, original_n_ctx=8),
    RopeScaling(kind="longrope", factor=2.0, original_n_ctx=8, short_factors=(1.0,) * 6, long_factors=(3.0,) * 6),
]
CASES = [
    {"mixer": ("sliding_window", "retention", "mamba"), "window": 4},
    {"mixer": ("delta", "softmax", "linear"), "rope_scaling": SCALINGS[0]},
    {"mixer": "sliding_window", "window": 4, "rope_scaling": SCALINGS[0]},
    {"rope_scaling": SCALINGS[1]},
]


@pytest.fixture(scope="module", params=CASES, ids=["window and states", "delta", "dynamic", "longrope"])
def trace(request):
    model = tiny_model({"positions": "rope", "norm": "rmsnorm"} | request.param)
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
