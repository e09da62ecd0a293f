"""How long one head's map takes when it is asked for: `python benchmarks/on_demand.py`."""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))


def main() -> None:
    """Print a table: milliseconds for the pattern of one head, median and largest over heads of all layers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", nargs="+", type=int, default=[16, 64, 256, 1024])
    parser.add_argument("--wait-policy", default="PASSIVE")
    options = parser.parse_args()
    os.environ["OMP_WAIT_POLICY"] = options.wait_policy

    import torch

    from benchmarks.engines import SHAPES, ours

    print("| shape | T | ms (median) | ms (largest) |\n|---|---|---|---|")
    for shape, sizes in SHAPES.items():
        capture = ours(shape)
        for T in options.tokens:
            with torch.inference_mode():
                trace, _ = capture(torch.randint(0, sizes["vocab"], (1, T)))
            seconds = []
            for n in range(30):
                started = time.perf_counter()
                trace.pattern(n % sizes["layers"], n % sizes["heads"])
                seconds.append(time.perf_counter() - started)
            print(f"| {shape} | {T} | {statistics.median(seconds) * 1e3:.2f} | {max(seconds) * 1e3:.2f} |")


if __name__ == "__main__":
    main()
