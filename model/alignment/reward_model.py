"""A reward model: a scalar score of a text, learned from preference pairs.

The reward is a linear function of the model's last hidden state, h_T after the final norm at the last token of the
text: r = w . h_T + b. The probability that text c is chosen over text d is sigma(r_c - r_d) (Bradley & Terry 1952), so
the loss of a pair is -log sigma(r_chosen - r_rejected) (Ouyang et al. 2022, equation 1).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.alignment.preferences import Pair, Split
from model.api import LanguageModel
from model.arguments import check_token
from model.errors import CheckpointError, InputError, say
from model.gpt.mixers.needs import need_next
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build
from model.progress import Progress, silent
from model.public import MOST_SEED, array, between, check_alike, public, whole, without_checks
from model.tracing.trace import check_length
from model.training.forward import attend_rows

MOST_BATCH_TOKENS = 4096  # maximum tokens of one forward pass, padding included
BINS = 5  # number of bins of the calibration, between probabilities of 1/2 and 1


@dataclass(frozen=True, eq=False)
class RewardModel:
    """A model with a scalar head: r = weight . h + bias at the last token of a text."""

    model: Transformer  # its unembedding is not used
    weight: Tensor  # [D]
    bias: Tensor  # []

    def score_ids(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Compute the reward of each text at its last token, without gradients. float32 [n]

        Raises InputError for an empty text, one longer than the context length, and ids outside the vocabulary.
        """
        return last_states(self.model, texts) @ self.weight + self.bias

    @torch.no_grad()
    def along(self, ids: Sequence[int]) -> Tensor:
        """Compute the reward after each token of a text, as if it ended there. float32 [T]; the last value equals
        `score_ids`.
        """
        _check(self.model, ids)
        return self.model.normed(self.model.trunk(torch.tensor([list(ids)])))[0] @ self.weight + self.bias

    @property
    def nbytes(self) -> int:
        """Size of all parameters, in bytes."""
        return self.weight.nbytes + self.bias.nbytes + sum(each.nbytes for each in self.model.parameters())


@public(
    steps=whole(1, 100_000),
    batch=whole(1, 1024),
    learning_rate=between(0, 1),
    weight_decay=between(0, 100),
    held_out=between(0.01, 0.9),
    seed=whole(0, MOST_SEED),
)
@dataclass(frozen=True)
class RewardRecipe:
    """Settings of the training. Raises InputError for a value out of range."""

    body: bool = False  # whether the complete model is trained, or only the head
    steps: int = 40
    batch: int = 16  # pairs per step
    learning_rate: float = 0.0  # 0: 1e-2 for the head alone, 6e-4 for the complete model
    weight_decay: float = 0.1
    held_out: float = 0.25  # fraction of the pairs
    seed: int = 0

    @property
    def rate(self) -> float:
        """The given learning rate, or the default if it is 0."""
        return self.learning_rate or (6e-4 if self.body else 1e-2)


@dataclass(frozen=True)
class Look:
    """Losses and accuracies of the reward model at one evaluation."""

    step: int
    loss: float  # mean over training pairs, in nats per pair
    accuracy: float  # fraction of these pairs whose chosen text has the higher reward; a tie counts one half
    held_out_loss: float
    held_out_accuracy: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """Reliability by bins of the predicted probability: are predictions of 80% right for 80 of 100 held-out pairs?"""

    edges: np.ndarray  # [bins + 1] float64, from 0.5 to 1
    predicted: np.ndarray  # [bins] mean predicted probability; NaN for an empty bin
    agreed: np.ndarray  # [bins] fraction of pairs whose predicted text was the chosen one; NaN for an empty bin
    counts: np.ndarray  # [bins] number of pairs; int64


# --- states and loss ---------------------------------------------------------------------------------


@torch.no_grad()
def last_states(model: Transformer, texts: Sequence[Sequence[int]], progress: Progress = silent) -> Tensor:
    """Compute the final norm's output at the last token of each text. float32 [n, D]; `progress` counts texts.

    Texts of similar length are batched and right-padded; by causality, no token attends to the padding.
    """
    for ids in texts:
        _check(model, ids)
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    states = torch.empty(len(texts), model.config.d_model)
    done = 0
    for chosen in _batches(order, texts):
        states[chosen] = _states(model, [texts[at] for at in chosen])
        done += len(chosen)
        progress(done, len(texts), "")
    return states


@public(chosen=array(), rejected=array())
def pair_loss(chosen: Tensor, rejected: Tensor) -> Tensor:
    """Compute the mean of -log sigma(r_chosen - r_rejected) over the pairs, in nats; ln 2 if both rewards are equal.
    [n], [n] -> []
    """
    check_alike(chosen=chosen, rejected=rejected)
    return -F.logsigmoid(chosen - rejected).mean()


_loss = without_checks(pair_loss)  # without checks: the training reports non-finite values itself


@public(margins=array("n", empty=True))
def accuracy(margins: np.ndarray) -> float:
    """Compute the fraction of pairs with a positive margin r_chosen - r_rejected; a tie counts one half. NaN if there
    are no pairs. [n]
    """
    return float((margins > 0).mean() + 0.5 * (margins == 0).mean()) if len(margins) else float("nan")


