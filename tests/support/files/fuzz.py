"""Open damaged files for a while and count what comes of it: `python -m tests.support.files.fuzz --minutes 5`.

Each file is opened in a second process with little memory, so that a file that hangs, crashes or takes gigabytes is
told apart from one that is refused. What is allowed: the file is read, or a PlaygroundError with a sentence and advice.
"""

import argparse
import contextlib
import multiprocessing
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from tests.support.files import valid_kinds
from tests.support.files.corruption import damage

PATIENCE = 60.0  # seconds for one file, on a busy machine; a hundred times what any takes
MEMORY = 1 << 30  # bytes beyond what the process has when it begins
LONGEST = 1200  # characters of a message
READ, REFUSED = "read", "refused"


@dataclass(frozen=True)
class Outcome:
    """What became of one file: "read", "refused", or a fault, and the words for it."""

    kind: str
    detail: str


def wrong_words(error: Exception) -> str:
    """What is wrong with the words of a PlaygroundError; "" where nothing is."""
    if not (error.what and error.hint):
        return "says nothing" if not error.what else "gives no advice"
    message = str(error)
    if len(message) > LONGEST:
        return f"a message of {len(message)} characters"
    hidden = [char for char in message if not char.isprintable() and char != "\n"]
    return f"shows {hidden[0]!r} as it stands" if hidden else ""


def opened(kind: str, folder: Path) -> Outcome:
    """Open the files of a kind; every exception but a PlaygroundError is a fault."""
    from model.errors import PlaygroundError

    try:
        valid_kinds.KINDS[kind].open(folder)
    except PlaygroundError as error:
        wrong = wrong_words(error)
        return Outcome(f"fault: {wrong}" if wrong else REFUSED, f"{type(error).__name__}: {error}"[:2000])
    except BaseException as error:
        lines = traceback.format_exception(error)
        return Outcome(f"fault: {type(error).__name__}", "".join(lines[-6:])[-2500:])
    return Outcome(READ, "")


def serve(connection: Connection) -> None:
    """Open what is asked for, with one thread and little memory, until told to stop."""
    import logging
    import os

    import torch

    torch.set_num_threads(1)
    logging.disable()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # warnings, and the tokenizer's own words about a panic
    with tempfile.TemporaryDirectory() as name:
        for number, kind in enumerate(valid_kinds.KINDS):  # so that libraries are in memory before it is bounded
            folder = Path(name) / str(number)
            folder.mkdir()
            valid_kinds.KINDS[kind].write(folder)
            connection.send(opened(kind, folder))
    with contextlib.suppress(ImportError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    while (asked := connection.recv()) is not None:
        connection.send(opened(*asked))


@dataclass(eq=False)
class Worker:
    """The second process. One that hangs or dies is replaced."""

    process: multiprocessing.Process | None = None
    connection: Connection | None = None

    def open(self, kind: str, folder: Path) -> Outcome:
        """What becomes of the files of a kind."""
        if self.process is None:
            self._start()
        self.connection.send((kind, folder))
        return self._answer()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        for kind in valid_kinds.KINDS:
            outcome = self._answer()
            if outcome.kind != READ:
                raise RuntimeError(f"the whole files of {kind} are not read: {outcome}")

    def _answer(self) -> Outcome:
        try:
            if self.connection.poll(PATIENCE):
                return self.connection.recv()
            fault = Outcome("fault: hangs", f"no answer for {PATIENCE:.0f} s")
        except EOFError:
            self.process.join(10)
            fault = Outcome("fault: the process died", f"exit code {self.process.exitcode}")
        self.stop()
        return fault

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = self.connection = None


@dataclass(eq=False)
class Templates:
    """The whole files of each kind, written once and copied."""

    folder: Path
    written: set[str] = field(default_factory=set)

    def copy(self, kind: str, to: Path) -> Path:
        """A fresh copy of the whole files of a kind."""
        source = self.folder / kind
        if kind not in self.written:
            source.mkdir(parents=True)
            valid_kinds.KINDS[kind].write(source)
            self.written.add(kind)
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(source, to)
        return to


def main() -> int:
    """Damage and open files until the time is over; the exit status is 1 where there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; without one, the time")
    parser.add_argument("--kinds", nargs="+", choices=tuple(valid_kinds.KINDS), default=list(valid_kinds.KINDS))
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    counts: Counter[tuple[str, str]] = Counter()
    faults: dict[str, str] = {}
    worker, end = Worker(), time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as name:
        templates, number = Templates(Path(name)), 0
        while time.monotonic() < end:
            kind = options.kinds[number % len(options.kinds)]
            folder = templates.copy(kind, Path(name) / "damaged")
            what = damage(Random(f"{seed} {number}"), folder)
            outcome = worker.open(kind, folder)
            counts[kind, outcome.kind] += 1
            if outcome.kind not in (READ, REFUSED):
                last = outcome.detail.strip().splitlines()[-1] if outcome.detail else ""
                faults.setdefault(f"{outcome.kind}: {last}"[:200], f"{kind}, number {number}, {what}\n{outcome.detail}")
            number += 1
        worker.stop()
    sys.stdout.reconfigure(errors="backslashreplace")
    for fault in faults.values():
        print(f"{fault}\n")
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{kind:10} {outcome:30} {count:7}")
    print(f"seed {seed}, {number} files, {len(faults)} different faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
