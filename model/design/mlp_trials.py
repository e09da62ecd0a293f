"""Comparison of MLPs with equal numbers of parameters: activation functions, costs,
and a short training run of each.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from model.anatomy.anatomy import n_params, weights
from model.design.block_trials import HEADS, LENGTH, ROWS, STARTS, WARMUP, TrialData, initialized, one_thread
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.layers import MLPS
from model.progress import Progress, silent
from model.public import above, between, one_of, public, whole
from model.training.data import Batch
from model.training.loop import Recipe, Report, TrainingRun, evaluate, from_model, steps

KINDS = ("swiglu", "gelu", "relu")
WIDTH, DEPTH = 96, 2
SEEDS = 3
MOMENTS = 6  # number of evaluations on held-out text, including the final one
_HELD_OUT, _HELD_ROWS = 16, 16  # number of held-out batches, and rows per batch
FUNCTIONS = ("relu", "gelu", "gelu_tanh", "silu")


@public(start=one_of(STARTS), rate=above(0, 10), steps=whole(1, 100_000))
@dataclass(frozen=True)
class MlpTrial:
    """Settings of a comparison of MLPs."""

    start: str = "glorot"  # a key of model.design.block_trials.STARTS
    rate: float = 1e-3
    steps: int = 300


@dataclass(frozen=True)
class MlpCost:
    """Parameters and floating-point operations of a model with one kind of MLP."""

    d_mlp: int
    mlp_params: int  # number of parameters of one block's MLP
    params: int  # number of parameters of the whole model
    mlp_flops: int  # of one MLP per token, forward: 2 for each weight
    train_flops: int  # of the whole model per token, forward and backward


@dataclass(frozen=True, eq=False)
class Compared:
    """Results of every kind of MLP and every seed: K kinds, S seeds, N steps. NaN after a non-finite loss."""

    trial: MlpTrial
    losses: np.ndarray  # [K, S, N] nats per token, on the step's own batch
    moments: tuple[int, ...]  # training steps before each evaluation on held-out text
    held_out: np.ndarray  # [K, S, moments] nats per token
    seconds: np.ndarray  # [K] median seconds per step, over all seeds
    tokens: int  # number of scored held-out tokens
    frequencies: float  # loss of the unigram distribution on these tokens

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.losses.nbytes + self.held_out.nbytes


@dataclass(frozen=True)
class MlpVerdict:
    """Comparison of the final losses of two kinds: the difference of their means, and the range over seeds."""

    difference: float  # mean loss of the first minus that of the second, nats per token
    spread: float  # the larger of the two ranges (maximum - minimum) over seeds
    apart: bool  # whether every seed of one is better than every seed of the other


# --- functions -------------------------------------------------------------------------------------


@public(low=between(-1e6, 1e6), high=between(-1e6, 1e6), points=whole(2))
def curves(low: float = -4.0, high: float = 4.0, points: int = 161) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Compute each of FUNCTIONS, and its derivative by backpropagation. Returns x [P], and [2, P] for each function.

    relu: max(x, 0), with derivative 0 at 0. gelu: x Phi(x), exact by erf or as the tanh approximation (Hendrycks &
    Gimpel 2016, section 2). silu: x sigmoid(x) (Elfwing et al. 2017), the gate of SwiGLU.
    """
    _check_interval(low, high)
    x = low + (high - low) * torch.arange(points, dtype=torch.float64) / (points - 1)
    values = {}
    for name in FUNCTIONS:
        at = x.clone().requires_grad_(True)
        with torch.enable_grad():
            value = MLPS["swiglu" if name == "silu" else name](at)
            (slope,) = torch.autograd.grad(value.sum(), at)
        values[name] = torch.stack([value.detach(), slope]).numpy()
    return x.numpy(), values


@public(low=between(-1e6, 1e6), high=between(-1e6, 1e6), points=whole(2, 4096))
def gated(low: float = -4.0, high: float = 4.0, points: int = 81) -> tuple[np.ndarray, np.ndarray]:
    """Compute the output of a SwiGLU neuron, silu(gate) * up.

    Returns x [P], the axis of both branches, and the outputs [up, gate].
    """
    _check_interval(low, high)
    x = low + (high - low) * torch.arange(points, dtype=torch.float64) / (points - 1)
    return x.numpy(), (MLPS["swiglu"](x)[None, :] * x[:, None]).numpy()


# --- equal sizes -----------------------------------------------------------------------------------


def equal_width(d_mlp: int) -> int:
    """Return the width at which the three SwiGLU matrices have as many weights as two of width d_mlp: 2/3 of it,
    rounded.

    Shazeer 2020, section 3. The numbers are exactly equal if 3 divides d_mlp and there are no biases.
    """
    return max(1, round(2 * d_mlp / 3))


