"""The job behind a part's button, as one request."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import anyio
from anyio import to_thread

from model.errors import PlaygroundError
from viz.page.pipeline import PageRequest, scene_of
from viz.page.wire.lines import in_threads, line
from viz.seam.jobs.background import BackgroundJob, failed, perform_in_turn, stopped
from viz.seam.tab import Plan
from viz.views.tabs import TABS
from viz.work.playground import Playground

PLANS: dict[str, Plan] = {name: plan for tab in TABS for name, plan in tab.jobs.items()}


async def job_lines(
    playground: Playground, question: PageRequest, part: str, limiter: anyio.CapacityLimiter
) -> AsyncIterator[str]:
    """Run the job of a part's button and yield the lines of the answer. Closing the iterator ends the job at its next
    step.
    """
    language = question.language
    yield line(stopped=stopped(language))
    try:
        job = await to_thread.run_sync(_planned, playground, question, part, limiter=limiter)
    except PlaygroundError as error:
        yield line(bar=failed(error, language))
        return
    steps = perform_in_turn(playground, question.visitor, job, language, part)
    async with aclosing(in_threads(steps, limiter)) as bars:
        async for payload, ended in bars:
            yield line(done=ended) if payload is None else line(bar=payload)


def _planned(playground: Playground, question: PageRequest, part: str) -> BackgroundJob:
    """Build the job that a part's button starts; raises PlaygroundError."""
    return PLANS[part](scene_of(playground, question), question.values)
