"""Background jobs: computations too long for a click, started by a button, with a progress bar and a cancel button.

A job stores its result in `playground.results`, where the tab's `draw` looks it up by the job's key. The result on the
page therefore always belongs to the current prompt and settings, and the same question is answered only once.
"""

import contextlib
import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from model.errors import PlaygroundError
from model.progress import Progress, ProgressMessage
from viz.theme import SIGNED
from viz.words import translate, words
from viz.work.limits import within
from viz.work.playground import Playground

log = logging.getLogger("playground")
_SHOW_EVERY = 0.2  # seconds between two updates of the progress bar
LOOK_EVERY = 1.0  # seconds between two checks of the position in the queue
SURE = 0.02  # share of a job after which the time left can be estimated
WAIT = 0.002  # seconds between two steps of a job, during which others may use the model


@dataclass(frozen=True, eq=False)
class BackgroundJob:
    """A computation in the background, and the key under which its result is stored."""

    key: tuple
    work: Callable[[Progress], object]
    # whether it takes turns at the model in this process; otherwise it runs in a process with its own time limit
    locks: bool = True


@dataclass(frozen=True, eq=False)
class Result:
    """A job's result, its duration, its approximate size, and its time of completion, which distinguishes results with
    the same key.
    """

    value: object
    seconds: float
    nbytes: int = 1 << 16
    at: float = field(default_factory=time.monotonic)
    threads: int = 0  # CPU threads that computed a stored result (viz/seam/jobs/stored.py); 0: computed here


def held(value: object) -> int:
    """Return the approximate size of a value in bytes: that of an array, else the minimum size counted for any
    result.
    """
    return getattr(value, "nbytes", Result.nbytes)


def computed_once(
    playground: Playground, key: tuple, make: Callable[[], Any], size: Callable[[object], int] = held
) -> Any:
    """Return a slow value, computed once and cached; an exception of `make` is raised and not cached."""

    def result() -> Result:
        value = make()
        return Result(value, 0.0, size(value))

    return playground.results.get(key, result).value


class Cancelled(Exception):
    """Error raised if the visitor cancelled or left."""


def button(name: str, catalogue: Mapping[str, str], result: Result | None, hint: str = "") -> dict:
    """Build the payload of a job's part before the job starts, or after its result is stored. `name` is the button's
    label.
    """
    note = catalogue["job.done"].format(seconds=f"{result.seconds:.1f}") if result else hint
    return {"state": "done" if result else "idle", "start": name, "text": note, "cancel": catalogue["job.cancel"]}


def unready(catalogue: Mapping[str, str], name: str, why: str) -> dict:
    """Build the payload of a job's part that cannot start yet, with the reason."""
    return {"state": "unready", "start": name, "text": why, "cancel": catalogue["job.cancel"]}


def perform_in_turn(
    playground: Playground, owner: str, job: BackgroundJob, language: str, name: str = ""
) -> Generator[tuple, None, None]:
    """Run a job when the visitor's turn comes; until then, the part shows the number of jobs ahead. Yields as
    `perform` does.

    A later job of the same visitor and name cancels it.
    """
    try:
        ticket = playground.queue.join(owner, name=name)
    except PlaygroundError as error:
        yield failed(error, language), ""
        return
    begun = False
    try:
        while ahead := ticket.wait(LOOK_EVERY):
            if ticket.cancelled.is_set():
                yield stopped(language), ""
                return
            yield _bar(words(language), (0, None, ""), 0.0) | {"text": waiting(ahead, language)}, ""
        begun = True
        bounded = replace(job, work=within(job.work, playground.options.allowed)) if job.locks else job
        yield from perform(playground, bounded, language, ticket.cancelled, ticket.leave)
    finally:
        ticket.cancelled.set()  # unless it has already ended
        if not begun:
            ticket.leave()


def hand_over(playground: Playground) -> None:
    """Let other threads use the model between two steps of a computation that holds it."""
    playground.computing.release()
    time.sleep(WAIT)
    playground.computing.acquire(later=True)


