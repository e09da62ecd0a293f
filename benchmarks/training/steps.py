"""What a training step costs: this project's beside transformers', the same GPT-2 shape, batch and optimizer.

    python benchmarks/training/steps.py [--rows 8] [--length 512] [--rounds 5] [--compile]

Every engine lives in a process of its own and they are called in turn, so that a slow minute hits all of them. Times
are medians of one step: forward, loss, backward, clipping, AdamW. Needs benchmarks/requirements.txt.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

SHAPE = {"vocab_size": 8192, "n_ctx": 512, "n_layer": 8, "d_model": 256, "n_head": 8}
LABELS = {
    "theirs": "transformers, float32",
    "theirs-bfloat16": "transformers, bfloat16 autocast",
    "ours": "this project, float32",
    "ours-bfloat16": "this project, bfloat16 autocast",
    "ours-compiled": "this project, bfloat16 autocast, compiled",
}


def our_step(engine: str, rows: int, length: int):
    """A function that makes one step and returns its loss."""
    from model.free_memory import keep_freed_memory
    from model.gpt.config import ModelConfig
    from model.training.data import repeated
    from model.training.loop import Recipe, start, steps

    keep_freed_memory()
    precision = "float32" if engine == "ours" else "bfloat16"
    recipe = Recipe(steps=10**6, batch=rows, length=length, precision=precision, compile=engine == "ours-compiled")
    reports = steps(start(ModelConfig(**SHAPE), recipe), recipe, repeated(SHAPE["vocab_size"]))
    return lambda: next(reports).loss


def their_step(engine: str, rows: int, length: int):
    """The same with transformers' model and torch's AdamW."""
    import torch
    import transformers

    config = transformers.GPT2Config(
        vocab_size=SHAPE["vocab_size"],
        n_positions=SHAPE["n_ctx"],
        n_embd=SHAPE["d_model"],
        n_layer=SHAPE["n_layer"],
        n_head=SHAPE["n_head"],
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
    )
    model = transformers.GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def step() -> float:
        ids = torch.randint(0, SHAPE["vocab_size"], (rows, length))
        with torch.autocast("cpu", torch.bfloat16, enabled=engine == "theirs-bfloat16"):
            loss = model(ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


def worker(engine: str, rows: int, length: int, pipe) -> None:
    """Answer each request with the seconds of one step."""
    step = (our_step if engine.startswith("ours") else their_step)(engine, rows, length)
    for _ in range(2):
        step()
    pipe.send("ready")
    while pipe.recv():
        began = time.perf_counter()
        step()
        pipe.send(time.perf_counter() - began)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="also the compiled step (takes a minute to compile)")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    pipes, times = {}, {}
    for engine in LABELS:
        if engine == "ours-compiled" and not options.compile:
            continue
        pipes[engine], theirs = context.Pipe()
        context.Process(target=worker, args=(engine, options.rows, options.length, theirs), daemon=True).start()
        pipes[engine].recv()
        times[engine] = []
    for _ in range(options.rounds):
        for engine, pipe in pipes.items():
            pipe.send(True)
            times[engine].append(pipe.recv())
    first = statistics.median(times["theirs"])
    tokens = options.rows * options.length
    print(
        f"{os.cpu_count()} CPUs, {options.rows} rows of {options.length} tokens, OMP_WAIT_POLICY="
        f"{os.environ.get('OMP_WAIT_POLICY', 'not set')}\n"
    )
    print("| engine | ms a step | tokens/s | times transformers float32 |\n|---|---|---|---|")
    for engine, values in times.items():
        seconds = statistics.median(values)
        print(f"| {LABELS[engine]} | {1000 * seconds:.0f} | {tokens / seconds:,.0f} | {first / seconds:.2f} |")
    for pipe in pipes.values():
        pipe.send(False)


if __name__ == "__main__":
    main()
