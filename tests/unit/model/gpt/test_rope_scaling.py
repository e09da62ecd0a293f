"""Every kind of scaling by hand and against transformers, within the original context and past it."""

import math

import pytest
import torch

from model.gpt import layers
from model.gpt.rope_scaling import RopeScaling, check_scaling, scaled
from tests.support.models.helpers import assert_close, tiny_config
from tests.support.models.rounding import rounded

# 512 positions at first; 32 pairs, so that each kind keeps some, blends some and stretches some.
LLAMA3 = {"low_freq_factor": 1.5, "high_freq_factor": 4.0, "original_n_ctx": 512}
FACTORS = tuple(1 + n / 8 for n in range(32))
KINDS: dict[str, tuple[dict, dict]] = {
    "linear": ({}, {}),
    "dynamic": ({"original_n_ctx": 1024}, {}),
    "llama3": (
        LLAMA3,
        {"low_freq_factor": 1.5, "high_freq_factor": 4.0, "original_max_position_embeddings": 512},
    ),
    "yarn": (
        {"beta_fast": 32.0, "beta_slow": 1.0, "original_n_ctx": 512, "amplitude": 0.1 * math.log(8) + 1},
        {"original_max_position_embeddings": 512},
    ),
    "longrope": (
        {
            "short_factors": FACTORS,
            "long_factors": FACTORS[::-1],
            "original_n_ctx": 512,
            "amplitude": math.sqrt(1 + math.log(8) / math.log(512)),
        },
        {"short_factor": list(FACTORS), "long_factor": list(FACTORS[::-1]), "original_max_position_embeddings": 512},
    ),
}


@pytest.mark.parametrize("length", [400, 1500])
@pytest.mark.parametrize("kind", KINDS)
def test_frequencies_against_transformers(kind, length):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    ours, theirs = KINDS[kind]
    hf = LlamaConfig(
        hidden_size=256,
        num_attention_heads=4,
        max_position_embeddings=1024,
        rope_parameters={"rope_type": kind, "rope_theta": 5000.0, "factor": 8.0, **theirs},
    )
    wanted, amplitude = ROPE_INIT_FUNCTIONS[kind](hf, device="cpu", seq_len=length)
    scaling = RopeScaling(kind=kind, factor=8.0, **ours)
    config = tiny_config({"d_head": 64, "positions": "rope", "rope_theta": 5000.0, "rope_scaling": scaling})
    frequencies = layers.rope_frequencies(config, length)
    assert amplitude == pytest.approx(scaling.amplitude)
    # Powers of 5000: exponents are rounded, times ln 5000 = 8.5, in each of the two; then the blend of two products.
    assert_close(frequencies / wanted, torch.ones(32), rounded(1, 40))
    plain = layers.rope_frequencies(tiny_config({"d_head": 64, "positions": "rope", "rope_theta": 5000.0}))
    assert not torch.allclose(frequencies, plain) or (kind == "dynamic" and length < 1024)
    cos, _ = layers.rope_table(config, length - 1, 1)
    assert_close(cos[0], ((length - 1) * frequencies).cos() * scaling.amplitude, 1e-6)


def test_llama3_by_hand():
    """Context 2 pi k: a pair of frequency 1 makes k turns. Above 4 turns it stays, below 1 it is `factor` slower."""
    context, theta = 1000, 10_000.0
    scaling = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=context)
    plain = 1 / theta ** (torch.arange(0, 64, 2) / 64)
    turns = plain * context / (2 * math.pi)
    ratio = scaled(theta, 64, scaling, 1) / plain
    assert ratio[turns >= 4].unique().tolist() == [1] and ratio[turns <= 1].unique().tolist() == [1 / 8]
    between = (turns > 1) & (turns < 4)
    share = (turns[between] - 1) / 3
    assert len(share) > 2
    assert_close(ratio[between], share + (1 - share) / 8, 1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "spiral"}, "must be one of linear, dynamic, llama3, yarn, longrope"),
        ({"high_freq_factor": None}, "of kind llama3 needs low_freq_factor, high_freq_factor, original_n_ctx"),
        ({"beta_fast": 3.0}, "of kind llama3 needs"),
        ({"low_freq_factor": 4.0}, "needs low_freq_factor < high_freq_factor"),
        ({"factor": 0.0}, "must hold positive numbers"),
        ({"amplitude": math.inf}, "must hold positive numbers"),
    ],
)
def test_wrong_scalings_are_refused(changes, message):
    values = {"kind": "llama3", "factor": 8.0, **LLAMA3, **changes}
    with pytest.raises(ValueError, match=message):
        check_scaling(RopeScaling(**values))


def test_factors_must_be_as_many_as_the_pairs():
    scaling = RopeScaling(kind="longrope", factor=2.0, **KINDS["longrope"][0])
    with pytest.raises(ValueError, match="a factor for each of 8 pairs, got 32"):
        scaled(100.0, 16, scaling, 1)
