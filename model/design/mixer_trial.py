"""Comparison of mixers on one task: scores, training curves, and the cost of decoding.

The models differ in the mixer alone; the width of the MLP compensates for the number of parameters in the mixer.
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

MIXERS = ("softmax", "sliding_window", "linear", "retention", "delta", "mamba", "mamba2")
TASKS = (
    "induction",
    "recall",
    "copy",
    "selective_copy",
    "counting",
    "regression",
)  # tasks whose examples have several sizes
LAYERS, WIDTH, HEADS, MLP = 2, 64, 4, 96
WINDOW = 8  # number of tokens visible in the sliding window
LENGTHS = {"recall": 40, "induction": 32, "copy": 33, "selective_copy": 40, "counting": 32, "regression": 47}
ROWS = 32  # batch size
JUDGED = 128  # number of evaluated rows at each size
SIZES = 6  # maximum number of sizes at which a model is evaluated
DECODED = (64, 256, 1024)  # numbers of tokens in the cache before the timed decode steps
TIMED = 24  # number of timed decode steps; their median is reported


@public(task=one_of(TASKS), steps=whole(1, 1_000_000), rate=above(0, 10), seeds=whole(1, 1024))
@dataclass(frozen=True)
class MixerTrial:
    """Settings of a comparison of mixers. Raises InputError for fewer than two mixers and for unknown names."""

    mixers: tuple[str, ...] = ("softmax", "sliding_window", "linear", "delta")
    task: str = "induction"
    steps: int = 500
    rate: float = 5e-3  # peak learning rate
    seeds: int = 3

    def __post_init__(self) -> None:
        unknown = [name for name in self.mixers if name not in MIXERS]
        if unknown or len(set(self.mixers)) < 2:
            got = ", ".join(unknown or self.mixers)
            raise InputError("A comparison needs at least two mixers.", got, say("Choose from: {}.", ", ".join(MIXERS)))

    @property
    def length(self) -> int:
        """Number of tokens per row."""
        return LENGTHS[self.task]


@dataclass(frozen=True, eq=False)
class Learned:
    """Losses and scores of one training run."""

    losses: np.ndarray  # [steps] nats per scored token, on the step's batch
    scores: np.ndarray  # [S] accuracy at each size; for `regression`, the squared error


@dataclass(frozen=True, eq=False)
class DecodeCost:
    """Cost of decoding, measured on one of the compared models. Both arrays have one entry per length in DECODED."""

    nbytes: np.ndarray  # bytes of keys, values and states after DECODED tokens
    seconds: np.ndarray  # median seconds of the next decode step


@dataclass(frozen=True, eq=False)
class Comparison:
    """The results of all mixers: M mixers in the order of `trial.mixers`, R seeds, S sizes."""

    trial: MixerTrial
    sizes: tuple[int, ...]  # number of pairs, letters, or preceding points
    scores: np.ndarray  # [M, R, S], as in Learned
    losses: np.ndarray  # [M, R, steps], as in Learned
    n_params: tuple[int, ...]  # [M] number of parameters
    nbytes: np.ndarray  # [M, DECODED], as in DecodeCost
    seconds: np.ndarray  # [M, DECODED], as in DecodeCost
    reference: np.ndarray | None  # [S] squared error of ridge regression on the same rows; only for `regression`
    chance: float | None  # accuracy of a random guess among the possible answers; None for `regression`

    @property
    def is_error(self) -> bool:
        """True if a lower score is better, as for the squared error of `regression`."""
        return self.trial.task == "regression"


@dataclass(frozen=True)
class MixerVerdict:
    """The two best mixers over all sizes, and whether the lead exceeds the range over seeds."""

    best: str
    second: str
    first_score: float  # mean score over seeds and sizes
    second_score: float
    spread: float  # the larger of the two ranges over seeds
    clear: bool  # whether the difference exceeds `spread`

    @property
    def difference(self) -> float:
        """Absolute difference between the scores of the best mixer and the second-best."""
        return abs(self.first_score - self.second_score)


@public()
def verdict(found: Comparison) -> MixerVerdict:
    """Return the two mixers with the best mean score over all sizes and seeds."""
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

    The MLP width is the one with which the number of parameters is closest to that of the softmax model.
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
    """Return the sizes at which a model is evaluated: evenly spaced, up to the largest that fits in a row."""
    if trial.task == "regression":  # all rows have one size, and each of their points is scored
        return tuple(range(recall_tasks.most_points(trial.length)))
    sizes = _sizes(trial)
    least, most = max(sizes.least(trial.length), 1), sizes.most(trial.length)
    return tuple(sorted({round(each) for each in np.linspace(least, most, SIZES)}))


def _sizes(trial: MixerTrial) -> TaskSizes:
    sizes = task(trial.task).sizes
    assert sizes is not None
    return sizes


def learn(trial: MixerTrial, mixer: str, seed: int, tell: Callable[[int], None] = lambda done: None) -> Learned:
    """Train one model and evaluate it, calling `tell` after every step. For a given seed, every mixer is trained on the
    same batches.
    """
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
    """Return the accuracy over the scored tokens at each size, or for `regression` the mean squared error. [S]"""
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
    """Return the rows of `regression` on which every model is evaluated. [4 JUDGED, T + 1]"""
    return task(trial.task).make(np.random.default_rng(1), 4 * JUDGED, trial.length, True)[0]


def _regression_errors(model: Transformer, ids: np.ndarray) -> np.ndarray:
    """Return the mean squared error of the predicted distribution's mean, by number of preceding points. [S]"""
    numbers = len(recall_tasks.NUMBERS)
    width = recall_tasks.DIMENSIONS + 1
    places = np.arange(recall_tasks.DIMENSIONS - 1, ids.shape[1] - 1, width)  # the last input of each point
    logits = model(torch.from_numpy(ids[:, :-1].astype(np.int64)))[:, places, :numbers]
    predicted = (logits.softmax(-1).numpy() * recall_tasks.value_of(np.arange(numbers))).sum(-1)
    return ((predicted - recall_tasks.value_of(ids[:, places + 1])) ** 2).mean(0)


