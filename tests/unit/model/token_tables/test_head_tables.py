"""Rows of OV and QK tables against products by hand, the model's own run, and NumPy on the whole table."""

import math

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.gpt.transformer import Transformer
from model.token_tables.head_tables import ov_table, qk_table
from model.token_tables.token_table import TokenTable, ends_of, extremes, own_rank, table_row
from model.tracing.trace import run
from tests.support.models.helpers import (
    MORE_VARIANTS,
    VARIANTS,
    E,
    G,
    H,
    V,
    assert_close,
    tiny_config,
    tiny_model,
    tokens_of,
)

X = 7


def normed(x: np.ndarray, norm) -> np.ndarray:
    """Apply a norm to a vector by hand."""
    centered = x - x.mean() if norm.kind == "layernorm" else x
    y = centered / math.sqrt((centered**2).mean() + norm.eps) * norm.weight.detach().numpy()
    return y if norm.bias is None else y + norm.bias.detach().numpy()


@torch.no_grad()
def test_a_row_of_ov_is_the_product_of_the_heads_weights_by_hand():
    model, layer, head = tiny_model(VARIANTS["gpt2"]), 1, 2
    block, mine = model.blocks[layer], slice(head * E, (head + 1) * E)
    x = normed(model.embed.weight[X].numpy().astype(np.float64), block.norm1)
    v = block.attn.v.weight[mine].numpy() @ x + block.attn.v.bias[mine].numpy()
    out = block.attn.o.weight[:, mine].numpy() @ v
    u = (out - out.mean()) * model.final_norm.weight.numpy()
    assert_close(table_row(ov_table(model, layer, head), X), model.unembed.weight.numpy() @ u, 1e-5)


@torch.no_grad()
def test_a_query_head_of_a_group_reads_the_values_of_its_kv_head():
    model, layer, head = tiny_model(VARIANTS["llama"]), 2, H - 1
    block, kv = model.blocks[layer], (H - 1) // (H // G)
    x = normed(model.embed.weight[X].numpy().astype(np.float64), block.norm1)
    v = block.attn.v.weight[kv * E : (kv + 1) * E].numpy() @ x
    out = block.attn.o.weight[:, head * E : (head + 1) * E].numpy() @ v
    expected = model.unembed.weight.numpy() @ (out * model.final_norm.weight.numpy())
    assert_close(table_row(ov_table(model, layer, head), X), expected, 1e-5)


@pytest.mark.parametrize("name", ["none", "embed_norm", "gemma", "olmo", "post"])
@torch.no_grad()
def test_a_row_is_what_a_text_of_one_token_gets_of_the_head(name: str):
    """At layer 0 of a model without position embeddings, the embedding is the whole stream, and a text of one token
    attends to itself with weight 1. The logits are those of the head's output through the norms with divisor 1.
    """
    given = {"none": {"positions": "none"}, "embed_norm": {"positions": "none", "embed_norm": True}}
    model = tiny_model(given.get(name) or (VARIANTS | MORE_VARIANTS)[name])
    trace, head = run(model, tokens_of([X])), 1
    if name == "post":  # sinusoidal positions: the head's value is of token and position, so only its write is compared
        z = ov_table(model, 0, head).rows[X]
    else:
        z = trace.sites(0, ["z"])["z"][0, head, 0]
        assert_close(ov_table(model, 0, head).rows[X], z, 1e-5)
    width = model.config.d_head
    out = model.blocks[0].attn.o.weight[:, head * width : (head + 1) * width] @ z * model.config.residual_multiplier
    block = model.blocks[0]
    norms = [block.after1] if block.after1 is not None else []
    if block.post_norm:
        norms += [each for later in model.blocks for each in (later.norm1, later.norm2)]
    for norm in [*norms, *([model.final_norm] if model.final_norm is not None else [])]:
        out = (out - out.mean() if norm.kind == "layernorm" else out) * norm.weight
    expected = model.unembed.weight @ out * model.config.logit_multiplier
    assert_close(table_row(ov_table(model, 0, head), X), expected, 2e-5)


