"""Loading of a model that was selected on the page: in the background, with progress and a cancel button."""

import logging
import queue
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass

from model.errors import PlaygroundError, plain
from viz.seam.notices import broken, notice
from viz.words import words
from viz.work.playground import Playground

log = logging.getLogger("playground")
_SHOW_EVERY = 0.2  # seconds between two updates of the progress bar
# The phases that the loading code reports, and the words for them.
_PHASES = {
    "Downloading": "downloading",
    "Checking": "checking",
    "Unpacking": "unpacking",
    "Reading weights": "reading",
}


class Cancelled(Exception):
    """Error raised if the visitor cancelled or left."""


@dataclass(frozen=True)
class Chosen:
    """The result of selecting a model: whether it is loaded, and the notice to show."""

    loaded: bool
    notice: dict


def load_model(playground: Playground, model_id: str, language: str) -> Generator[dict | Chosen, None, None]:
    """Load a model in a thread; yield notices during loading, and finally the result.

    Closing the iterator stops loading.
    """
    label, catalogue = plain(str(model_id)[:80]), words(language)
    reports: queue.SimpleQueue = queue.SimpleQueue()
    stop = threading.Event()

    def progress(done: int, total: int | None, what: str) -> None:
        if stop.is_set():
            raise Cancelled
        reports.put((done, total, what))

    def work() -> None:
        while True:
            try:
                playground.load(str(model_id), progress)
                reports.put(None)
            except Cancelled as error:
                if not stop.is_set():
                    continue  # cancelled by another visitor who waited for the same model, which this one still needs
                reports.put(error)
            except BaseException as error:
                reports.put(error)
            return

    threading.Thread(target=work, daemon=True).start()
    started, latest = time.monotonic(), None
    shown, report = started, None
    try:
        yield _bar(label, None, 0.0, catalogue)
        while True:
            try:
                report = reports.get(timeout=_SHOW_EVERY)
                if not isinstance(report, tuple):
                    break
                if latest is None or report[2] != latest[2]:
                    started = time.monotonic()  # the remaining time refers to this phase
                latest = report
            except queue.Empty:
                pass  # show the bar anyway, because a cancellation takes effect at a yield
            if time.monotonic() - shown > _SHOW_EVERY:
                shown = time.monotonic()
                yield _bar(label, latest, shown - started, catalogue)
    finally:
        stop.set()
    if report is None:
        yield Chosen(True, {})
    elif isinstance(report, PlaygroundError):
        yield Chosen(False, notice(report, language))
    else:
        log.error("loading %s failed", label, exc_info=report)
        yield Chosen(False, broken(language))


def _bar(label: str, report: tuple | None, seconds: float, catalogue: Mapping[str, str]) -> dict:
    """Build a progress bar with the megabytes loaded, and the time left once it can be estimated."""
    done, total, what = report or (0, None, "")
    fraction = done / total if total else None
    parts = []
    if total:
        parts.append(catalogue["notice.progress"].format(done=done // 1_000_000, total=total // 1_000_000))
        if seconds > 1 and 0 < done < total:
            parts.append(catalogue["notice.left"].format(seconds=round(seconds * (total - done) / done)))
    phase = _PHASES.get(what, "fetching") if report else "loading"
    text = catalogue[f"notice.{phase}"].format(model=label)
    cancel = [{"name": "cancel", "text": catalogue["notice.cancel"]}]
    return {
        "kind": "info",
        "text": text,
        "hint": ", ".join(parts),
        "bar": True,
        "fraction": fraction,
        "actions": cancel,
    }
