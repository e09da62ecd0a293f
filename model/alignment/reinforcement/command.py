"""The command `reinforce` of `python -m model.alignment`: trains a model on a reward by reinforcement learning."""

import argparse
import csv
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from model.alignment.adapter_options import add_lora
from model.alignment.lora import Lora, merged
from model.alignment.preferences import read_pairs
from model.alignment.reinforcement import job
from model.alignment.reinforcement import learner as learning
from model.alignment.reinforcement.course import METHODS, CourseSettings
from model.alignment.reinforcement.pairs import PairRows, by_reward, from_texts
from model.alignment.reinforcement.presets import PRESETS, PROMPTS, by_model, by_rules
from model.alignment.reinforcement.run import Report, choose_best, steps
from model.alignment.reinforcement.texts import Answers, Task, task
from model.alignment.reward_folder import load_reward
from model.api import LanguageModel, load_model
from model.errors import Astray, InputError
from model.free_memory import keep_freed_memory
from model.loading.checkpoint import save_folder
from model.loading.sources import resolve
from model.loading.vocabulary_export import vocabulary_files, write_files
from model.training.folders import read_text

LOG = "reinforcement.csv"


def add(commands: argparse._SubParsersAction) -> None:
    """Add the command and its options, one for each field of CourseSettings."""
    about = "train a model on a reward: REINFORCE, PPO, GRPO, DPO, or the best of n"
    parser = commands.add_parser("reinforce", help=about, description=about)
    parser.add_argument("--model", default="tinygpt", help="an id such as tinygpt, or a folder")
    parser.add_argument("--method", choices=METHODS, default="ppo")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="happy")
    parser.add_argument(
        "--rules", help='such as "contains: happy, glad * 2; full_stop"; without it, those of the preset'
    )
    parser.add_argument("--reward-model", type=Path, help="folder of a reward model, instead of rules")
    parser.add_argument("--prompts", type=Path, help="a UTF-8 file with a prompt on each line")
    parser.add_argument("--pair-file", type=Path, help="JSON lines with prompt, chosen, rejected, for dpo")
    parser.add_argument("--out", type=Path, help="folder for the trained model and its log")
    add_lora(parser)
    for field in dataclasses.fields(CourseSettings):
        if field.name != "method":
            kind = float if isinstance(field.default, float) else int
            parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, help="default: the method's own")
    parser.set_defaults(act=act)


def act(options: argparse.Namespace) -> None:
    """Run the command: print a line per step, and write the model and its log to --out. Raises InputError for invalid
    options.
    """
    keep_freed_memory()
    adapters = Lora(options.lora, options.lora_alpha, options.lora_matrices) if options.lora else None
    course, lm = course_of(options), load_model(options.model)
    if options.out and options.out.exists() and any(options.out.iterdir()):
        raise InputError("The folder is not empty.", options.out.name, "Choose another --out.")
    prompts = read_text(options.prompts).splitlines() if options.prompts else PROMPTS
    work = task(lm.tokenizer, [line for line in prompts if line.strip()], reward_of(options, lm))
    if course.method == "best_of_n":
        show(choose_best(lm.model, work, course))
        return
    state = learning.start(lm.model, course, adapters)
    rows = show(steps(state, work, course, pairs_of(options, lm, work, course)), catch=True)
    if options.out:
        save_folder(options.out, merged(state.policy) if adapters else state.policy)
        write_files(options.out, vocabulary_files(resolve(options.model, allow_paths=True)))
        with (options.out / LOG).open("w", newline="", encoding="utf-8") as file:
            log = csv.DictWriter(file, rows[0])
            log.writeheader()
            log.writerows(rows)


def course_of(options: argparse.Namespace) -> CourseSettings:
    """Return the method's defaults, changed by the preset and then by the options given."""
    names = [field.name for field in dataclasses.fields(CourseSettings) if field.name != "method"]
    numbers = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return job.course_of(options.method, options.preset, numbers, adapted=options.lora > 0)


def reward_of(options: argparse.Namespace, lm: LanguageModel) -> Callable[[Answers], np.ndarray]:
    """Return the reward function of the given reward model, or else of the rules."""
    if options.reward_model:
        return by_model(load_reward(options.reward_model, lm.model))
    return by_rules(options.rules or PRESETS[options.preset].rules)


def pairs_of(options: argparse.Namespace, lm: LanguageModel, work: Task, course: CourseSettings) -> PairRows | None:
    """Return the pairs for DPO, read from a file or built by the reward; None for other methods."""
    if course.method != "dpo":
        return None
    if options.pair_file is None:
        return by_reward(lm.model, work, course)
    pairs = [(pair.prompt, pair.chosen, pair.rejected) for pair in read_pairs(read_text(options.pair_file))]
    return from_texts(lm.model, work, pairs, course.new_tokens)


def show(reports: Iterator[Report], *, catch: bool = False) -> list[dict[str, float]]:
    """Print a line per report and return the metrics of each; with `catch`, print a divergence and stop instead of
    raising it.
    """
    rows: list[dict[str, float]] = []
    try:
        for report in reports:
            measured = report.measured
            numbers = {**dataclasses.asdict(measured), **dataclasses.asdict(report.update)}
            rows.append({"step": report.step, "coefficient": report.coefficient, **numbers, "seconds": report.seconds})
            print(
                f"{report.step:>4}  reward {measured.reward:.3f}  "
                f"KL {measured.kl:.4f} a token, {measured.kl_text:.2f} a text  "
                f"entropy {measured.entropy:.2f}  perplexity {measured.perplexity:.1f}  {report.seconds:.1f} s",
                flush=True,
            )
    except Astray as error:
        if not catch or not rows:
            raise
        print(error)
    return rows
