"""Training in a separate process, so that the page never waits for it; one run at a time on this machine.

It runs any kind of job of model/workshop.py, which explains how to add another: pretraining, fine-tuning and the
others share the rules here. `Workshop.start` checks a job against the server's limits and starts the process (`work`).
The job sends events; "pause", "resume" and "stop" are received between two messages. `LiveRun` is the run as the page
sees it. At the end, the model is in the run's folder, where the picker finds it; the download contains the whole
folder. A job that diverges ends with the last good model; if the process is killed, the last saved model remains. When
the visitor's page is closed, its runs continue for ABSENT seconds, in which a reloaded page finds them again; then they
end and their files are removed. A run without a page gives way to a new one.
"""

import contextlib
import logging
import math
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from model.alignment.adapter_files import CONFIG as ADAPTER
from model.alignment.adapter_files import FOLDER
from model.errors import InputError, PlaygroundError, say
from model.loading.checkpoint import CONFIG, save_folder
from model.loading.sources import Resolved
from model.loading.vocabulary_export import write_files
from model.text.tokenizer import Tokenizer, from_folder
from model.training.jobs.job import Limits
from model.training.jobs.running_job import DIVERGED, Finished
from model.workshop import JobKind, kind_of
from viz.work.processes.saving import Saving
from viz.work.processes.start import context

log = logging.getLogger("playground")

PREFIX = "trained:"
CUT_SHORT = "The training process ended early."
ABSENT = 60.0  # seconds for which a run continues while no page follows it
KEPT = 4  # maximum number of finished runs kept per visitor
NICE = 10
ENDS = ("done", "time", "stopped", DIVERGED, "failed")


@dataclass(frozen=True)
class Failed:
    """An error for the user; `what` is "" for an internal error of the server."""

    what: str
    got: str = ""
    hint: str = ""


@dataclass(frozen=True)
class ModelSaved:
    """The message that the model was saved after this step, while the run continues."""

    step: int


# --- in the process that trains --------------------------------------------------------------------


def work(connection: Connection, job: Any, limits: Limits, folder: Path, threads: int) -> None:
    """Run the job and send its events; "pause", "resume" and "stop" are received between steps."""
    if hasattr(os, "nice"):
        os.nice(NICE)
    torch.set_num_threads(threads)
    try:
        _teach(connection, job, limits, folder)
    except PlaygroundError as error:
        connection.send(Failed(error.what, error.got, error.hint))
    except (BrokenPipeError, EOFError, ConnectionResetError):
        pass  # the page was closed
    except Exception as error:
        logging.getLogger("playground").exception("training failed")
        connection.send(Failed("", repr(error)[:200]))
    finally:
        connection.close()


def _teach(connection: Connection, job: Any, limits: Limits, folder: Path) -> None:
    kind = kind_of(job)
    running = kind.begin(job, limits)
    folder.mkdir(parents=True, exist_ok=True)
    write_files(folder, running.files)
    connection.send(running.started)
    reason, spent, paused, began = "done", 0.0, 0.0, time.monotonic()
    saving = Saving(folder, running.model, running.leave)
    message = None
    for message in running.messages:
        if isinstance(message, Finished):
            reason = message.reason
            break
        connection.send(message)
        if isinstance(message, kind.snapshot) and saving.after(message.step):
            connection.send(ModelSaved(message.step))
        wish = connection.recv() if connection.poll() else None
        if wish == "pause":
            spent += time.monotonic() - began
            began = time.monotonic()
            wish = _paused(connection, 60 * limits.pause_minutes - paused)
            paused += time.monotonic() - began
            began = time.monotonic()
        if wish == "stop":
            reason = "stopped"
            break
        if wish == "late" or spent + time.monotonic() - began > 60 * job.minutes:
            reason = "time"
            break
    if not isinstance(message, kind.snapshot):  # take a snapshot after the last step
        connection.send(running.look())
    if (model := running.model()) is not None:
        save_folder(folder, model)
    if running.leave:
        running.leave(folder)
    connection.send(Finished(reason))


def _paused(connection: Connection, seconds: float) -> str:
    """Wait for the end of a pause. Returns "resume", "stop", or "late" at the time limit, so that others can train."""
    until = time.monotonic() + seconds
    while seconds == math.inf or connection.poll(max(0.0, until - time.monotonic())):
        if (wish := connection.recv()) != "pause":
            return wish
    return "late"


# --- in the process that serves the page -----------------------------------------------------------


