"""The training loop: recipe, schedules, step, evaluation, and checkpoint.

All randomness is a function of (seed, step), so an interrupted run continues as if it had not been interrupted.
"""

import contextlib
import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.arguments import is_number, is_whole
from model.errors import CheckpointError, InputError
from model.gpt.config import ModelConfig, from_dict, to_dict
from model.gpt.experts import balance_loss
from model.gpt.tap import compose, identity, record
from model.gpt.transformer import Transformer
from model.loading.convert import skeleton
from model.loading.devices import check
from model.training.data import Batch, HeldOut, Source
from model.training.forward import PLAIN, TrainingInputs, with_dropout
from model.training.optimizers import OPTIMIZERS, optimizer_for
from model.training.tasks import IGNORE

PRECISIONS = ("float32", "bfloat16", "auto")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The hyperparameters of training. Defaults suit a model of a few million parameters.

    Raises ValueError if a number is out of range, or the schedule or precision is unknown.
    """

    steps: int
    batch: int = 16  # sequences per forward pass
    length: int = 256  # tokens per sequence
    accumulate: int = 1  # forward passes per step
    learning_rate: float = 1e-3
    schedule: Literal["cosine", "inverse_sqrt", "trapezoid"] = "cosine"
    warmup: int = 100  # number of warm-up steps
    floor: float = 0.1  # ratio of final to peak learning rate; the inverse square root schedule ignores it
    decay: float = 0.15  # fraction of the steps during which the trapezoid decays
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.1
    clip: float = 1.0
    dropout: float = 0.0  # dropout probability; see model.training.forward
    balance: float = 0.0  # weight of the load-balancing loss of a mixture of experts; 0 disables it
    seed: int = 0
    optimizer: Literal["adamw", "muon"] = "adamw"  # "muon" applies to the matrices inside the blocks
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    compile: bool = False

    def __post_init__(self) -> None:
        for name, least in {"steps": 1, "batch": 1, "length": 1, "accumulate": 1, "warmup": 0, "seed": 0}.items():
            value = getattr(self, name)
            if not is_whole(value) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
        for name, most in {
            "learning_rate": math.inf,
            "floor": 1,
            "decay": 1,
            "weight_decay": math.inf,
            "balance": math.inf,
        }.items():
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value <= most:
                raise ValueError(f"{name} must be a number from 0 to {most}, got {value!r}")
        for name in ("beta1", "beta2", "dropout"):
            if not is_number(getattr(self, name)) or not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be a number from 0 up to below 1, got {getattr(self, name)!r}")
        if self.clip != math.inf and (not is_number(self.clip) or self.clip <= 0):
            raise ValueError(f"clip must be a number above 0, infinite for none, got {self.clip!r}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, got {self.optimizer!r}")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}, got {self.schedule!r}")


# --- learning rate ---------------------------------------------------------------------------------


def _cosine(step: int, recipe: Recipe) -> float:
    behind = (step - recipe.warmup) / max(1, recipe.steps - 1 - recipe.warmup)
    return recipe.floor + (1 - recipe.floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, behind)))


def _inverse_sqrt(step: int, recipe: Recipe) -> float:
    return math.sqrt(max(1, recipe.warmup) / (step + 1))


def _trapezoid(step: int, recipe: Recipe) -> float:
    fall = recipe.decay * recipe.steps
    left = min(1.0, (recipe.steps - 1 - step) / fall) if fall else 1.0
    return recipe.floor + (1 - recipe.floor) * left


# learning rate after the warm-up, as a fraction of the peak
SCHEDULES: dict[str, Callable[[int, Recipe], float]] = {
    "cosine": _cosine,  # Loshchilov & Hutter 2017, one cycle, down to a floor
    "inverse_sqrt": _inverse_sqrt,  # Vaswani et al. 2017, 5.3, scaled to its peak
    "trapezoid": _trapezoid,  # constant, then linear decay over the last `decay` of the steps; Hu et al. 2024, "WSD"
}


def learning_rate(step: int, recipe: Recipe) -> float:
    """Compute the learning rate of step 0, 1, ...: a linear warm-up, then the schedule.

    The last step uses the final learning rate if at least two steps follow the warm-up.
    """
    if step < recipe.warmup:
        return recipe.learning_rate * (step + 1) / recipe.warmup
    return recipe.learning_rate * SCHEDULES[recipe.schedule](step, recipe)


# --- the step --------------------------------------------------------------------------------------


@dataclass(eq=False)
class TrainingRun:
    """The model, optimizer, and progress of a training run."""

    model: Transformer
    optimizer: torch.optim.Optimizer
    step: int = 0  # number of completed steps
    tokens: int = 0  # number of processed tokens


@dataclass(frozen=True)
class Report:
    """Loss and other measurements of one step."""

    step: int  # counted from 1
    loss: float  # nats per scored token
    learning_rate: float
    gradient_norm: float  # before clipping
    tokens: int  # number of tokens processed since the start of the run
    seconds: float  # duration of this step
    balance: float = 0.0  # load-balancing loss without its coefficient; 0 if disabled


def start(config: ModelConfig, recipe: Recipe) -> TrainingRun:
    """Create a new model, initialized from the seed, and its optimizer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return from_model(Transformer(config), recipe)


