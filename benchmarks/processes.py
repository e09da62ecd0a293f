"""Engines that are measured in turn, each in a process of its own."""

import multiprocessing
import sys
from collections.abc import Callable


def start(worker: Callable, engine: str, shape: str, label: str):
    """A pipe to a process that runs worker(engine, shape, pipe); None where it does not send "ready" first."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=worker, args=(engine, shape, there), daemon=True).start()
    answer = here.recv()
    if answer == "ready":
        return here
    print(f"left out for {shape}: {label}: {answer[:120]}", file=sys.stderr)
    return None


def ask(pipe, request):
    """One answer of a worker."""
    pipe.send(request)
    return pipe.recv()
