"""One replica of a model: its traces, its results, and the questions that it answers. It is independent of Ray.

Answers are transferred as pickled values. A PlaygroundError, an error that a user can cause, is also sent as an
answer: `RefusedQuestion`.
"""

import contextlib
import os
import pickle
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition, Event
from typing import Any

import torch

from model.errors import PlaygroundError
from model.kernels import ready
from model.records import RunKey
from model.tracing.trace import Trace
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.tasks import Answering, Measuring, TraceReading, WritingTask
from viz.seam.view import View
from viz.views.sampling.writers import begun
from viz.views.tabs import TABS
from viz.work.engine import READS, Done, Ran
from viz.work.limits import within
from viz.work.playground import Options, Playground

VIEWS: dict[str, View] = {view.key: view for tab in TABS for view in tab.all_views}
LISTEN = 0.2  # seconds that a poll of long-running work waits for news
SAY_EVERY = 0.1  # seconds between two reports of a job


@dataclass(frozen=True, eq=False)
class RefusedQuestion:
    """An error to show to the user who sent the question."""

    error: PlaygroundError


@dataclass(eq=False)
class Going:
    """Long-running work in progress, with its pieces or reports so far."""

    pieces: list[Any] = field(default_factory=list)
    news: Condition = field(default_factory=Condition)
    stop: Event = field(default_factory=Event)

    def add(self, piece: Any) -> None:
        """Append a piece."""
        with self.news:
            self.pieces.append(piece)
            self.news.notify_all()

    def since(self, have: int) -> list[Any]:
        """Return the pieces after the first `have`, waiting briefly for one."""
        with self.news:
            self.news.wait_for(lambda: len(self.pieces) > have, LISTEN)
            return self.pieces[have:]


class Replica:
    """An actor that answers questions about one model. Its methods are called concurrently by several threads."""

    def __init__(self, options: Options, model_id: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.model_id = model_id
        self.playground = Playground(options)
        self.going: dict[str, Going] = {}
        self.stopped: deque[str] = deque(maxlen=256)  # names of work stopped before it began
        self.answered, self.last = 0, time.monotonic()
        with contextlib.suppress(PlaygroundError):  # each question will report the error
            self.playground.load(model_id)

    def ready(self) -> bytes:
        """Return True when the model is loaded, pickled as an answer."""
        return self._answer(lambda: self.playground.opened(self.model_id).id)

    def run(self, key: RunKey) -> bytes:
        """Run the prompt of the given key, and return the run as a pickled Ran."""

        def make() -> Ran:
            trace = self._trace(key)
            return Ran(trace.metrics, trace.seconds)

        return self._answer(make)

    def read(self, task: TraceReading) -> bytes:
        """Evaluate a method of the trace, one of READS."""

        def make() -> Any:
            trace = self._trace(task.key)
            if task.name not in READS:
                raise ValueError(f"a trace is not asked for {task.name!r}")
            with self.playground.computing:
                return getattr(trace, task.name)(*task.arguments)

        return self._answer(make)

    def measure(self, task: Measuring) -> bytes:
        """Compute a quick measure and return its background.Result."""

        def make() -> background.Result | None:
            view, scene = VIEWS[task.view], task.scene.open(self.playground)
            panels.add_prior(view, scene, task)
            return panels.measured(view, task.measure, scene, task.settings)

        return self._answer(make)

    def work(self, name: str, task: Measuring | WritingTask | Answering) -> bytes:
        """Run long-running work under a name: a job returns (Done, its reports), a text (None, its pieces)."""
        going = self.going[name] = Going()
        if name in self.stopped:
            going.stop.set()
        try:
            make = self._job if isinstance(task, Measuring) else self._text
            return self._answer(lambda: (make(task, going), list(going.pieces)))
        finally:
            self.going.pop(name, None)

    def news(self, name: str, have: int) -> list[Any]:
        """Return the pieces of long-running work after the first `have`."""
        going = self.going.get(name)
        if going is None:  # not started yet, or already over
            time.sleep(LISTEN)
            return []
        return going.since(have)

    def stop(self, name: str) -> None:
        """Cancel long-running work after its current step."""
        self.stopped.append(name)
        if going := self.going.get(name):
            going.stop.set()

    def status(self) -> dict[str, Any]:
        """Return the load and the contents of this replica, and whether its loops are compiled; begin to load them."""
        traces = self.playground.traces
        return {
            "model": self.model_id,
            "process": os.getpid(),
            "answered": self.answered,
            "long work": len(self.going),
            "traces": len(traces),
            "bytes of traces": traces.nbytes,
            "compiled": ready.soon() is not None,
        }

    def unused(self) -> float:
        """Return the seconds since the last question; 0 while long-running work is in progress."""
        return 0.0 if self.going else time.monotonic() - self.last

    def idle(self, seconds: float) -> bool:
        """Wait at most `seconds` for long-running work to end; return whether it has ended."""
        until = time.monotonic() + seconds
        while self.going and time.monotonic() < until:
            time.sleep(LISTEN)
        return not self.going

    def _answer(self, make: Callable[[], Any]) -> bytes:
        self.answered += 1
        try:
            value = make()
        except PlaygroundError as error:
            value = RefusedQuestion(error)
        except background.Cancelled:
            value = None  # the caller is no longer waiting
        finally:
            self.last = time.monotonic()
        # Sent as bytes, so that the caller owns its arrays; those in Ray's store are read-only and occupy it.
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)

    def _trace(self, key: RunKey) -> Trace:
        model = self.playground.opened(key.model_id)
        return self.playground.trace_tokens(model, model.tokenizer.tokens(list(key.ids)), key.edits)

    def _job(self, task: Measuring, going: Going) -> Done:
        """Run a slow measure as `viz.seam.programs.reading.done` does: taking turns with others, within this server's
        time limit.
        """
        view, scene = VIEWS[task.view], task.scene.open(self.playground)
        panels.add_prior(view, scene, task)
        job = panels.job_of(view, task.measure, scene, task.settings)
        reported = float("-inf")

        def progress(done: int, total: int | None, what: str) -> None:
            nonlocal reported
            if job.locks:
                background.hand_over(self.playground)
            if going.stop.is_set():
                raise background.Cancelled
            if time.monotonic() - reported > SAY_EVERY:
                reported = time.monotonic()
                going.add((done, total, what))

        began = time.perf_counter()
        work = within(job.work, self.playground.options.allowed) if job.locks else job.work
        with self.playground.computing.later() if job.locks else contextlib.nullcontext():
            if going.stop.is_set():
                raise background.Cancelled
            value = work(progress)
        return Done(value, time.perf_counter() - began)

    def _text(self, task: WritingTask | Answering, going: Going) -> None:
        with contextlib.closing(begun(self.playground, task, going.stop)) as pieces:
            for piece in pieces:
                going.add(piece)
