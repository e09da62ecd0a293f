"""The commands `preferences` and `reward` of `python -m model.alignment`."""

import argparse
from pathlib import Path

from tqdm import tqdm

from model.alignment.preferences import (
    MOST_PROMPTS,
    PROMPTS,
    PairSettings,
    pairs_by_rule,
    read_pairs,
    split,
    write_pairs,
)
from model.alignment.reward_folder import fingerprint, save_reward
from model.alignment.reward_model import RewardRecipe, accuracy, calibration, train
from model.alignment.rewards import RULES, parse_rules
from model.api import load_model
from model.progress import Progress
from model.training.folders import read_text


def add(commands: argparse._SubParsersAction) -> None:
    """Add both commands with their options."""
    command = commands.add_parser("preferences", help="the model writes pairs of texts, a rule chooses: JSON lines")
    command.add_argument("--model", default="tinygpt", help="id, folder or .gguf file")
    rules = f"rules between semicolons, each as name: value * weight; names: {', '.join(RULES)}"
    command.add_argument("--rule", default="sentiment", help=rules)
    command.add_argument("--prompts", type=Path, help="a text file, a prompt a line; without it, beginnings of stories")
    command.add_argument("--pairs", type=int, default=20, help="of each prompt")
    command.add_argument("--new-tokens", type=int, default=24)
    command.add_argument("--temperature", type=float, default=1.0)
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--out", type=Path, required=True, help="a .jsonl file")
    command.set_defaults(act=_preferences)

    trained = commands.add_parser("reward", help="train a reward model on pairs")
    trained.add_argument("--model", default="tinygpt", help="id, folder or .gguf file")
    trained.add_argument("--pairs", type=Path, required=True, help="JSON lines of prompt, chosen and rejected")
    trained.add_argument("--head", action="store_true", help="train the head alone, not the whole model")
    trained.add_argument("--steps", type=int, default=40)
    trained.add_argument("--batch", type=int, default=16, help="pairs a step")
    trained.add_argument("--learning-rate", type=float, default=0.0, help="0: what suits the head or the whole model")
    trained.add_argument("--held-out", type=float, default=0.25, help="share of the pairs")
    trained.add_argument("--seed", type=int, default=0)
    trained.add_argument("--out", type=Path, required=True, help="a folder")
    trained.set_defaults(act=_reward)


def _preferences(options: argparse.Namespace) -> None:
    rules, ask = (
        parse_rules(options.rule),
        PairSettings(options.pairs, options.new_tokens, options.temperature, options.seed),
    )
    prompts = PROMPTS
    if options.prompts:
        prompts = tuple(line for line in read_text(options.prompts).split("\n") if line.strip())[: MOST_PROMPTS + 1]
    with tqdm(unit="text", dynamic_ncols=True) as bar:
        result = pairs_by_rule(load_model(options.model), prompts, rules, ask, _on(bar))
    options.out.write_text(write_pairs(result.pairs), encoding="utf-8")
    print(f"{len(result.pairs)} pairs; {result.ties} pairs of texts have equal rewards and were left out")


def _reward(options: argparse.Namespace) -> None:
    recipe = RewardRecipe(
        body=not options.head,
        steps=options.steps,
        batch=options.batch,
        learning_rate=options.learning_rate,
        held_out=options.held_out,
        seed=options.seed,
    )
    apart = split(read_pairs(read_text(options.pairs)), recipe.held_out, recipe.seed)
    lm = load_model(options.model)
    with tqdm(unit="step", dynamic_ncols=True) as bar:
        trained = train(lm, apart, recipe, _on(bar))
    kept = {"name": options.out.name, "base": lm.id, "body": recipe.body, "weights": fingerprint(lm.model)}
    save_reward(options.out, trained.reward, **kept)
    last, shown = trained.looks[-1], calibration(trained.margins)
    print(
        f"accuracy on {len(trained.margins)} held-out pairs {accuracy(trained.margins):.1%}, "
        f"loss {last.held_out_loss:.3f}"
    )
    for predicted, agreed, count in zip(shown.predicted, shown.agreed, shown.counts, strict=True):
        if count:
            print(f"  predicted {predicted:.1%}, agreed {agreed:.1%}, {count} pairs")


def _on(bar: tqdm) -> Progress:
    def update(done: int, total: int | None, what: str) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return update
