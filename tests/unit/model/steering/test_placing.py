"""A vector in another's place: its own changes nothing, what it cannot reach stays as it was, and the rest moves."""

import numpy as np
import pytest
import torch

from model.attention.effects import divergence
from model.errors import InputError
from model.gpt.edits import Edit
from model.steering.placing import placing, placing_edit, reachable, seeing
from model.steering.vectors import random_directions
from model.tracing.trace import run
from tests.support.models.edited import IDS, T, traced
from tests.support.models.helpers import ALL_VARIANTS, VARIANTS, D, L, random_ids, tiny_model, tokens_of

OTHER = random_ids(1, T + 2, seed=8)
MIXERS = {
    "window": {"mixer": ("sliding_window", "softmax", "sliding_window"), "window": 3},
    "narrow": {"mixer": "sliding_window", "window": 3},
    "states": {"mixer": ("softmax", "mamba", "linear")},
    "shared keys": {"n_shared_kv": 2},
}


def other_vector(model, row: int) -> np.ndarray:
    return run(model, tokens_of(OTHER[0])).hidden(row)[5]


@pytest.mark.parametrize("row", range(1, L + 1))
@pytest.mark.parametrize("name", ALL_VARIANTS)
def test_a_cells_own_vector_changes_nothing_bitwise(name: str, row: int):
    plain = run(tiny_model(ALL_VARIANTS[name]), tokens_of(IDS[0]))
    same = plain.edit(placing_edit(plain.hidden(row)[4], row, 4))
    assert torch.equal(same.residuals, plain.residuals) and np.array_equal(same.logits, plain.logits)


@pytest.mark.parametrize("row", range(1, L + 1))
@pytest.mark.parametrize("name", [*ALL_VARIANTS, *MIXERS])
def test_cells_out_of_reach_are_bitwise_the_same_and_the_others_move(name: str, row: int):
    model = tiny_model((ALL_VARIANTS | MIXERS)[name])
    plain = run(model, tokens_of(IDS[0]))
    after = plain.edit(placing_edit(other_vector(model, row), row, 4))
    moved = (after.residuals != plain.residuals).any(-1).numpy()
    assert np.array_equal(moved, reachable(plain, row, 4))
    assert not moved[:row].any() and moved[row].sum() == 1 and moved[row, 4]
    assert np.array_equal(after.hidden(row)[4], other_vector(model, row))


def test_by_hand_a_window_and_a_hidden_token_narrow_what_is_reached():
    model = tiny_model(MIXERS["window"])  # layers see 3, all and 3 tokens
    plain = run(model, tokens_of(IDS[0]))
    rows = [np.flatnonzero(row).tolist() for row in reachable(plain, 0, 4)]
    assert rows == [[4], [4, 5, 6], list(range(4, T)), list(range(4, T))]
    rows = [np.flatnonzero(row).tolist() for row in reachable(plain, 2, 4)]
    assert rows == [[], [], [4], [4, 5, 6]]
    hidden = traced("gpt2", Edit("hide_token", positions="4"))
    assert reachable(hidden, 1, 4).sum() == L and reachable(hidden, 1, 4)[1:, 4].all()
    one = traced("gpt2", Edit("hide_token", 1, positions="4"), Edit("hide_token", 2, 0, positions="4"))
    assert np.flatnonzero(reachable(one, 1, 4)[2]).tolist() == [4]  # every head of layer 1, one head of layer 2
    assert np.flatnonzero(reachable(one, 1, 4)[3]).tolist() == list(range(4, T))


@pytest.mark.parametrize("query, key", [(6, 4), (4, 4)])
def test_a_blocked_edge_is_no_way_but_the_stream_goes_on(query: int, key: int):
    plain = traced("gpt2", Edit("block_edge", 1, query=query, key=key))
    after = plain.edit(placing_edit(other_vector(plain.model, 1), 1, 4))
    cells = reachable(plain, 1, 4)
    assert np.array_equal((after.residuals != plain.residuals).any(-1).numpy(), cells)
    assert np.flatnonzero(~cells[2, 4:]).tolist() == ([] if query == key else [query - 4])


def test_in_a_model_that_reads_both_ways_every_token_is_reached():
    config = tiny_model({"two_way": True}).config
    assert seeing(config, 0, 4).all()
    assert seeing(tiny_model({}).config, 0, 3).tolist() == [[True, False, False], [True, True, False], [True] * 3]


@pytest.mark.parametrize("name", ["gpt2", "llama", "gqa"])
def test_a_placed_vector_is_what_a_hook_writes(name: str):
    model = tiny_model(VARIANTS[name])
    vector = other_vector(model, 2)

    def write(module, given, out):
        out = out.clone()
        out[:, 4] = torch.from_numpy(vector)
        return out

    hook = model.blocks[1].register_forward_hook(write)
    with torch.no_grad():
        expected = model(IDS)[0].numpy()
    hook.remove()
    after = traced(name, placing_edit(vector, 2, 4))
    np.testing.assert_allclose(after.logits, expected, atol=2e-4)
    assert np.abs(after.logits[-1] - traced(name).logits[-1]).max() > 1e-2


def test_the_effect_stands_beside_random_vectors_of_the_same_length():
    plain = traced("llama")
    vector = other_vector(plain.model, 2)
    found = placing(plain, vector, 2, 4, token=7, draws=3)
    after = plain.edit(placing_edit(vector, 2, 4))
    assert found.kl == divergence(plain.logits_at(-1), after.logits_at(-1)) > 0
    share = torch.from_numpy(after.logits_at(-1)).double().softmax(-1)[7]
    assert found.share == pytest.approx(float(share), abs=1e-12)
    assert len(found.random_kl) == len(found.random_share) == 3 and len(set(found.random_kl)) == 3
    again = placing(plain, vector, 2, 4, token=7, draws=3, seed=9)
    drawn = random_directions(D, float(np.linalg.norm(vector.astype(np.float64))), 3, 9)
    random = [plain.edit(placing_edit(each, 2, 4)).logits_at(-1) for each in drawn]
    assert again.random_kl.tolist() == [divergence(plain.logits_at(-1), each) for each in random]
    shares = [float(torch.from_numpy(each).double().softmax(-1)[7]) for each in random]
    assert again.random_share == pytest.approx(shares, abs=1e-12) and again.kl == found.kl
    own = placing(plain, plain.hidden(2)[4], 2, 4, token=7)
    assert own.kl == 0 and own.share == own.base_share
    earlier = placing(plain, vector, 2, 4, token=7, at=3)
    assert earlier.kl == 0 and not earlier.random_kl.any()  # a token before it is not reached


def test_what_does_not_exist_is_refused():
    plain, vector = traced(), np.ones(D, np.float32)
    for row, position in ((L + 1, 0), (1, T), (1, -1)):
        with pytest.raises(InputError):
            placing(plain, vector, row, position, 0)
        with pytest.raises(InputError):
            reachable(plain, row, position)
    for bad in (
        lambda: placing_edit(vector, 0, 1),
        lambda: plain.edit(placing_edit(vector[1:], 1, 1)),
        lambda: placing(plain, vector[1:], 1, 1, 0),
        lambda: placing(plain, vector * np.nan, 1, 1, 0),
        lambda: placing(plain, vector, 1, 1, plain.config.vocab_size),
        lambda: placing(plain, vector, 1, 1, 0, at=T),
    ):
        with pytest.raises(InputError):
            bad()
