"""A reinforcement learning run for the page: its settings, their limits, and its messages."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model.alignment.adapter_files import peft_files
from model.alignment.four_prompts import Story
from model.alignment.lora import Lora, count, learned, merged
from model.alignment.preferences import Pair
from model.alignment.reinforcement import learner as learning
from model.alignment.reinforcement.before_after import Look, look, probe_of
from model.alignment.reinforcement.course import ADAPTED_RATE, DEFAULTS, MOST_PROMPTS, CourseSettings
from model.alignment.reinforcement.learner import Learner
from model.alignment.reinforcement.pairs import PairRows, by_reward, from_texts
from model.alignment.reinforcement.presets import PRESETS, PROMPTS, by_model, by_rules
from model.alignment.reinforcement.run import Report, choose_best, steps
from model.alignment.reinforcement.texts import Answers, Reward, Task, task
from model.alignment.reward_folder import load_reward
from model.alignment.rewards import Rule, parse_rules
from model.api import LanguageModel, load_resolved
from model.errors import Astray, CheckpointError, InputError, say
from model.free_memory import keep_freed_memory
from model.gpt.transformer import Transformer
from model.loading.sources import Resolved
from model.loading.vocabulary_export import vocabulary_files
from model.training.jobs.job import Limits
from model.training.jobs.running_job import DIVERGED, Finished, RunningJob

LOOKS = 12  # approximate number of evaluations in a run
TOKENS = 64  # maximum tokens of all texts of a step, per row of `Limits.batch`


@dataclass(frozen=True, kw_only=True)
class Practice:
    """Settings of a run, as plain values."""

    base: Resolved  # the initial policy, and the reference
    course: CourseSettings
    prompts: tuple[str, ...] = PROMPTS
    rules: tuple[Rule, ...] = ()
    pairs: tuple[Pair, ...] = ()  # pairs for DPO; if empty, they are built by the reward
    reward: Path | None = None  # folder of a reward model that replaces the rules
    lora: Lora | None = None  # None: all weights are trained
    minutes: float = 20.0


@dataclass(frozen=True, eq=False)
class Begun:
    """Facts about a run, known once the model is loaded."""

    n_params: int
    n_learned: int  # parameters that are trained
    n_layer: int
    n_head: int
    probe: tuple[int, ...]
    prompt: int  # length of the probe's prompt, in tokens
    pairs: int  # number of training pairs of DPO; 0 for other methods


Message = Begun | Report | Look | Finished


def check(job: Practice, limits: Limits) -> None:
    """Raise InputError for a run beyond this server's limits or without prompts or a reward."""
    course = job.course
    tokens, most = course.texts * course.new_tokens, TOKENS * limits.batch
    if tokens > most:
        hint = say("Choose a value from {} to {}.", 1, most)
        raise InputError("A setting is out of bounds on this server.", f"tokens a step: {tokens}", hint)
    if not 1 <= len(job.prompts) <= MOST_PROMPTS:
        raise InputError(
            "There are too few or too many prompts.", str(len(job.prompts)), say("Give 1 to {}.", MOST_PROMPTS)
        )
    if not job.rules and job.reward is None and not (job.pairs and course.method == "dpo"):
        raise InputError("The reward is missing.", "", "Give at least one rule.")


def begin(job: Practice, limits: Limits) -> RunningJob:
    """Load the model as both policy and reference. Raises InputError for a model that is too large."""
    keep_freed_memory()
    lm = load_resolved(job.base)
    full = job.lora is None and job.course.method != "best_of_n"
    most = limits.full_parameters if full else limits.adapted_parameters
    if lm.n_params > most:
        hint = "Use LoRA, or a smaller model." if full else "Choose a smaller model."
        raise InputError("This model is too large to be trained on this server.", f"{lm.n_params:,} parameters", hint)
    work = task(lm.tokenizer, job.prompts, reward_of(job, lm))
    files = vocabulary_files(job.base)
    return _chosen(job, lm, work, files) if job.course.method == "best_of_n" else _trained(job, lm, work, files)


def reward_of(job: Practice, lm: LanguageModel) -> Reward:
    """Return the reward function of a reward model or of rules; with pairs alone, a constant 0."""
    if job.reward is not None:
        return by_model(load_reward(job.reward, lm.model))
    return by_rules(job.rules) if job.rules else _nothing


def _nothing(answers: Answers) -> np.ndarray:
    """Return a reward of 0 for each text, for learning from pairs alone."""
    return np.zeros(len(answers.texts))


