"""Muon beside AdamW: who gets which parameters, a step by hand, and a run that goes on from its checkpoint."""

import numpy as np
import pytest
import torch

from model.gpt.config import ModelConfig
from model.training import loop
from model.training.data import Batch
from model.training.loop import Recipe
from model.training.optimizers import Several, optimizer_for

CONFIG = ModelConfig(n_layer=1, d_model=16, n_head=2, vocab_size=11, n_ctx=8)
RECIPE = Recipe(steps=6, batch=2, length=8, warmup=1, learning_rate=0.01, optimizer="muon")


def source(rng: np.random.Generator, rows: int, length: int, done: float) -> Batch:
    ids = rng.integers(0, 11, (rows, length + 1))
    return Batch(ids[:, :-1], ids[:, 1:])


def weights(run) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in run.model.parameters()]


def test_muon_has_the_matrices_of_the_blocks_and_adamw_the_rest():
    run = loop.start(CONFIG, RECIPE)
    names = {id(parameter): name for name, parameter in run.model.named_parameters()}
    muon, adamw = run.optimizer.optimizers
    of = lambda each: {names[id(p)] for group in each.param_groups for p in group["params"]}  # noqa: E731
    matrices = {f"blocks.0.{part}.weight" for part in ("attn.q", "attn.k", "attn.v", "attn.o", "mlp.up", "mlp.down")}
    assert of(muon) == matrices
    assert of(adamw) == set(names.values()) - matrices
    assert {"embed.weight", "pos_embed.weight", "blocks.0.norm1.weight", "blocks.0.attn.q.bias"} <= of(adamw)
    decays = {names[id(p)]: group["weight_decay"] for group in run.optimizer.param_groups for p in group["params"]}
    assert decays["embed.weight"] == 0.1 and decays["blocks.0.attn.q.bias"] == 0.0


def test_a_step_makes_the_singular_values_of_a_gradient_alike():
    """The first step goes along the gradient's nearest orthogonal matrix, times 0.2 of the root of the longer side."""
    model = torch.nn.Module()
    model.embed = torch.nn.Embedding(2, 2)
    model.blocks = torch.nn.ModuleList([torch.nn.Linear(12, 8, bias=False)])
    weight = model.blocks[0].weight
    before = weight.detach().clone()
    weight.grad = torch.randn(8, 12)
    optimizer = optimizer_for(model, "muon", learning_rate=0.5, betas=(0.9, 0.95), weight_decay=0.0)
    gradient = weight.grad.clone()
    optimizer.step()
    moved = (before - weight.detach()) / (0.5 * 0.2 * 12**0.5)
    u, _, vt = torch.linalg.svd(gradient, full_matrices=False)
    values = torch.linalg.svdvals(moved)
    assert values.min() > 0.6 and values.max() < 1.3  # five Newton-Schulz steps bring them between these
    assert torch.cosine_similarity(moved.flatten(), (u @ vt).flatten(), dim=0) > 0.97


def test_the_learning_rate_of_a_step_reaches_both():
    run = loop.start(CONFIG, RECIPE)
    list(loop.steps(run, RECIPE, source))
    rates = {group["lr"] for each in run.optimizer.optimizers for group in each.param_groups}
    assert rates == {loop.learning_rate(5, RECIPE)}


def test_a_run_goes_on_from_its_checkpoint_as_if_it_had_not_stopped(tmp_path):
    whole = loop.start(CONFIG, RECIPE)
    list(loop.steps(whole, RECIPE, source))
    part = loop.start(CONFIG, RECIPE)
    for report in loop.steps(part, RECIPE, source):
        if report.step == 3:
            break
    loop.save_checkpoint(tmp_path / "checkpoint.pt", part, RECIPE)
    again, recipe = loop.load_checkpoint(tmp_path / "checkpoint.pt")
    assert isinstance(again.optimizer, Several) and recipe == RECIPE
    list(loop.steps(again, recipe, source))
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(again), strict=True))


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ValueError, match="adamw, muon"):
        Recipe(steps=1, optimizer="sgd")
    with pytest.raises(ValueError, match="adamw, muon"):
        optimizer_for(torch.nn.Linear(2, 2), "sgd", learning_rate=0.1, betas=(0.9, 0.95), weight_decay=0.0)
