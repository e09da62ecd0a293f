"""The time of every kind of step on one position's logits: median and slowest of many runs, in ms.

    python benchmarks/warps.py [--sizes 8192 50257 151936] [--history 1000] [--runs 60]

Logits are normal with a standard deviation of 3, as a model's are; the text before is random, with its last 200 tokens
written twice, so that DRY finds a repetition. "loop" is a text of two tokens in turn, DRY's worst case.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from model.sampling.pipeline import Context, Step
from model.sampling.warps import WARPS, run_steps


def step_of(warp: str, size: int) -> Step:
    """The warp with its defaults, 32 biases, 64 banned phrases or breakers in a twentieth of the vocabulary."""
    tokens = tuple((97 * n % size, 1.0) for n in range(32)) if WARPS[warp].takes_tokens else ()
    count = {"banned": 64, "breakers": size // 20}.get(WARPS[warp].takes_phrases, 0)
    length = 3 if WARPS[warp].takes_phrases == "banned" else 1
    phrases = tuple(tuple((31 * n + at) % size for at in range(length)) for n in range(count))
    return Step(warp, tokens=tokens, phrases=phrases)


def milliseconds(step: Step, logits: torch.Tensor, context: Context, runs: int) -> list[float]:
    """Time each run of a step, after three that do not count."""
    times = []
    for n in range(runs + 3):
        began = time.perf_counter()
        run_steps(logits, (step,), context)
        if n >= 3:
            times.append(1000 * (time.perf_counter() - began))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[8192, 50257, 151936])
    parser.add_argument("--history", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"| step | {' | '.join(f'{size:,} tokens' for size in options.sizes)} |")
    print("|---|" + "---|" * len(options.sizes))
    rows = dict.fromkeys(WARPS, "random") | {"dry ": "loop"}
    for name, text in rows.items():
        cells = []
        for size in options.sizes:
            generator = torch.Generator().manual_seed(0)
            logits = 3 * torch.randn(size, generator=generator)
            ids = torch.randint(size, (options.history,), generator=generator).tolist()
            ids = [*ids[:-400], *ids[-200:], *ids[-200:]] if text == "random" else [0, 2] * (options.history // 2)
            step = step_of(name.strip(), size) if text == "random" else Step("dry")  # no breaker ends the loop
            times = milliseconds(step, logits, Context(tuple(ids), 10, chance=0.0), options.runs)
            cells.append(f"{statistics.median(times):.2f} ({max(times):.2f})")
        print(f"| {name.strip()}{', in a loop' if text == 'loop' else ''} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