@public(margins=array("n", empty=True), bins=whole(1))
def calibration(margins: np.ndarray, bins: int = BINS) -> Calibration:
    """Compare the predicted probability sigma(|margin|) with the observed fraction of agreement. [n]

    The bins are those of a reliability diagram (DeGroot & Fienberg 1983), here from 1/2 to 1: the predicted text is the
    one with the higher reward. A pair with equal rewards counts as agreement with weight one half.
    """
    edges = np.linspace(0.5, 1, bins + 1)
    probability = 1 / (1 + np.exp(-np.abs(margins.astype(np.float64))))
    agreed = np.where(margins > 0, 1.0, np.where(margins == 0, 0.5, 0.0))
    of = np.minimum(np.searchsorted(edges, probability, "right") - 1, bins - 1)
    counts = np.bincount(of, minlength=bins)
    means = np.full((2, bins), np.nan)
    for row, values in zip(means, (probability, agreed), strict=True):
        row[counts > 0] = np.bincount(of, values, bins)[counts > 0] / counts[counts > 0]
    return Calibration(edges, means[0], means[1], counts.astype(np.int64))


def _states(model: Transformer, texts: Sequence[Sequence[int]], train: bool = False) -> Tensor:
    """Compute the last states of one batch, with gradients if enabled. [n, D]"""
    ends = torch.tensor([len(ids) - 1 for ids in texts])
    ids = torch.zeros(len(texts), int(ends.max()) + 1, dtype=torch.long)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = torch.tensor(list(text))
    stream = model.trunk(ids, attend=attend_rows if train else None)  # [n, T, D]
    return model.normed(stream[torch.arange(len(texts)), ends][:, None])[:, 0]


