"""Texts of several people: each by forwards of its own, in turns, beside all of them in one batch.

    python benchmarks/together.py [--models tinygpt smollm2-135m] [--texts 1 2 4 8 16] [--tokens 24] [--rounds 3]

In turns is what a lock that is handed on after every forward gives. Both ways alternate within a round; the numbers
are medians of the rounds: tokens a second of all texts, and how long a person waits for the next token.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

from model.api import LanguageModel, load_model
from model.generation.generate import Tick, generate
from model.generation.strategies import STRATEGIES, DecodingPlan
from model.generation.together import SharedBatch

PROMPT = "Once upon a time, there was a little girl who lived near the sea. Every morning she"


def seconds(lm: LanguageModel, texts: int, tokens: int, begin: Callable[..., Iterator[Tick]]) -> float:
    """Seconds for all steps after the prompts, one step of each text in turn."""
    ids = lm.tokenizer.encode_ids(PROMPT)
    size = lm.tokenizer.vocab_size
    runs = [
        begin(ids[: len(ids) - at % 8], [STRATEGIES["top_p"]], DecodingPlan(tokens, seed=at), size)
        for at in range(texts)
    ]
    for run in runs:
        next(run)
    began = time.perf_counter()
    for _ in range(tokens - 1):
        for run in runs:
            next(run, None)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["tinygpt", "smollm2-135m"])
    parser.add_argument("--texts", nargs="+", type=int, default=[1, 2, 4, 8, 16])
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(min(os.cpu_count() or 1, torch.get_num_threads()))
    print("| model | texts | in turns, tokens/s | together, tokens/s | ratio | a token, ms, in turns | together |")
    print("|---|---|---|---|---|---|---|")
    for name in options.models:
        lm = load_model(name, offline=True)
        ways = {
            "turns": lambda *given, lm=lm: generate(lm.model, *given),
            "together": lambda *given, lm=lm: SharedBatch.of(lm.model).generate(*given),
        }
        for texts in options.texts:
            times: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(options.rounds):
                for way, begin in ways.items():
                    times[way].append(seconds(lm, texts, options.tokens, begin))
            turns, together = (statistics.median(each) for each in times.values())
            count = texts * (options.tokens - 1)
            waits = [1000 * each / (options.tokens - 1) for each in (turns, together)]
            print(
                f"| {name} | {texts} | {count / turns:.0f} | {count / together:.0f} | {turns / together:.2f} | "
                f"{waits[0]:.1f} | {waits[1]:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
