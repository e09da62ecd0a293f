"""Events shared by all views of training runs: start and follow a run, pause or stop it, and reconnect to it."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from model.errors import InputError, PlaygroundError
from viz.seam.notices import notice
from viz.seam.view import Event, ModelsChanged, Payload, Visit
from viz.words import words
from viz.work.playground import Playground
from viz.work.processes.training_process import Failed, LiveRun

EVERY = 0.6  # seconds between two updates
PAUSED = 2.0  # maximum number of seconds without an update

# (run, language, (reports, snapshots) that the page has) -> the update, with the new ones in lists of these names
Piece = Callable[[LiveRun, str, tuple[int, int]], Payload]


def follow(visit: Visit, job: Any, piece: Piece) -> Iterator[Payload | ModelsChanged]:
    """Start a run and yield its updates. Once the iterator is closed, the run waits for its page and then stops."""
    yield from _updates(visit, visit.playground.workshop.start(visit.session, job), piece)


def find_again(visit: Visit, kind: type, piece: Piece) -> Iterator[Payload | ModelsChanged]:
    """Yield all updates of the visitor's runs for a page that was reloaded, and follow the run in progress."""
    for run in visit.playground.workshop.of(visit.session):
        if isinstance(run.job, kind):
            yield from _updates(visit, run, piece)


def _updates(visit: Visit, run: LiveRun, piece: Piece) -> Iterator[Payload | ModelsChanged]:
    have = (0, 0)
    with run.followed():
        while True:
            over = run.over  # read before the update is built, so that nothing later is missed
            new = piece(run, visit.language, have)
            have = (have[0] + len(new["reports"]), have[1] + len(new["snapshots"]))
            yield new
            if over:
                break
            time.sleep(EVERY)
            run.wait(PAUSED)
    yield ModelsChanged()


def own_run(visit: Visit, sent: object, kind: type) -> LiveRun | None:
    """Return the run that a page names, if it belongs to the visitor and has the given kind of job."""
    number = sent.get("run") if isinstance(sent, Mapping) else None
    mine = visit.playground.workshop.of(visit.session)
    return next((run for run in mine if run.id == number and isinstance(run.job, kind)), None)


def live_run(playground: Playground, number: str, kind: type) -> LiveRun:
    """Return a run by its id, which only the page that started it knows. Raises InputError if there is no such run."""
    run = playground.workshop.run(number)
    if run is None or not isinstance(run.job, kind):
        raise InputError("This run does not exist.", "", "A run is kept while the page that started it is open.")
    return run


def wish(name: str, kind: type) -> Event:
    """Build the event that requests the visitor's own run to "pause", "resume" or "stop"."""

    def tell(visit: Visit, sent: object) -> None:
        run = own_run(visit, sent, kind)
        if run is not None:
            run.tell(name)

    return Event(tell)


def reconnect(kind: type, piece: Piece) -> Event:
    """Build the event that sends a reconnected page the missing updates of its own run."""

    def answer(visit: Visit, sent: object) -> Iterator[Payload]:
        yield from lacking(visit, sent, kind, piece)

    return Event(answer)


def returning(kind: type, piece: Piece) -> Event:
    """Build the event that sends a reloaded page its own runs and follows the one in progress."""

    def answer(visit: Visit, sent: object) -> Iterator[Payload | ModelsChanged]:
        yield from find_again(visit, kind, piece)

    return Event(answer)


def lacking(visit: Visit, sent: object, kind: type, piece: Piece) -> Iterator[Payload]:
    """Yield the updates of a visitor's own run that the page does not have yet."""
    run = own_run(visit, sent, kind)
    if run is not None and isinstance(sent, Mapping):
        have = [n if isinstance(n := sent.get(key), int) and n >= 0 else 0 for key in ("reports", "snapshots")]
        yield piece(run, visit.language, (have[0], have[1]))


def about(run: LiveRun, have: tuple[int, int]) -> Payload:
    """Build the fields common to all runs: state, pace in seconds per step, and the location of the model."""
    return {
        "run": run.id,
        "state": run.state,
        "over": run.over,
        "steps": run.kind.steps(run.job),
        "pace": run.spent / max(1, len(run.reports)),
        "model_id": run.model_id if run.left_a_model else "",
        "download": f"playground/trained/{run.id}.zip",
        "adapter": f"playground/trained/{run.id}/adapter.zip" if run.adapter else "",
        "from_report": have[0],
        "from_snapshot": have[1],
    }


def failure(run: LiveRun, language: str) -> Payload:
    """Describe why a run failed, in the user's language."""
    failed, catalogue = run.failure or Failed(""), words(language)
    if not failed.what:
        return {"text": catalogue["training.lab.failed"], "hint": catalogue["notice.failed_hint"]}
    shown = notice(PlaygroundError(failed.what, failed.got, failed.hint), language)
    return {"text": shown["text"], "hint": shown["hint"]}