@dataclass(eq=False)
class LiveRun:
    """A run as the page sees it; its fields only grow, and only one thread writes them."""

    id: str
    owner: str  # the page of the visitor
    job: Any  # one of the types in KINDS, which defines the messages
    folder: Path
    state: str = "starting"  # later "running", "paused", "done", "time", "stopped", "diverged" or "failed"
    started: Any = None
    reports: list[Any] = field(default_factory=list)
    snapshots: list[Any] = field(default_factory=list)
    tokenizer: Tokenizer | None = None
    kept: int = 0  # step of the last save during the run
    spent: float = 0.0  # seconds of training and snapshots, excluding pauses
    heard: float = field(default_factory=time.monotonic)
    failure: Failed | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)
    absent: threading.Timer | None = None  # stops the run if no page follows it again in time
    connection: Connection | None = None
    process: BaseProcess | None = None

    @property
    def over(self) -> bool:
        """True if the run has ended."""
        return self.state in ENDS

    @property
    def left_a_model(self) -> bool:
        """True if the run has ended with a model; a run that only selected among texts has no model.

        A failed run has the model that was last saved during the run.
        """
        return self.over and (self.folder / CONFIG).is_file()

    @property
    def adapter(self) -> Path | None:
        """The folder of the run's adapters, if it trained adapters that other programs can read."""
        return self.folder / FOLDER if self.left_a_model and (self.folder / FOLDER / ADAPTER).is_file() else None

    @property
    def kind(self) -> JobKind:
        """The kind of the run's job."""
        return kind_of(self.job)

    @property
    def model_id(self) -> str:
        """The trained model's id in the model picker."""
        return PREFIX + self.id

    def tell(self, wish: str) -> None:
        """Send the run a request to "pause", "resume" or "stop"."""
        with self.changed:
            if self.over or self.connection is None or (wish != "stop" and self.state == "starting"):
                return
            if wish in ("pause", "resume"):
                self.state, self.heard = "paused" if wish == "pause" else "running", time.monotonic()
            with contextlib.suppress(OSError, ValueError):  # the process may end at this moment
                self.connection.send(wish)
            self.changed.notify_all()

    @contextlib.contextmanager
    def followed(self) -> Iterator[None]:
        """Hold while a page follows the run; the run stops if the page does not return within ABSENT seconds."""
        with self.changed:
            if self.absent:
                self.absent.cancel()
            self.absent = None
        try:
            yield
        finally:
            with self.changed:
                if not self.over:
                    self.absent = threading.Timer(ABSENT, self.tell, ("stop",))
                    self.absent.daemon = True
                    self.absent.start()

    def end(self) -> None:
        """Stop immediately; later messages are ignored."""
        with self.changed:
            if not self.over:
                self.state = "stopped"
                if self.process.pid is not None:  # otherwise it is killed once it has started
                    self.process.kill()
            self.changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait for a change, at most `seconds`."""
        with self.changed:
            if not self.over:
                self.changed.wait(seconds)

    def live(self, theirs: Connection) -> None:
        """Start the process with its end of the connection, and receive its messages until it ends."""
        try:
            self.process.start()  # the first start waits for imports, which must not block other threads
            theirs.close()
            if self.over:
                self.process.kill()
            while not self.over:
                self._take(self.connection.recv())
        except (EOFError, OSError):
            self._take(cut_short(self.kept))
        finally:
            if self.process.pid is not None:
                self.process.join(60)  # its priority is low, so it may take long to end
                if self.process.is_alive():
                    self.process.kill()

    def _take(self, message: object) -> None:
        now, kind = time.monotonic(), self.kind
        with self.changed:
            if self.over:
                return
            if isinstance(message, (kind.report, kind.snapshot)) and self.state == "running":
                self.spent += now - self.heard
            self.heard = now
            match message:
                case Finished():
                    self.state = message.reason
                case Failed():
                    if message.what in ("", CUT_SHORT):
                        log.error("training failed: %s", message.got or message.what)
                    self.failure, self.state = message, "failed"
                case ModelSaved():
                    self.kept = message.step
                case kind.started():
                    self.tokenizer = from_folder(self.folder)
                    self.started, self.state = message, "running"
                case kind.report():
                    self.reports.append(message)
                case kind.snapshot():
                    self.snapshots.append(message)
            self.changed.notify_all()


@dataclass(eq=False)
class Workshop:
    """All runs on this machine. One trains at a time; each visitor keeps the most recent ones until leaving."""

    limits: Limits = field(default_factory=Limits)
    threads: int = max(1, (os.cpu_count() or 2) // 2)
    workers: int = min(4, os.cpu_count() or 1)  # maximum number of single-threaded processes in a comparison
    _runs: dict[str, LiveRun] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _trial: bool = False  # whether a comparison is training
    _home: Path | None = None

    def start(self, owner: str, job: Any) -> LiveRun:
        """Start a run for a visitor. Raises InputError if the job is out of bounds or another run is in progress."""
        self.check_open()
        kind_of(job).check(job, self.limits)
        with self._lock:
            self._check_free()
            self._forget(owner, keep=KEPT - 1, spare=getattr(getattr(job, "source", None), "path", None))
            if self._home is None:
                self._home = Path(tempfile.mkdtemp(prefix="playground-training-"))
            number = uuid.uuid4().hex
            run = LiveRun(number, owner, job, self._home / number)
            run.connection, theirs = context().Pipe()
            arguments = (theirs, job, self.limits, run.folder, self.threads)
            run.process = context().Process(target=work, args=arguments, daemon=True)
            self._runs[number] = run
        threading.Thread(target=self._live, args=(run, theirs), name=run.id, daemon=True).start()
        return run

    def _live(self, run: LiveRun, theirs: Connection) -> None:
        """Receive a run's messages until it ends, and delete its files if the run was removed meanwhile."""
        run.live(theirs)
        with self._lock:
            if run.id not in self._runs:
                home = run.folder.parent
                shutil.rmtree(run.folder if home == self._home else home, ignore_errors=True)

    def check_open(self) -> None:
        """Raise InputError if training is switched off on this server."""
        if self.limits.minutes <= 0:
            raise InputError("Training is disabled on this server.", "", "Run the app on your own machine.")

    def _check_free(self) -> None:
        for run in self._runs.values():
            if run.absent:  # a run without a page gives way
                run.end()
        if self._trial or any(not run.over for run in self._runs.values()):
            raise InputError("Another training run is in progress on this server.", "", "Try again when it has ended.")

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """Hold the machine for another kind of training. Raises InputError if it is busy; so does `start` meanwhile."""
        self.check_open()
        with self._lock:
            self._check_free()
            self._trial = True
        try:
            yield
        finally:
            self._trial = False

    def of(self, owner: str) -> list[LiveRun]:
        """Return a visitor's runs, oldest first."""
        with self._lock:
            return [run for run in self._runs.values() if run.owner == owner]

    def run(self, number: str) -> LiveRun | None:
        """Return a run by its unguessable number."""
        return self._runs.get(number)

    def finished(self, number: str) -> LiveRun | None:
        """Return a run that ended with a model, by its number."""
        run = self.run(number)
        return run if run is not None and run.left_a_model else None

    def find(self, model_id: str) -> Resolved | None:
        """Find the folder of a trained model by its id; None if it does not exist."""
        run = self.finished(model_id.removeprefix(PREFIX)) if model_id.startswith(PREFIX) else None
        return Resolved("folder", run.folder, run.model_id, label(run)) if run else None

    def leave(self, owner: str) -> None:
        """Stop the run of a visitor whose page was closed, and remove the others."""
        with self._lock:
            self._forget(owner, keep=0)

    def close(self) -> None:
        """Stop all runs and remove their files."""
        with self._lock:
            for owner in {run.owner for run in self._runs.values()}:
                self._forget(owner, keep=0)
            if self._home is not None:
                shutil.rmtree(self._home, ignore_errors=True)
                self._home = None

    def _forget(self, owner: str, keep: int, spare: Path | None = None) -> None:
        """End and remove a visitor's oldest runs, but not the run in `spare`, from which a new job starts."""
        runs = [run for run in self._runs.values() if run.owner == owner and run.folder != spare]
        for run in runs[: max(0, len(runs) - keep)]:
            run.end()
            shutil.rmtree(run.folder, ignore_errors=True)
            del self._runs[run.id]


def cut_short(kept: int) -> Failed:
    """Build the error for a killed process whose model was last saved at step `kept`; 0 if it was never saved."""
    steps = f"{kept:,}"
    error = PlaygroundError(
        CUT_SHORT,
        "",
        say("The model after {} steps is kept.", steps) if kept else "Nothing was saved. Start it again.",
    )
    return Failed(error.what, error.got, error.hint)


def label(run: LiveRun) -> str:
    """Return a short name with the task and the number of steps."""
    last = run.reports[-1].step if run.reports else 0
    done = run.kept if run.state == "failed" else last
    return f"{run.kind.name(run.job)}, {done:,} steps"
