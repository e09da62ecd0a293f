"""Limits of this server: `PRIVATE` on one's own machine, `PUBLIC` on a shared server."""

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from model.errors import InputError, say
from model.generation.generate import MOST_STRATEGIES
from model.progress import Progress
from model.training.jobs.job import Limits
from viz.work.queue import Bounds

Work = TypeVar("Work")


@dataclass(frozen=True)
class Allowed:
    """The bounds of a server; each is checked where the work begins, not only by the page."""

    prompt_tokens: int = 1024
    characters: int = 200_000  # of a prompt; tokenizing more would only tell that it is too long
    new_tokens: int = 512  # that a strategy continues a text by
    texts: int = MOST_STRATEGIES  # strategies side by side
    samples: int = 32  # texts of a strategy in the view of many samples
    drafted: int = 128  # tokens written by speculative decoding
    job_seconds: float = math.inf  # of computing, of one job or one text
    bounds: Bounds = field(default_factory=Bounds)  # jobs and texts at once, and of one visitor
    training: Limits = field(default_factory=Limits)
    models: tuple[str, ...] = ()  # the only ones there are; () for all, with hub:OWNER/NAME typed by hand
    body: int = 8 << 20  # bytes of a request


PRIVATE = Allowed()
PUBLIC = Allowed(
    prompt_tokens=512,
    characters=20_000,
    new_tokens=128,
    texts=6,
    samples=16,
    drafted=64,
    job_seconds=60.0,
    bounds=Bounds(each=2, questions=256, share=128),
    training=Limits(
        layers=4,
        width=128,
        length=128,
        batch_tokens=4096,
        steps=6000,
        vocabulary=1024,
        text_bytes=200_000,
        full_parameters=10_000_000,
        adapted_parameters=10_000_000,
        minutes=0.0,
        pause_minutes=1.0,
    ),
    body=512 << 10,
)


def check_writing(allowed: Allowed, texts: int, tokens: int) -> None:
    """Raise InputError if this number of texts and new tokens is more than this server writes at once."""
    if texts > allowed.texts:
        raise InputError(
            "These are too many strategies for this server.",
            str(texts),
            say("Keep {} of them or fewer.", allowed.texts),
        )
    if tokens > allowed.new_tokens:
        raise InputError(
            "This is more text than this server writes at once.",
            f"{tokens} tokens",
            say("Choose {} new tokens or fewer.", allowed.new_tokens),
        )


def check_samples(allowed: Allowed, samples: int) -> None:
    """Raise InputError if a strategy would write more texts than this server allows."""
    if samples > allowed.samples:
        raise InputError(
            "These are too many texts for this server.", str(samples), say("Choose {} texts or fewer.", allowed.samples)
        )


def check_time(allowed: Allowed, seconds: float) -> None:
    """Raise InputError if work has computed for longer than this server allows."""
    if seconds > allowed.job_seconds:
        raise InputError(
            "This takes longer than this server allows.",
            f"{allowed.job_seconds:g} s",
            "Ask for less, or run the app on your own machine.",
        )


def within(work: Callable[[Progress], Work], allowed: Allowed) -> Callable[[Progress], Work]:
    """Return the same work with a time limit: it raises InputError after too much computing; waiting is not counted."""

    def bounded(progress: Progress) -> Work:
        spent, began = 0.0, time.perf_counter()

        def step(done: int, total: int | None, what: str) -> None:
            nonlocal spent, began
            spent += time.perf_counter() - began
            check_time(allowed, spent)
            progress(done, total, what)  # hands the model to others
            began = time.perf_counter()

        return work(step)

    return bounded


def limits_of(allowed: Allowed, minutes: float) -> Limits:
    """Return the bounds of a training run of at most `minutes`; 0 switches training off."""
    return dataclasses.replace(allowed.training, minutes=minutes)
