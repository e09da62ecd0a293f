"""Small models learn the tasks that the training view offers."""

import numpy as np
import pytest

from model.gpt.config import ModelConfig
from model.training import data, loop
from model.training.loop import Recipe
from model.training.tasks import TASKS


def learn(name: str, steps: int, rate: float, batch: int, length: int, **shape):
    """The losses of a small model on a task, and how well it does on the held-out examples."""
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
    return losses, loop.evaluate(run.model, dataset.held_out[name], dataset.token_bytes, length=length)


@pytest.mark.long
@pytest.mark.parametrize("name", ["copy", "reverse", "sort"])
def test_short_words_are_copied_reversed_and_sorted(name: str):
    """Chance among 26 letters is ln 26 = 3.3."""
    losses, found = learn(name, 100, 1e-2, 32, 8)
    assert losses[0] > 3 and np.mean(losses[-10:]) < 1
    assert found.accuracy > 0.75


@pytest.mark.long
def test_sums_are_learnt_on_the_training_pairs():
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