def from_model(model: Transformer, recipe: Recipe) -> TrainingRun:
    """Create a run that trains all weights of an existing model, with the recipe's optimizer."""
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    optimizer = optimizer_for(
        model,
        recipe.optimizer,
        learning_rate=recipe.learning_rate,
        betas=(recipe.beta1, recipe.beta2),
        weight_decay=recipe.weight_decay,
    )
    return TrainingRun(model, optimizer)


def moved(run: TrainingRun, recipe: Recipe, device: str) -> TrainingRun:
    """Move the run to a device ("cuda", "cuda:1") with its optimizer's state; the same run if it is already there.

    Raises InputError if torch finds no device of that kind.
    """
    check(device.partition(":")[0])
    current = next(run.model.parameters()).device
    return run if device in (current.type, str(current)) else _rebuilt(run, recipe, device)


def _rebuilt(run: TrainingRun, recipe: Recipe, device: str) -> TrainingRun:
    """Create a new optimizer for the run's parameters on a device, with the old optimizer's state."""
    state = {"optimizer": run.optimizer.state_dict(), "step": run.step, "tokens": run.tokens}
    rebuilt = from_model(run.model.to(device), recipe)
    go_on(rebuilt, state)
    return rebuilt


def steps(run: TrainingRun, recipe: Recipe, source: Source) -> Iterator[Report]:
    """Train from the run's current step to the end of the recipe, yielding one report per step; may stop early."""
    model, device = run.model, next(run.model.parameters()).device
    balanced = recipe.balance > 0 and model.config.n_expert > 1
    summed = balanced_loss if balanced else summed_loss
    summed = torch.compile(summed) if recipe.compile else summed
    cast = functools.partial(torch.autocast, device.type, torch.bfloat16, enabled=uses_bfloat16(recipe, device))
    while run.step < recipe.steps:
        began = time.perf_counter()
        rng = np.random.default_rng([recipe.seed, run.step])
        behind = run.step / recipe.steps
        batches = [source(rng, recipe.batch, recipe.length, behind) for _ in range(recipe.accumulate)]
        scored = sum(int((batch.targets != IGNORE).sum()) for batch in batches)
        rate = learning_rate(run.step, recipe)
        for group in run.optimizer.param_groups:
            group["lr"] = rate
        model.train()
        how = with_dropout(recipe.dropout, recipe.seed, run.step, device)
        total = imbalance = 0.0
        for batch in batches:
            ids, targets = to_tensors(batch, device)
            with cast():
                losses = summed(model, ids, targets, how)
                loss, balance = losses if balanced else (losses, None)
                loss = loss / max(scored, 1)
            total += loss.item()
            if balance is not None:
                balance = balance / recipe.accumulate
                imbalance += balance.item()
                loss = loss + recipe.balance * balance
            loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), recipe.clip).item()
        run.optimizer.step()
        run.optimizer.zero_grad(set_to_none=True)
        run.step += 1
        run.tokens += sum(batch.ids.size for batch in batches)
        yield Report(run.step, total, rate, norm, run.tokens, time.perf_counter() - began, imbalance)


