"""The forms of each mixer are the same numbers: a token at a time, in chunks, and as a matrix; and so are gradients."""

import pytest
import torch

from model.gpt.layers import attention_pattern, attention_scores, mix
from model.gpt.mixers import decay, delta, selective
from model.gpt.mixers.hidden import row_weights
from model.gpt.mixers.scoring import Scoring, hidden_by_window
from model.gpt.mixers.selective import StateSelection
from tests.support.models.helpers import assert_close

B, H, T, E = 2, 3, 150, 5  # more than two chunks
NEAR = 1e-11  # of float64


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def decayed() -> tuple[torch.Tensor, ...]:
    """q, k, v and log decays from nearly none to e^-6 a token."""
    return *(noise(B, H, T, E, seed=n) for n in range(3)), -6 * torch.sigmoid(4 * noise(B, H, T, seed=3))


def written() -> tuple[torch.Tensor, ...]:
    """q, k, v and beta of the delta rule."""
    q, k, v = (noise(B, H, T, E, seed=n) for n in range(3))
    return delta.directions(q), delta.directions(k), v, noise(B, H, T, seed=3).sigmoid()


def chosen(n: int = 2, T: int = 37, channels: int = 6, N: int = 4) -> StateSelection:
    """What random tokens choose; rates such that some states fade at once and others stay."""
    rates = -noise(channels, N, seed=4).exp()
    sizes = noise(n, T, channels, seed=1).exp()
    return StateSelection(noise(n, T, channels), sizes, rates, noise(n, T, N, seed=2), noise(n, T, N, seed=3))


RULES = {"decay": (decay, decayed), "delta": (delta, written)}


@pytest.mark.parametrize("rule", RULES)
def test_a_token_at_a_time_in_chunks_and_as_a_matrix(rule: str):
    form, inputs = RULES[rule]
    q, k, v, given = inputs()
    empty, held = torch.zeros(B, H, E, E, dtype=torch.float64), noise(B, H, E, E, seed=9)
    each, last = form.recurrent(q, k, v, given, empty)
    assert_close(form.matrix(q, k, given) @ v, each, NEAR, "matrix")
    for state in (empty, held):
        each, last = form.recurrent(q, k, v, given, state)
        together, end = form.chunked(q, k, v, given, state)
        assert_close(together, each, NEAR, "chunked")
        assert_close(end, last, NEAR, "state")


@pytest.mark.parametrize("rule", RULES)
def test_the_state_goes_on_where_a_text_is_cut(rule: str):
    form, inputs = RULES[rule]
    given, state, parts = inputs(), torch.zeros(B, H, E, E, dtype=torch.float64), []
    whole, last = form.chunked(*given, state)
    for piece in zip(*(x.split([70, 1, 79], 2) for x in given), strict=True):
        part, state = form.chunked(*piece, state)
        parts.append(part)
    assert_close(torch.cat(parts, 2), whole, NEAR)
    assert_close(state, last, NEAR)


def test_decays_multiply_between_two_tokens():
    a = torch.tensor([0.9, 0.5, 0.25, 0.1], dtype=torch.float64)
    expected = [[1, 0, 0, 0], [0.5, 1, 0, 0], [0.125, 0.25, 1, 0], [0.0125, 0.025, 0.1, 1]]
    assert_close(decay.between(a.log()), torch.tensor(expected, dtype=torch.float64), NEAR)


def test_retention_forgets_by_the_published_rates():
    expected = torch.tensor([1 - 1 / 32, 1 - 1 / 64, 1 - 1 / 128])  # Sun et al. 2023, eq. 8
    assert_close(decay.retention_log_decay(3).exp(), expected, 1e-7)


def test_a_gate_that_is_undecided_halves_in_sixteen_tokens():
    gates = torch.tensor([0.0, 100.0], dtype=torch.float64)
    assert_close(decay.gate_log_decay(gates).exp() ** 16, torch.tensor([0.5, 1.0], dtype=torch.float64), NEAR)


