"""A small training run started on the page: its settings, their limits, and the snapshots taken during training."""

import functools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from model.attention.probes import probe_heads
from model.errors import CheckpointError, InputError, say
from model.generation.generate import generate
from model.generation.strategies import STRATEGIES, DecodingPlan
from model.gpt.config import ModelConfig, from_dict
from model.gpt.mixers.names import MIXERS
from model.gpt.transformer import Transformer
from model.records import Snapshot
from model.text.surrogates import joined
from model.tracing.patterns import patterns_and_logits
from model.training import data, loop
from model.training.data import Dataset
from model.training.jobs.running_job import RunningJob
from model.training.loop import Recipe, Report, TrainingRun
from model.training.tasks import TASKS, task

TEXT = "text"  # task name for training on the user's own text
# task names for training on a bundled text -> its file in model/texts_data
BUNDLED = {"shakespeare": "shakespeare.txt"}
TEXTS = (*BUNDLED, TEXT)
PROBE_TOKENS = 32  # maximum length of the probe in tokens
SNAPSHOTS = 60  # approximate number of snapshots per run
HYBRID = (
    "hybrid"  # alternates Mamba and softmax attention; in Jamba (Lieber et al. 2024), one layer in eight is attention
)
RUN_MIXERS = (*MIXERS, HYBRID)
WINDOW = 8  # default size of a sliding window in tokens
_TOP = 5  # number of predictions for each position of the probe
_SAMPLE_TOKENS = 48

RATES = (1e-6, 0.1)  # bounds of the learning rate
MOST_SEED = 1_000_000_000


@dataclass(frozen=True)
class Limits:
    """Upper limits for a job on this machine."""

    layers: int = 6
    width: int = 384
    heads: int = 8
    length: int = 256  # maximum sequence length in tokens
    batch: int = 64  # maximum batch size in sequences
    batch_tokens: int = 8192  # maximum number of tokens per step
    steps: int = 20_000
    vocabulary: int = 4096
    text_bytes: int = 5_000_000
    minutes: float = 20.0
    full_parameters: int = 30_000_000  # maximum number of parameters of a model in full fine-tuning
    adapted_parameters: int = 200_000_000  # maximum number of parameters of a model with adapters
    pause_minutes: float = math.inf  # maximum total duration of a run's pauses; the run ends when it is exceeded


@dataclass(frozen=True, kw_only=True)
class Job:
    """Settings of a run. `config` has fields of ModelConfig; the vocabulary is determined by the task or text."""

    task: str = "induction"  # a key of TASKS or one of TEXTS
    text: str = ""
    vocab_size: int = 512  # size of the vocabulary trained on a text
    characters: bool = False  # True if the tokens of a text are its characters, regardless of `vocab_size`
    probe: str = ""  # text of the probe; "" for an example of the task or the beginning of the held-out text
    zero_positions: bool = False  # True if learned positions begin at 0 instead of random numbers
    config: dict[str, object] = field(default_factory=dict)
    recipe: Recipe = field(default_factory=lambda: Recipe(steps=600, batch=32, length=64, warmup=50))
    minutes: float = 20.0


@dataclass(frozen=True, eq=False)
class Started:
    """Facts about a run, known once the data is ready."""

    n_params: int
    vocab_size: int
    n_layer: int
    n_head: int
    length: int
    ids: tuple[int, ...]  # token ids of the probe
    seconds: float  # time taken to prepare the data


# --- bounds --------------------------------------------------------------------------------------


def check(job: Job, limits: Limits) -> ModelConfig:
    """Return the config of the job's model, without its vocabulary. Raises InputError if a setting exceeds the
    limits.
    """
    recipe = job.recipe
    try:
        config = from_dict(
            {"vocab_size": 1, "n_ctx": recipe.length, "n_layer": 2, "d_model": 128, "n_head": 4} | job.config
        )
    except (CheckpointError, TypeError) as error:
        got = error.got if isinstance(error, CheckpointError) else str(error)
        raise InputError("These settings are not valid for a model.", got[:80], "Change the settings.") from error
    for what, value, low, high in (
        ("layers", config.n_layer, 1, limits.layers),
        ("width", config.d_model, 8, limits.width),
        ("heads", config.n_head, 1, limits.heads),
        ("MLP width", config.d_mlp, 1, 4 * limits.width),
        ("width of a head", config.d_head, 1, limits.width),
        ("tokens a row", recipe.length, 4, limits.length),
        ("window", config.window or 1, 1, limits.length),
        ("rows a step", recipe.batch, 1, limits.batch),
        ("steps", recipe.steps, 1, limits.steps),
        ("tokens a step", recipe.batch * recipe.length * recipe.accumulate, 1, limits.batch_tokens),
        ("warm-up steps", recipe.warmup, 0, limits.steps),
        ("minutes", job.minutes, 0.01, limits.minutes),
        ("learning rate", recipe.learning_rate, *RATES),
        ("seed", recipe.seed, 0, MOST_SEED),
    ):
        check_bounds(what, value, low, high)
    if job.task in TEXTS:
        _check_text(job, limits)
    else:
        chosen = task(job.task)
        if not chosen.shortest <= recipe.length <= chosen.longest:
            raise InputError(
                "This task needs another context length.",
                f"{recipe.length} tokens",
                say("Choose a value from {} to {}.", chosen.shortest, chosen.longest),
            )
    return config


