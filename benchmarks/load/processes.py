"""The processes of a server under load: what each kind holds and uses over time, and which of them can be killed."""

import asyncio
import contextlib
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.load.report import Sample, look
from viz.cluster.workers.pool import PORT, health_of

KINDS = {"page": "app.py", "proxy": "haproxy", "ray": "ray"}  # the first whose text the command has


def command_of(pid: int) -> str:
    """The command line of a process, "" for one that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def family(pid: int) -> Iterator[int]:
    """A process and all that descend from it. Linux only."""
    yield pid
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in file.read_text().split():
                yield from family(int(child))


def kind_of(pid: int, root: int, workers: bool) -> str:
    """What a process of a server is; the command that watches page processes is none of them."""
    command = command_of(pid)
    if pid == root and workers:
        return "pool"
    if command.startswith(("setpriv", "sh ")) or "resource_tracker" in command or "multiprocessing" in command:
        return "child"
    if command.startswith("ray::"):  # Ray's own agents are called likewise
        return "replica" if command.startswith("ray::Replica") or "#" in command else "ray"
    return next((kind for kind, text in KINDS.items() if text in command), "child")


def kinds(root: int, workers: bool) -> dict[str, list[int]]:
    """The processes of a server by kind."""
    found: dict[str, list[int]] = defaultdict(list)
    for pid in family(root):
        found[kind_of(pid, root, workers)].append(pid)
    return found


class Watch:
    """Looks at all processes of a server, every two seconds."""

    def __init__(self, root: int, workers: bool) -> None:
        self.root, self.workers = root, workers
        self.samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)

    def look(self) -> None:
        """Once."""
        for kind, pids in kinds(self.root, self.workers).items():
            for pid in pids:
                with contextlib.suppress(OSError):
                    self.samples[kind, pid].append(look(pid))

    async def go(self) -> None:
        """Until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(2)

    def summary(self, visitors: int) -> dict[str, dict]:
        """By kind: processes, MB resident of the largest (first, most, last), seconds of processor, cores a visitor."""
        found: dict[str, dict] = {}
        times = [sample.at for each in self.samples.values() for sample in each]
        span = max(times) - min(times) if times else 0.0
        for kind in dict.fromkeys(kind for kind, _ in self.samples):
            mine = [each for (other, _), each in self.samples.items() if other == kind]
            largest = max(mine, key=lambda each: max(sample.resident for sample in each))
            cpu = sum(each[-1].cpu - each[0].cpu for each in mine)
            found[kind] = {
                "processes": len(mine),
                "first": round(largest[0].resident),
                "most": round(max(sample.resident for sample in largest)),
                "last": round(largest[-1].resident),
                "cpu": round(cpu, 1),
                "cores": round(cpu / span, 3) if span else 0.0,
                "cores_a_visitor": round(cpu / span / visitors, 5) if span else 0.0,
            }
        return found


def wait_for_all(root: int, workers: int, patience: float = 120.0) -> None:
    """Wait until all page processes of a pool answer; the proxy begins with the first."""
    until = time.monotonic() + patience
    while workers > 1 and time.monotonic() < until:
        ports = [port_of(pid) for pid in kinds(root, True)["page"]]
        if sum(port is not None and health_of(port) is not None for port in ports) >= workers:
            return
        time.sleep(0.5)


def port_of(pid: int) -> int | None:
    """Where a page process of a pool listens."""
    with contextlib.suppress(OSError):
        for pair in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if pair.startswith(PORT.encode() + b"="):
                return int(pair.split(b"=")[1])
    return None


def kill(kind: str, root: int, workers: bool) -> int | None:
    """Kill one process of a kind, as a machine's memory guard does; its number, None where there is none."""
    pids = kinds(root, workers).get(kind, [])
    if not pids:
        return None
    os.kill(pids[0], signal.SIGKILL)
    return pids[0]