def config_of(kind: str, vocab_size: int) -> ModelConfig:
    """Return the config of the tiny model with this kind of MLP: pre-norm, learned positions, no biases in the MLP."""
    wide = 4 * WIDTH
    return ModelConfig(
        vocab_size=vocab_size,
        n_ctx=LENGTH,
        n_layer=DEPTH,
        d_model=WIDTH,
        n_head=HEADS,
        mlp=kind,
        mlp_bias=False,
        d_mlp=equal_width(wide) if kind == "swiglu" else wide,
    )


def cost(config: ModelConfig, length: int = LENGTH) -> MlpCost:
    """Return the number of parameters and operations of a model on rows of `length` tokens.

    A matrix product takes 2 operations per weight and token. Scores and mixing take 2 (T + 1) H E per layer and token,
    averaged over the visible tokens. The backward pass takes twice as many as the forward pass (Kaplan et al. 2020,
    section 2.1). Norms, softmax and activation functions are not counted.
    """
    each = weights(config)
    mlp = sum(w.size for w in each if w.part in ("gate", "up", "down") and w.layer == 0)
    matrices = sum(w.size for w in each if w.layer is not None and len(w.shape) == 2)
    matrices += config.vocab_size * config.d_model  # the output head, tied or not
    attention = 2 * (length + 1) * config.n_head * config.d_head * config.n_layer
    return MlpCost(config.d_mlp, mlp, n_params(config), 2 * mlp, 3 * (2 * matrices + attention))


# --- training --------------------------------------------------------------------------------------


def recipe_of(trial: MlpTrial, seed: int) -> Recipe:
    """Return the training recipe of a run. The same seed gives the same batches."""
    return Recipe(
        steps=trial.steps,
        batch=ROWS,
        length=LENGTH,
        learning_rate=trial.rate,
        warmup=min(WARMUP, trial.steps),
        seed=seed,
    )


@public()
def train_mlps(data: TrialData, trial: MlpTrial, progress: Progress = silent) -> Compared:
    """Train every kind with every seed, one step of each in turn, so that a slowdown of the machine affects all
    equally.
    """
    shape = (len(KINDS), SEEDS)
    runs = {(kind, seed): _run(data, trial, KINDS[kind], seed) for kind in range(shape[0]) for seed in range(SEEDS)}
    moments = tuple(sorted({max(1, round(trial.steps * n / MOMENTS)) for n in range(1, MOMENTS + 1)}))
    losses, seconds = np.full((*shape, trial.steps), np.nan), np.full((*shape, trial.steps), np.nan)
    held_out, tokens, total = np.full((*shape, len(moments)), np.nan), 0, trial.steps * len(runs)
    with one_thread():
        for step in range(trial.steps):
            for number, (place, (run, reports)) in enumerate(runs.items()):
                progress(step * len(runs) + number, total, "")
                if step and not math.isfinite(losses[place][step - 1]):
                    continue
                with torch.enable_grad():
                    report = next(reports)
                losses[place][step], seconds[place][step] = report.loss, report.seconds
                if step + 1 in moments and math.isfinite(report.loss):
                    held_out[place][moments.index(step + 1)], tokens = _look(run, data)
    return Compared(trial, losses, moments, held_out, np.nanmedian(seconds, axis=(1, 2)), tokens, guessed(data))


def guessed(data: TrialData) -> float:
    """Return the loss of the unigram distribution on held-out text."""
    batches = list(itertools.islice(data.held_out(_HELD_ROWS, LENGTH), _HELD_OUT))
    targets = np.concatenate([batch.targets for batch in batches])
    return data.guessed(Batch(np.concatenate([batch.ids for batch in batches]), targets))


def _run(data: TrialData, trial: MlpTrial, kind: str, seed: int) -> tuple[TrainingRun, Iterator[Report]]:
    recipe = recipe_of(trial, seed)
    run = from_model(initialized(config_of(kind, data.vocab_size), seed, trial.start), recipe)
    return run, steps(run, recipe, data.train)


def _look(run: TrainingRun, data: TrialData) -> tuple[float, int]:
    """Return the loss on held-out text in nats per token, and the number of scored tokens."""
    no_lengths = np.zeros(data.vocab_size, dtype=np.int64)  # bytes of each token, which are not needed here
    evaluation = evaluate(run.model, data.held_out, no_lengths, length=LENGTH, rows=_HELD_ROWS, limit=_HELD_OUT)
    return evaluation.loss, evaluation.tokens


def verdict(first: np.ndarray, second: np.ndarray) -> MlpVerdict:
    """Determine whether two kinds differ by more than the spread over seeds.
    `first` and `second` are final losses [S].
    """
    ranges = [float(losses.max() - losses.min()) for losses in (first, second)]
    apart = bool(first.max() < second.min() or second.max() < first.min())
    return MlpVerdict(float(first.mean() - second.mean()), max(ranges), apart)


def _check_interval(low: float, high: float) -> None:
    """Raise InputError unless `low` is less than `high`."""
    if not low < high:
        hint = say("Choose a value greater than {}.", low)
        raise InputError("A setting is out of range.", f"low: {low}, high: {high}", hint)
