"""Train a GPT from the command line: `python -m model.training --help`.

prepare    text files -> a vocabulary and token files
train      a new model on prepared text or on a synthetic task; --resume continues after an interruption
follow     a plan: a sequence of phases, each with its texts and recipe; run it again to continue after an interruption
tune       supervised fine-tuning of a trained model on instruction / input / output
evaluate   loss, perplexity and bits per byte on held-out text
export     a checkpoint -> a model folder that the app opens
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from model.alignment import adapter_options, instructions, lora
from model.alignment.adapter_files import peft_files
from model.command_line import run as run_command
from model.errors import InputError
from model.free_memory import keep_freed_memory
from model.gpt.config import ModelConfig, from_dict, to_dict
from model.gpt.presets import preset
from model.loading.checkpoint import build, load_folder, save_folder
from model.loading.export import save_gpt2
from model.text.tokenizer import from_folder
from model.training import data, loop, phases
from model.training.data import Dataset
from model.training.folders import CHECKPOINT, TOKENIZER, prepare, prepared, read_text, train
from model.training.loop import Recipe, Report, TrainingRun
from model.training.optimizers import OPTIMIZERS
from model.training.tasks import TASKS, task


def show(reports: Iterator[Report], recipe: Recipe, done: int) -> None:
    """Consume all reports and show a progress bar with loss, tokens per second and the time left."""
    with tqdm(reports, total=recipe.steps, initial=done, unit="step", dynamic_ncols=True) as bar:
        smooth = None
        for report in bar:
            smooth = report.loss if smooth is None else 0.95 * smooth + 0.05 * report.loss
            speed = recipe.batch * recipe.length * recipe.accumulate / report.seconds
            bar.set_postfix_str(f"loss {smooth:.3f}, {speed:,.0f} tokens/s", refresh=False)


def _shares(text: str) -> dict[str, float]:
    """Parse "stories=0.7,books=0.3" into a dict."""
    try:
        shares = {name: float(share) for name, share in (item.split("=") for item in text.split(","))}
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected NAME=SHARE,NAME=SHARE, got {text!r}") from None
    if min(shares.values()) < 0 or sum(shares.values()) <= 0:
        raise argparse.ArgumentTypeError("shares must be 0 or more, and not all 0")
    return shares


def _object(text: str) -> dict:
    """Parse a JSON object."""
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r}")
    return values


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    """Add an option for every field of Recipe."""
    for field in dataclasses.fields(Recipe):
        name = f"--{field.name.replace('_', '-')}"
        if field.type is bool:
            parser.add_argument(name, action="store_true")
        elif field.name == "schedule":
            parser.add_argument(name, choices=tuple(loop.SCHEDULES), default=field.default)
        elif field.name == "optimizer":
            parser.add_argument(name, choices=OPTIMIZERS, default=field.default)
        elif field.name == "length":
            what = "tokens a row; without it, 256, or what suits the task"
            parser.add_argument(name, type=int, default=None, help=what)
        elif field.name == "precision":
            parser.add_argument(name, choices=loop.PRECISIONS, default=field.default)
        else:
            required = field.default is dataclasses.MISSING
            parser.add_argument(name, type=field.type, default=None if required else field.default, required=required)


def _recipe(options: argparse.Namespace) -> Recipe:
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(Recipe)}
    return Recipe(**{name: value for name, value in values.items() if value is not None})


def parser() -> argparse.ArgumentParser:
    """Build the parser with the commands and their options."""
    main_parser = argparse.ArgumentParser(
        prog="python -m model.training", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = main_parser.add_subparsers(dest="command", required=True)

    def command(name: str, act: Callable[[argparse.Namespace], None], about: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name, help=about, description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter
        )
        added.set_defaults(act=act)
        return added

    c = command("prepare", _prepare, "text files to a vocabulary and token files")
    c.add_argument("files", nargs="+", type=Path, help="UTF-8 text; lines <|endoftext|> separate documents")
    c.add_argument("--out", type=Path, required=True)
    c.add_argument("--vocab-size", type=int, default=8192)
    c.add_argument("--vocabulary-from", nargs="+", type=Path, help="the files that the vocabulary is made from")
    c.add_argument("--held-out", type=float, default=0.02, help="share of the documents that is held out")

    c = command("train", _train, "train a new model")
    what = c.add_mutually_exclusive_group(required=True)
    what.add_argument("--data", type=Path, help="folder that prepare wrote")
    what.add_argument("--task", choices=tuple(TASKS), help="a synthetic task")
    c.add_argument("--mix", type=_shares, help="shares of the prepared files: NAME=SHARE,...; also repeated=SHARE")
    c.add_argument("--final-mix", type=_shares, help="the shares in the final phase")
    c.add_argument("--final-from", type=float, default=0.85, help="share of the steps before the final phase")
    c.add_argument("--config", type=_object, default={}, help='ModelConfig as JSON: {"n_layer": 8, ...}')
    c.add_argument("--preset", help="start from the shape of a preset")
    c.add_argument("--out", type=Path, required=True)
    c.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    c.add_argument("--save-every", type=int, default=250, help="steps between checkpoints and evaluations")
    c.add_argument("--held-out-batches", type=int, default=4, help="of 16 rows, at each evaluation but the last")
    c.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    _add_recipe(c)

    c = command("follow", _follow, "train by a plan of phases; the same command goes on after an interruption")
    c.add_argument("plan", type=Path, help="a TOML file; model/training/phases.py says what it holds")
    c.add_argument("--data", type=Path, required=True, help="folder that prepare wrote")
    c.add_argument("--out", type=Path, required=True)
    c.add_argument("--save-every", type=int, default=250, help="steps between checkpoints and evaluations")
    c.add_argument("--device", default="cpu", help="cpu, cuda or mps")

    c = command("tune", _tune, "fine-tune a model folder on instruction / input / output")
    c.add_argument("--model", type=Path, required=True)
    c.add_argument("--examples", type=Path, required=True, help="a .jsonl file")
    c.add_argument("--out", type=Path, required=True)
    c.add_argument("--resume", action="store_true")
    c.add_argument(
        "--template", type=Path, help="a text file with {instruction}, {input}, and [[ ]] around what is optional"
    )
    c.add_argument("--held-out", type=float, default=0.0, help="share of the examples that is held out")
    adapter_options.add_lora(c)
    _add_recipe(c)

    c = command("evaluate", _evaluate, "loss, perplexity and bits per byte on held-out text")
    c.add_argument("--model", type=Path, required=True)
    c.add_argument("--data", type=Path, required=True)
    c.add_argument("--length", type=int, default=512)

    c = command("export", _export, "a run's checkpoint to a model folder")
    c.add_argument("--run", type=Path, required=True)
    c.add_argument("--out", type=Path, required=True)
    c.add_argument("--half", action="store_true", help="store float16")
    c.add_argument("--gpt2", action="store_true", help="under GPT-2's names, as other programs read it")
    return main_parser


def _prepare(options: argparse.Namespace) -> None:
    prepare(
        options.files,
        options.out,
        vocab_size=options.vocab_size,
        vocabulary_from=options.vocabulary_from,
        held_out=options.held_out,
    )


def _train(options: argparse.Namespace) -> None:
    recipe = _recipe(options)
    if options.task:
        chosen = task(options.task)
        dataset = data.task_dataset(options.task, chosen)
        length = options.length or chosen.length
        recipe = dataclasses.replace(recipe, length=min(max(length, chosen.shortest), chosen.longest))
    else:
        names = [path.name.removesuffix(".train.u16") for path in sorted(options.data.glob("*.train.u16"))]
        shares = options.mix or dict.fromkeys(names, 1.0)
        dataset = prepared(options.data, shares, options.final_mix or shares, options.final_from)
    run = _load_or_start(options, recipe, lambda: loop.start(_config(options, dataset, recipe), recipe))
    run = loop.moved(run, recipe, options.device)
    every = options.save_every
    reports = train(
        run,
        recipe,
        dataset,
        options.out,
        evaluate_every=every,
        save_every=every,
        held_out_batches=options.held_out_batches,
    )
    show(reports, recipe, run.step)


def _follow(options: argparse.Namespace) -> None:
    plan = phases.read_plan(options.plan)
    print(phases.described(plan))
    for phase, reports in phases.follow(
        plan, options.data, options.out, device=options.device, save_every=options.save_every
    ):
        print(phase.name)
        show(reports, phase.recipe, 0)
    if folder := phases.averaged(plan, options.data, options.out, options.device):
        print(f"the mean of the weights: {folder}")


def _load_or_start(options: argparse.Namespace, recipe: Recipe, begin: Callable[[], TrainingRun]) -> TrainingRun:
    """Load the run in --out if --resume is given, otherwise start one; an existing run is never overwritten by
    accident.
    """
    if options.resume:
        return loop.load_checkpoint(options.out / CHECKPOINT, recipe)[0]
    _check_new(options)
    return begin()


def _check_new(options: argparse.Namespace) -> None:
    if (options.out / CHECKPOINT).exists():
        raise InputError("The folder already holds a run.", options.out.name, "Add --resume, or choose another --out.")


def _config(options: argparse.Namespace, dataset: Dataset, recipe: Recipe) -> ModelConfig:
    values = {"vocab_size": dataset.tokenizer.vocab_size, "n_ctx": recipe.length}
    shape = to_dict(preset(options.preset)) if options.preset else {"n_layer": 2, "d_model": 128, "n_head": 4}
    if not options.config.keys().isdisjoint(("d_model", "n_head")):  # derived sizes of a preset no longer apply
        shape |= dict.fromkeys(("n_kv_head", "d_head", "d_mlp"))
    return from_dict(shape | values | options.config)


def _tune(options: argparse.Namespace) -> None:
    recipe = _recipe(options)
    tokenizer = from_folder(options.model)
    end = instructions.end_of(tokenizer)
    template = read_text(options.template) if options.template else instructions.TEMPLATE
    instructions.check_template(template)
    examples = instructions.read_examples(options.examples)
    parts = instructions.split(examples, options.held_out, recipe.seed) if options.held_out else (examples, examples)
    rows, kept = (instructions.fitting(part, tokenizer, end, recipe.length, template) for part in parts)
    dataset = Dataset(
        "examples",
        tokenizer,
        read_text(options.model / TOKENIZER),
        instructions.demonstrations(rows, end),
        {"examples": instructions.every_demonstration(kept, end)},
    )
    if options.lora:
        _tune_adapters(options, recipe, dataset)
        return
    run = _load_or_start(options, recipe, lambda: loop.from_model(build(*load_folder(options.model)), recipe))
    show(train(run, recipe, dataset, options.out), recipe, run.step)


def _tune_adapters(options: argparse.Namespace, recipe: Recipe, dataset: Dataset) -> None:
    """Train adapters, then write the model with merged adapters, and the adapters separately."""
    if recipe.optimizer != "adamw":
        raise InputError("Adapters can only be trained with AdamW.", recipe.optimizer, "Leave --optimizer out.")
    settings, path = lora.Lora(options.lora, options.lora_alpha, options.lora_matrices), options.out / CHECKPOINT
    model = build(*load_folder(options.model))
    if options.resume:
        run = lora.load_run(path, model, settings, recipe)
    else:
        _check_new(options)
        run = lora.start(model, settings, recipe)
    print(f"{lora.count(lora.learned(run.model)):,} parameters are trained")
    reports = train(
        run,
        recipe,
        dataset,
        options.out,
        save=lambda path: lora.save_run(path, run, settings, recipe),
        convert=lora.merged,
    )
    show(reports, recipe, run.step)
    if leave := peft_files(run.model, settings, options.model.name):
        leave(options.out)


def _evaluate(options: argparse.Namespace) -> None:
    model, sizes = build(*load_folder(options.model)), data.token_bytes(from_folder(options.model))
    files = sorted(options.data.glob("*.held_out.u16"))
    if not files:
        raise InputError("No prepared file has this name.", f"{options.data.name}/*.held_out.u16", "Run prepare first.")
    for path in files:
        held_out = data.consecutive(data.read_tokens(path, len(sizes)))
        evaluation = loop.evaluate(model, held_out, sizes, length=min(options.length, model.config.n_ctx))
        name = path.name.removesuffix(".held_out.u16")
        print(
            f"{name}: loss {evaluation.loss:.4f} nats a token, perplexity {evaluation.perplexity:.2f}, "
            f"{evaluation.bits_per_byte:.4f} bits a byte, {evaluation.tokens:,} tokens"
        )


def _export(options: argparse.Namespace) -> None:
    run, _ = loop.load_checkpoint(options.run / CHECKPOINT)
    vocabulary, dtype = read_text(options.run / TOKENIZER), torch.float16 if options.half else torch.float32
    if options.gpt2:
        end = data.end_of_text(data.read_vocabulary(vocabulary))
        save_gpt2(options.out, run.model, vocabulary, end, dtype)
    else:
        save_folder(options.out, run.model, dtype)
        (options.out / TOKENIZER).write_text(vocabulary, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns exit status 0 unless the request is invalid."""
    keep_freed_memory()
    return run_command(parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
