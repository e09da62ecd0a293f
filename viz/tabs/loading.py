"""Choosing a model on the page: fetched and loaded in the background, with progress, a cancel, and a way back."""

import logging
import queue
import threading
import time
from collections.abc import Iterator, Mapping

import gradio as gr

from model.errors import PlaygroundError
from viz.tabs.context import Playground
from viz.tabs.parts import update

log = logging.getLogger("playground")
_SHOW_EVERY = 0.2  # seconds between two pictures of the progress bar


class Cancelled(Exception):
    """The visitor pressed cancel, or left."""


def notice(*, error: PlaygroundError | None = None, retry: str = "") -> dict:
    """What the notice says: nothing, or what went wrong and what to do, with a button to try again where one helps."""
    if error is None:
        return {}
    got = f" ({error.got})" if error.got else ""
    actions = [{"name": "retry", "text": retry}] if retry else []
    return {"kind": "error", "text": f"{error.what}{got}", "hint": error.hint, "actions": actions}


def choose_model(playground: Playground, model_id: str, old: str, said: Mapping[str, str]) -> Iterator[tuple]:
    """Load a model and yield (notice, loaded, picker, wanted) as it goes; on failure the old model stays.

    `loaded` is the id of the model the page computes with; its change redraws the page.
    """
    label = str(model_id)[:80]
    reports: queue.SimpleQueue = queue.SimpleQueue()
    stop = threading.Event()

    def progress(done: int, total: int | None, what: str) -> None:
        if stop.is_set():
            raise Cancelled
        reports.put((done, total, what))

    def work() -> None:
        try:
            playground.load(str(model_id), progress)
            reports.put(None)
        except BaseException as error:
            reports.put(error)

    threading.Thread(target=work, daemon=True).start()
    started, shown = time.monotonic(), 0.0
    try:
        yield update(_bar(label, None, 0.0, said)), gr.skip(), gr.skip(), model_id
        while True:
            try:
                report = reports.get(timeout=_SHOW_EVERY)
            except queue.Empty:
                continue
            if not isinstance(report, tuple):
                break
            if time.monotonic() - shown > _SHOW_EVERY:
                shown = time.monotonic()
                yield update(_bar(label, report, shown - started, said)), gr.skip(), gr.skip(), gr.skip()
    finally:
        stop.set()
    if report is None:
        yield update({}), model_id, gr.skip(), gr.skip()
    elif isinstance(report, PlaygroundError):
        yield update(notice(error=report, retry=said["notice.retry"])), gr.skip(), old, gr.skip()
    else:
        log.error("loading %s failed", label, exc_info=report)
        failed = PlaygroundError(said["notice.failed"], "", said["notice.failed_hint"])
        yield update(notice(error=failed, retry=said["notice.retry"])), gr.skip(), old, gr.skip()


def _bar(label: str, report: tuple | None, seconds: float, said: Mapping[str, str]) -> dict:
    """A progress bar with what is known: megabytes done, and the time left once it can be told."""
    done, total, _ = report or (0, None, "")
    fraction = done / total if total else None
    parts = []
    if total:
        parts.append(said["notice.progress"].format(done=done // 1_000_000, total=total // 1_000_000))
        if seconds > 1 and 0 < done < total:
            parts.append(said["notice.left"].format(seconds=round(seconds * (total - done) / done)))
    text = said["notice.downloading" if total else "notice.loading"].format(model=label)
    cancel = [{"name": "cancel", "text": said["notice.cancel"]}]
    return {
        "kind": "info",
        "text": text,
        "hint": ", ".join(parts),
        "bar": True,
        "fraction": fraction,
        "actions": cancel,
    }
