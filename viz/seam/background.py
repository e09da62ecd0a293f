"""Work that takes longer than a click may: started by a button, with a bar, the time left and a cancel.

A job leaves its result in `playground.results`; the tab's `draw` finds it there by the job's key. So what is shown is
always of the present prompt and settings, and the same question is answered once.
"""

import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from model.errors import PlaygroundError
from model.progress import Progress
from viz.seam.playground import Playground
from viz.server.limits import within
from viz.words import translate, words

log = logging.getLogger("playground")
_SHOW_EVERY = 0.2  # seconds between two pictures of the bar
LOOK_EVERY = 1.0  # and between two looks at how many are before
WAIT = 0.002  # seconds in which others get at the model between two steps of a job


@dataclass(frozen=True, eq=False)
class Job:
    """What to compute, and the key under which its result is kept."""

    key: tuple
    work: Callable[[Progress], object]


@dataclass(frozen=True, eq=False)
class Result:
    """What a job found, how long it took, and about how many bytes it is."""

    value: object
    seconds: float
    nbytes: int = 1 << 16


def held(value: object) -> int:
    """About how many bytes a value is: those of an array, else the least that a result counts for."""
    return getattr(value, "nbytes", Result.nbytes)


def kept(playground: Playground, key: tuple, make: Callable[[], Any], size: Callable[[object], int] = held) -> Any:
    """A value that takes a while, worked out once; what `make` raises is raised and nothing is kept."""

    def result() -> Result:
        value = make()
        return Result(value, 0.0, size(value))

    return playground.results.get(key, result).value


class Cancelled(Exception):
    """The visitor pressed cancel, or left."""


def button(name: str, said: Mapping[str, str], result: Result | None, hint: str = "") -> dict:
    """The payload of a job's part before it starts, or when its result is there. `name` is the word on the button."""
    note = said["job.done"].format(seconds=f"{result.seconds:.1f}") if result else hint
    return {"state": "done" if result else "idle", "start": name, "text": note, "cancel": said["job.cancel"]}


def unready(said: Mapping[str, str], name: str, why: str) -> dict:
    """The payload of a job's part that cannot start yet, and why."""
    return {"state": "unready", "start": name, "text": why, "cancel": said["job.cancel"]}


def perform_in_turn(
    playground: Playground, owner: str, job: Job, language: str, stop: threading.Event
) -> Iterator[tuple]:
    """The same once it is this visitor's turn; until then the part says how many are before."""
    try:
        ticket = playground.desk.join(owner)
    except PlaygroundError as error:
        yield failed(error, language), ""
        return
    begun = False
    try:
        while ahead := ticket.wait(LOOK_EVERY):
            if stop.is_set():
                yield stopped(language), ""
                return
            yield _bar(words(language), (0, None), 0.0) | {"text": waiting(ahead, language)}, ""
        begun = True
        bounded = Job(job.key, within(job.work, playground.options.allowed))
        yield from perform(playground, bounded, language, stop, ticket.leave)
    finally:
        if not begun:
            ticket.leave()


def waiting(ahead: int, language: str) -> str:
    """What stands beside a bar while others are before."""
    said = words(language)
    return said["job.ahead_one"] if ahead == 1 else said["job.ahead"].format(n=ahead)


def perform(
    playground: Playground,
    job: Job,
    language: str,
    stop: threading.Event | None = None,
    ended: Callable[[], None] = lambda: None,
) -> Iterator[tuple]:
    """Do a job in a thread and yield (its part, done) as it goes; setting `stop` or closing the iterator ends the work.

    The model is handed to others between two steps, so that a click is answered while a job runs. `ended` is called
    when the work has ended, which is one step after a cancel.
    """
    said = words(language)
    reports: queue.SimpleQueue = queue.SimpleQueue()
    stop = stop or threading.Event()

    def progress(done: int, total: int | None, what: str) -> None:
        reports.put((done, total))
        playground.computing.release()
        time.sleep(WAIT)
        playground.computing.acquire(later=True)
        if stop.is_set():
            raise Cancelled

    def work() -> None:
        started = time.perf_counter()
        try:
            with playground.computing.later():
                if stop.is_set():
                    raise Cancelled
                value = job.work(progress)
            kept = Result(value, time.perf_counter() - started)
            playground.results.get(job.key, lambda: kept)
            reports.put(None)
        except BaseException as error:
            reports.put(error)
        finally:
            ended()

    threading.Thread(target=work, daemon=True).start()
    report: Any = (0, None)
    started = time.monotonic()
    try:
        while isinstance(report, tuple) and not stop.is_set():
            yield _bar(said, report, time.monotonic() - started), ""
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
    """The last of what is reported within a moment, or what was known before. What ends a job is reported last."""
    until = time.monotonic() + _SHOW_EVERY
    while isinstance(report, tuple) and (left := until - time.monotonic()) > 0:
        try:
            report = reports.get(timeout=left)
        except queue.Empty:
            break
    return report


def _bar(said: Mapping[str, str], report: tuple[int, int | None], seconds: float) -> dict:
    """How far it is, and the time left once it can be told."""
    done, total = report
    share = done / total if total else None
    left = said["job.left"].format(seconds=round(seconds * (1 - share) / share)) if share and seconds > 1 else ""
    return {"state": "running", "fraction": share, "text": left, "cancel": said["job.cancel"]}


def failed(error: BaseException, language: str) -> dict:
    """Why there is no result; the button is there to try again."""
    said = words(language)
    if isinstance(error, PlaygroundError):
        got = f" ({error.got})" if error.got else ""
        text = f"{translate(error.what, language)}{got} {translate(error.hint, language)}"
    else:
        text = f"{said['notice.failed']} {said['notice.failed_hint']}"
    return {"state": "failed", "text": text, "start": said["notice.retry"], "cancel": said["job.cancel"]}


def stopped(language: str) -> dict:
    """What a job's part shows after a cancel."""
    said = words(language)
    return {
        "state": "idle",
        "start": said["notice.retry"],
        "text": said["job.cancelled"],
        "cancel": said["job.cancel"],
    }
