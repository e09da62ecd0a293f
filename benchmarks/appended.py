"""What typing costs: the run of a prompt with tokens appended, afresh and going on from the run before them.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/appended.py [--tokens 16 ...] [--rounds 7] [--threads 2]

Both ways make the residual stream, all metrics and a thumbnail of every head (model.tracing: trace and continued).
They are called in turn, on the same ids. Needs the weights of SmolLM2.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.engines import SHAPES, _our_model
from model.records import Tokens
from model.tracing.continued import kept, run_after
from model.tracing.trace import run


def tokens(ids: torch.Tensor) -> Tokens:
    """Tokens without texts."""
    T = len(ids)
    return Tokens(ids.numpy(), ("",) * T, (b"",) * T, torch.arange(2 * T).view(T, 2).numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[16, 32, 56, 250, 1016])
    parser.add_argument("--appended", type=int, nargs="+", default=[1, 6])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("| model | T before | appended | afresh, ms | going on, ms | share |")
    print("|---|---|---|---|---|---|")
    for shape, sizes in SHAPES.items():
        model = _our_model(shape)
        for T in options.tokens:
            seed = torch.Generator().manual_seed(0)
            ids = torch.randint(sizes["vocab"], (T + max(options.appended),), generator=seed)
            before = run(model, tokens(ids[:T]))
            for more in options.appended:
                text, took = tokens(ids[: T + more]), {"afresh": [], "going on": []}
                if not kept(before, model, text.ids):
                    continue
                for number in range(options.rounds + 1):
                    for name, others in (("afresh", []), ("going on", [before])):
                        started = time.perf_counter()
                        run_after(model, text, others)
                        if number:  # the first one warms up
                            took[name].append(1e3 * (time.perf_counter() - started))
                fresh, gone = (statistics.median(each) for each in took.values())
                print(f"| {shape} | {T} | {more} | {fresh:.1f} | {gone:.1f} | {gone / fresh:.2f} |", flush=True)


if __name__ == "__main__":
    main()
