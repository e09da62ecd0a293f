"""Code in a process of its own, which has imported torch and nothing of the page: sooner there than a new Python."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from viz.server.processes.start import context


@dataclass(frozen=True)
class Done:
    """How a process ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def _work(code: str, environment: dict[str, str], out: Path) -> None:
    os.environ.update(environment)
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(out / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
    page = [name for name in sys.modules if name.startswith(("gradio", "viz.views", "viz.page"))]
    assert not page, page  # what is tried here happens as they are imported
    exec(code, {"__name__": "__main__"})


def run(code: str, environment: dict[str, str], out: Path) -> Done:
    """Run code; what it writes is kept in a new folder, `out`."""
    out.mkdir()
    process = context().Process(target=_work, args=(code, environment, out))
    process.start()
    process.join(60)
    process.kill()
    written = ((out / name).read_text(encoding="utf-8") for name in ("stdout", "stderr"))
    return Done(process.exitcode, *written)
