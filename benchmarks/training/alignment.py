"""What reinforcement comes to on the bundled model: reward before and after, KL and seconds, by method, three seeds.

    python benchmarks/training/alignment.py [--methods ppo,grpo] [--seeds 3] [--threads 1] [--lora 8]

The reward is the preset "happy": 1 for a text with one of ten happy words. Before and after are measured on the same
256 prompts and random numbers, which no step of a run has used. Seconds are those of the processor, on all threads.
"""

import argparse
import dataclasses
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

METHODS = ("reinforce", "ppo", "grpo", "dpo", "best_of_n", "no_leash")
ASIDE = 1 << 22  # the step of the random numbers for before and after


def held_out(policy, reference, work, course):
    """Means over 256 texts that no step has written."""
    from model.alignment.reinforcement.likelihoods import score
    from model.alignment.reinforcement.texts import Batch, measure, write

    wide = dataclasses.replace(course, texts=256, group=16)
    rollouts, rewards = write(policy, work, wide, ASIDE)
    return measure(Batch(rollouts, rewards, score(policy, reference, rollouts, work.size), work.size))


def run(method: str, seed: int, rank: int, lm) -> str:
    """One row of the table; with a rank above 0, adapters learn, at the rate that the page gives them."""
    from model.alignment.lora import Lora
    from model.alignment.reinforcement import learner as learning
    from model.alignment.reinforcement.course import ADAPTED_RATE
    from model.alignment.reinforcement.pairs import by_reward
    from model.alignment.reinforcement.presets import PRESETS, PROMPTS, by_rules
    from model.alignment.reinforcement.run import choose_best, steps
    from model.alignment.reinforcement.texts import task

    preset = PRESETS["no_leash" if method == "no_leash" else "happy"]
    course = dataclasses.replace(preset.course("reinforce" if method == "no_leash" else method), seed=seed)
    if rank:
        course = dataclasses.replace(course, learning_rate=course.learning_rate * ADAPTED_RATE)
    work = task(lm.tokenizer, PROMPTS, by_rules(preset.rules))
    began, wall = time.process_time(), time.perf_counter()
    if method == "best_of_n":
        reports = list(choose_best(lm.model, work, course))
        first, last = reports[0].measured, reports[-2].measured
        spent, waited = time.process_time() - began, time.perf_counter() - wall
    else:
        state = learning.start(lm.model, course, Lora(rank) if rank else None)
        pairs = by_reward(lm.model, work, course) if method == "dpo" else None
        for _ in steps(state, work, course, pairs):
            pass
        spent, waited = time.process_time() - began, time.perf_counter() - wall
        first, last = (held_out(policy, lm.model, work, course) for policy in (lm.model, state.policy))
    named = f"{method}, LoRA r = {rank}" if rank else method
    return (
        f"| {named} | {seed} | {first.reward:.2f} | {last.reward:.2f} | {last.kl:.3f} | {last.kl_text:.1f} "
        f"| {last.entropy:.2f} | {first.perplexity:.1f} | {last.perplexity:.1f} | {last.distinct_2:.2f} "
        f"| {spent:.0f} | {waited:.0f} |"
    )


def main() -> None:
    """Print a row a run, as Markdown."""
    import torch

    from model.api import load_model
    from model.free_memory import keep_freed_memory

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--lora", type=int, default=0, help="rank of adapters; 0: all weights learn")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(options.threads)
    lm = load_model("tinygpt")
    columns = ("method", "seed", "before", "after", "KL a token", "KL a text", "entropy")
    columns += ("perplexity before", "after", "distinct-2", "cpu s", "s")
    print(f"| {' | '.join(columns)} |")
    print("|---" * len(columns) + "|")
    for method in options.methods.split(","):
        for seed in range(options.seeds):
            print(run(method, seed, options.lora, lm), flush=True)


if __name__ == "__main__":
    main()