# --- decoding ---


@torch.inference_mode()
def cost(mixer: str, task_name: str, tell: Callable[[int], None] = lambda done: None) -> DecodeCost:
    """Measure the bytes in the cache after each of DECODED tokens, and the median seconds of a decode step there.

    The batch size is 1, on one thread, with a newly initialized model.
    """
    config = dataclasses.replace(config_of(mixer, task_name), n_ctx=max(DECODED) + TIMED)  # room for the decoded tokens
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
    """Return the parts of a comparison as pairs of a function and its arguments,
    in the order that `together` expects.
    """
    learned = [(learn, (trial, mixer, seed)) for mixer in trial.mixers for seed in range(trial.seeds)]
    return [*learned, *((cost, (mixer, trial.task)) for mixer in trial.mixers)]


def together(trial: MixerTrial, values: Sequence[Learned | DecodeCost]) -> Comparison:
    """Build the comparison from the results of its parts."""
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
    """Return the number of possible answers among which a random guess chooses."""
    letters = {"recall": recall_tasks.KEYS, "induction": n_symbols, "counting": len(recall_tasks.NUMBERS)}
    return letters.get(task_name, 26)


@public()
def compare(trial: MixerTrial, progress: Progress = silent) -> Comparison:
    """Run all parts of a comparison sequentially, in this process and on one thread. The page distributes them over
    processes.
    """
    values, parts = [], parts_of(trial)
    with one_thread():
        for number, (function, arguments) in enumerate(parts):

            def tell(done: int, before: int = number * trial.steps) -> None:
                progress(before + done, trial.steps * len(parts), "")

            values.append(function(*arguments, tell))
    return together(trial, values)
