"""The common interface of all kinds of jobs: how each is checked, started, monitored, ended and saved."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model.gpt.transformer import Transformer

DIVERGED = "diverged"


@dataclass(frozen=True, eq=False)
class Finished:
    """The end of a job: all steps done, time limit reached, stopped by the user, or diverged."""

    reason: str  # "done", "time", "stopped" or DIVERGED


@dataclass(frozen=True, eq=False)
class RunningJob:
    """A running job, in the process that does the computation."""

    started: Any  # facts for the page, sent first
    messages: Iterator[Any]  # reports and snapshots; ends with a `Finished` if the job ends early
    look: Callable[[], Any]  # takes a snapshot of the current model
    model: Callable[[], Transformer | None]  # returns the model to save at the end, or None if nothing was trained
    # additional files of the model by name, including at least tokenizer.json
    files: dict[str, str] = field(default_factory=dict)
    leave: Callable[[Path], None] | None = None  # writes the model's other files into the run's folder


@dataclass(frozen=True)
class JobKind:
    """A kind of job; jobs are frozen dataclasses of plain values with `minutes`, distinguished by their type.

    `check(job, limits)` raises InputError for what this server does not allow; `begin(job, limits)` opens the job. Its
    messages are distinguished by type: one `started`, then any number of `report` and `snapshot`.
    """

    check: Callable[[Any, Any], Any]
    begin: Callable[[Any, Any], RunningJob]
    name: Callable[[Any], str]  # label of the trained model in the model picker
    started: type
    report: type
    snapshot: type
    steps: Callable[[Any], int] = lambda job: job.recipe.steps  # number of reports of a complete run
