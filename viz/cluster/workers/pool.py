"""Several page processes and the proxy in front of them: started, monitored, restarted, and drained one by one."""

import argparse
import contextlib
import http.client
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from model import FOLDER, PREFIX
from model.errors import InputError
from viz.cluster.workers.haproxy import HEALTH, Front, config, name_of
from viz.work.addresses import urls

log = logging.getLogger("playground")

# Environment variables that the pool sets for its processes.
PORT, PLACE, KEY = "PLAYGROUND_PORT", "PLAYGROUND_PLACE", "PLAYGROUND_KEY"
START = 300.0  # seconds to wait for a process to become ready; models may have to be downloaded
PROXY = 10.0  # seconds to wait for the proxy to listen
DRAIN = 600.0  # seconds to wait for open pages before their process is ended
LOOK = 0.5  # seconds between two checks of the processes
PROGRAM = ["-P", "-m", f"{PREFIX}app"] if PREFIX else [str(FOLDER / "app.py")]  # arguments of Python that start the app
CALM = 5.0  # minimum seconds between two starts of a process


@dataclass(eq=False)
class Worker:
    """A page process."""

    number: int
    port: int
    process: subprocess.Popen
    begun: float = field(default_factory=time.monotonic)


def is_worker() -> bool:
    """Return whether this process was started by a pool."""
    return PORT in os.environ


def free_ports(count: int) -> list[int]:
    """Find unused ports of this machine."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def is_free(host: str, port: int) -> bool:
    """Return whether this process could listen at an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
            tried.listen()
        except OSError:
            return False
    return True


def health_of(port: int) -> dict | None:
    """Return the health report of a process, or None if it does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", HEALTH)
        return json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()


class Pool:
    """A pool that runs `command` in several processes, each with its own port, behind one proxy. Call `start`, then
    `watch` until `stop`.
    """

    def __init__(self, command: Sequence[str], front: Front, count: int, say: Callable[[str], None] = print) -> None:
        haproxy = shutil.which("haproxy")
        if haproxy is None:
            raise InputError("Several processes need a proxy.", "haproxy", "Install it: apt-get install haproxy.")
        self._haproxy, self.command, self.count, self._say = haproxy, list(command), count, say
        self.folder = Path(tempfile.mkdtemp(prefix="playground-"))
        self.front = front
        self.ports = free_ports(count)
        self.workers: list[Worker] = []
        self.proxy: subprocess.Popen | None = None
        self._environment = {**os.environ, KEY: secrets.token_hex(32)}
        self._ended = threading.Event()
        self._replacing = threading.Lock()  # keeps `look` from restarting what `roll` has ended

    def start(self) -> None:
        """Start all processes, and the proxy when one of them is ready.

        Raises InputError if no process becomes ready or, before any is started, if the address is taken.
        """
        if not is_free(self.front.host, self.front.port):
            shutil.rmtree(self.folder, ignore_errors=True)
            hint = "Choose another --port or --host."
            raise InputError("The proxy cannot listen at this address.", f"{self.front.host}:{self.front.port}", hint)
        self.workers = [self._worker(number) for number in range(self.count)]
        until = time.monotonic() + START
        while not any(health_of(port) for port in self.ports):
            ended = all(worker.process.poll() is not None for worker in self.workers)
            if ended or time.monotonic() > until or self._ended.wait(0.2):
                self.stop()
                raise InputError("No page process could be started.", "", "Start a single one to see why.")
        (self.folder / "haproxy.cfg").write_text(config(self.front, self.ports), encoding="utf-8")
        self._start_proxy()
        until = time.monotonic() + PROXY
        while is_free(self.front.host, self.front.port) and time.monotonic() < until:
            self._ended.wait(0.05)

    def watch(self) -> None:
        """Restart processes that end, until `stop`."""
        while not self._ended.wait(LOOK):
            self.look()

    def look(self) -> None:
        """Check all processes once, and restart those that have ended, but not too often."""
        with self._replacing:
            for at, worker in enumerate(self.workers):
                if worker.process.poll() is not None and time.monotonic() - worker.begun > CALM:
                    log.warning("%s ended (%s): starting it again", name_of(worker.number), worker.process.returncode)
                    self.workers[at] = self._worker(worker.number)
        if self.proxy is not None and self.proxy.poll() is not None:
            log.warning("the proxy ended (%s): starting it again", self.proxy.returncode)
            self._start_proxy()

    def roll(self, drain: float = DRAIN) -> None:
        """Replace the processes one by one: each stops accepting new pages, waits for its open ones, and is
        restarted.
        """
        for at, worker in enumerate(list(self.workers)):
            worker.process.send_signal(signal.SIGUSR1)
            until = time.monotonic() + drain
            while not self._ended.is_set() and time.monotonic() < until:
                report = health_of(worker.port)
                if report is None or (report["state"] == "draining" and not report["pages"]):
                    break
                self._ended.wait(LOOK)
            with self._replacing:
                _end(worker.process)
                self.workers[at] = self._worker(worker.number)
            while not self._ended.is_set() and self.workers[at].process.poll() is None and not health_of(worker.port):
                self._ended.wait(LOOK)

    def stop(self) -> None:
        """End all processes and the proxy."""
        self._ended.set()
        for process in (self.proxy, *(worker.process for worker in self.workers)):
            if process is not None:
                _end(process)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _worker(self, number: int) -> Worker:
        port = self.ports[number]
        environment = {**self._environment, PORT: str(port), PLACE: name_of(number)}
        return Worker(number, port, subprocess.Popen(self.command, env=environment, stdout=subprocess.DEVNULL))

    def _start_proxy(self) -> None:
        bound = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []  # makes it end with this process
        command = [*bound, self._haproxy, "-db", "-f", str(self.folder / "haproxy.cfg")]
        self.proxy = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # `look` restarts it if it ends


def _end(process: subprocess.Popen, patience: float = 8.0) -> None:
    """Ask a process to end, and kill it if it does not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def command_of(options: argparse.Namespace, arguments: Sequence[str]) -> list[str]:
    """Build the command of one process: the pool's own, without `--workers`, behind one more proxy, with its share of
    the cores.
    """
    cores = options.threads or os.cpu_count() or 1
    own = ["--workers", "1", "--behind-proxy", str(options.behind_proxy + 1)]
    return [sys.executable, *PROGRAM, *arguments, *own, "--threads", str(max(1, cores // options.workers))]


def serve(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Serve the page with `--workers` processes until interrupted; SIGHUP replaces them one by one."""
    port = options.port or 7860
    front = Front(options.host, port, options.behind_proxy, options.public, bool(options.embed))
    pool = Pool(command_of(options, arguments), front, options.workers)
    rolling = threading.Lock()

    def roll() -> None:
        if rolling.acquire(blocking=False):
            try:
                pool.roll()
            finally:
                rolling.release()

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=roll, daemon=True).start())
    try:
        pool.start()
        own, others = urls(options.host, port)
        print(f"Attention playground: {own}, {options.workers} processes", flush=True)
        if others:
            print(f"For other computers on this network: {' '.join(others)}", flush=True)
        pool.watch()
    except KeyboardInterrupt:
        pass
    finally:
        pool.stop()
