"""The default reward model of the page, with several seeds.

    python -m benchmarks.training.alignment_reward [--seeds N ...]

For each rule and seed: TinyGPT writes the pairs, the rule chooses, the head alone or the whole model learns. Prints a
row of RESULTS.md each: pairs, ties, accuracy on pairs of held-out prompts, seconds (by the clock and of the processor).
"""

import argparse
import time

import numpy as np

from model.alignment.preferences import PROMPTS, PairSettings, pairs_by_rule, split
from model.alignment.reward_model import RewardRecipe, accuracy, train
from model.alignment.rewards import parse_rules
from model.api import load_model


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rules", nargs="+", default=["sentiment", "length: 15"])
    parser.add_argument("--what", nargs="+", choices=("head", "body"), default=["head", "body"])
    options = parser.parse_args()
    lm = load_model("tinygpt")
    print("| rule | what learns | pairs | ties | held-out accuracy, seeds | mean | seconds | of the processor |")
    print("|---|---|---|---|---|---|---|---|")
    for rule in options.rules:
        found: dict[bool, list[tuple]] = {what == "body": [] for what in options.what}
        for seed in options.seeds:
            made, wrote = timed(lambda s=seed, r=rule: written(lm, r, options, s))
            for body in found:
                recipe = RewardRecipe(body=body, steps=options.steps, seed=seed)
                apart = split(made.pairs, recipe.held_out, seed)
                trained, took = timed(lambda a=apart, r=recipe: train(lm, a, r))
                seconds = np.add(wrote, took)
                found[body].append((len(made.pairs), made.ties, accuracy(trained.margins), *seconds))
        for body, rows in found.items():
            pairs, ties, shares, wall, cpu = map(np.array, zip(*rows, strict=True))
            what, each = "whole model" if body else "head alone", ", ".join(f"{share:.1%}" for share in shares)
            print(
                f"| {rule} | {what} | {pairs.mean():.0f} | {ties.mean():.0f} | {each} | {shares.mean():.1%} "
                f"| {wall.mean():.0f} | {cpu.mean():.0f} |",
                flush=True,
            )


def written(lm, rule: str, options: argparse.Namespace, seed: int):
    """The pairs of one seed."""
    return pairs_by_rule(lm, PROMPTS, parse_rules(rule), PairSettings(options.pairs, options.tokens, 1.0, seed))


def timed(work) -> tuple:
    """(what it returns, (seconds by the clock, seconds of the processor))"""
    clock, cpu = time.perf_counter(), time.process_time()
    value = work()
    return value, (time.perf_counter() - clock, time.process_time() - cpu)


if __name__ == "__main__":
    main()
