"""Small models learn the tasks that the training view offers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.gpt.config import ModelConfig
from model.training import data, loop
from model.training.loop import Recipe
from model.training.tasks import TASKS


def trained(name: str, steps: int, rate: float, batch: int, length: int, **shape):
    """A small model trained on a task, its data, and the loss of every step."""
    dataset = data.task_dataset(name, TASKS[name])
    recipe = Recipe(
        steps=steps,
        batch=batch,
        length=length,
        learning_rate=rate,
        schedule="trapezoid",
        warmup=20,
        weight_decay=0.0,
        beta2=0.98,
    )
    fields = {"n_layer": 1, "n_head": 2, "d_model": 32, "tie_embeddings": False} | shape
    run = loop.start(ModelConfig(vocab_size=dataset.tokenizer.vocab_size, n_ctx=length, **fields), recipe)
    losses = [report.loss for report in loop.steps(run, recipe, dataset.train)]
    return run.model, dataset, losses


def learn(name: str, steps: int, rate: float, batch: int, length: int, **shape):
    """The losses of a small model on a task, and how well it does on the held-out examples."""
    model, dataset, losses = trained(name, steps, rate, batch, length, **shape)
    return losses, loop.evaluate(model, dataset.held_out[name], dataset.token_bytes, length=length)


def test_the_loss_of_noise_ends_at_its_floor():
    """ln 26 = 3.258 nats. On fresh letters the mean loss of any model is at least that; of n letters it lies below by
    chance alone, and by more than four standard errors about once in 30,000 runs."""
    model, dataset, losses = trained("noise", 150, 1e-2, 32, 16)
    floor = TASKS["noise"].floor
    (batch,) = dataset.held_out["noise"](256, 16)
    ids, targets = loop.to_tensors(batch, torch.device("cpu"))
    with torch.no_grad():
        each = F.cross_entropy(model.eval()(ids).flatten(0, 1), targets.flatten(), reduction="none")
    error = each.std().item() / each.numel() ** 0.5
    assert losses[0] > floor and abs(np.mean(losses[-10:]) - floor) < 0.05
    assert floor - 4 * error < each.mean().item() < floor + 0.05 and error < 0.02


def test_noise_that_comes_again_falls_below_the_floor_by_memory_alone():
    losses, found = learn("known_noise", 250, 1e-2, 32, 16)
    floor = TASKS["known_noise"].floor
    assert np.mean(losses[-10:]) < floor - 1 and found.loss > floor


@pytest.mark.long
@pytest.mark.parametrize("name", ["copy", "reverse", "sort"])
def test_short_words_are_copied_reversed_and_sorted(name: str):
    """Chance among 26 letters is ln 26 = 3.3."""
    losses, found = learn(name, 100, 1e-2, 32, 8)
    assert losses[0] > 3 and np.mean(losses[-10:]) < 1
    assert found.accuracy > 0.75


@pytest.mark.long
def test_sums_are_learned_on_the_training_pairs():
    """ln 97 = 4.57 is what guessing costs."""
    losses, _ = learn(
        "modular_addition",
        200,
        7e-3,
        256,
        4,
        d_model=48,
        d_mlp=128,
        mlp="swiglu",
        norm="rmsnorm",
        positions="none",
        embed_scale=True,
    )
    assert losses[0] > 4.57 and np.mean(losses[-10:]) < 4.3


@pytest.mark.long
def test_two_layers_learn_to_look_for_the_earlier_copy():
    """One layer cannot: this is the induction head."""
    losses, found = learn("induction", 280, 3e-3, 32, 40, n_layer=2, n_head=4, d_model=64, d_mlp=16)
    assert losses[0] > 4 and np.mean(losses[-10:]) < 0.3
    assert found.accuracy > 0.95
