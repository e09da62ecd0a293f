"""What it costs to look inside: this project's trace beside transformers and transformer-lens.

    python benchmarks/capture.py [--shapes gpt2 smollm2-135m tinygpt] [--tokens 16 64 256 1024] [--rounds 7]
        [--engines products ours eager]

Every engine lives in a process of its own and they are called in turn, so that a slow minute hits all of them.
Times are medians; memory is the rise of the resident set during one call (peak) and what is still held while its
result is alive (kept). "products" are a forward's matrix products alone: what a trace cannot do without. Lengths whose
maps would not fit in half of the free memory are left out for the engines that keep all maps. On a machine with a CUDA
device the same is measured on it, too. Needs benchmarks/requirements.txt; engines that cannot be loaded are left out.
"""

import argparse
import ctypes
import gc
import os
import statistics
import sys
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.processes import ask, start
from model.kernels.remembered import cpu

LABELS = {
    "products": "matrix products alone",
    "plain": "this project, forward only (last logits)",
    "ours": "this project, full trace",
    "sdpa": "transformers, SDPA, nothing captured",
    "eager": "transformers, eager, output_attentions",
    "lens": "transformer-lens, run_with_cache",
    "plain-cuda": "this project, forward only, products on the GPU",
    "ours-cuda": "this project, full trace, products on the GPU",
    "ours-cuda-bf16": "this project, full trace, bfloat16 products on the GPU",
    "eager-cuda": "transformers on the GPU, eager, output_attentions brought back",
}


# Engines that keep all maps, and how many times the size of the maps they need at most.
MAPS = {"eager": 2, "lens": 5, "eager-cuda": 2}


def fits(engine: str, shape: str, T: int) -> bool:
    """Return whether an engine's maps take at most half of the free memory."""
    from benchmarks.engines import SHAPES

    s = SHAPES[shape]
    return MAPS.get(engine, 0) * s["layers"] * s["heads"] * T * T * 4 < psutil.virtual_memory().available / 2


def resident(field: str) -> int:
    """A line of this process's status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {field} in /proc/self/status")


def trim() -> None:
    """Give freed memory back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def worker(engine: str, shape: str, pipe) -> None:
    """Answer ("time" | "memory", T) with seconds or (peak, kept) bytes until told to stop."""
    import torch

    from benchmarks.engines import ENGINES, SHAPES

    try:
        run = ENGINES[engine](shape)
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send("ready")
    generator = torch.Generator().manual_seed(0)
    while (request := pipe.recv()) is not None:
        what, T = request
        ids = torch.randint(0, SHAPES[shape]["vocab"], (1, T), generator=generator)
        with torch.inference_mode():
            if what == "time":
                started = time.perf_counter()
                run(ids)
                pipe.send(time.perf_counter() - started)
            else:
                trim()  # else a call reuses what an earlier one freed, and seems to need nothing
                Path("/proc/self/clear_refs").write_text("5")
                before = resident("VmRSS")
                result = run(ids)
                peak = resident("VmHWM") - before
                trim()
                kept = resident("VmRSS") - before
                del result
                pipe.send((peak, kept))


def measure(shape: str, lengths: list[int], rounds: int, engines: list[str]) -> list[str]:
    """The rows of one shape's table."""
    pipes = {engine: pipe for engine in engines if (pipe := start(worker, engine, shape, LABELS[engine]))}
    lines = [
        f"\n### {shape}\n",
        "| T | engine | ms (median) | x products | x eager | peak MB | x eager | kept MB | x eager |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for T in lengths:
        asked = {engine: pipe for engine, pipe in pipes.items() if fits(engine, shape, T)}
        for pipe in asked.values():  # twice, so that memory that is reused has been touched
            ask(pipe, ("time", T))
            ask(pipe, ("time", T))
        seconds = {engine: [] for engine in asked}
        for _ in range(rounds):
            for engine, pipe in asked.items():
                seconds[engine].append(ask(pipe, ("time", T)))
        memory = {engine: ask(pipe, ("memory", T)) for engine, pipe in asked.items()}
        middle = {engine: statistics.median(each) for engine, each in seconds.items()}
        base_peak, base_kept = memory.get("eager", (None, None))
        for engine, (peak, kept) in memory.items():
            took = middle[engine]
            lines.append(
                f"| {T} | {LABELS[engine]} | {took * 1e3:.1f} | {ratio(took, middle.get('products'))} "
                f"| {ratio(took, middle.get('eager'))} | {peak / 1e6:.0f} | {ratio(peak, base_peak)} "
                f"| {kept / 1e6:.0f} | {ratio(kept, base_kept)} |"
            )
            print(lines[-1], file=sys.stderr)
    for pipe in pipes.values():
        pipe.send(None)
    return lines


def ratio(own: float, other: float | None) -> str:
    """Write the ratio of two measured numbers, or a dash if the other was not measured."""
    return "–" if other is None else f"{own / max(other, 1e-9):.2f}"


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=["gpt2", "smollm2-135m"])
    parser.add_argument("--tokens", nargs="+", type=int, default=[16, 64, 256, 1024])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--engines", nargs="+", default=list(LABELS), choices=LABELS)
    parser.add_argument("--wait-policy", default="PASSIVE", help="OMP_WAIT_POLICY of every engine")
    options = parser.parse_args()
    os.environ["OMP_WAIT_POLICY"] = options.wait_policy
    os.environ["HF_HUB_OFFLINE"] = "1"
    print(f"{cpu()}, {os.cpu_count()} CPUs, float32, OMP_WAIT_POLICY={options.wait_policy}, {options.rounds} rounds")
    for shape in options.shapes:
        print("\n".join(measure(shape, options.tokens, options.rounds, options.engines)), flush=True)


if __name__ == "__main__":
    main()