def check_bounds(what: str, value: float, low: float, high: float) -> None:
    """Raise InputError if a value is outside the bounds of this server."""
    if not low <= value <= high:
        hint = say("Choose a value from {} to {}.", f"{low:g}", f"{high:g}")
        raise InputError("A setting is out of bounds on this server.", f"{what}: {value:g}", hint)


def _check_text(job: Job, limits: Limits) -> None:
    size = len(joined(text_of(job)).encode())
    if size > limits.text_bytes:
        raise InputError(
            "The text is too large for this server.",
            f"{size:,} bytes",
            say("At most {} bytes.", f"{limits.text_bytes:,}"),
        )
    if size < 2000:
        raise InputError("The text is too short for training.", f"{size} bytes", "Give a few pages of text.")
    if job.characters:
        check_bounds("characters", len(set(text_of(job))), 1, limits.vocabulary)
    elif not data.BYTES <= job.vocab_size <= limits.vocabulary:
        raise InputError(
            "A setting is out of bounds on this server.",
            f"vocabulary: {job.vocab_size}",
            say("Choose a value from {} to {}.", data.BYTES, limits.vocabulary),
        )


# --- the run ---------------------------------------------------------------------------------------


@functools.cache
def _bundled(name: str) -> str:
    return (Path(__file__).parents[2] / "texts_data" / BUNDLED[name]).read_text(encoding="utf-8")


def text_of(job: Job) -> str:
    """Return the training text, or "" for a synthetic task."""
    return _bundled(job.task) if job.task in BUNDLED else job.text


def open_dataset(job: Job) -> Dataset:
    """Build the dataset of the job."""
    if job.task in TEXTS:
        size = None if job.characters else job.vocab_size
        return data.text_dataset(text_of(job), size, seed=job.recipe.seed)
    return data.task_dataset(job.task, TASKS[job.task], seed=job.recipe.seed)


def begin(job: Job, limits: Limits) -> tuple[TrainingRun, Dataset, Started, Tensor]:
    """Create a new run, and return it with its data, its facts, and the ids of the probe [T]."""
    began = time.perf_counter()
    values = vars(check(job, limits))
    dataset = open_dataset(job)
    config = ModelConfig(**values | {"vocab_size": dataset.tokenizer.vocab_size, "n_ctx": job.recipe.length})
    run = loop.start(config, job.recipe)
    if job.zero_positions and run.model.pos_embed is not None:
        torch.nn.init.zeros_(run.model.pos_embed.weight)
    probe = probe_ids(job, dataset)
    count = sum(parameter.numel() for parameter in run.model.parameters())
    started = Started(
        count,
        config.vocab_size,
        config.n_layer,
        config.n_head,
        job.recipe.length,
        tuple(probe.tolist()),
        time.perf_counter() - began,
    )
    return run, dataset, started, probe


def open_job(job: Job, limits: Limits) -> RunningJob:
    """Open a job in the workshop process."""
    run, dataset, started, probe = begin(job, limits)
    return RunningJob(
        started,
        messages(run, dataset, job, probe),
        lambda: snapshot(run, dataset, job, probe),
        lambda: run.model,
        {"tokenizer.json": dataset.tokenizer_json},
    )


def name_of(job: Job) -> str:
    """Return the display name of the task or text."""
    return TASKS[job.task].label if job.task in TASKS else "Own text"


