"""Scores of all heads against the whole table, and random heads as a control: their size, their seed, their chance."""

import numpy as np
import pytest
import torch

from model.attention.circuits import copying, matching, random_scores
from model.gpt.transformer import Transformer
from model.token_tables.head_tables import ov_table, qk_table
from model.token_tables.random_heads import head_scores, random_rows
from model.token_tables.token_table import table_row
from tests.support.models.helpers import VARIANTS, H, L, V, assert_close, tiny_config, tiny_model


@pytest.mark.parametrize("circuit", ["ov", "qk"])
def test_scores_of_heads_are_those_of_their_whole_tables(circuit: str):
    model = tiny_model(VARIANTS["llama"])
    found = head_scores(model, circuit, 2 if circuit == "qk" else 0, sample=V, draws=3)
    assert found.sample == V and found.own.shape == found.eigenvalues.shape == (L, H)
    for layer, head in ((0, 0), (2, 3)):
        table = ov_table(model, layer, head) if circuit == "ov" else qk_table(model, layer, head, 2)
        whole = np.stack([table_row(table, token) for token in range(V)])
        own = np.diag(whole)[:, None]
        expected = ((whole < own).sum(1) - (whole > own).sum(1)).mean() / (V - 1)
        assert found.own[layer, head] == pytest.approx(expected, abs=1e-3)
    assert_close(found.eigenvalues, (copying if circuit == "ov" else matching)(model), 0)


def test_matching_is_the_eigenvalue_score_of_the_whole_table():
    """Without norm gains, biases and positions, the QK table of unit embeddings is W_E^T W_QK W_E."""
    model = tiny_model(VARIANTS["gpt2"])
    found = matching(model)
    norm, attn, head = model.blocks[1].norm1, model.blocks[1].attn, 2
    E = model.config.d_head
    embed = model.embed.weight.detach().double()
    x = (embed - embed.mean(1, keepdim=True)) * norm.weight.detach().double()
    q, k = (x @ part.weight.detach().double()[head * E : (head + 1) * E].T for part in (attn.q, attn.k))
    values = np.linalg.eigvals((q @ k.T).numpy())
    assert found[1, head] == pytest.approx(values.real.sum() / np.abs(values).sum(), abs=1e-6)


def test_random_scores_lie_around_0_and_depend_on_the_seed_alone():
    model = Transformer(tiny_config())
    for circuit in ("ov", "qk"):
        first, again, other = (random_scores(model, circuit, 200, seed) for seed in (1, 1, 2))
        assert (first == again).all() and (first != other).all()
        assert abs(first.mean()) < 4 * first.std() / 200**0.5


@pytest.mark.parametrize("circuit", ["ov", "qk"])
def test_random_rows_are_as_large_as_the_heads_and_reproducible(circuit: str):
    model = tiny_model(VARIANTS["gpt2"])
    table = ov_table(model, 1, 1) if circuit == "ov" else qk_table(model, 1, 1)
    first, again = (random_rows(model, table, 5, 64, seed=3) for _ in range(2))
    assert first.shape == (64, V) and (first == again).all()
    assert not np.allclose(first, random_rows(model, table, 5, 64, seed=4))
    size = (table.columns.square().mean().sqrt() * table.rows[5].norm()).item()
    assert np.sqrt((first**2).mean()) == pytest.approx(size, rel=1e-4)
    doubled = type(table)(circuit, 1, 1, 0, table.rows, 2 * table.columns)
    assert_close(random_rows(model, doubled, 5, 64, seed=3), 2 * first, 1e-4)


def test_a_model_of_random_weights_is_no_different_from_its_control():
    """A new model: every head is a random one, so the heads' scores are spread as those of the control."""
    torch.manual_seed(0)
    model = Transformer(tiny_config({"n_layer": 3, "tie_embeddings": False}))
    found = head_scores(model, "ov", sample=V, draws=64)
    assert abs(found.own.mean()) < 0.1 and abs(found.random_own.mean()) < 0.1
    assert found.random_own.min() - 0.1 <= found.own.min() and found.own.max() <= found.random_own.max() + 0.1
