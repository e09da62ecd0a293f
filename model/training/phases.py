"""A training run as data: a sequence of phases, each with its recipe and its texts.

A plan is a TOML file:

    average = ["on", "to the end"]   # optional: the run ends with the mean of the weights after these phases

    [model]                     # starting point: a folder with weights, or a new model
    weights = "../tinygpt"      # relative to the plan; or: config = {n_layer = 8, d_model = 256, n_head = 8}
    seen = 16_179_200           # number of tokens these weights were trained on

    [recipe]                    # shared by all phases: fields of Recipe
    batch = 8
    length = 512

    [[phases]]
    name = "on"
    steps = 3_000               # and any other field of Recipe
    shares = {stories = 0.7, books = 0.3}   # fractions of the rows, by prepared file; also "repeated"
"""

import csv
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from model.errors import InputError
from model.gpt.config import from_dict
from model.loading.checkpoint import build, load_folder, save_folder
from model.training import loop
from model.training.folders import (
    CHECKPOINT,
    COLUMNS,
    LOG,
    TOKENIZER,
    evaluations,
    open_log,
    prepared,
    read_text,
    train,
)
from model.training.loop import Recipe, Report, TrainingRun

AVERAGE = "average"  # name of the folder for the averaged weights
_HINT = "Correct the file."


@dataclass(frozen=True)
class Phase:
    """One phase of a run."""

    name: str
    recipe: Recipe
    shares: Mapping[str, float]  # fractions of the rows, by name of the prepared file

    @property
    def tokens(self) -> int:
        """The number of tokens processed in the phase."""
        recipe = self.recipe
        return recipe.steps * recipe.batch * recipe.length * recipe.accumulate


@dataclass(frozen=True)
class TrainingPlan:
    """A run: its starting point, and its phases in order."""

    phases: tuple[Phase, ...]
    weights: Path | None  # path of a model folder
    config: Mapping[str, Any]  # config of a new model, if there are no weights
    seen: int  # number of tokens processed before the plan
    average: tuple[str, ...] = ()  # names of the phases after which weights are averaged

    @property
    def tokens(self) -> int:
        """The total number of tokens processed, including those before the plan."""
        return self.seen + sum(phase.tokens for phase in self.phases)


# --- reading ---------------------------------------------------------------------------------------


def read_plan(path: Path) -> TrainingPlan:
    """Read a plan from a TOML file. Raises InputError that names the faulty phase."""
    try:
        values = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise _unreadable(path, str(error)) from error
    if unknown := sorted(values.keys() - {"model", "recipe", "phases", "average"}):
        raise _unreadable(path, f"unknown: {', '.join(unknown)}")
    model, common, phases = values.get("model", {}), values.get("recipe", {}), values.get("phases", [])
    if not isinstance(phases, list) or not phases:
        raise _unreadable(path, "there are no [[phases]]")
    if not isinstance(model, dict) or not isinstance(common, dict):
        raise _unreadable(path, "model and recipe are tables")
    if unknown := sorted(model.keys() - {"weights", "config", "seen"}):
        raise _unreadable(path, f"model: unknown: {', '.join(unknown)}")
    if ("weights" in model) == ("config" in model):
        raise _unreadable(path, "model: either weights or config")
    seen, config = model.get("seen", 0), model.get("config", {})
    if type(seen) is not int or seen < 0 or not isinstance(config, dict):
        raise _unreadable(path, "model: seen is a number of tokens, config a table")
    weights = (path.parent / str(model["weights"])).resolve() if "weights" in model else None
    read = tuple(_phase(path, common, phase, number) for number, phase in enumerate(phases, 1))
    if len({phase.name for phase in read}) < len(read):
        raise _unreadable(path, "two phases have one name")
    average, names = values.get("average", []), [phase.name for phase in read]
    if not isinstance(average, list) or any(each not in names for each in average) or len(set(average)) == 1:
        raise _unreadable(path, "average is a list of two phases or more")
    return TrainingPlan(read, weights, config, seen, tuple(average))


def _phase(path: Path, common: Mapping[str, Any], values: Any, number: int) -> Phase:
    """Build a phase; its seed is the common one plus its number, so that no phase repeats the batches of another."""
    try:
        name, shares = values["name"], values["shares"]
        if not isinstance(name, str) or not name.replace(" ", "").replace("-", "").isalnum():
            raise ValueError("the name is made of letters, digits, spaces and hyphens")
        if not isinstance(shares, dict) or not shares:
            raise ValueError("shares is a table of names and numbers")
        numbers = {each: float(share) for each, share in shares.items()}
        if not 0 <= min(numbers.values()) <= sum(numbers.values()) < float("inf") or not sum(numbers.values()):
            raise ValueError("shares are 0 or more, and not all 0")
        own = {key: value for key, value in values.items() if key not in ("name", "shares")}
        seed = {"seed": common.get("seed", 0) + number} if "seed" not in own else {}
        return Phase(name, Recipe(**{**common, **seed, **own}), numbers)
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise _unreadable(path, f"phase {number}: {what}") from error


def _unreadable(path: Path, what: str) -> InputError:
    return InputError("The plan cannot be read.", f"{path.name}: {what}"[:160], _HINT)


# --- running a plan --------------------------------------------------------------------------------


