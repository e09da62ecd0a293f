"""The job of a part's button, as one request."""

import threading
from collections.abc import AsyncIterator

import anyio
from anyio import to_thread

from model.errors import PlaygroundError
from viz.page.job_channel import PLANS
from viz.page.pipeline import PageRequest, scene_of
from viz.page.wire.lines import in_threads, line
from viz.seam.jobs.background import Job, failed, perform_in_turn, stopped
from viz.work.playground import Playground


async def job_lines(
    playground: Playground, question: PageRequest, part: str, limiter: anyio.CapacityLimiter
) -> AsyncIterator[str]:
    """Run the job of a part's button; yields the lines. Closing the iterator ends the work at its next step."""
    language, stop = question.language, threading.Event()
    yield line(stopped=stopped(language))
    try:
        job = await to_thread.run_sync(_planned, playground, question, part, limiter=limiter)
    except PlaygroundError as error:
        yield line(bar=failed(error, language))
        return
    steps = perform_in_turn(playground, question.visitor, job, language, stop)
    try:
        async for payload, ended in in_threads(steps, limiter):
            yield line(done=ended) if payload is None else line(bar=payload)
    finally:
        stop.set()


def _planned(playground: Playground, question: PageRequest, part: str) -> Job:
    """Return the job that a part's button starts; raises PlaygroundError."""
    return PLANS[part](scene_of(playground, question), question.values)
