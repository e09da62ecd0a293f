"""The engine on a Ray cluster: replicas of models, each an actor that keeps the traces of its prompts.

Ray places the actors according to the resources they reserve, restarts those that die, and repeats lost calls: the
same key gives the same numbers. This module only decides to which replica a prompt belongs, and when a model gets
another one. It is imported only if the command line asks for a cluster.
"""

import contextlib
import logging
import math
import os
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, PendingCallsLimitExceeded, RayActorError, RaySystemError

from model.api import LanguageModel
from model.errors import InputError, PlaygroundError
from model.progress import Progress
from model.tracing.trace import Trace
from viz.cluster.join import is_there, rejoin
from viz.cluster.places import IDLE, Need, home, need_of, route_of, spare, wanted
from viz.cluster.replica import RefusedQuestion, Replica
from viz.seam.tasks import TraceReading
from viz.work.engine import Busy, Done, EngineRequest, Ran, Status, Work
from viz.work.playground import Options

log = logging.getLogger("playground")
T = TypeVar("T")
PENDING = 48  # maximum number of pending questions per page and replica; beyond that, the replica is full
FULL = 20.0  # seconds to wait for a full replica before a question is rejected as Busy
PAUSE = 0.05  # seconds between two attempts
THREADS = 96  # threads per replica; they take turns at the model, and polling of long-running work must not wait for it
RETRIES = 2  # maximum number of retries of a call whose replica died
START = 120.0  # seconds to wait for a replica to start and load its model
PATIENCE = 120.0  # seconds to wait for a quick measure, including its time in the queue
STEP = 0.5  # seconds between two checks by a waiting question that the cluster is alive
WATCH = 1.0  # seconds between two checks of the cluster
AGAIN = 3.0  # seconds between two attempts to rejoin a lost cluster
TEND = 5.0  # seconds between two adjustments of the number of replicas
SETTLED = 20.0  # idle seconds after which a replica may be retired to make room for another model
ENVIRONMENT = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")  # of libraries
ENVIRONMENT += ("PLAYGROUND_CORPUS", "PLAYGROUND_VIEWS")  # of the command line; all are copied to the replicas


@dataclass(eq=False)
class Held:
    """A replica as this process sees it."""

    name: str
    actor: Any
    hello: Any  # the pending answer of `ready`, the first call
    ready: bool = False
    under_way: int = 0
    last: float = field(default_factory=time.monotonic)