def folder_of(plan: TrainingPlan, number: int, out: Path) -> Path:
    """Return the folder of a phase, numbered from 0."""
    return out / f"{number + 1}-{plan.phases[number].name.replace(' ', '-')}"


def begin(plan: TrainingPlan, vocab_size: int, out: Path) -> tuple[int, TrainingRun]:
    """Return where the run in `out` continues: the number of the next phase, from 0, and its run.

    The number equals the number of phases when all are done. A phase begins with the weights of the previous one and,
    if both have the same optimizer, with its state.
    """
    for number in reversed(range(len(plan.phases))):
        path, phase = folder_of(plan, number, out) / CHECKPOINT, plan.phases[number]
        if path.exists():
            run, _ = loop.load_checkpoint(path, phase.recipe)
            return (number, run) if run.step < phase.recipe.steps else (number + 1, _next(plan, number, run))
    recipe = plan.phases[0].recipe
    if plan.weights is not None:
        run = loop.from_model(build(*load_folder(plan.weights)), recipe)
    else:
        length = max(phase.recipe.length for phase in plan.phases)
        run = loop.start(from_dict({"vocab_size": vocab_size, "n_ctx": length} | dict(plan.config)), recipe)
    run.tokens = plan.seen
    return 0, run


def _next(plan: TrainingPlan, number: int, run: TrainingRun) -> TrainingRun:
    """Return the run at the start of the phase that follows `number`; unchanged after the last."""
    if number + 1 == len(plan.phases):
        return run
    recipe = plan.phases[number + 1].recipe
    following = loop.from_model(run.model, recipe)
    if recipe.optimizer == plan.phases[number].recipe.optimizer:
        state = {"optimizer": run.optimizer.state_dict(), "step": 0, "tokens": run.tokens}
        loop.go_on(following, state)
    following.tokens = run.tokens
    return following


def follow(
    plan: TrainingPlan, data: Path, out: Path, *, device: str = "cpu", save_every: int = 250, held_out_batches: int = 4
) -> Iterator[tuple[Phase, Iterator[Report]]]:
    """Yield each remaining phase with the reports of its steps, which must be consumed before the next phase.

    `out` gets one folder per phase, with its log, its checkpoint and its model; an interrupted run continues from its
    last checkpoint, as if it had not been interrupted. The model and its optimizer are on the torch device `device`.
    """
    # All names are checked first, so that a wrong one is reported before hours of computation.
    datasets = [prepared(data, phase.shares, phase.shares, 1.0) for phase in plan.phases]
    number, run = begin(plan, datasets[0].tokenizer.vocab_size, out)
    while number < len(plan.phases):
        phase = plan.phases[number]
        run = loop.moved(run, phase.recipe, device)
        yield (
            phase,
            train(
                run,
                phase.recipe,
                datasets[number],
                folder_of(plan, number, out),
                evaluate_every=save_every,
                save_every=save_every,
                held_out_batches=held_out_batches,
            ),
        )
        run, number = _next(plan, number, run), number + 1


def averaged(plan: TrainingPlan, data: Path, out: Path, device: str = "cpu") -> Path | None:
    """Average the weights after the plan's `average` phases, evaluate them on all held-out text, and return their
    folder.

    Returns None if the plan has no average. The folder has the same files as that of a phase. If the loss does not
    rise on the straight line between weights, as after a short restart, their mean predicts better than each of them
    (Izmailov et al. 2018; Wortsman et al. 2022).
    """
    if not plan.average:
        return None
    taken = [folder_of(plan, n, out) / CHECKPOINT for n, phase in enumerate(plan.phases) if phase.name in plan.average]
    runs, recipes = zip(*(loop.load_checkpoint(path) for path in taken), strict=True)
    last, recipe, states = runs[-1], recipes[-1], [run.model.state_dict() for run in runs]
    mean = {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}
    run = loop.from_model(build(last.model.config, mean).to(device), recipe)
    run.step, run.tokens = last.step, last.tokens
    dataset, folder = prepared(data, plan.phases[-1].shares, plan.phases[-1].shares, 1.0), out / AVERAGE
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TOKENIZER).write_text(dataset.tokenizer_json, encoding="utf-8")
    with open_log(folder / LOG, 0) as file:
        csv.DictWriter(file, COLUMNS).writerows(evaluations(run, dataset, dataset.token_bytes, recipe.length))
    loop.save_checkpoint(folder / CHECKPOINT, run, recipe)
    save_folder(folder, run.model)
    return folder


def described(plan: TrainingPlan) -> str:
    """Describe each phase in one line: steps, rows x tokens, learning rate, and shares in percent."""
    lines = []
    for phase in plan.phases:
        recipe, total = phase.recipe, sum(phase.shares.values())
        shares = ", ".join(f"{name} {100 * share / total:.0f}" for name, share in phase.shares.items())
        rows = f"{recipe.batch * recipe.accumulate} x {recipe.length}"
        rate = f"{recipe.optimizer} {recipe.learning_rate:g} {recipe.schedule}"
        lines.append(f"{phase.name}: {recipe.steps:,} steps of {rows}, {rate}; % of the rows: {shares}")
    if plan.average:
        lines.append(f"in the end the mean of the weights after: {', '.join(plan.average)}")
    return "\n".join([*lines, f"{plan.tokens:,} tokens in all, {plan.seen:,} of them before"])
