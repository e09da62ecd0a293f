"""The job behind a part's button, as one request. A job goes on while its page reloads, if the page asked for that."""

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing
from dataclasses import dataclass, field

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
RELEASE = 30.0  # seconds to wait until the request of the page before has ended
Step = tuple[dict | None, str]  # what viz.seam.jobs.background.perform yields


@dataclass(eq=False)
class PageJob:
    """A job in progress. Its steps are read by a request or, between the requests of two pages, by a thread."""

    steps: Generator[Step, None, None]
    is_kept: bool = False
    last: Step | None = None  # the newest step
    called: threading.Event = field(default_factory=threading.Event)  # set if another request wants to read
    free: threading.Event = field(default_factory=threading.Event)  # set while nothing reads

    def read(self) -> Generator[Step, None, None]:
        """Yield the newest step and those that follow. Closing this generator leaves the job as it is."""
        if self.last:
            yield self.last
        for step in self.steps:
            self.last = step
            yield step

    def go_on(self) -> None:
        """Read the steps in this thread until a request calls for them, or until the job ends or is no longer kept."""
        for step in self.steps:
            self.last = step
            if self.called.is_set() or not self.is_kept:
                break
        if not self.is_kept:
            self.steps.close()
        self.free.set()

    def call(self) -> bool:
        """Wait until nothing reads; return whether that happened in time."""
        self.called.set()
        is_free = self.free.wait(RELEASE)
        self.called.clear()
        return is_free


class PageJobs:
    """The jobs of all pages, by the visit and the part whose button started them."""

    def __init__(self, playground: Playground, limiter: anyio.CapacityLimiter) -> None:
        self._playground, self._limiter = playground, limiter
        self._jobs: dict[tuple[str, str], PageJob] = {}

    async def start(self, question: PageRequest, part: str) -> AsyncIterator[str]:
        """Run the job of a part's button and yield the lines of the answer. Closing the iterator ends the job at its
        next step, unless it is kept.
        """
        yield line(stopped=stopped(question.language))
        try:
            job = await to_thread.run_sync(self._planned, question, part, limiter=self._limiter)
        except PlaygroundError as error:
            yield line(bar=failed(error, question.language))
            return
        steps = perform_in_turn(self._playground, question.visitor, job, question.language, part)
        async with aclosing(self._lines((question.visitor, part), PageJob(steps))) as lines:
            async for each in lines:
                yield each

    async def resume(self, question: PageRequest, part: str) -> AsyncIterator[str]:
        """Yield the further lines of a job that was kept when its page was closed; none if there is no such job."""
        key = (question.visitor, part)
        job = self._jobs.get(key)
        if job is None or not job.is_kept or not await to_thread.run_sync(job.call, limiter=self._limiter):
            return
        yield line(stopped=stopped(question.language))
        async with aclosing(self._lines(key, job)) as lines:
            async for each in lines:
                yield each

    def keep(self, visit: str, part: str, is_kept: bool) -> None:
        """Set whether a job goes on when its request is closed."""
        if job := self._jobs.get((visit, part)):
            job.is_kept = is_kept

    def leave(self, visit: str) -> None:
        """End the kept jobs of a visit whose page does not come back."""
        for key in [key for key in self._jobs if key[0] == visit]:
            self._jobs.pop(key).is_kept = False

    def _planned(self, question: PageRequest, part: str) -> BackgroundJob:
        """Build the job that a part's button starts; raises PlaygroundError."""
        return PLANS[part](scene_of(self._playground, question), question.values)

    async def _lines(self, key: tuple[str, str], job: PageJob) -> AsyncGenerator[str, None]:
        """Yield a line for each step of a job. When this is closed, a thread goes on with a kept job; others end."""
        job.free.clear()
        job.is_kept, self._jobs[key] = False, job
        try:
            async with aclosing(in_threads(job.read(), self._limiter)) as steps:
                async for payload, ended in steps:
                    yield line(done=ended) if payload is None else line(bar=payload)
        finally:
            if job.is_kept:
                threading.Thread(target=job.go_on, daemon=True).start()
            else:
                job.steps.close()
                job.free.set()
                if self._jobs.get(key) is job:
                    del self._jobs[key]
