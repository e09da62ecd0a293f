"""How long `python app.py` takes until its page is served, of one checkout or of several.

    python benchmarks/startup.py [--app FOLDER]... [--rounds 5] [--model tinygpt]

Each FOLDER has an app.py. They are started in turn, round by round, so that a slow minute hits all of them. "served" is
when GET / is answered; seconds of the clock, and of a processor as the kernel counts them for the process. The second
answer shows what the start put off. Nothing else is needed.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]


def processor_time(process: subprocess.Popen) -> float:
    """Seconds of processor time that a process has taken so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(folder: Path, model: str) -> dict[str, float]:
    """One start: until it says so, until the page is answered, and of the next two answers."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "app.py", "--offline", "--model", model],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        line = process.stdout.readline()
        if not line.startswith("Attention playground:"):
            raise SystemExit(f"the app of {folder} did not start")
        urllib.request.urlopen(line.split()[-1] + "?lang=en").read()
        found = {"page served, s": time.perf_counter() - began, "processor until then, s": processor_time(process)}
        began = time.perf_counter()
        urllib.request.urlopen(line.split()[-1] + "?lang=zh").read()
        found["the next page, s"] = time.perf_counter() - began
        time.sleep(3)
        found["processor 3 s later, s"] = processor_time(process)
    finally:
        process.terminate()
        process.wait()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--app", type=Path, action="append", help="a checkout; this one where none is named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default="tinygpt")
    options = parser.parse_args()
    folders = options.app or [ROOT]
    rows: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(options.rounds + 1):
        for n, folder in enumerate(folders):
            for name, seconds in start(folder, options.model).items():
                if number:  # the first round fills the caches of the disk
                    rows[name][n].append(seconds)
    print(f"| medians (least) | {' | '.join(folder.resolve().name for folder in folders)} |")
    print("|---|" + "---|" * len(folders))
    for name, found in rows.items():
        cells = [f"{statistics.median(found[n]):.2f} ({min(found[n]):.2f})" for n in sorted(found)]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
