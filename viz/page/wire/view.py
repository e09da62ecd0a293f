"""The answer to a page's request: progress, early pictures, and finally the parts that changed."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from viz.page.ahead import Closed
from viz.page.pipeline import PageRequest, answer
from viz.page.wire.lines import line
from viz.seam.notices import broken
from viz.work.playground import Playground

log = logging.getLogger("playground")
TELL_AFTER = 1.0  # seconds after which the progress of a run is reported
TELL_EVERY = 0.5


async def answer_lines(
    playground: Playground,
    question: PageRequest,
    ready: asyncio.Event,
    leave: Callable[[], None],
    at_work: set[asyncio.Task],
) -> AsyncIterator[str]:
    """Answer a request when its turn comes, and yield the lines. Closing the iterator ends the run at the next layer.

    `at_work` holds the answering task until it has ended, which may be after the iterator is closed.
    """
    loop, lines, closed = asyncio.get_running_loop(), asyncio.Queue[str | None](), threading.Event()

    def say(**fields: Any) -> None:
        loop.call_soon_threadsafe(lines.put_nowait, line(**fields))

    def alive() -> None:
        if closed.is_set():
            raise Closed

    def work() -> None:
        try:
            parts, shown = answer(playground, question, lambda name, payload: say(early={name: payload}), alive)
            say(parts=parts, shown=shown)
        except Closed:
            if not closed.is_set():  # another visitor had requested the same run first, and then left
                work()
        except Exception:
            log.exception("a question of a page failed")
            say(parts={"notice": broken(question.language)}, shown=question.shown)

    async def worked() -> None:
        try:
            await run_in_threadpool(work)
        finally:
            leave()
            lines.put_nowait(None)

    task = None
    try:
        await ready.wait()
        task, wait = asyncio.create_task(worked()), TELL_AFTER
        at_work.add(task)
        task.add_done_callback(at_work.discard)
        while True:
            try:
                text = await asyncio.wait_for(lines.get(), wait)
            except TimeoutError:
                wait = TELL_EVERY
                if report := playground.running.report():
                    yield line(running=report)
                continue
            if text is None:
                return
            yield text
    finally:
        closed.set()
        if task is None:
            leave()
