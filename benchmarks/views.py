"""What each view of the tabs of predictions, norms and activations takes, from a stored trace.

    python benchmarks/views.py [--model smollm2-135m] [--tokens 32 512] [--rounds 3]

In one process, without a browser: the prompt is run, then every view is asked for as the page asks for it, first with
nothing kept ("first") and then with another token picked ("again", what was kept of the prompt is there). The figures
are the median over the rounds, each with another prompt. "forwards" counts blocks of the model that were run whole
while the views were drawn, in units of the model's layers.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from model.gpt.transformer import Block  # noqa: E402
from viz.page.pipeline import PageRequest, payloads  # noqa: E402
from viz.views.tabs import TABS  # noqa: E402
from viz.work.playground import Options, Playground  # noqa: E402

TEXT = (ROOT / "tests" / "data" / "story.txt").read_text(encoding="utf-8")
OF = ("predictions", "activations")


def views(key: str) -> list[str]:
    """The keys of a tab's views."""
    tab = next(tab for tab in TABS if tab.key == key)
    return [name.removesuffix("_about") for name in tab.parts if name.endswith("_about")]


def ask(playground: Playground, prompt: str, tab: str, view: str, token: int) -> tuple[float, int]:
    """Seconds until the view's payloads are there, and their bytes as text."""
    asked = PageRequest(
        playground.options.model,
        prompt,
        {"heads": [[3, 1]], "tokens": [token]},
        {f"{tab}_view": {"view": view}},
        {},
        "en",
        tab,
    )
    started = time.perf_counter()
    parts, _ = payloads(playground, asked)
    seconds = time.perf_counter() - started
    told = [part["problem"]["text"] for part in parts.values() if "problem" in part]
    if told or parts.get("notice"):
        raise SystemExit(f"{view}: {told or parts['notice']}")
    return seconds, len(str({name: part for name, part in parts.items() if name.startswith(view)}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--tokens", type=int, nargs="+", default=[32, 512])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    playground = Playground(Options(options.model, offline=True))
    lm = playground.load(options.model)
    ids = lm.encode(TEXT * (1 + 40 * max(options.tokens) // len(TEXT))).ids
    count, whole = [0], Block.forward

    def counted(self, *given):
        count[0] += 1
        return whole(self, *given)

    Block.forward = counted
    print(
        "| view | T | first, ms | again, ms | kB | forwards, first | forwards, again |\n|---|---|---|---|---|---|---|"
    )
    for tab in OF:
        for view in views(tab):
            for T in options.tokens:
                taken: dict[str, list] = {"first": [], "again": [], "size": [], "run": [], "rerun": []}
                for n in range(options.rounds + 1):
                    prompt = lm.decode(ids[7 * n : 7 * n + T - 4])
                    last = len(playground.tokens(lm, prompt)) - 1
                    playground.trace(lm, prompt)
                    for name, runs, token in (("first", "run", last), ("again", "rerun", last // 2)):
                        count[0] = 0
                        seconds, size = ask(playground, prompt, tab, view, token)
                        if n:  # the first prompt warms up
                            taken[name].append(seconds * 1000)
                            taken[runs].append(count[0] / lm.config.n_layer)
                            taken["size"].append(size / 1000)
                first, again, size = (statistics.median(taken[name]) for name in ("first", "again", "size"))
                forwards = " | ".join(f"{max(taken[name]):.1f}" for name in ("run", "rerun"))
                print(f"| {view} | {T} | {first:.0f} | {again:.0f} | {size:.0f} | {forwards} |", flush=True)


if __name__ == "__main__":
    main()