class Cluster:
    """An implementation of viz.work.engine.Engine on Ray, with at most `most` replicas per model; 0: as many as fit.

    `cpus` and `gpus` are reserved for each replica, GPUs only if the options compute on them. `rejoin` joins a lost
    cluster again or starts another one; it may raise any exception.
    """

    threads = 512  # maximum number of threads that wait for replicas
    is_here = False

    def __init__(
        self,
        options: Options,
        *,
        shared: bool = False,
        cpus: int = 1,
        gpus: int = 1,
        most: int = 0,
        rejoin: Callable[[], None] = lambda: rejoin("ray"),
    ) -> None:
        self.options, self.shared, self.cpus, self.most = options, shared, cpus, most
        self.gpus = gpus if options.device == "cuda" else 0
        self._kind = ray.remote(Replica)
        self._rings: dict[str, list[Held]] = {}  # model id -> replicas
        self._needs: dict[str, Need] = {}
        self._lock = threading.RLock()
        self._hot: dict[str, float] = {}  # model id -> time at which all of its replicas were last busy
        self._leaving: list[Held] = []  # replicas that get no more questions from this page
        self._rejoin = rejoin
        self._closed, self._lost = threading.Event(), threading.Event()
        threading.Thread(target=self._tend, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    # --- the protocol ---

    def load(self, model: LanguageModel) -> None:
        """Start a replica with the model, and wait until it is ready."""
        self._check_gpus()
        with self._lock:
            self._needs[model.id] = need_of(model, self.cpus, self.options.memory_mb, self.gpus)
            ring = self._ring(model.id)
        try:
            _value(self._answer(ring[0].hello, START))
        except GetTimeoutError:
            what = "The compute machines have no room for this model."
            raise PlaygroundError(what, model.id, "Try again in a moment, or choose another model.") from None
        ring[0].ready = True

    def _check_gpus(self) -> None:
        """Raise InputError if this is the only machine and it has fewer GPUs than a replica needs."""
        if self.shared or not self.gpus:
            return
        if (available := int(ray.cluster_resources().get("GPU", 0))) < self.gpus:
            what = "This machine has fewer GPUs than one replica needs."
            raise InputError(what, f"{available} < {self.gpus}", "Use fewer: --replica-gpus.")

    def run(self, ask: EngineRequest[Trace]) -> Trace | Ran:
        """Run a prompt on the replica that keeps its trace."""
        key: Any = ask.elsewhere()
        if key is None:
            return ask.local()

        def read(name: str, *arguments: Any) -> Any:
            return self._call(key.model_id, "read", TraceReading(key, name, arguments))

        return replace(self._call(key.model_id, "run", key), read=read)

    def measure(self, ask: EngineRequest[T]) -> T:
        """Compute a quick measure on the replica that keeps the trace."""
        task: Any = ask.elsewhere()
        return ask.local() if task is None else self._call(ask.model_id, "measure", task)

    def job(self, ask: EngineRequest[Work]) -> Work:
        """Return a slow measure as work to be run on the replica that keeps the trace."""
        task: Any = ask.elsewhere()
        return ask.local() if task is None else Work(lambda progress: self._job(ask.model_id, task, progress), False)

    def write(self, ask: EngineRequest[Iterator[T]], stop: threading.Event) -> Iterator[T]:
        """Generate a text on a replica of the model, and yield it piece by piece."""
        task: Any = ask.elsewhere()
        return ask.local() if task is None else self._text(ask.model_id, task, stop)

    def status(self) -> tuple[Status, ...]:
        """Return the status of every replica."""
        with self._lock:
            rings = {model_id: list(ring) for model_id, ring in self._rings.items()}
        return tuple(
            Status(held.name, model_id, held.ready, held.under_way) for model_id, ring in rings.items() for held in ring
        )

    def places(self) -> int:
        """Return the number of replicas that are ready."""
        return max(1, sum(each.ready for each in self.status()))

    def is_reachable(self) -> bool:
        """Return whether the cluster was reachable at the last check."""
        return not self._lost.is_set()

    def close(self) -> None:
        """Leave the cluster; a cluster that this process started ends."""
        self._closed.set()
        ray.shutdown()

    # --- questions ---

    def _call(self, model_id: str, method: str, task: object) -> Any:
        """Send a quick question and return its answer. A replica that has died permanently is replaced once."""
        for last in (False, True):
            held = self._choose(model_id, route_of(task))
            try:
                with _counted(held):
                    return _value(self._answer(_sent(held, method, task), PATIENCE))
            except GetTimeoutError:
                raise Busy from None
            except RayActorError as error:
                self._forget(model_id, held, error)
                if last:
                    raise _unreachable() from error
            except (ConnectionError, RaySystemError) as error:
                raise _unreachable() from error
        raise AssertionError

    def _answer(self, question: Any, seconds: float = math.inf) -> Any:
        """Wait for the answer to a question.

        Raises GetTimeoutError after `seconds`, and PlaygroundError as soon as the cluster is lost.
        """
        until = time.monotonic() + seconds
        while not ray.wait([question], timeout=max(0.0, min(STEP, until - time.monotonic())))[0]:
            if self._lost.is_set():
                raise _unreachable()
            if time.monotonic() >= until:
                raise GetTimeoutError
        return ray.get(question)

    def _long(self, model_id: str, task: object) -> Iterator[tuple[list, Any]]:
        """Stream long-running work: yields (pieces, None), then (pieces, result). Closing the generator cancels it."""
        held, name, have = self._choose(model_id, route_of(task)), uuid.uuid4().hex, 0
        with _counted(held):
            try:
                going = _sent(held, "work", name, task)
                try:
                    while not ray.wait([going], timeout=0)[0]:
                        news = self._answer(_sent(held, "news", name, have))
                        have += len(news)
                        yield news, None
                    value, pieces = _value(self._answer(going))
                    going = None
                finally:
                    if going is not None and not self._lost.is_set():
                        with contextlib.suppress(RayActorError, PendingCallsLimitExceeded):
                            _send(held, "stop", name)
            except (RayActorError, ConnectionError, RaySystemError) as error:
                self._forget(model_id, held, error)
                raise _unreachable() from error
        yield pieces[have:], value

    def _job(self, model_id: str, task: object, progress: Progress) -> Done:
        report, value = (0, None, ""), None
        with contextlib.closing(self._long(model_id, task)) as steps:
            for news, value in steps:
                report = news[-1] if news else report
                if value is None:
                    progress(*report)
        assert isinstance(value, Done)
        return value

    def _text(self, model_id: str, task: object, stop: threading.Event) -> Iterator[Any]:
        with contextlib.closing(self._long(model_id, task)) as steps:
            for pieces, _ in steps:
                for piece in pieces:
                    if stop.is_set():
                        return
                    yield piece
                if stop.is_set():
                    return

    # --- replicas ---

    def _choose(self, model_id: str, route: str) -> Held:
        """Select the replica to which a prompt belongs, among those that are ready."""
        if self._lost.is_set():
            raise _unreachable()
        with self._lock:
            ring = self._ring(model_id)
            for held in ring:
                held.ready = held.ready or bool(ray.wait([held.hello], timeout=0)[0])
            self._grow(model_id, ring)
            ready = {held.name: held for held in ring if held.ready} or {held.name: held for held in ring[:1]}
            return ready[home(route, tuple(ready))]

    def _ring(self, model_id: str) -> list[Held]:
        """Return the replicas of a model, at least one."""
        ring = self._rings.setdefault(model_id, [])
        if not ring:
            self._make_room(self._needs[model_id])
            ring.append(self._replica(model_id, 0))
        return ring

    def _grow(self, model_id: str, ring: list[Held]) -> None:
        """Add a replica to a hot model, or remove the last one if the others have sufficed for IDLE seconds."""
        need, under_way = self._needs[model_id], sum(held.under_way for held in ring)
        most = self.most or len(ring) + int(under_way > len(ring) and need.fits(ray.available_resources()))
        if all(held.ready for held in ring) and wanted(len(ring), under_way, most) > len(ring):
            ring.append(self._replica(model_id, len(ring)))
            log.info("another replica of %s", model_id)
        if not spare(len(ring), under_way):
            self._hot[model_id] = time.monotonic()
        elif time.monotonic() - self._hot.setdefault(model_id, time.monotonic()) > IDLE:
            self._hot[model_id] = time.monotonic()  # delays the removal of the next replica by the same interval
            self._leaving.append(ring.pop())
            log.info("one replica of %s less", model_id)

    def _tend(self) -> None:
        """Add and remove replicas periodically, even without questions."""
        while not self._closed.wait(TEND):
            with contextlib.suppress(Exception):  # the cluster may be gone; questions report that themselves
                with self._lock:
                    for model_id, ring in self._rings.items():
                        if ring:
                            self._grow(model_id, ring)
                    leaving, self._leaving = self._leaving, []
                for held in leaving:
                    gone = not held.under_way and not self._asks(held.name) and self._end(held, SETTLED)
                    with self._lock:
                        self._leaving += [] if gone or self._asks(held.name) else [held]

    def _watch(self) -> None:
        """Watch the cluster until this engine closes; if it is lost, end all waits and join it again."""
        while not self._closed.wait(WATCH):
            if is_there(shared=self.shared) or (self.shared and is_there(shared=True)):
                continue
            self._lost.set()
            log.warning("The cluster that computes is lost: joining it again.")
            while not self._closed.wait(AGAIN):
                try:
                    self._rejoin()
                    break
                except Exception as error:
                    log.warning("The cluster cannot be joined: %s", error)
            with self._lock:  # the replicas are gone, or belong to another session
                self._kind = ray.remote(Replica)
                self._rings.clear()
                self._leaving.clear()
            self._lost.clear()

    def _asks(self, name: str) -> bool:
        """Return whether this page uses the replica of that name."""
        with self._lock:
            return any(held.name == name for ring in self._rings.values() for held in ring)

    def _replica(self, model_id: str, number: int) -> Held:
        need = self._needs[model_id]
        variables = {name: os.environ[name] for name in ENVIRONMENT if os.environ.get(name)} if self.shared else {}
        name = f"{model_id}#{number}"
        self._leaving = [held for held in self._leaving if held.name != name]  # the replica stays
        actor = self._kind.options(
            name=name,
            get_if_exists=True,  # another page may have started it
            lifetime="detached" if self.shared else None,
            num_cpus=need.cpus,
            num_gpus=need.gpus,
            memory=need.memory,
            max_restarts=-1,
            max_task_retries=RETRIES,
            max_pending_calls=PENDING,
            max_concurrency=THREADS,
            runtime_env={"env_vars": variables} if variables else None,
        ).remote(self.options, model_id, self.cpus)
        held = Held(name, actor, None)
        held.hello = _send(held, "ready")
        return held

    def _make_room(self, need: Need) -> None:
        """Remove replicas of other models, least recently used first, until there is room."""
        idle = [(ring, held) for ring in self._rings.values() for held in ring if not held.under_way]
        for ring, held in sorted(idle, key=lambda each: each[1].last):
            if need.fits(ray.available_resources()) or time.monotonic() - held.last < SETTLED:
                return
            self._retire(ring, held, SETTLED)

    def _retire(self, ring: list[Held], held: Held, seconds: float) -> None:
        """Stop a replica that had no question for `seconds`, and remove it from its ring."""
        if self._end(held, seconds):
            ring.remove(held)

    def _end(self, held: Held, seconds: float) -> bool:
        """Stop a replica that had no question from any page for `seconds`; return whether it has ended."""
        with contextlib.suppress(RayActorError, GetTimeoutError):
            if ray.get(_send(held, "unused"), timeout=1.0) < seconds:
                return False
            ray.kill(held.actor)
        return True

    def _forget(self, model_id: str, held: Held, error: Exception) -> None:
        """Remove a replica that has died permanently."""
        with self._lock:
            ring = self._rings.get(model_id, [])
            if isinstance(error, ActorDiedError) and held in ring:
                ring.remove(held)


def _send(held: Held, method: str, *arguments: object) -> Any:
    return getattr(held.actor, method).remote(*arguments)


def _sent(held: Held, method: str, *arguments: object) -> Any:
    """Send a call when the replica has room for it, and return its reference. Raises Busy if the replica stays full."""
    until = time.monotonic() + FULL
    while True:
        try:
            return _send(held, method, *arguments)
        except PendingCallsLimitExceeded:
            if time.monotonic() >= until:
                raise Busy from None
            time.sleep(PAUSE)


@contextlib.contextmanager
def _counted(held: Held) -> Iterator[None]:
    held.under_way += 1
    try:
        yield
    finally:
        held.under_way -= 1
        held.last = time.monotonic()


def _value(data: bytes) -> Any:
    """Return a replica's answer, or raise the error that it sent."""
    if isinstance(value := pickle.loads(data), RefusedQuestion):
        raise value.error
    return value


def _unreachable() -> PlaygroundError:
    return PlaygroundError("The compute machines cannot be reached.", "", "Try again in a moment.")
