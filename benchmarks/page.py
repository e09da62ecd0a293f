"""What the page costs: bytes on the wire, the time until its first picture, the server's time for a head click.

    python benchmarks/page.py [--app FOLDER]... [--rounds 5] [--clicks 30]

Drives the real page of one checkout or of several (each FOLDER has an app.py) in Chromium, in turn, round by round, so
that a slow minute hits all of them. A round opens the page in a new profile (nothing kept) and once more in the same
one, then clicks heads one after another. "painted" is two animation frames after the picture is on the page. The
server's time is processor time of its process, as the kernel counts it, so that a busy neighbor hardly changes it.
Needs benchmarks/requirements.txt.
"""

import argparse
import gzip
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
IDLE = 10  # seconds of a page that nobody touches
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
# Milliseconds from the start of the navigation until two frames after the first picture is drawn.
FIRST = """() => new Promise((done, fail) => {
  const stop = setTimeout(() => fail(new Error("never painted")), 60000);
  const look = () => {
    if (!document.querySelector("#pg-start_next [data-run], .pg-chart .main-svg")) return requestAnimationFrame(look);
    clearTimeout(stop);
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
  };
  look();
})"""
# Where the page begins with another tab, the one with the map is opened.
OPEN = """() => new Promise((done, fail) => {
  const stop = setTimeout(() => fail(new Error("never drawn")), 60000);
  const look = () => {
    if (document.querySelector(".pg-chart .main-svg") && document.querySelector(".pg-head[aria-label]")) {
      clearTimeout(stop);
      return done();
    }
    requestAnimationFrame(look);
  };
  document.querySelector(".pg-nav [data-tab=attention]")?.click();
  look();
})"""
CLICK = """([layer, head]) => new Promise((done, fail) => {
  const stop = setTimeout(() => fail(new Error("never painted")), 60000), name = `Head ${layer}.${head}`;
  const started = performance.now();
  const labels = [`Layer ${layer}, head ${head}`, name].map((label) => `.pg-head[aria-label="${label}"]`);
  document.querySelector(labels.join()).click();
  const look = () => {
    if (![...document.querySelectorAll("h2")].some((title) => title.textContent === name))
      return requestAnimationFrame(look);
    clearTimeout(stop);
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - started)));
  };
  look();
})"""


def server(folder: Path) -> tuple[subprocess.Popen, str]:
    """`python app.py` of a checkout, and its address."""
    process = subprocess.Popen(
        [sys.executable, "app.py", "--offline"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    line = process.stdout.readline()
    if not line.startswith("Attention playground:"):
        raise SystemExit(f"the app of {folder} did not start")
    return process, line.split()[-1]


def processor_time(process: subprocess.Popen) -> float:
    """Seconds of processor time that a process has taken so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def browser_time() -> float:
    """Seconds of processor time that the browsers of this process have taken so far."""
    spent = [each.cpu_times() for each in psutil.Process().children(recursive=True) if "chrom" in each.name()]
    return sum(each.user + each.system for each in spent)


def fetched(url: str) -> tuple[int, int]:
    """Bytes of an answer as text, and as they travel."""
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request) as answer:
        sent = answer.read()
        packed = answer.headers.get("Content-Encoding") == "gzip"
    return len(gzip.decompress(sent)) if packed else len(sent), len(sent)


def visit(playwright, process: subprocess.Popen, url: str, clicks: int) -> dict[str, list[float]]:
    """One round: the page opened twice, and heads clicked."""
    with tempfile.TemporaryDirectory() as profile:
        chromium = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=shutil.which("chromium"),
            args=list(FLAGS),
            viewport={"width": 1280, "height": 900},
        )
        page = chromium.new_page()
        page.goto(url + "?lang=en", wait_until="commit")
        new = page.evaluate(FIRST)
        page.wait_for_timeout(1500)
        before = processor_time(process)
        page.goto(url + "?lang=en", wait_until="commit")
        again = page.evaluate(FIRST)
        page.wait_for_timeout(1500)
        opening = processor_time(process) - before
        page.evaluate(OPEN)
        heads = [(n % 8, (3 * n + n // 8 + 1) % 8) for n in range(clicks + 3)]
        for each in heads[:3]:  # the first ones warm up
            page.evaluate(CLICK, each)
        page.wait_for_timeout(500)
        before, painted = processor_time(process), []
        for each in heads[3:]:
            painted.append(page.evaluate(CLICK, each))
            page.wait_for_timeout(50)
        page.wait_for_timeout(500)
        spent = 1e3 * (processor_time(process) - before) / clicks
        page.wait_for_timeout(5000)  # what is done once nobody does anything
        before = browser_time()
        page.wait_for_timeout(1000 * IDLE)
        idle = 1e3 * (browser_time() - before) / IDLE
        chromium.close()
    return {
        "a new visitor's first picture, ms": [new],
        "a second visit's first picture, ms": [again],
        "server's time of a visit, ms": [1e3 * opening],
        "click to map painted, ms": painted,
        "server's time of a head click, ms": [spent],
        "browser's time of a page left alone, ms a second": [idle],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--app", type=Path, action="append", help="a checkout; this one where none is named")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clicks", type=int, default=30)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    folders = options.app or [ROOT]
    started = [server(folder) for folder in folders]
    rows: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    try:
        time.sleep(5)  # what a server does once after it came up
        for n, (_, url) in enumerate(started):
            for name, path in (("/", "?lang=en"), ("/config", "config")):
                whole, sent = fetched(url + path)
                rows[f"bytes of {name}"][n] = [whole]
                rows[f"bytes of {name} as sent"][n] = [sent]
        with sync_playwright() as playwright:
            for _ in range(options.rounds):
                for n, (process, url) in enumerate(started):
                    for name, numbers in visit(playwright, process, url, options.clicks).items():
                        rows[name][n] += numbers
    finally:
        for process, _ in started:
            process.terminate()
    print(f"| medians | {' | '.join(folder.resolve().name for folder in folders)} |")
    print("|---|" + "---|" * len(folders))
    for name, found in rows.items():
        cells = [f"{statistics.median(found[n]):,.4g}" if "ms" in name else f"{found[n][0]:,}" for n in sorted(found)]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
