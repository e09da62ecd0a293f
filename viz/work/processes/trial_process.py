"""Training runs that return a value, in separate processes, so that the page never waits for them.

`side_by_side` runs several small ones to compare models, `run_alone` runs one. The calling thread only listens. An
exception from `progress` cancels them and ends the processes immediately.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from model.errors import InputError, PlaygroundError
from model.progress import Progress
from viz.work.processes.start import context
from viz.work.processes.training_process import NICE, Failed, Workshop, cut_short

log = logging.getLogger("playground")

LISTEN = 0.2  # seconds between two checks for cancellation


def work(connection: Connection, tasks: Sequence[tuple[int, Callable[..., Any], tuple]], threads: int) -> None:
    """Run (number, function, arguments) one after the other; send ("step", number, done) and results.

    Each function gets a callback for its progress as an extra argument.
    """
    if hasattr(os, "nice"):
        os.nice(NICE)
    torch.set_num_threads(threads)
    try:
        for number, function, arguments in tasks:
            value = function(*arguments, lambda done, number=number: connection.send(("step", number, done)))
            connection.send(("value", number, value))
    except PlaygroundError as error:
        connection.send(("failed", -1, Failed(error.what, error.got, error.hint)))
    except (BrokenPipeError, EOFError, ConnectionResetError):
        pass  # the listening thread has ended
    except Exception as error:
        log.exception("a trial failed")
        connection.send(("failed", -1, Failed("", repr(error)[:200])))
    finally:
        connection.close()


def side_by_side(
    workshop: Workshop,
    tasks: Sequence[tuple[Callable[..., Any], tuple]],
    steps: int,
    progress: Progress,
    threads: int = 1,
) -> list[Any]:
    """Run tasks of `steps` steps each, `workshop.workers` at once, and return their values in order.

    Raises InputError if training is switched off, another run is in progress, or the time limit is reached;
    PlaygroundError if a process is killed; RuntimeError for an error in the task itself.
    """
    with workshop.trial():
        processes, connections = _begin(tasks, min(len(tasks), workshop.workers), threads)
        try:
            return _listen(connections, len(tasks), steps, 60 * workshop.limits.minutes, progress)
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.join(60)


def run_alone(
    workshop: Workshop, function: Callable[..., Any], arguments: tuple, steps: int, progress: Progress
) -> Any:
    """Run one task with as many threads as a training run and return its value. Raises the same errors as
    `side_by_side`.
    """
    return side_by_side(workshop, [(function, arguments)], steps, progress, workshop.threads)[0]


def _begin(
    tasks: Sequence[tuple[Callable[..., Any], tuple]], n: int, threads: int
) -> tuple[list[BaseProcess], list[Connection]]:
    """Start n processes, each with every n-th task."""
    processes, connections = [], []
    numbered = [(number, *task) for number, task in enumerate(tasks)]
    for first in range(n):
        ours, theirs = context().Pipe()
        process = context().Process(target=work, args=(theirs, numbered[first::n], threads), daemon=True)
        process.start()
        theirs.close()
        processes.append(process)
        connections.append(ours)
    return processes, connections


def _listen(connections: list[Connection], n: int, steps: int, seconds: float, progress: Progress) -> list[Any]:
    values: dict[int, Any] = {}
    done, began, listening = [0] * n, time.monotonic(), list(connections)
    while len(values) < n:
        for connection in wait(listening, LISTEN):
            try:
                kind, number, value = connection.recv()
            except (EOFError, OSError):
                listening.remove(connection)
                if any(number not in values for number in range(connections.index(connection), n, len(connections))):
                    raise _killed() from None
                continue
            if kind == "failed":
                if value.what:
                    raise PlaygroundError(value.what, value.got, value.hint)
                raise RuntimeError(value.got)
            if kind == "value":
                values[number], done[number] = value, steps
            else:
                done[number] = value
        if time.monotonic() - began > seconds:
            got = f"{seconds / 60:g} min"
            raise InputError(
                "The time for one training run is up.", got, "Request less, or raise the limit when you start the app."
            )
        progress(sum(done), n * steps, "")
    return [values[number] for number in range(n)]


def _killed() -> PlaygroundError:
    """Build the error for a process that ended before it finished its tasks."""
    failed = cut_short(0)
    log.error("a trial failed: %s", failed.what)
    return PlaygroundError(failed.what, failed.got, failed.hint)
