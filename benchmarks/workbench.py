"""What a visitor waits for: from a typed prompt to a map and to all heads painted, and from a click to a map painted.

    python benchmarks/workbench.py [--model tinygpt] [--tokens 32 128 512] [--rounds 7] [--bertviz]

Drives the real page in Chromium; head 1.2 is picked while prompts are typed. "painted" is two animation frames after
the new picture is on the page. Beside it: the bytes sent for all heads, the longest task of the browser's main thread,
and the growth of the server's resident memory from the first prompt of a length, and from all of them (traces are kept
up to --memory). With --bertviz, the same shapes through BertViz's model_view: seconds of Python and the size of the
page it makes, for random attention of the same layers, heads and tokens. Needs benchmarks/requirements.txt.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TIMES = ("mapped", "typed", "clicked")
TEXT = (ROOT / "tests" / "data" / "story.txt").read_text(encoding="utf-8")

# Milliseconds from a typed text or a click until two frames after each part's data-run is another one, and the longest
# task above 50 ms.
TIMED = """async ([parts, typed, clicked]) => {
  const roots = parts.map((part) => document.querySelector(`#pg-${part} [data-part]`));
  const tasks = [];
  const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration)));
  observer.observe({ entryTypes: ["longtask"] });
  const before = roots.map((root) => root.dataset.run);
  const box = document.querySelector("#prompt textarea"), button = document.querySelector(clicked || "body");
  const started = performance.now();
  if (clicked) button.click();
  else {
    Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(box, typed);
    box.dispatchEvent(Object.assign(new Event("input", { bubbles: true }), { released: true }));
  }
  const took = await Promise.all(roots.map((root, n) => new Promise((done, fail) => {
    const stop = setTimeout(() => fail(new Error("never painted")), 60000);
    const look = () => {
      if (root.dataset.run === before[n]) return requestAnimationFrame(look);
      clearTimeout(stop);
      requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - started)));
    };
    look();
  })));
  await new Promise((done) => setTimeout(done, 300));
  observer.disconnect();
  return [took, Math.max(0, ...tasks)];
}"""


def server(model: str) -> tuple[subprocess.Popen, str]:
    """`python app.py` and its address."""
    process = subprocess.Popen(
        [sys.executable, "app.py", "--offline", "--model", model],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    line = process.stdout.readline()
    if not line.startswith("Attention playground:"):
        raise SystemExit("the app did not start")
    return process, line.split()[-1]


def resident(process: subprocess.Popen) -> float:
    """Megabytes of memory that the server holds."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def prompts(model: str, T: int, count: int) -> list[str]:
    """Different texts of exactly T tokens, from the same story."""
    from model.api import load_model

    lm = load_model(model, offline=True)
    ids = lm.encode(TEXT * (1 + 40 * T // len(TEXT))).ids
    found = []
    for start in range(0, len(ids) - T - 8, 3):
        text = lm.decode(ids[start : start + T])
        if len(lm.encode(text)) == T:
            found.append(text)
        if len(found) == count:
            return found
    raise SystemExit(f"no {count} texts of {T} tokens")


def visit(page, texts: list[str], heads: list[tuple[int, int]], held: Callable[[], float]) -> dict:
    """Type every prompt, click every head, and say what that took; `held` tells the server's memory."""
    mapped, typed, clicked, tasks, before, first = [], [], [], [], held(), 0.0
    for n, text in enumerate(texts):
        (whole, own), task = page.evaluate(TIMED, [["overview_heads", "map_plot"], text, ""])
        if n:  # the first of a length warms up
            mapped.append(own)
            typed.append(whole)
            tasks.append(task)
        page.wait_for_timeout(700)
        first = first or held() - before
    for n, (layer, head) in enumerate(heads):
        button = f'.pg-head[aria-label="Head {layer}.{head}"]'
        (took,), task = page.evaluate(TIMED, [["map_plot"], "", button])
        if n:
            clicked.append(took)
            tasks.append(task)
        page.wait_for_timeout(100)
    page.evaluate("playground.select({heads: [[1, 2]]})")
    page.wait_for_timeout(500)
    return {
        "mapped": mapped,
        "typed": typed,
        "clicked": clicked,
        "task": max(tasks),
        "first": first,
        "all": held() - before,
    }


def payload_bytes(model: str, text: str) -> int:
    """Bytes of what is sent for all heads."""
    import json

    from model.api import load_model
    from viz.charts.heatmap import overview

    lm = load_model(model, offline=True)
    trace = lm.trace(text)
    return len(json.dumps(overview(trace.thumbnails, trace.head_metrics(), lm.config.group_size)))


def bertviz(L: int, H: int, T: int) -> tuple[float, float]:
    """Seconds and megabytes of BertViz's model_view for random attention of that shape."""
    import torch
    from bertviz import model_view

    attention = [torch.rand(1, H, T, T).tril().softmax(-1) for _ in range(L)]
    started = time.perf_counter()
    html = model_view(attention, [f"t{i}" for i in range(T)], html_action="return").data
    return time.perf_counter() - started, len(html.encode()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tinygpt")
    parser.add_argument("--tokens", type=int, nargs="+", default=[32, 128, 512])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bertviz", action="store_true")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    texts = {T: prompts(options.model, T, options.rounds + 1) for T in options.tokens}
    process, url = server(options.model)
    names = (
        "T",
        "prompt to the picked head's map, ms",
        "to all heads, ms",
        "click to map, ms",
        "longest task, ms",
        "all heads, kB",
        "one prompt + MB",
        "all + MB",
    )
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    try:
        with sync_playwright() as p:
            chromium = p.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
            page = chromium.new_page(viewport={"width": 1280, "height": 900})
            page.goto(url + "?lang=en#tab=attention&heads=1.2")
            page.locator("#pg-map_plot [data-run]").wait_for(timeout=60_000)
            shape = page.locator(".pg-head").last.get_attribute("aria-label")  # "Head 7.7"
            L, H = (int(part) + 1 for part in shape.removeprefix("Head ").split("."))
            heads = [((7 * n) % L, (3 * n + 1) % H) for n in range(options.rounds + 1)]
            for T in options.tokens:
                found = visit(page, texts[T], heads, lambda: resident(process))
                size = payload_bytes(options.model, texts[T][0]) / 1e3
                took = {name: f"{statistics.median(found[name]):.0f} ({max(found[name]):.0f})" for name in TIMES}
                memory = f"{found['first']:.0f} | {found['all']:.0f}"
                print(
                    f"| {T} | {' | '.join(took.values())} | {found['task']:.0f} | {size:.0f} | {memory} |",
                    flush=True,
                )
            chromium.close()
    finally:
        process.terminate()
    if options.bertviz:
        print("\n| T | BertViz model_view, s | MB of HTML |\n|---|---|---|")
        for T in options.tokens:
            seconds, size = bertviz(L, H, T)
            print(f"| {T} | {seconds:.2f} | {size:.1f} |", flush=True)


if __name__ == "__main__":
    main()
