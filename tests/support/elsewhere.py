"""Code, or an app, in a process of its own that has imported what others wrote: sooner there than a new Python."""

import importlib
import os
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import app
from viz.work.processes.start import IMPORTED, context

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Done:
    """How a process ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def _page(code: str, environment: dict[str, str], out: Path) -> None:
    os.environ.update(environment)
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(out / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
    page = [name for name in sys.modules if name.startswith(("viz.views", "viz.page"))]
    assert not page, page  # what is tried here happens as they are imported
    exec(code, {"__name__": "__main__"})


def run(code: str, environment: dict[str, str], out: Path) -> Done:
    """Run code; what it writes is kept in a new folder, `out`."""
    out.mkdir()
    process = context().Process(target=_page, args=(code, environment, out))
    process.start()
    process.join(60)
    process.kill()
    written = ((out / name).read_text(encoding="utf-8") for name in ("stdout", "stderr"))
    return Done(process.exitcode, *written)


def _serve(
    options: tuple[str, ...], environment: dict[str, str], told: Connection, log: Path, imports: tuple[str, ...]
) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(told.fileno(), 1)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
    told.close()
    os.chdir(ROOT)
    IMPORTED.append("tests.support.training.eager")
    for name in imports:
        importlib.import_module(name)
    app.main(list(options))


class App:
    """`python app.py` with options, after it has imported some modules. Its log is a file."""

    def __init__(self, options: tuple[str, ...], log: Path, imports: tuple[str, ...] = ()) -> None:
        self._told, theirs = context().Pipe(duplex=False)
        self._process = context().Process(target=_serve, args=(options, dict(os.environ), theirs, log, imports))
        self._process.start()
        theirs.close()
        self.log = log

    def line(self) -> str:
        """What it says next; nothing once it has ended."""
        line = bytearray()
        while (each := os.read(self._told.fileno(), 1)) not in (b"", b"\n"):
            line += each
        return line.decode()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.join(20)
