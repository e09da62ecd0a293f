"""RoPE scalings against those of transformers: the same frequencies, and the same factor on cosines and sines."""

import pytest
import torch

from model.design.past_length import Scheme, frequencies
from model.gpt.config import ModelConfig
from tests.support.models.helpers import assert_close
from tests.support.models.rounding import rounded

THEIRS = {"interpolate": "linear", "ntk": "dynamic", "llama3": "llama3", "yarn": "yarn"}


@pytest.mark.parametrize("factor", [1.5, 4.0, 16.0])
@pytest.mark.parametrize(("theta", "n_ctx", "width"), [(10_000.0, 2048, 64), (100.0, 40, 12), (500_000.0, 128, 16)])
@pytest.mark.parametrize("key", THEIRS)
def test_frequencies_are_those_of_transformers(key, theta, n_ctx, width, factor):
    transformers = pytest.importorskip("transformers")
    functions = pytest.importorskip("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS
    ours = ModelConfig(
        vocab_size=9, n_ctx=n_ctx, n_layer=1, d_model=2 * width, n_head=2, positions="rope", rope_theta=theta
    )
    theirs = transformers.LlamaConfig(
        hidden_size=2 * width, num_attention_heads=2, max_position_embeddings=n_ctx, rope_theta=theta
    )
    # Theirs grows the NTK factor with the text: at factor 1 and s times the trained length it is s.
    theirs.rope_parameters = {
        "rope_type": THEIRS[key],
        "factor": 1.0 if key == "ntk" else factor,
        "rope_theta": theta,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": n_ctx,
    }
    expected, size = functions[THEIRS[key]](theirs, torch.device("cpu"), seq_len=int(factor * n_ctx))
    found, ours_size = frequencies(ours, Scheme(key, factor))
    assert_close(found / expected, torch.ones(width // 2), rounded(1, 16))  # theta^x: x ln theta times u
    assert ours_size == pytest.approx(size, abs=1e-12)