def _batches(order: Sequence[int], texts: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield batches of consecutive elements of `order`, which is sorted by length, each with at most MOST_BATCH_TOKENS
    tokens.
    """
    batch: list[int] = []
    for at in order:
        if batch and (len(batch) + 1) * len(texts[at]) > MOST_BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


def _check(model: Transformer, ids: Sequence[int]) -> None:
    check_length(len(ids), model.config.n_ctx)
    for token in ids:
        check_token(token, model.config.vocab_size)


# --- training ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trained:
    """A reward model with its training curves and held-out margins."""

    reward: RewardModel
    looks: tuple[Look, ...]
    margins: np.ndarray  # r_chosen - r_rejected of the held-out pairs, in the same order; float32 [n]
    dropped: int  # pairs that do not fit into the context


def pair_ids(lm: LanguageModel, pairs: Sequence[Pair]) -> list[tuple[list[int], list[int]]]:
    """Tokenize prompt + chosen and prompt + rejected text of the pairs that fit into the context."""
    both = [
        tuple(lm.encode(pair.prompt + text).ids.tolist() for text in (pair.chosen, pair.rejected)) for pair in pairs
    ]
    return [(chosen, rejected) for chosen, rejected in both if max(len(chosen), len(rejected)) <= lm.config.n_ctx]


@public()
def train(lm: LanguageModel, parts: Split, recipe: RewardRecipe, progress: Progress = silent) -> Trained:
    """Train a reward model on pairs; the language model itself is unchanged.

    The bias does not affect the loss. As in Ouyang et al. 2022, section 3.5, it is set after training so that rewards
    have mean 0, there over demonstrations, here over the training texts. `progress` counts steps. Raises InputError if
    no pair fits into the context, CheckpointError if the loss is not finite.
    """
    need_next(lm.config)
    rows, held = pair_ids(lm, parts.train), pair_ids(lm, parts.held_out)
    if not rows or not held:
        raise InputError("No pair fits into the context.", "", say("{} tokens fit.", lm.config.n_ctx))
    fit = _fit_body if recipe.body else _fit_head
    reward, looks, margins = fit(lm.model, rows, held, recipe, progress)
    _check_finite(torch.from_numpy(margins))  # the last step may also have diverged
    dropped = len(parts.train) + len(parts.held_out) - len(rows) - len(held)
    return Trained(reward, tuple(looks), margins, dropped)


Rows = Sequence[tuple[list[int], list[int]]]


def _fit_head(model: Transformer, rows: Rows, held: Rows, recipe: RewardRecipe, progress: Progress) -> tuple:
    """Train only the head: the states are computed once, and each evaluation covers all pairs."""
    texts = [ids for pair in (*rows, *held) for ids in pair]

    def report(done: int, total: int | None, what: str) -> None:
        progress(recipe.steps * done // (2 * (total or 1)), recipe.steps, what)  # takes about half of the time

    states = last_states(model, texts, report).view(-1, 2, model.config.d_model)  # [pairs, 2, D]
    scale = _deviations(states[: len(rows)].flatten(0, 1))
    scaled = (states[:, 0] - states[:, 1]) / scale  # [pairs, D]
    fit, test = scaled[: len(rows)], scaled[len(rows) :]
    weight = torch.zeros(model.config.d_model, requires_grad=True)
    optimizer = torch.optim.AdamW([weight], lr=recipe.rate, weight_decay=recipe.weight_decay)
    looks = [_look(0, (fit @ weight).detach(), (test @ weight).detach())]
    for step in range(recipe.steps):
        _set_rate(optimizer, recipe, step)
        margins = fit[_drawn(len(rows), recipe, step)] @ weight
        _descend(optimizer, _loss(margins, torch.zeros_like(margins)))
        looks.append(_look(step + 1, (fit @ weight).detach(), (test @ weight).detach()))
        progress((recipe.steps + step + 1) // 2, recipe.steps, "")
    head = weight.detach() / scale
    bias = -(states[: len(rows)].flatten(0, 1) @ head).mean()
    margins = (states[len(rows) :, 0] - states[len(rows) :, 1]) @ head
    return RewardModel(model, head, bias), looks, margins.numpy()


def _deviations(states: Tensor) -> Tensor:
    """Compute the standard deviation of each dimension, by which the states are divided during training. [N, D] -> [D]

    Without this scaling, dimensions with a small variance would learn slowly. If a dimension varies only by rounding,
    relative to its magnitude, its deviation is set to infinity and it learns nothing.
    """
    exact = states.double()
    deviation = exact.std(0, correction=0)
    rounding = 4 * torch.finfo(states.dtype).eps * exact.abs().amax(0)
    return torch.where(deviation <= rounding, torch.inf, deviation).to(states.dtype)


def _fit_body(model: Transformer, rows: Rows, held: Rows, recipe: RewardRecipe, progress: Progress) -> tuple:
    """Train head and body together, on a copy of the model, with about ten evaluations."""
    body = copied(model)
    weight = torch.zeros(model.config.d_model, requires_grad=True)
    parameters = [*body.parameters()]
    for parameter in parameters:
        parameter.requires_grad_(True)
    optimizer = torch.optim.AdamW(
        [weight, *parameters], lr=recipe.rate, betas=(0.9, 0.95), weight_decay=recipe.weight_decay
    )
    every = max(1, recipe.steps // 10)
    looks = []

    def look(step: int) -> np.ndarray:
        fit, test = (_margins(body, weight.detach(), each) for each in (rows[: 4 * recipe.batch], held))
        looks.append(_look(step, fit, test))
        return test.numpy()

    margins = look(0)
    for step in range(recipe.steps):
        _set_rate(optimizer, recipe, step)
        chosen = [rows[at] for at in _drawn(len(rows), recipe, step)]
        rewards = _states(body, [ids for pair in chosen for ids in pair], train=True) @ weight  # [2 n]
        _descend(optimizer, _loss(rewards[::2], rewards[1::2]), [weight, *parameters])
        progress(step + 1, recipe.steps, "")
        if (step + 1) % every == 0 or step + 1 == recipe.steps:
            margins = look(step + 1)
    for parameter in parameters:
        parameter.requires_grad_(False)
    head = weight.detach()
    bias = -(last_states(body, [ids for pair in rows for ids in pair]) @ head).mean()
    return RewardModel(body, head, bias), looks, margins


def copied(model: Transformer) -> Transformer:
    """Return a copy with its own weights, without the matrices that were fused for speed."""
    state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    if model.config.tie_embeddings:
        del state["unembed.weight"]
    return build(model.config, state)


def _margins(model: Transformer, weight: Tensor, rows: Rows) -> Tensor:
    rewards = last_states(model, [ids for pair in rows for ids in pair]) @ weight
    return rewards[::2] - rewards[1::2]


def _drawn(n: int, recipe: RewardRecipe, step: int) -> np.ndarray:
    """Return the indices of a step's pairs; the permutation of each epoch depends only on the seed and the epoch."""
    batch = min(recipe.batch, n)
    per_epoch = n // batch
    order = np.random.default_rng([recipe.seed, step // per_epoch]).permutation(n)
    return order[step % per_epoch * batch :][:batch]


def _set_rate(optimizer: torch.optim.Optimizer, recipe: RewardRecipe, step: int) -> None:
    """Set the learning rate: a linear warm-up over the first tenth of the steps, times a linear decay to a tenth."""
    share = (step + 1) / recipe.steps
    for group in optimizer.param_groups:
        group["lr"] = recipe.rate * min(1.0, 10 * share) * (1 - 0.9 * share)


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor, clipped: Sequence[Tensor] = ()) -> None:
    _check_finite(loss)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    if clipped:
        torch.nn.utils.clip_grad_norm_(clipped, 1.0)
    optimizer.step()


def _check_finite(numbers: Tensor) -> None:
    """Raise CheckpointError if the loss or the margins are no longer finite."""
    if not torch.isfinite(numbers).all():
        hint = "Choose a smaller learning rate."
        raise CheckpointError("The training diverged: its loss is no longer finite.", "", hint)


def _look(step: int, fit: Tensor, test: Tensor) -> Look:
    """Compute the losses and accuracies from training margins [n] and held-out margins [m]."""
    losses = [float(_loss(each, torch.zeros_like(each))) for each in (fit, test)]
    shares = [without_checks(accuracy)(each.numpy()) for each in (fit, test)]
    return Look(step, losses[0], shares[0], losses[1], shares[1])
