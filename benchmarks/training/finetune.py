"""Fine-tuning TinyGPT with the default run of the view: seconds, losses, and what is forgotten, over seeds.

    python benchmarks/training/finetune.py [--seeds 3] [--sets questions stories opposites] [--threads 1]

A run as the page makes it, its snapshots and answers included, in one process of so many threads. Seconds are those of
the processor, so that others on the machine count little. Losses in nats a token of the answers, bits per byte of the
bundled story.
"""

import argparse
import dataclasses
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))


def row(name: str, adapted: bool, seed: int) -> list[str]:
    """One run as a row of the table."""
    from model.alignment.example_sets import SETS
    from model.alignment.lora import Lora
    from model.alignment.tuning import TuneJob, TuneSnapshot, default_recipe, open_job
    from model.loading.sources import resolve
    from model.training.jobs.job import Limits

    recipe = dataclasses.replace(default_recipe(adapted), seed=seed)
    lora = Lora() if adapted else None
    began = time.process_time()
    running = open_job(
        TuneJob(source=resolve("tinygpt"), examples=tuple(SETS[name]()), lora=lora, recipe=recipe), Limits()
    )
    found = [each for each in running.messages if isinstance(each, TuneSnapshot)]
    seconds, first, last = time.process_time() - began, found[0], found[-1]
    right = sum(
        greedy == question.output for (greedy, _), question in zip(last.answers, running.started.questions, strict=True)
    )
    return [
        name,
        "LoRA" if adapted else "all weights",
        str(seed),
        f"{running.started.n_learned:,}",
        f"{seconds:.0f}",
        f"{first.loss:.3f} → {last.loss:.3f}",
        f"{last.train_loss:.3f}",
        f"{right} of {len(last.answers)}",
        f"{first.bits_per_byte:.3f} → {last.bits_per_byte:.3f}",
    ]


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=["questions"])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    head = (
        "examples",
        "trained",
        "seed",
        "parameters",
        "s",
        "held-out loss",
        "training loss",
        "right",
        "bits per byte",
    )
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name in options.sets:
        for adapted in (True, False):
            for seed in range(options.seeds):
                print(f"| {' | '.join(row(name, adapted, seed))} |", flush=True)


if __name__ == "__main__":
    main()