@pytest.mark.parametrize("name", ["llama", "qwen3", "neox", "gqa-rope", "gemma", "olmo", "gptj"])
@pytest.mark.parametrize("distance", [0, 1, 3])
def test_a_score_of_qk_is_that_of_the_model_for_two_tokens_at_that_distance(name: str, distance: int):
    """Embedding alone: layer 0 of a model without position embeddings, whatever the tokens between."""
    own = {"gqa-rope": {"positions": "rope", "mlp": "gelu", "qk_norm": True}}
    options = (VARIANTS | MORE_VARIANTS | own)[name]
    model, y = tiny_model({**options, "score_cap": None} if name == "gemma" else options), 11
    ids = [y, *[3] * (distance - 1), X] if distance else [X]
    scores = run(model, tokens_of(ids)).sites(0, ["scores"])["scores"][0]
    for head in range(H):
        found = table_row(qk_table(model, 0, head, distance), X)
        assert found[y if distance else X] == pytest.approx(scores[head, -1, 0].item(), abs=2e-5)


def test_the_distance_changes_scores_only_with_rope():
    for name, changes in (("llama", True), ("gpt2", False)):
        model = tiny_model(VARIANTS[name])
        near, far = (table_row(qk_table(model, 1, 0, distance), X) for distance in (1, 9))
        assert bool(np.abs(near - far).max() > 1e-3) is changes


def test_extremes_and_strongest_pairs_are_those_of_the_whole_table(monkeypatch):
    monkeypatch.setattr("model.token_tables.token_table._CELLS", 3 * V)  # several chunks, the last one smaller
    table = ov_table(tiny_model(VARIANTS["gpt2"]), 0, 3)
    whole = table.rows.double().numpy() @ table.columns.double().numpy().T
    calls = []
    found = extremes(table, lambda done, total, what: calls.append((done, total)))
    assert calls[0] == (0, V) and len(calls) == -(-V // 3)
    assert (found.high == whole.argmax(1)).all() and (found.low == whole.argmin(1)).all()
    assert_close(found.high_values, whole.max(1), 1e-5)
    high, low = found.strongest(4)
    assert (high == np.argsort(-whole.max(1))[:4]).all() and (low == np.argsort(whole.min(1))[:4]).all()
    assert found.own == pytest.approx((whole.argmax(1) == np.arange(V)).mean())
    centered = table.centered()
    assert_close(table_row(centered, X), whole[X] - whole.mean(0), 1e-5)


def test_a_vocabulary_may_be_cut():
    model = tiny_model(VARIANTS["gpt2"])
    table = qk_table(model, 0, 0, vocab=20)
    assert len(table) == 20 and table.columns.shape == (20, E)
    assert_close(table_row(table, X), table_row(qk_table(model, 0, 0), X)[:20], 1e-6)


def test_own_rank_is_1_for_the_largest_0_by_chance_and_minus_1_for_the_smallest():
    rows = torch.eye(5)
    assert own_rank(rows, rows, torch.arange(5)) == 1
    assert own_rank(-rows, rows, torch.arange(5)) == -1
    assert own_rank(torch.zeros(5, 5), rows, torch.arange(5)) == 0
    some = torch.randn(2, 300, 8, generator=torch.Generator().manual_seed(0))
    assert abs(own_rank(*some, torch.arange(300))) < 0.1
    one = torch.tensor([[3.0], [2.0], [1.0], [0.0]])  # of the row of token 1: one entry above, two below
    assert own_rank(torch.ones(1, 1), one, torch.tensor([1])) == pytest.approx((2 - 1) / 3)


def test_ends_are_sorted_with_ties_by_id():
    found = ends_of(np.array([1.0, 3, 3, -2, 0], np.float32), 2)
    assert found.high.tolist() == [1, 2] and found.low.tolist() == [3, 4]
    assert found.high_values.tolist() == [3, 3] and found.low_values.tolist() == [-2, 0]


def test_what_cannot_be_computed_is_refused():
    model = tiny_model(VARIANTS["gpt2"])
    table = ov_table(model, 0, 0)
    assert isinstance(table, TokenTable) and (table.circuit, len(table)) == ("ov", V)
    with pytest.raises(InputError, match="token"):
        table_row(table, V)
    with pytest.raises(InputError, match="head"):
        qk_table(model, 0, H)
    with pytest.raises(InputError, match="too far from the query"):
        qk_table(model, 0, 0, model.config.n_ctx)
    local = Transformer(tiny_config({"mixer": "sliding_window", "window": 4}))
    qk_table(local, 0, 0, 3)
    with pytest.raises(InputError, match="too far from the query"):
        qk_table(local, 0, 0, 4)
    with pytest.raises(InputError, match="gate"):
        ov_table(Transformer(tiny_config({"output_gate": True})), 0, 0)
    with pytest.raises(InputError, match="no attention scores"):
        ov_table(Transformer(tiny_config({"n_kv_head": H, "mixer": "linear"})), 0, 0)
