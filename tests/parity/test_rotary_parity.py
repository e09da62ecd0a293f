"""RoPE against the transformers library: the same angles, the same turned vectors, the same pairs."""

import math

import numpy as np
import pytest
import torch

from model.design.positions import QKPair, angles, contributions, frequencies, scores_at, vectors
from model.gpt.config import ModelConfig
from model.gpt.rope_scaling import RopeScaling
from model.gpt.transformer import Transformer
from tests.support.models.helpers import assert_close

SCALING = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=256)
CASES = {"plain": (10_000.0, None), "theta": (500_000.0, None), "llama3": (500_000.0, SCALING)}
E = 64


@pytest.fixture(params=CASES)
def both(request):
    """Our config, and their rotary embedding of the same settings."""
    from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding

    theta, scaling = CASES[request.param]
    ours = ModelConfig(
        vocab_size=7,
        n_ctx=4096,
        n_layer=1,
        d_model=128,
        n_head=2,
        d_head=E,
        positions="rope",
        rope_theta=theta,
        rope_scaling=scaling,
    )
    told = {"rope_theta": theta, "rope_type": "default"}
    if scaling:
        told |= {
            "rope_type": "llama3",
            "factor": scaling.factor,
            "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
            "original_max_position_embeddings": scaling.original_n_ctx,
        }
    config = LlamaConfig(
        vocab_size=7,
        hidden_size=128,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=4096,
        rope_parameters=told,
    )
    return ours, LlamaRotaryEmbedding(config)


def theirs(rotary, positions):
    """Their cosines and sines, [N, E] each."""
    cos, sin = rotary(torch.zeros(1, 1, 1), positions[None])
    return cos[0], sin[0]


def test_frequencies_and_angles_are_theirs(both):
    ours, rotary = both
    assert_close(frequencies(ours, "rope"), rotary.inv_freq, 1e-8)
    at = torch.tensor([0, 1, 5, 255, 256, 4095])
    cos, sin = theirs(rotary, at)
    for found, expected in zip(angles(ours, at, "float32"), (cos, sin), strict=True):
        assert_close(found[:3], expected[:3, : E // 2], 1e-6)
        assert_close(found, expected[:, : E // 2], 5e-4)  # a frequency's last digit, 4,095 times
    table = vectors(Transformer(ours), "rope", at.tolist())  # from exact angles: theirs lose digits far out
    assert_close(table[:3], torch.cat((cos[:3, : E // 2], sin[:3, : E // 2]), 1), 1e-6)


def test_scores_are_theirs(both):
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    ours, rotary = both
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, E)).astype(np.float32)
    m, n = torch.tensor([3, 100, 255, 1000]), torch.tensor([0, 99, 3, 500])
    (q_cos, q_sin), (k_cos, k_sin) = theirs(rotary, m), theirs(rotary, n)
    rows = torch.from_numpy(np.stack((q, k)))[:, None, None, :].expand(2, 1, 4, E)
    turned_q = apply_rotary_pos_emb(rows[:1], rows[:1], q_cos[None], q_sin[None])[0][0, 0]
    turned_k = apply_rotary_pos_emb(rows[1:], rows[1:], k_cos[None], k_sin[None])[0][0, 0]
    expected = (turned_q * turned_k).sum(-1) / math.sqrt(E)
    pair = QKPair(q, k, 0, 0, ours, True, math.nan)
    assert_close(scores_at(pair, m, n, "float32"), expected, 1e-5)
    assert_close(contributions(pair, (m - n).tolist()).sum(1), expected, 5e-4)
