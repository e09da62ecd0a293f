"""How a model reads in training: rows of attention are the fused kernel's, and what dropout leaves out."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.api import load_model
from model.gpt.config import ModelConfig
from model.gpt.layers import attention_pattern, attention_scores, fused_attention
from model.gpt.tap import SITES
from model.loading.checkpoint import save_folder
from model.training import data, forward, loop
from model.training.data import Dataset
from model.training.loop import Recipe
from model.training.tasks import TASKS
from tests.support.models.helpers import VARIANTS, assert_close, tiny_model

CPU = torch.device("cpu")


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 7, 127, 128, 129, 256, 300])
def test_rows_of_attention_are_the_fused_kernels(length: int, groups: int):
    g = torch.Generator().manual_seed(length)
    q, *kv = (torch.randn(2, heads, length, 12, generator=g, requires_grad=True) for heads in (4, groups, groups))
    weight = torch.randn(2, 4, length, 12, generator=g)
    ours, theirs = forward.attend_rows(0, q, *kv), fused_attention(q, *kv)
    assert_close(ours, theirs, 1e-6)
    found, expected = (torch.autograd.grad((out * weight).sum(), (q, *kv)) for out in (ours, theirs))
    for name, a, b in zip("qkv", found, expected, strict=True):
        assert_close(a, b, 5e-6, f"gradient of {name}")  # sums over up to 4 x 300 queries, some of them near 10


# --- dropout ---


def test_a_drop_leaves_out_its_share_and_keeps_the_mean():
    x = torch.ones(400, 500)
    found = forward.Drop(0.25, torch.Generator().manual_seed(1))(x)
    assert found.unique().tolist() == pytest.approx([0, 4 / 3])
    share = (found == 0).float().mean().item()
    assert abs(share - 0.25) < 4 * math.sqrt(0.25 * 0.75 / x.numel())  # four standard errors
    assert found.mean().item() == pytest.approx((1 - share) * 4 / 3)


def test_without_a_rate_nothing_is_done():
    assert forward.with_dropout(0.0, 3, 5, CPU) is forward.PLAIN
    assert forward.PLAIN.tap is None and forward.PLAIN.attend is forward.attend_rows


def test_a_step_drops_the_same_numbers_whenever_it_is_made():
    x = torch.ones(1000)

    def made(seed: int, step: int) -> torch.Tensor:
        return forward.with_dropout(0.5, seed, step, CPU).tap("mlp_out", 1, x)

    assert torch.equal(made(3, 7), made(3, 7))
    assert not torch.equal(made(3, 7), made(3, 8)) and not torch.equal(made(3, 7), made(4, 7))


def test_dropped_are_the_embeddings_the_weights_and_what_is_added_to_the_stream():
    """By the tap at every site of the forward: which of them it changes. Vaswani et al. 2017, 5.4."""
    how, x = forward.with_dropout(0.5, 0, 0, CPU), torch.ones(64)
    changed = {(site, layer) for site in SITES for layer in (0, 1) if not torch.equal(how.tap(site, layer, x), x)}
    adds = {(site, layer) for site in ("attn_out", "mlp_out") for layer in (0, 1)}
    assert changed == {("resid_pre", 0), *adds}
    # The attention weights: with values that are a unit matrix, the output is the pattern itself.
    T = 12
    q, k = torch.randn(1, 1, T, T, generator=torch.Generator().manual_seed(0)), torch.zeros(1, 1, T, T)
    found = how.attend(0, q, k, torch.eye(T)[None, None])[0, 0]
    whole = attention_pattern(attention_scores(q, k))[0, 0]
    kept = found != 0
    assert_close(found[kept], 2 * whole[kept], 1e-6)
    visible = torch.ones(T, T).tril().bool()
    assert 0 < (kept & visible).sum() < visible.sum() and not (kept & ~visible).any()


def test_the_loss_with_dropout_is_that_of_the_model_with_those_numbers_left_out():
    """The training's loss against a forward written out: the same generator draws the same masks in the same order."""
    model = tiny_model(VARIANTS["gpt2"])
    ids = torch.arange(24).reshape(2, 12) % model.config.vocab_size
    how = forward.with_dropout(0.3, 5, 2, CPU)
    found = loop.summed_loss(model, ids, ids, how)
    assert not torch.equal(found, loop.summed_loss(model, ids, ids))
    drop = forward.Drop(0.3, forward.with_dropout(0.3, 5, 2, CPU).attend.__closure__[0].cell_contents.draws)
    x = drop(model.embed(ids) + model.pos_embed.weight[:12])
    for block in model.blocks:
        read = block.norm1(x)
        q, k, v = (part(read).unflatten(-1, (-1, model.config.d_head)).transpose(1, 2) for part in block.attn.parts())
        H, G = q.shape[1], k.shape[1]
        k, v = (each.repeat_interleave(H // G, 1) for each in (k, v))
        pattern = drop(attention_pattern(attention_scores(q, k)).flatten(0, 1)).unflatten(0, (2, H))
        x = x + drop(block.attn.o((pattern @ v).transpose(1, 2).flatten(2)))
        read = block.norm2(x)
        x = x + drop(block.mlp.down(block.mlp.act(block.mlp.up(read))))
    expected = F.cross_entropy(model.logits(x).flatten(0, 1), ids.flatten(), reduction="sum")
    assert_close(found, expected, 1e-3)


def trained(dropout: float, steps: int = 4) -> tuple[loop.TrainingRun, Dataset]:
    dataset = data.task_dataset("copy", TASKS["copy"])
    recipe = Recipe(steps=steps, batch=4, length=16, warmup=1, dropout=dropout)
    config = ModelConfig(vocab_size=28, n_ctx=16, n_layer=2, d_model=16, n_head=2)
    run = loop.start(config, recipe)
    list(loop.steps(run, recipe, dataset.train))
    return run, dataset


def test_a_run_with_dropout_repeats_and_is_another_one_than_without():
    first, second, without = (trained(rate)[0].model.state_dict() for rate in (0.2, 0.2, 0.0))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], without[name]) for name in first)


def test_nothing_is_dropped_where_a_model_is_evaluated_or_traced(tmp_path):
    """The trained model's logits are those of the plain forward, and the same at every look; its checkpoint is one of
    any model: dropout is no part of it."""
    run, dataset = trained(0.5)
    (held_out,) = dataset.held_out.values()
    looks = [loop.evaluate(run.model, held_out, dataset.token_bytes, length=16) for _ in range(2)]
    assert looks[0] == looks[1]
    save_folder(tmp_path, run.model)
    (tmp_path / "tokenizer.json").write_text(dataset.tokenizer_json, encoding="utf-8")
    opened = load_model(tmp_path)
    ids = np.arange(10) % 28
    with torch.no_grad():
        expected = run.model.eval()(torch.from_numpy(ids)[None])[0]
    for _ in range(2):
        assert_close(torch.from_numpy(np.asarray(opened.trace(ids.tolist()).logits)), expected, 2e-6)
    assert "dropout" not in (tmp_path / "config.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("wrong", [-0.1, 1.0, math.nan, "0.1", True])
def test_a_dropout_that_is_no_share_is_refused(wrong):
    with pytest.raises(ValueError, match="dropout must be a number from 0 up to below 1"):
        Recipe(steps=1, dropout=wrong)
