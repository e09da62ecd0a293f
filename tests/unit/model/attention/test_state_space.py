"""What a Mamba layer's tokens chose, and how long its state holds on to one of them."""

import numpy as np
import pytest

from model.attention.state_space import decay_tokens, state_space
from model.errors import InputError
from model.gpt.edits import Edit
from model.tracing.trace import run
from tests.support.models.helpers import assert_close, random_ids, tiny_model, tokens_of

T = 13


@pytest.fixture(scope="module")
def trace():
    return run(tiny_model({"mixer": ("softmax", "mamba", "mamba")}), tokens_of(random_ids(1, T)[0]))


def test_the_numbers_make_the_layers_matrix_and_output(trace):
    """C_t . (what is left of token s) is the entry of the mixing matrix, for a channel of each head."""
    s = state_space(trace, 1)
    width = trace.config.z_width(1)
    mixed = trace.sites(1, ["mixed"])["mixed"][0].numpy()
    for channel in (0, width, 3 * width + 1):
        h, out = np.zeros(s.A.shape[1]), np.zeros(T)
        for t in range(T):
            h = np.exp(s.delta[t, channel] * s.A[channel]) * h + s.delta[t, channel] * s.B[t] * s.u[t, channel]
            out[t] = s.C[t] @ h
        assert_close(out, mixed[channel // width, :, channel % width], 1e-6)


@pytest.mark.parametrize("source", [0, 5, T - 1])
def test_what_is_left_of_a_token(trace, source: int):
    s = state_space(trace, 2, source)
    fade = np.exp(s.A[None] * (s.delta.cumsum(0) - s.delta.cumsum(0)[source])[:, :, None])  # [T, I, N]
    size = np.abs(s.B[source])
    expected = (fade * size).sum(-1) / size.sum()
    assert_close(s.kept[source:], expected[source:], 1e-5)
    assert not s.kept[:source].any() and not s.share[:source].any() and not s.whole[:source].any()
    assert (np.diff(s.kept[source:], axis=0) <= 1e-7).all()  # nothing comes back


def test_the_shares_of_all_tokens_add_up(trace):
    each = [state_space(trace, 1, source) for source in range(T)]
    assert_close(sum(s.share for s in each), np.ones_like(each[0].share), 1e-5)
    assert_close(sum(s.whole for s in each), np.ones(T), 1e-5)
    assert each[0].whole[0] == 1 and (each[0].whole[1:] < 1).all()


def test_after_the_decay_time_37_percent_is_left(trace):
    s = state_space(trace, 1)
    tokens = decay_tokens(s)
    assert tokens.shape == s.A.shape
    assert_close(np.exp(s.A * s.delta.mean(0)[:, None] * tokens), np.full_like(tokens, np.exp(-1)), 1e-6)


def test_edits_before_the_layer_count(trace):
    edited = trace.edit(Edit("zero", 0, 1))
    assert np.abs(state_space(edited, 1).delta - state_space(trace, 1).delta).max() > 1e-4
    again = state_space(trace.edit(Edit("scale", 1, 1, factor=2.0)), 1)  # z comes after the state
    assert_close(again.delta, state_space(trace, 1).delta, 1e-6)


@pytest.mark.parametrize(
    ("layer", "source", "message"), [(0, 0, "not a state-space layer"), (3, 0, "layer"), (1, T, "position")]
)
def test_what_there_is_not_is_said(trace, layer: int, source: int, message: str):
    with pytest.raises(InputError, match=message) as caught:
        state_space(trace, layer, source)
    if layer == 0:
        assert caught.value.hint == "Choose one of the layers: 1, 2."
