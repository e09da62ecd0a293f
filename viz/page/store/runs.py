"""Train the default model with the default settings of each view of training and store the runs:
`python -m viz.page.store.runs`. Names of views as arguments limit the work to these.
"""

import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from model.alignment.four_prompts import choose_four
from model.alignment.reward_folder import load_reward
from model.alignment.reward_lesson import learn
from model.alignment.rewards import parse_rules, score
from model.training.jobs.form import job_of
from model.training.jobs.job import Limits
from model.workshop import kind_of
from viz.page.examples import FIRST
from viz.seam.jobs import stored, stored_runs
from viz.seam.jobs.stored_runs import StoredRun
from viz.seam.settings import read_all
from viz.seam.view import Visit
from viz.views.assistant.fine_tune import view as fine_tune
from viz.views.assistant.preferences.view import RULE
from viz.views.assistant.reinforcement import view as reinforcement
from viz.views.assistant.reward_model.measure import lesson_of, read_prompt
from viz.views.assistant.reward_model.view import SETTINGS
from viz.work.playground import Options, Playground
from viz.work.prompt import Prompt

MOST_SNAPSHOTS = 16  # maximum number of snapshots in a stored run


def main(chosen: list[str]) -> None:
    """Train and store; print the seconds and the bytes of each."""
    visit = Visit(Playground(Options(model=stored.MODEL)), "", "en", stored.MODEL, Prompt(), {})
    for view in chosen or STORES:
        began = time.process_time()
        value, files = STORES[view](visit)
        seconds, threads = time.process_time() - began, torch.get_num_threads()
        size = stored_runs.write(view, StoredRun(value, seconds, threads, stored_runs.weights(), files))
        print(view, f"{seconds:.0f} s, {size:,} bytes", flush=True)


def trained(job: Any, files: bool = False) -> tuple[Mapping[str, Any], dict[str, str]]:
    """Run a job to its end and return its messages by kind, and the files of its vocabulary if it is its own."""
    kind = kind_of(job)
    running = kind.begin(job, Limits())
    reports: list[Any] = []
    snapshots: list[Any] = []
    for message in running.messages:
        (snapshots if isinstance(message, kind.snapshot) else reports).append(message)
        print(".", end="", flush=True)
    value = {"job": stored_runs.bare(job), "started": running.started, "reports": reports, "snapshots": snapshots}
    return value, running.files if files else {}


def thinned(values: list[Any], most: int) -> list[Any]:
    """Return at most `most` values, evenly spaced, with the first and the last."""
    if len(values) <= most:
        return values
    return [values[round(at * (len(values) - 1) / (most - 1))] for at in range(most)]


def _fine_tune(visit: Visit) -> tuple[Any, dict[str, str]]:
    return trained(fine_tune.job_of(visit))


def _reinforcement(visit: Visit) -> tuple[Any, dict[str, str]]:
    value, files = trained(reinforcement.job_of(visit))
    return {**value, "snapshots": thinned(value["snapshots"], 2)}, files


def _preferences(visit: Visit) -> tuple[Any, dict[str, str]]:
    lm, rules = visit.playground.opened(visit.model_id), parse_rules(RULE.default)
    return choose_four(lm.model, lm.tokenizer, lambda texts: score(rules, texts).tolist()), {}


def _reward_model(visit: Visit) -> tuple[Any, dict[str, str]]:
    lm, chosen = visit.playground.opened(visit.model_id), read_all(SETTINGS, None, None)
    with tempfile.TemporaryDirectory() as folder:
        lesson = lesson_of(chosen, visit.playground.weights_of(visit.model_id), Path(folder), "")
        outcome = learn(lesson, lambda done: None)
        reward = load_reward(Path(folder), lm.model)
        reading = read_prompt(lm, lm.encode(FIRST), reward, outcome, chosen.word)
    return {"outcome": outcome, "reading": reading}, {}


def _training(visit: Visit) -> tuple[Any, dict[str, str]]:
    value, files = trained(job_of({}, Limits()), files=True)
    snapshots = [
        dataclasses.replace(each, patterns=each.patterns.astype("<f2"))
        for each in thinned(value["snapshots"], MOST_SNAPSHOTS)
    ]
    return {**value, "snapshots": snapshots}, files


STORES: dict[str, Callable[[Visit], tuple[Any, dict[str, str]]]] = {
    "fine_tune": _fine_tune,
    "preferences": _preferences,
    "reward_model": _reward_model,
    "reinforcement": _reinforcement,
    "training": _training,
}

if __name__ == "__main__":
    main(sys.argv[1:])