def _begun(lm: LanguageModel, work: Task, probe: tuple[int, ...], learns: int, pairs: int) -> Begun:
    return Begun(lm.n_params, learns, lm.config.n_layer, lm.config.n_head, probe, len(work.prompts[0]), pairs)


def _trained(job: Practice, lm: LanguageModel, work: Task, files: dict[str, str]) -> RunningJob:
    course, reference = job.course, lm.model
    state = learning.start(reference, course, job.lora)
    probe = probe_of(reference, work, course, work.prompts[0])
    pairs = _pairs(job, reference, work) if course.method == "dpo" else None
    story = Story.of(lm.tokenizer)

    def looked() -> Look:
        return look(state.policy, reference, work, course, probe, min(state.step, course.steps), story)

    return RunningJob(
        _begun(lm, work, probe, count(learned(state.policy)), len(pairs) if pairs else 0),
        messages(state, work, course, pairs, looked),
        looked,
        lambda: state.policy if job.lora is None else merged(state.policy),
        files,
        peft_files(state.policy, job.lora, job.base.label),
    )


def messages(
    state: Learner, work: Task, course: CourseSettings, pairs: PairRows | None, looked: Callable[[], Look]
) -> Iterator[Message]:
    """Yield reports and, interleaved with them, about LOOKS evaluations, the first before any update. A divergence ends
    the run early.
    """
    every = max(1, round(course.steps / LOOKS))
    yield looked()
    try:
        for report in steps(state, work, course, pairs):
            yield report
            if report.step == course.steps or (state.step % every == 0 and state.step < course.steps):
                yield looked()
    except CheckpointError:  # a model with non-finite values cannot be evaluated
        state.restore()
        yield Finished(DIVERGED)
    except Astray:
        yield Finished(DIVERGED)


def _pairs(job: Practice, reference: Transformer, work: Task) -> PairRows:
    if not job.pairs:
        return by_reward(reference, work, job.course)
    texts = [(pair.prompt, pair.chosen, pair.rejected) for pair in job.pairs]
    return from_texts(reference, work, texts, job.course.new_tokens)


def _chosen(job: Practice, lm: LanguageModel, work: Task, files: dict[str, str]) -> RunningJob:
    """Return best of n as a job. Nothing is trained, so it produces no model."""
    course, reference, story = job.course, lm.model, Story.of(lm.tokenizer)
    probe = probe_of(reference, work, course, work.prompts[0])

    def looked() -> Look:
        return look(reference, reference, work, course, probe, 0, story)

    return RunningJob(_begun(lm, work, probe, 0, 0), choose_best(reference, work, course), looked, lambda: None, files)


def name_of(job: Practice) -> str:
    """Return the name of the trained model in the model menu."""
    return f"{job.base.label}, {NAMES[job.course.method]}"


NAMES = {"reinforce": "REINFORCE", "ppo": "PPO", "grpo": "GRPO", "dpo": "DPO", "best_of_n": "best of n"}


# --- settings ----------------------------------------------------------------------------------------


def course_of(method: str, preset: str, changes: dict[str, float], adapted: bool = False) -> CourseSettings:
    """Return the settings of a method, changed by a preset ("" for none) and then by the user.

    `adapted`: LoRA is used, which needs a higher learning rate. Raises InputError for an unknown method or preset, or
    an invalid value.
    """
    if method not in DEFAULTS or preset not in ("", *PRESETS):
        raise InputError("No method has this name.", f"{method}, {preset}"[:40], "Choose one from the list.")
    base = PRESETS[preset].course(method) if preset else DEFAULTS[method]
    if adapted:
        base = dataclasses.replace(base, learning_rate=base.learning_rate * ADAPTED_RATE)
    return dataclasses.replace(base, **changes)


def practice(
    base: Resolved,
    course: CourseSettings,
    rules: str,
    prompts: str,
    pairs: tuple[Pair, ...] = (),
    minutes: float = 20.0,
) -> Practice:
    """Build a run from the input of a page or a command line: rules in the syntax of parse_rules, and one prompt per
    line.
    """
    lines = tuple(line.rstrip() for line in prompts.splitlines() if line.strip()) or PROMPTS
    parsed = parse_rules(rules) if rules.strip() else ()
    return Practice(base=base, course=course, prompts=lines, rules=parsed, pairs=pairs, minutes=minutes)
