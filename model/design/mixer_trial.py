"""Comparison of mixers on one task: their scores, their training curves, and the cost of decoding with each.

The models differ in the mixer alone; the width of the MLP compensates for a mixer's larger or smaller number of
parameters.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from model.design.block_trials import one_thread
from model.errors import InputError, say
from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.transformer import Transformer
from model.loading.convert import skeleton
from model.progress import Progress, silent
from model.public import above, one_of, public, whole
from model.training import recall_tasks
from model.training.data import task_dataset
from model.training.loop import Recipe, start, steps
from model.training.tasks import TaskSizes, task

MIXERS = ("softmax", "sliding_window", "linear", "retention", "delta", "mamba")
TASKS = (
    "induction",
    "recall",
    "copy",
    "selective_copy",
    "counting",
    "regression",
)  # tasks with examples of several sizes
LAYERS, WIDTH, HEADS, MLP = 2, 64, 4, 96
WINDOW = 8  # tokens visible in the sliding window
LENGTHS = {"recall": 40, "induction": 32, "copy": 33, "selective_copy": 40, "counting": 32, "regression": 47}
ROWS = 32  # of a batch
JUDGED = 128  # rows at each size
SIZES = 6  # maximum number of sizes at which a model is evaluated
DECODED = (64, 256, 1024)  # tokens before the timed decode steps
TIMED = 24  # timed decode steps; their median is reported


@public(task=one_of(TASKS), steps=whole(1, 1_000_000), rate=above(0, 10), seeds=whole(1, 1024))
@dataclass(frozen=True)
class MixerTrial:
    """Settings of a comparison. Raises InputError for fewer than two mixers and for unknown names."""

    mixers: tuple[str, ...] = ("softmax", "sliding_window", "linear", "delta")
    task: str = "induction"
    steps: int = 500
    rate: float = 5e-3  # the largest learning rate
    seeds: int = 3

    def __post_init__(self) -> None:
        unknown = [name for name in self.mixers if name not in MIXERS]
        if unknown or len(set(self.mixers)) < 2:
            got = ", ".join(unknown or self.mixers)
            raise InputError("A comparison needs at least two mixers.", got, say("Choose from: {}.", ", ".join(MIXERS)))

    @property
    def length(self) -> int:
        """Tokens per row."""
        return LENGTHS[self.task]


@dataclass(frozen=True, eq=False)
class Learned:
    """Results of one training run."""

    losses: np.ndarray  # [steps] nats per scored token, on the step's batch
    scores: np.ndarray  # [S] accuracy, or the squared error of regression, at each size


@dataclass(frozen=True, eq=False)
class DecodeCost:
    """Cost of decoding, measured on a model of the comparison. [DECODED] each"""

    nbytes: np.ndarray  # bytes of keys, values and states after DECODED tokens
    seconds: np.ndarray  # of the next token


@dataclass(frozen=True, eq=False)
class Comparison:
    """The training runs of all mixers. M mixers in the order of `trial.mixers`, R seeds, S sizes."""

    trial: MixerTrial
    sizes: tuple[int, ...]  # pairs, letters, or points before the predicted one
    scores: np.ndarray  # [M, R, S]
    losses: np.ndarray  # [M, R, steps]
    n_params: tuple[int, ...]  # [M]
    nbytes: np.ndarray  # [M, DECODED]
    seconds: np.ndarray  # [M, DECODED]
    reference: np.ndarray | None  # [S] squared error of ridge regression on the same rows; None for other tasks
    chance: float | None  # accuracy of a random guess among the possible answers; None for regression

    @property
    def is_error(self) -> bool:
        """True if lower is better: the score of regression is a squared error."""
        return self.trial.task == "regression"


@dataclass(frozen=True)
class MixerVerdict:
    """The best mixer over all sizes, and whether its lead exceeds the spread over seeds."""

    best: str
    second: str
    first_score: float  # mean over seeds and sizes
    second_score: float
    spread: float  # the larger range of the two over seeds
    clear: bool  # whether the difference exceeds that range

    @property
    def difference(self) -> float:
        """Difference between the best mixer and the second."""
        return abs(self.first_score - self.second_score)


@public()
def verdict(found: Comparison) -> MixerVerdict:
    """Return the two best mixers by their mean over all sizes and seeds."""
    by_seed = found.scores.mean(-1)  # [M, R]
    means, ranges = by_seed.mean(-1), np.ptp(by_seed, axis=-1)
    order = np.argsort(means if found.is_error else -means, kind="stable")
    first, second = int(order[0]), int(order[1])
    spread = float(max(ranges[first], ranges[second]))
    gap = abs(float(means[first] - means[second]))
    names = found.trial.mixers
    return MixerVerdict(names[first], names[second], float(means[first]), float(means[second]), spread, gap > spread)


# --- the models ---


def config_of(mixer: str, task_name: str) -> ModelConfig:
    """Return the config of a mixer's model: RMSNorm, SwiGLU, no biases, and learned positions.

    The width of the MLP is chosen so that the number of parameters comes closest to that of softmax attention.
    """
    wanted = _count(_shape("softmax", task_name, MLP))
    width = MLP
    while _count(_shape(mixer, task_name, width)) > wanted and width > 1:
        width -= 1
    while _count(_shape(mixer, task_name, width + 1)) <= wanted:
        width += 1
    below, above = (_shape(mixer, task_name, each) for each in (width, width + 1))
    return below if wanted - _count(below) <= _count(above) - wanted else above


def _shape(mixer: str, task_name: str, mlp: int) -> ModelConfig:
    none = dict.fromkeys(("mlp_bias", "q_bias", "k_bias", "v_bias", "o_bias", "norm_bias", "tie_embeddings"), False)
    return ModelConfig(
        vocab_size=len(task(task_name).symbols),
        n_ctx=LENGTHS[task_name],
        n_layer=LAYERS,
        d_model=WIDTH,
        n_head=HEADS,
        d_mlp=mlp,
        norm="rmsnorm",
        positions="learned",
        mlp="swiglu",
        mixer=mixer,
        window=WINDOW if mixer == "sliding_window" else None,
        **none,
    )


def _count(config: ModelConfig) -> int:
    return sum(parameter.numel() for parameter in skeleton(config).parameters())


# --- one training ---


def sizes_of(trial: MixerTrial) -> tuple[int, ...]:
    """Return the sizes at which a model is evaluated: evenly spaced, the last one the largest that fits into a row."""
    if trial.task == "regression":  # each row of regression has one size, and each of its points is scored
        return tuple(range(recall_tasks.most_points(trial.length)))
    sizes = _sizes(trial)
    least, most = max(sizes.least(trial.length), 1), sizes.most(trial.length)
    return tuple(sorted({round(each) for each in np.linspace(least, most, SIZES)}))


def _sizes(trial: MixerTrial) -> TaskSizes:
    sizes = task(trial.task).sizes
    assert sizes is not None
    return sizes


def learn(trial: MixerTrial, mixer: str, seed: int, tell: Callable[[int], None] = lambda done: None) -> Learned:
    """Train one model and evaluate it, calling `tell` after every step. Every mixer sees the same batches of a seed."""
    recipe = Recipe(
        steps=trial.steps,
        batch=ROWS,
        length=trial.length,
        learning_rate=trial.rate,
        schedule="trapezoid",
        decay=0.3,
        warmup=min(20, trial.steps),
        beta2=0.98,
        weight_decay=0.0,
        seed=seed,
    )
    run, losses = start(config_of(mixer, trial.task), recipe), []
    for report in steps(run, recipe, task_dataset(trial.task, task(trial.task)).train):
        losses.append(report.loss)
        tell(report.step)
    return Learned(np.array(losses), scores(run.model, trial))


@torch.no_grad()
def scores(model: Transformer, trial: MixerTrial) -> np.ndarray:
    """Return the accuracy over the scored tokens at each size; for regression the mean squared error. [S]"""
    model.eval()
    if trial.task == "regression":
        return _regression_errors(model, judged_rows(trial))
    out = []
    for size in sizes_of(trial):
        ids, scored = _sizes(trial).at(np.random.default_rng([1, size]), np.full(JUDGED, size), trial.length)
        right = model(torch.from_numpy(ids[:, :-1])).argmax(-1).numpy() == ids[:, 1:]
        out.append(right[scored].mean())
    return np.array(out)


def judged_rows(trial: MixerTrial) -> np.ndarray:
    """Return the rows of regression on which every model is evaluated. [4 JUDGED, T + 1]"""
    return task(trial.task).make(np.random.default_rng(1), 4 * JUDGED, trial.length, True)[0]


def _regression_errors(model: Transformer, ids: np.ndarray) -> np.ndarray:
    """Return the mean squared error of the mean of the predicted distribution, by number of preceding points. [S]"""
    numbers = len(recall_tasks.NUMBERS)
    width = recall_tasks.DIMENSIONS + 1
    places = np.arange(recall_tasks.DIMENSIONS - 1, ids.shape[1] - 1, width)  # the last input of each point
    logits = model(torch.from_numpy(ids[:, :-1].astype(np.int64)))[:, places, :numbers]
    predicted = (logits.softmax(-1).numpy() * recall_tasks.value_of(np.arange(numbers))).sum(-1)
    return ((predicted - recall_tasks.value_of(ids[:, places + 1])) ** 2).mean(0)


# --- decoding ---


@torch.inference_mode()
def cost(mixer: str, task_name: str, tell: Callable[[int], None] = lambda done: None) -> DecodeCost:
    """Measure the cached bytes after DECODED tokens and the median time of a decode step there: batch size 1, one
    thread, new weights.
    """
    config = dataclasses.replace(config_of(mixer, task_name), n_ctx=max(DECODED) + TIMED)  # with more positions
    model, nbytes, seconds = Transformer(config).eval(), [], []
    for tokens in DECODED:
        held = KVCache.empty(config, 1, tokens)
        model(torch.zeros(1, tokens, dtype=torch.long), cache=held)
        nbytes.append(held.nbytes)
        cache = KVCache.empty(config, 1, tokens + TIMED)
        model(torch.zeros(1, tokens, dtype=torch.long), cache=cache)
        one, times = torch.zeros(1, 1, dtype=torch.long), []
        for _ in range(TIMED):
            began = time.perf_counter()
            model(one, cache=cache)
            times.append(time.perf_counter() - began)
        seconds.append(float(np.median(times)))
    return DecodeCost(np.array(nbytes), np.array(seconds))


# --- all together ---


def parts_of(trial: MixerTrial) -> list[tuple[Callable[..., Learned | DecodeCost], tuple]]:
    """Return the work of a comparison as calls, in the order that `together` expects for their values."""
    learned = [(learn, (trial, mixer, seed)) for mixer in trial.mixers for seed in range(trial.seeds)]
    return [*learned, *((cost, (mixer, trial.task)) for mixer in trial.mixers)]


def together(trial: MixerTrial, values: Sequence[Learned | DecodeCost]) -> Comparison:
    """Build the comparison from the values of its parts."""
    M, R = len(trial.mixers), trial.seeds
    learned, costs = values[: M * R], values[M * R :]
    first = task(trial.task)
    reference = None
    if trial.task == "regression":
        reference = recall_tasks.ridge_errors(judged_rows(trial)).mean(0)
    return Comparison(
        trial,
        sizes_of(trial),
        np.stack([each.scores for each in learned]).reshape(M, R, -1),
        np.stack([each.losses for each in learned]).reshape(M, R, -1),
        tuple(_count(config_of(mixer, trial.task)) for mixer in trial.mixers),
        np.stack([each.nbytes for each in costs]),
        np.stack([each.seconds for each in costs]),
        reference,
        None if reference is not None else 1 / answers(trial.task, len(first.symbols)),
    )


def answers(task_name: str, n_symbols: int) -> int:
    """Return the number of possible answers, from which a random guess chooses."""
    letters = {"recall": recall_tasks.KEYS, "induction": n_symbols, "counting": len(recall_tasks.NUMBERS)}
    return letters.get(task_name, 26)


@public()
def compare(trial: MixerTrial, progress: Progress = silent) -> Comparison:
    """Run all parts of a comparison one after the other, in this process and on one thread. The page spreads them over
    processes.
    """
    values, parts = [], parts_of(trial)
    with one_thread():
        for number, (function, arguments) in enumerate(parts):

            def tell(done: int, before: int = number * trial.steps) -> None:
                progress(before + done, trial.steps * len(parts), "")

            values.append(function(*arguments, tell))
    return together(trial, values)
