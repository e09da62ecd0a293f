"""The SVD by factors against the full SVD, directions that add up to the table, and the random control."""

import numpy as np
import pytest
import torch

from model.token_tables.head_tables import ov_table, qk_table
from model.token_tables.singular import direction_tokens, head_directions, low_rank_svd, random_singular_values
from tests.support.models.helpers import MORE_VARIANTS, VARIANTS, D, E, V, assert_close, tiny_model

ALL = VARIANTS | MORE_VARIANTS


def test_the_low_rank_svd_is_the_full_one():
    left, right = torch.randn(2, D, E, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, values, vt = low_rank_svd(left, right.T)
    full = np.linalg.svd((left @ right.T).numpy(), compute_uv=False)
    assert_close(values, full[:E], 1e-12)
    assert np.abs(full[E:]).max() < 1e-10
    assert_close(u @ torch.diag(values) @ vt, left @ right.T, 1e-12)
    for each in (u, vt.T):
        assert_close(each.T @ each, torch.eye(E, dtype=torch.float64), 1e-12)


@pytest.mark.parametrize("name", ["gpt2", "llama", "neox", "post", "mqa", "gemma", "olmo"])
def test_the_directions_of_ov_add_up_to_the_table(name: str):
    """table[x, y] - mean over x = sum of values (read[x] - mean) written[y]: the biases cancel."""
    model, layer, head = tiny_model({**ALL[name], "qkv_limit": None}), 1, 1
    found = head_directions(model, layer, head, "ov")
    tokens = direction_tokens(model, layer, found, len(found.values))
    read = tokens.reads - tokens.reads.mean(1, keepdims=True)
    table = ov_table(model, layer, head).centered()
    assert_close(np.einsum("i,ix,iy->xy", found.values, read, tokens.writes), table.rows @ table.columns.T, 5e-5)
    assert (np.diff(found.values) <= 0).all() and found.reads.shape == found.writes.shape == (len(found.values), D)
    assert (np.take_along_axis(found.reads, np.abs(found.reads).argmax(1)[:, None], 1) > 0).all()


@pytest.mark.parametrize("distance", [0, 5])
def test_the_directions_of_qk_add_up_to_the_scores_at_a_distance(distance: int):
    for name in ("llama", "gptj"):
        options = {**ALL[name], "q_bias": False, "k_bias": False, "norm_bias": False, "qk_norm": False}
        model = tiny_model(options)
        found = head_directions(model, 2, 1, "qk", distance)
        tokens = direction_tokens(model, 2, found, len(found.values))
        table = qk_table(model, 2, 1, distance)
        score = np.einsum("i,ix,iy->xy", found.values, tokens.reads, tokens.writes)
        assert_close(score, table.rows @ table.columns.T, 5e-5)


def test_random_values_have_the_heads_norms_and_the_seed():
    model = tiny_model(VARIANTS["gpt2"])
    first, again, other = (random_singular_values(model, 1, 0, "ov", 5, seed) for seed in (0, 0, 1))
    assert first.shape == (5, E) and (first == again).all() and (first != other).all()
    assert (np.diff(first) <= 0).all()
    # E || G1 G2 ||_F^2 = ||W_O||^2 ||W_V||^2 / E for independent Gaussian factors of these norms
    many = random_singular_values(model, 1, 0, "ov", 200)
    block = model.blocks[1]
    read = block.attn.v.weight[:E].double() * block.norm1.weight
    read = read - read.mean(1, keepdim=True)
    expected = (block.attn.o.weight[:, :E].double().norm() * read.norm()).item() ** 2 / E
    assert (many**2).sum(1).mean() == pytest.approx(expected, rel=0.05)


def test_tokens_may_be_cut():
    model = tiny_model(VARIANTS["gpt2"])
    found = direction_tokens(model, 0, head_directions(model, 0, 0, "qk"), 2, vocab=9)
    assert found.reads.shape == found.writes.shape == (2, 9) and V > 9
