"""Training folders: prepared text, and a run with its log and its checkpoints."""

import csv
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from model.errors import InputError
from model.gpt.transformer import Transformer
from model.loading.checkpoint import save_folder
from model.progress import Progress
from model.training import data, loop
from model.training.data import Dataset
from model.training.loop import Recipe, Report, TrainingRun

CHECKPOINT, LOG, TOKENIZER = "checkpoint.pt", "log.csv", "tokenizer.json"
REPEATED = "repeated"  # name in a mixture for repeated random tokens, instead of a file
COLUMNS = (
    "step",
    "tokens",
    "seconds",
    "loss",
    "learning_rate",
    "gradient_norm",
    "held_out",
    "held_out_loss",
    "bits_per_byte",
    "accuracy",
)


# --- prepared text ---------------------------------------------------------------------------------


def prepare(
    files: Sequence[Path],
    out: Path,
    *,
    vocab_size: int,
    vocabulary_from: Sequence[Path] | None = None,
    held_out: float = 0.02,
    progress: Progress | None = None,
) -> None:
    """Write tokenizer.json and, for each file, its training and held-out tokens, split by document."""
    out.mkdir(parents=True, exist_ok=True)
    split = {path.stem: data.split_documents(data.documents(read_text(path)), held_out) for path in files}
    if len(split) < len(files) or REPEATED in split:
        raise InputError("A file with this name exists.", ", ".join(path.name for path in files), "Rename one.")
    chosen = [path.stem for path in (vocabulary_from or files)]
    if unknown := [name for name in chosen if name not in split]:
        raise InputError(
            "The vocabulary can only be built from files that are being prepared.", ", ".join(unknown), "Add the files."
        )
    texts = itertools.chain.from_iterable(split[name][0] for name in chosen)
    vocabulary = data.train_vocabulary(texts, vocab_size)
    (out / TOKENIZER).write_text(vocabulary, encoding="utf-8")
    tokenizer = data.read_vocabulary(vocabulary)
    for done, (name, (train, held_out_part)) in enumerate(split.items()):
        if progress:
            progress(done, len(split), "Tokenizing")
        data.write_tokens(out / f"{name}.train.u16", data.pack(train, tokenizer))
        data.write_tokens(out / f"{name}.held_out.u16", data.pack(held_out_part, tokenizer))


def prepared(folder: Path, shares: Mapping[str, float], final: Mapping[str, float], final_from: float) -> Dataset:
    """Build a mixture of prepared files in proportion to their shares; the name "repeated" stands for repeated random
    tokens.
    """
    vocabulary = read_text(folder / TOKENIZER)
    tokenizer = data.read_vocabulary(vocabulary)
    end = data.end_of_text(tokenizer)
    parts, held_out = [], {}
    for name in dict.fromkeys([*shares, *final]):
        if name == REPEATED:
            source = data.repeated(end)
        else:
            train, held_out_tokens = (
                data.read_tokens(_existing(folder / f"{name}.{part}.u16"), tokenizer.vocab_size)
                for part in ("train", "held_out")
            )
            source, held_out[name] = data.windows(train, end), data.consecutive(held_out_tokens)
        parts.append(data.DataSource(source, shares.get(name, 0.0), final.get(name, 0.0)))
    return Dataset(folder.name, tokenizer, vocabulary, data.mixture(parts, final_from), held_out)


def read_text(path: Path) -> str:
    """Read the text of a file. Raises InputError if that fails."""
    try:
        if path.exists() and not path.is_file():  # a device file never ends
            raise OSError("it is not a file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("A file cannot be read.", f"{path.name}: {error}"[:120], "Give a UTF-8 text file.") from error


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InputError("No prepared file has this name.", path.name, "Run prepare first.")
    return path


# --- a run in a folder -----------------------------------------------------------------------------


def train(
    run: TrainingRun,
    recipe: Recipe,
    dataset: Dataset,
    out: Path,
    *,
    evaluate_every: int = 250,
    save_every: int = 250,
    held_out_batches: int = 8,
    save: Callable[[Path], None] | None = None,
    convert: Callable[[Transformer], Transformer] = lambda model: model,
) -> Iterator[Report]:
    """Train to the end of the recipe, writing log.csv, checkpoint.pt and, at the end, model files to `out`.

    `save` writes another checkpoint instead of the complete run; `convert` converts the model for the files at the
    end. When an interrupted run is resumed, rows of the log after its last checkpoint are dropped.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / TOKENIZER).write_text(dataset.tokenizer_json, encoding="utf-8")
    sizes, save = dataset.token_bytes, save or (lambda path: loop.save_checkpoint(path, run, recipe))
    with open_log(out / LOG, run.step) as file:
        log = csv.DictWriter(file, COLUMNS)
        for report in loop.steps(run, recipe, dataset.train):
            last = run.step == recipe.steps
            row = {**dataclasses.asdict(report), "seconds": f"{report.seconds:.3f}"}
            log.writerow({key: row[key] for key in COLUMNS if key in row})
            if last or run.step % evaluate_every == 0:
                limit = None if last else held_out_batches
                log.writerows(evaluations(run, dataset, sizes, recipe.length, limit))
            if last or run.step % save_every == 0:
                file.flush()
                save(out / CHECKPOINT)
            yield report
    save_folder(out, convert(run.model))


def evaluations(
    run: TrainingRun, dataset: Dataset, sizes: np.ndarray, length: int, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a row of the log for each held-out text, evaluated on at most `limit` batches. `sizes` [V] holds the bytes
    per token.
    """
    for name, held_out in dataset.held_out.items():
        evaluation = loop.evaluate(run.model, held_out, sizes, length=length, limit=limit)
        yield {
            "step": run.step,
            "tokens": run.tokens,
            "held_out": name,
            "held_out_loss": evaluation.loss,
            "bits_per_byte": evaluation.bits_per_byte,
            "accuracy": evaluation.accuracy,
        }


def open_log(path: Path, step: int):
    """Open the log for appending, truncated to the rows of the first `step` steps."""
    rows = []
    if step and path.is_file():
        try:
            with path.open(newline="", encoding="utf-8") as old:
                # Not a filter, because the last row of a killed process may be cut off inside its step number.
                valid = itertools.takewhile(lambda row: int(row["step"]) <= step, csv.DictReader(old))
                rows = [{name: row[name] for name in COLUMNS} for row in valid]
        except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
            hint = "Move the file away; the run then continues with a new one."
            raise InputError("The log of the run cannot be read.", f"{path.name}: {error}"[:120], hint) from error
    elif (path.exists() or path.is_symlink()) and not path.is_file():
        raise InputError("The log of the run is not a file.", path.name, "Move it away.")
    file = path.open("w", newline="", encoding="utf-8")
    log = csv.DictWriter(file, COLUMNS)
    log.writeheader()
    log.writerows(rows)
    return file
