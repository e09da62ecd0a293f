"""The interface of all kinds of jobs: how each is checked, started, followed, ended and saved."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model.gpt.transformer import Transformer

DIVERGED = "diverged"


@dataclass(frozen=True, eq=False)
class Finished:
    """The end of a job: all steps done, time up, stopped by a person, or diverged."""

    reason: str  # "done", "time", "stopped" or DIVERGED


@dataclass(frozen=True, eq=False)
class RunningJob:
    """A job under way, in the process that does the work."""

    started: Any  # facts for the page, sent first
    messages: Iterator[Any]  # reports and snapshots; a `Finished` if it ends early
    look: Callable[[], Any]  # a snapshot of the model as it is now
    model: Callable[[], Transformer | None]  # the model to save at the end; None if nothing was trained
    files: dict[str, str] = field(default_factory=dict)  # further files of the model by name: tokenizer.json at least
    leave: Callable[[Path], None] | None = None  # writes the model's other files into the run's folder


@dataclass(frozen=True)
class JobKind:
    """A kind of job; jobs are frozen dataclasses of plain values with `minutes`, distinguished by their type.

    `check(job, limits)` raises InputError for what this server does not allow; `begin(job, limits)` opens the job. Its
    messages are distinguished by type: one `started`, then many of `report` and `snapshot`.
    """

    check: Callable[[Any, Any], Any]
    begin: Callable[[Any, Any], RunningJob]
    name: Callable[[Any], str]  # label of the trained model in the picker
    started: type
    report: type
    snapshot: type
    steps: Callable[[Any], int] = lambda job: job.recipe.steps  # number of reports of a complete run
