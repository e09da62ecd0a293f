"""Load balance of a tiny mixture of experts, trained with and without the load-balancing loss."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from model.anatomy.anatomy import n_params, weights
from model.design.block_trials import chapter, one_thread
from model.gpt.config import ModelConfig
from model.gpt.experts import entropy, load, route
from model.gpt.tap import record
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import MOST_SEED, above, between, public, whole
from model.training.data import Dataset, text_dataset
from model.training.loop import Recipe, start, steps
from model.training.tasks import IGNORE

LAYERS, WIDTH, HEADS = 3, 64, 4
VOCABULARY = 512  # vocabulary size of the chapter: bytes and their most frequent merges
ROWS, LENGTH = 16, 64  # batch size, and tokens per row
SAMPLE = 48  # number of tokens shown from the last held-out row; earlier rows fill the experts' capacity first
LOOKS = 30  # approximate number of evaluations of the routers
BATCH = 16  # number of held-out rows per evaluation


@public(
    n_expert=whole(1, 256),
    experts_per_token=whole(1, 256),
    balances=between(0, 1e6),
    capacity_factor=above(0),
    steps=whole(1, 1_000_000),
    rate=above(0, 10),
    seed=whole(0, MOST_SEED),
)
@dataclass(frozen=True)
class ExpertTrial:
    """Settings of the training runs. `balances` holds the coefficient of the load-balancing loss of each run."""

    n_expert: int = 4
    experts_per_token: int = 1
    balances: tuple[float, ...] = (0.0, 0.01)
    capacity_factor: float = 1.25  # only for counting dropped choices; training itself drops none
    steps: int = 300
    rate: float = 3e-3
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Mixture:
    """One training run, evaluated on the same held-out text at regular steps.

    S evaluations, L layers, N experts, k experts per token, T tokens of the sample.
    """

    balance: float
    steps: np.ndarray  # [S] training steps before each evaluation, starting at 0
    load: np.ndarray  # [S, L, N] fraction of the choices that go to each expert
    entropy: np.ndarray  # [S, L] mean entropy of the router, in nats
    dropped: np.ndarray  # [S, L] fraction of the choices beyond their expert's capacity
    held_out: np.ndarray  # [S] loss in nats per token
    losses: np.ndarray  # [steps] loss on the training batches in nats per token, without the load-balancing loss
    experts: np.ndarray  # [L, T, k] experts of the sample's tokens, after the last step
    weights: np.ndarray  # [L, T, k] weights of these experts
    lost: np.ndarray  # [L, T, k] bool: whether the choice would be dropped


@dataclass(frozen=True, eq=False)
class Mixtures:
    """All training runs of a trial, the sample's tokens, and the parameter counts."""

    trial: ExpertTrial
    runs: tuple[Mixture, ...]
    pieces: tuple[str, ...]  # decoded tokens of the sample
    n_params: int
    n_active: int  # number of parameters used per token


def config_of(trial: ExpertTrial, vocab_size: int) -> ModelConfig:
    """Return the config of the tiny model: pre-norm, learned positions, GELU, tied embeddings."""
    return ModelConfig(
        vocab_size=vocab_size,
        n_ctx=LENGTH,
        n_layer=LAYERS,
        d_model=WIDTH,
        n_head=HEADS,
        d_mlp=2 * WIDTH,
        n_expert=trial.n_expert,
        experts_per_token=trial.experts_per_token,
    )


@functools.cache
def text() -> Dataset:
    """Return the bundled chapter, tokenized with a vocabulary trained on it."""
    return text_dataset(chapter(), VOCABULARY)


def train_one(trial: ExpertTrial, balance: float, tell: Callable[[int], None] = lambda done: None) -> Mixture:
    """Train one model with the coefficient `balance`, calling `tell` after every step. The same seed gives the same
    initial weights.
    """
    recipe = Recipe(
        steps=trial.steps,
        batch=ROWS,
        length=LENGTH,
        learning_rate=trial.rate,
        warmup=min(30, trial.steps),
        balance=balance,
        seed=trial.seed,
    )
    dataset = text()
    training = start(config_of(trial, dataset.tokenizer.vocab_size), recipe)
    every, looks, losses = max(1, trial.steps // LOOKS), [_look(training.model, trial)], []
    at = [0]
    for report in steps(training, recipe, dataset.train):
        losses.append(report.loss)
        if report.step % every == 0 or report.step == trial.steps:
            at.append(report.step)
            looks.append(_look(training.model, trial))
        tell(report.step)
    shares, entropies, dropped, held_out = (
        np.array(each) for each in zip(*(look.means for look in looks), strict=True)
    )
    last = looks[-1]
    return Mixture(balance, np.array(at), shares, entropies, dropped, held_out, np.array(losses), *last.sample)


@public()
def train_mixtures(trial: ExpertTrial, progress: Progress = silent) -> Mixtures:
    """Train all models sequentially, in this process and on one thread."""
    runs = []
    with one_thread():
        for number, balance in enumerate(trial.balances):

            def tell(done: int, before: int = number * trial.steps) -> None:
                progress(before + done, trial.steps * len(trial.balances), "")

            runs.append(train_one(trial, balance, tell))
    return together(trial, runs)


def together(trial: ExpertTrial, runs: Sequence[Mixture]) -> Mixtures:
    """Combine the training runs of a trial with its sample text."""
    dataset = text()
    config = config_of(trial, dataset.tokenizer.vocab_size)
    ids = _rows(dataset)[0][-1, :SAMPLE]
    pieces = tuple(dataset.tokenizer.piece(int(each)) for each in ids)
    idle = sum(each.size for each in weights(config) if ".experts." in each.name)
    active = n_params(config) - idle + idle // trial.n_expert * trial.experts_per_token
    return Mixtures(trial, tuple(runs), pieces, n_params(config), active)


# --- evaluation of the routers ---


@dataclass(frozen=True, eq=False)
class _Look:
    means: tuple[np.ndarray, np.ndarray, np.ndarray, float]  # load [L, N], entropy [L], dropped [L], loss
    sample: tuple[
        np.ndarray, np.ndarray, np.ndarray
    ]  # experts, weights and whether a choice would be dropped, [L, T, k] each


def _rows(dataset: Dataset) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the held-out rows for the evaluations, and their targets. [B, T] each"""
    (held_out,) = dataset.held_out.values()
    batch = next(held_out(BATCH, LENGTH))
    return torch.from_numpy(batch.ids), torch.from_numpy(batch.targets)


@torch.no_grad()
def _look(model: Transformer, trial: ExpertTrial) -> _Look:
    """Evaluate the routers on the held-out rows, without dropping tokens."""
    ids, targets = _rows(text())
    routers: dict[tuple[str, int], torch.Tensor] = {}
    model.eval()
    logits = model.logits(model.trunk(ids, tap=record(("router",), routers))).flatten(0, 1)
    loss = F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORE).item()
    each = [
        route(routers["router", layer].flatten(0, 1), trial.experts_per_token, trial.capacity_factor)
        for layer in range(LAYERS)
    ]
    means = (
        np.stack([load(layer.experts, trial.n_expert).numpy() for layer in each]),
        np.array([entropy(layer.probabilities).mean().item() for layer in each]),
        np.array([1 - layer.kept.float().mean().item() for layer in each]),
        loss,
    )
    last = slice(-LENGTH, SAMPLE - LENGTH or None)
    experts, shares, kept = (
        np.stack([getattr(layer, name)[last].numpy() for layer in each]) for name in ("experts", "weights", "kept")
    )
    return _Look(means, (experts, shares, ~kept))