def waiting(ahead: int, language: str) -> str:
    """Format the text beside a progress bar while other jobs are ahead."""
    catalogue = words(language)
    return catalogue["job.ahead_one"] if ahead == 1 else catalogue["job.ahead"].format(n=ahead)


def perform(
    playground: Playground,
    job: BackgroundJob,
    language: str,
    stop: threading.Event | None = None,
    ended: Callable[[], None] = lambda: None,
) -> Iterator[tuple]:
    """Run a job in a thread and yield (payload of its part, done) during the job.

    Setting `stop` or closing the iterator ends the job. Between two steps, other threads get the model, so that clicks
    are answered during a job. `ended` is called when the job has ended, which is one step after it was cancelled.
    """
    catalogue = words(language)
    reports: queue.SimpleQueue = queue.SimpleQueue()
    stop = stop or threading.Event()

    def progress(done: int, total: int | None, what: str) -> None:
        reports.put((done, total, what if isinstance(what, ProgressMessage) else ""))
        if job.locks:
            hand_over(playground)
        if stop.is_set():
            raise Cancelled

    def work() -> None:
        started = time.perf_counter()
        try:
            with playground.computing.later() if job.locks else contextlib.nullcontext():
                if stop.is_set():
                    raise Cancelled
                value = job.work(progress)
            result = Result(value, time.perf_counter() - started)
            playground.results.put(job.key, result)
            reports.put(None)
        except BaseException as error:
            reports.put(error)
        finally:
            ended()

    threading.Thread(target=work, daemon=True).start()
    report: Any = (0, None, "")
    started = time.monotonic()
    try:
        while isinstance(report, tuple) and not stop.is_set():
            yield _bar(catalogue, report, time.monotonic() - started), ""
            report = _newest(reports, report)
    finally:
        stop.set()
    if isinstance(report, tuple | Cancelled):
        yield stopped(language), ""
        return
    if report is None:
        yield None, uuid.uuid4().hex
        return
    if not isinstance(report, PlaygroundError):
        log.error("a job failed", exc_info=report)
    yield failed(report, language), ""


def _newest(reports: queue.SimpleQueue, report: Any) -> Any:
    """Return the newest report within _SHOW_EVERY seconds, else `report`. A report that ends the job is always the
    last.
    """
    until = time.monotonic() + _SHOW_EVERY
    while isinstance(report, tuple) and (left := until - time.monotonic()) > 0:
        try:
            report = reports.get(timeout=left)
        except queue.Empty:
            break
    return report


def _bar(catalogue: Mapping[str, str], report: tuple[int, int | None, str], seconds: float) -> dict:
    """Build the payload of the progress bar: progress, latest message, and the time left once it can be estimated."""
    done, total, what = report
    share = done / total if total else None
    left = ""
    if share and share > SURE and seconds > 1:
        left = catalogue["job.left"].format(seconds=round(seconds * (1 - share) / share))
    numbers = what.grid if isinstance(what, ProgressMessage) else None
    grid = {"grid": numbers, "colors": (SIGNED[1], SIGNED[-2])} if numbers else {}
    return {
        "state": "running",
        "fraction": share,
        "text": " · ".join(filter(None, (what, left))),
        "cancel": catalogue["job.cancel"],
    } | grid


def failed(error: BaseException, language: str) -> dict:
    """Build the payload of a failed job: the reason, and a button to try again."""
    catalogue = words(language)
    if isinstance(error, PlaygroundError):
        got = f" ({error.got})" if error.got else ""
        text = f"{translate(error.what, language)}{got} {translate(error.hint, language)}"
    else:
        text = f"{catalogue['notice.failed']} {catalogue['notice.failed_hint']}"
    return {"state": "failed", "text": text, "start": catalogue["notice.retry"], "cancel": catalogue["job.cancel"]}


def stopped(language: str) -> dict:
    """Build the payload of a job's part after it was cancelled."""
    catalogue = words(language)
    return {
        "state": "idle",
        "start": catalogue["notice.retry"],
        "text": catalogue["job.cancelled"],
        "cancel": catalogue["job.cancel"],
    }