def test_the_delta_rule_replaces_what_was_under_a_key():
    """With beta 1 a key's last value is read back exactly, whatever was written under it before."""
    k = delta.directions(noise(1, 1, 1, E)).expand(1, 1, 3, E)
    v, one = noise(1, 1, 3, E, seed=1), torch.ones(1, 1, 3, dtype=torch.float64)
    read, _ = delta.chunked(k, k, v, one, torch.zeros(1, 1, E, E, dtype=torch.float64))
    assert_close(read, v, NEAR)


def test_a_state_space_as_a_recurrence_a_scan_and_a_matrix():
    s = chosen()
    empty, held = torch.zeros(2, 6, 4, dtype=torch.float64), noise(2, 6, 4, seed=8)
    for state in (empty, held):
        each, last = selective.recurrent(s, state)
        together, end = selective.scan(s, state)
        assert_close(together, each, NEAR, "scan")
        assert_close(end, last, NEAR, "state")
    each, _ = selective.recurrent(s, empty)
    matrix = selective.matrix(s)  # [B, I, T, T]
    assert_close((matrix @ s.u.mT[..., None])[..., 0].mT, each, NEAR, "matrix")
    assert not matrix.triu(1).any()
    assert torch.equal(selective.matrix(s, slice(2, 5)), matrix[:, 2:5])
    assert_close(selective.sizes(s, slice(2, 5)), matrix[:, 2:5].abs().mean(1), NEAR, "sizes")


def test_the_matrix_of_a_state_space_is_its_closed_form():
    s = chosen(1, 7)
    span = s.delta.cumsum(1)[0]  # [T, I]
    for i, t, t0 in ((0, 6, 2), (3, 4, 4), (5, 3, 0)):
        fade = torch.exp(s.A[i] * (span[t, i] - span[t0, i]))
        expected = (s.C[0, t] * fade * s.delta[0, t0, i] * s.B[0, t0]).sum()
        assert_close(selective.matrix(s)[0, i, t, t0], expected, NEAR)


def test_the_gradient_of_the_scan():
    """Over more tokens than lie between two stored states."""
    s = chosen(1, selective.STORED + 3, 2, 2)
    given = [x.requires_grad_() for x in (s.u, s.delta, s.A, s.B, s.C, noise(1, 2, 2, seed=7))]
    assert torch.autograd.gradcheck(lambda *x: selective.scan(StateSelection(*x[:5]), x[5]), given)


@pytest.mark.parametrize("rule", RULES)
def test_the_gradients_of_chunks_are_those_of_single_tokens(rule: str):
    form, inputs = RULES[rule]
    given = [x[:1, :1, :70].clone().requires_grad_() for x in inputs()]
    state = noise(1, 1, E, E, seed=5).requires_grad_()
    weight, grads = noise(1, 1, 70, E, seed=6), []
    for way in (form.recurrent, form.chunked):
        out, last = way(*given, state)
        grads.append(torch.autograd.grad((out * weight).sum() + last.square().sum(), (*given, state)))
    for ours, theirs in zip(*grads, strict=True):
        assert_close(ours, theirs, 1e-9)


# --- the window -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("T", "S", "window"), [(9, 9, 3), (300, 300, 7), (4, 9, 2), (1, 9, 3), (5, 5, 50)])
def test_a_window_is_attention_to_the_last_keys(T: int, S: int, window: int):
    q, k, v = noise(2, 4, T, E), noise(2, 2, S, E, seed=1), noise(2, 2, S, E, seed=2)
    scores, at = attention_scores(q, k), torch.arange(S - T, S)
    near = at[:, None] - torch.arange(S)[None, :] < window
    expected = mix(attention_pattern(scores.masked_fill(~near, -torch.inf)), v)
    assert_close(Scoring(window=window).attend(q, k, v), expected, NEAR)
    assert torch.equal(hidden_by_window(T, S, window), ~near)


# --- what is drawn ------------------------------------------------------------------------------------


def test_weights_of_a_signed_matrix():
    matrix = torch.tensor([[2.0, 0, 0], [-1, 3, 0], [0, 0, 0]])
    assert torch.equal(row_weights(matrix), torch.tensor([[1.0, 0, 0], [0.25, 0.75, 0], [0, 0, 0]]))