def probe_ids(job: Job, dataset: Dataset) -> Tensor:
    """Choose the ids of the probe. [T], 2 to PROBE_TOKENS"""
    longest = min(PROBE_TOKENS, job.recipe.length)
    if job.probe:
        ids = dataset.tokenizer.encode_ids(job.probe)[:longest]
        if len(ids) < 2:
            raise InputError("The text to replay is too short.", job.probe[:40], "Enter at least two tokens.")
        return torch.tensor(ids)
    if job.task in TEXTS:
        return torch.from_numpy(next(dataset.held_out["text"](1, longest)).ids[0])
    rng = np.random.default_rng([job.recipe.seed, 2])
    ids, _ = task(job.task).make(rng, 1, max(longest - 1, 1), True)
    return torch.from_numpy(ids[0].astype(np.int64))[:longest]


def messages(run: TrainingRun, dataset: Dataset, job: Job, probe: Tensor) -> Iterator[Report | Snapshot]:
    """Train to the end of the recipe, yielding a report per step and about SNAPSHOTS snapshots, the first before any
    step.
    """
    moments = snapshot_steps(job.recipe.steps)
    yield snapshot(run, dataset, job, probe)
    for report in loop.steps(run, job.recipe, dataset.train):
        yield report
        if report.step in moments:
            yield snapshot(run, dataset, job, probe)


def snapshot_steps(steps: int) -> set[int]:
    """Return the steps that are followed by a snapshot: evenly spaced, including the last."""
    every = max(1, round(steps / SNAPSHOTS))
    return {*range(every, steps + 1, every), steps}


@torch.no_grad()
def snapshot(run: TrainingRun, dataset: Dataset, job: Job, probe: Tensor) -> Snapshot:
    """Take a snapshot of the current model."""
    model, c = run.model, run.model.config
    model.eval()
    (held_out,) = dataset.held_out.values()
    scores = loop.evaluate(
        model, held_out, dataset.token_bytes, length=job.recipe.length, rows=job.recipe.batch, limit=4
    )
    patterns, logits = patterns_and_logits(model, probe)
    share = logits.softmax(-1)
    top = logits.topk(min(_TOP, logits.shape[-1]))
    pool = c.vocab_size - 1 if job.task in TEXTS else len(TASKS[job.task].symbols)
    heads = probe_heads(model, pool=pool, length=min(c.n_ctx, 64), sequences=4)
    square = {
        name: heads[name].to_numpy().reshape(c.n_layer, c.n_head)
        for name in ("previous_token", "induction", "induction_baseline")
    }
    bits = scores.bits_per_byte if job.task in TEXTS else math.nan  # the symbols of a task have no bytes of text
    prompt, written = sample(model, job, dataset, probe, run.step)
    return Snapshot(
        run.step,
        scores.loss,
        scores.accuracy,
        bits,
        patterns.numpy(),
        top.indices.numpy(),
        top.values.numpy(),
        share.gather(-1, top.indices).numpy(),
        share[:-1].gather(-1, probe[1:, None])[:, 0].numpy(),
        **square,
        sample=written,
        prompt=prompt,
    )


def sample(model: Transformer, job: Job, dataset: Dataset, probe: Tensor, step: int) -> tuple[int, tuple[int, ...]]:
    """Generate a sample: return the number of prompt ids, and these ids followed by the model's continuation.

    A text is continued by sampling at temperature 0.8; a task is answered greedily.
    """
    free = job.task in TEXTS
    prompt = probe[: max(2, len(probe) // 3)].tolist() if free else _question(job.task, dataset, probe.tolist())
    tokenizer = dataset.tokenizer
    count = _SAMPLE_TOKENS if free else max(1, len(probe) - len(prompt))
    ending = frozenset(tokenizer.special.values()) if free else frozenset()
    ticks = generate(
        model,
        prompt,
        [STRATEGIES["temperature" if free else "greedy"]],
        DecodingPlan(count, seed=step, ending=ending),
        tokenizer.vocab_size,
    )
    try:
        written = [token.id for tick in ticks for change in tick.changes for token in change.made]
    except CheckpointError:  # training diverged, and such a model generates nothing
        written = []
    return len(prompt), (*prompt, *written)


def _question(name: str, dataset: Dataset, ids: list[int]) -> list[int]:
    """Return the prompt part of an example of a task; the rest is the answer."""
    text = dataset.tokenizer.decode(ids)
    for sign in ("=", ">"):
        if sign in text and name != "induction":
            return ids[: ids.index(dataset.tokenizer.encode_ids(sign)[0]) + 1]
    return ids[: len(ids) // 2 + 1]