def to_tensors(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """Move a batch to the model's device: ids and targets, [B, T] each."""
    return torch.from_numpy(batch.ids).to(device), torch.from_numpy(batch.targets).to(device)


def summed_loss(model: Transformer, ids: Tensor, targets: Tensor, how: TrainingInputs = PLAIN) -> Tensor:
    """Compute the cross-entropy of the next token in nats, summed over the scored positions. ids and targets [B, T]"""
    return _summed(model.logits(model.trunk(ids, attend=how.attend, tap=how.tap)), targets)


def balanced_loss(
    model: Transformer, ids: Tensor, targets: Tensor, how: TrainingInputs = PLAIN
) -> tuple[Tensor, Tensor]:
    """Compute `summed_loss` of a mixture of experts, and the sum of its layers' load-balancing losses.

    Fedus et al. 2021, 2.2: "for each Switch layer, this auxiliary loss is added to the total model loss".
    """
    routers: dict[tuple[str, int], Tensor] = {}
    tap = compose(how.tap or identity, record(("router",), routers))
    logits = model.logits(model.trunk(ids, attend=how.attend, tap=tap))
    each = [balance_loss(router.flatten(0, 1), model.config.experts_per_token) for router in routers.values()]
    return _summed(logits, targets), torch.stack(each).sum()


def _summed(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORE, reduction="sum")


def uses_bfloat16(recipe: Recipe, device: torch.device) -> bool:
    """Return whether products run in bfloat16; "auto" times one product in each precision."""
    return recipe.precision == "bfloat16" or (recipe.precision == "auto" and _bfloat16_is_faster(device))


@functools.cache
def _bfloat16_is_faster(device: torch.device) -> bool:
    def seconds(dtype: torch.dtype) -> float:
        a = torch.ones(1024, 1024, dtype=dtype, device=device)
        best = math.inf
        for _ in range(3):
            began = time.perf_counter()
            (a @ a)[0, 0].item()
            best = min(best, time.perf_counter() - began)
        return best

    return seconds(torch.bfloat16) < 0.8 * seconds(torch.float32)


# --- evaluation -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evaluation:
    """Loss, accuracy and bits per byte on held-out tokens."""

    loss: float  # nats per scored token
    accuracy: float  # fraction of scored tokens that the model ranks first
    bits_per_byte: float  # NaN if the tokens have no bytes
    tokens: int  # number of scored tokens

    @property
    def perplexity(self) -> float:
        """The perplexity, exp(loss)."""
        return math.exp(min(self.loss, 700.0))


@torch.no_grad()
def evaluate(
    model: Transformer,
    held_out: HeldOut,
    token_bytes: np.ndarray,
    *,
    length: int,
    rows: int = 16,
    limit: int | None = None,
) -> Evaluation:
    """Measure loss, accuracy and bits per byte on at most `limit` held-out batches.

    Bits per byte is the summed loss of every scored token, the end of text included, over ln 2 and the bytes of these
    tokens' text: it does not depend on the vocabulary.
    """
    device, training = next(model.parameters()).device, model.training
    model.eval()
    loss, correct, scored, n_bytes = 0.0, 0, 0, 0
    for number, batch in enumerate(held_out(rows, length)):
        if number == limit:
            break
        ids, targets = to_tensors(batch, device)
        logits = model(ids).flatten(0, 1).float()
        flat = targets.flatten()
        loss += F.cross_entropy(logits, flat, ignore_index=IGNORE, reduction="sum").item()
        correct += int((logits.argmax(-1) == flat).sum())
        scored_targets = batch.targets[batch.targets != IGNORE]
        scored += scored_targets.size
        n_bytes += int(token_bytes[scored_targets].sum())
    model.train(training)
    bits = loss / math.log(2) / n_bytes if n_bytes else math.nan
    return Evaluation(loss / max(scored, 1), correct / max(scored, 1), bits, scored)


# --- checkpoints -----------------------------------------------------------------------------------


def save_checkpoint(path: Path, run: TrainingRun, recipe: Recipe) -> None:
    """Save the complete state of a run to a temporary file, which then replaces the old checkpoint."""
    state = {
        "config": to_dict(run.model.config),
        "recipe": dataclasses.asdict(recipe),
        "step": run.step,
        "tokens": run.tokens,
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
    }
    write_state(path, state)


def write_state(path: Path, state: dict) -> None:
    """Write a checkpoint to a temporary file, which then replaces the old one."""
    partial = path.with_suffix(".part")
    try:
        torch.save(state, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_checkpoint(path: Path, recipe: Recipe | None = None) -> tuple[TrainingRun, Recipe]:
    """Load a saved run, with its own recipe or a new one. Raises CheckpointError if the file does not contain a run."""
    with reading(path):
        state = read_state(path)
        recipe = recipe or Recipe(**state["recipe"])
        config = from_dict(state["config"])
        shapes = {name: tuple(tensor.shape) for name, tensor in skeleton(config).state_dict().items()}
        if {name: tuple(tensor.shape) for name, tensor in state["model"].items()} != shapes:  # before allocation
            raise ValueError("the weights do not fit the config")
        run = from_model(Transformer(config), recipe)
        run.model.load_state_dict(state["model"])
        go_on(run, state)
    return run, recipe


def read_state(path: Path) -> dict:
    """Read a file written by `write_state`; call it within `reading`, which reports errors in the file."""
    return torch.load(path, weights_only=True, map_location="cpu")


def go_on(run: TrainingRun, state: dict) -> None:
    """Restore a checkpoint's optimizer state, step and token count in a new run; options are taken from the recipe."""
    names = ("betas", "weight_decay")
    groups = [{name: group[name] for name in names if name in group} for group in run.optimizer.param_groups]
    run.optimizer.load_state_dict(state["optimizer"])
    for group, options in zip(run.optimizer.param_groups, groups, strict=True):
        group.update(options)  # taken from the recipe, not from the file
    run.step, run.tokens = int(state["step"]), int(state["tokens"])


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise CheckpointError if reading the file within this context fails."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise CheckpointError("There is no checkpoint to continue from.", path.name, "Start the run again.") from None
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, EOFError, AttributeError) as error:
        raise CheckpointError("The checkpoint cannot be read.", str(error)[:80], "Start the run again.") from error
    except Exception as error:  # torch raises its own exception type for a damaged pickle
        raise CheckpointError("The checkpoint cannot be read.", type(error).__name__, "Start the run again.") from error
