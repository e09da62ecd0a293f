"""Supervised fine-tuning: instruction, input and output from JSON lines, with the loss on the output only."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model.errors import InputError
from model.strict_json import parse
from model.text.tokenizer import Tokenizer
from model.training.data import Batch, HeldOut, Source
from model.training.tasks import IGNORE

_KEYS = {"instruction", "input", "output"}


@dataclass(frozen=True)
class Example:
    """One demonstration; `input` may be empty."""

    instruction: str
    input: str
    output: str


def read_examples(path: Path) -> list[Example]:
    """The examples of a .jsonl file. Raises InputError naming the line that is not one."""
    try:
        if Path(path).exists() and not Path(path).is_file():  # a device file has no end
            raise OSError("it is not a file")
        lines = Path(path).read_text(encoding="utf-8").split("\n")  # not splitlines: JSON strings may hold U+2028
    except (OSError, UnicodeDecodeError) as error:
        got = f"{Path(path).name}: {error}"[:120]
        raise InputError("The examples cannot be read.", got, "Give a UTF-8 file of JSON lines.") from error
    examples = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            examples.append(_example(line, number))
    if not examples:
        raise InputError("The file holds no examples.", Path(path).name, "Put one JSON object on each line.")
    return examples


def _example(line: str, number: int) -> Example:
    hint = 'Each line is an object with "instruction", "output" and, if need be, "input".'
    try:
        values = parse(line)
    except ValueError as error:
        raise InputError("A line of the examples is not JSON.", f"line {number}: {error}"[:80], hint) from None
    fits = isinstance(values, dict) and set(values) <= _KEYS and all(isinstance(v, str) for v in values.values())
    if not fits or not values.get("instruction") or not values.get("output"):
        raise InputError("A line of the examples is not an example.", f"line {number}: {line[:60]}", hint)
    return Example(values["instruction"], values.get("input", ""), values["output"])


def prompt_text(example: Example) -> str:
    """The prompt for an example."""
    middle = f"Input: {example.input}\n" if example.input else ""
    return f"Instruction: {example.instruction}\n{middle}Answer:"


def to_ids(example: Example, tokenizer: Tokenizer, end: int) -> tuple[list[int], int]:
    """The ids of prompt, answer and end of text, and the length of the prompt."""
    prompt = tokenizer.encode_ids(prompt_text(example))
    return [*prompt, *tokenizer.encode_ids(f" {example.output}"), end], len(prompt)


def to_row(ids: Sequence[int], prompt: int, length: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """One row of `length` tokens and its targets, IGNORE on the prompt and on the padding, which is `end`.

    The first scored target is the first token of the answer, predicted at the last token of the prompt.
    """
    padded = np.full(length + 1, end, dtype=np.int64)
    padded[: len(ids)] = ids[: length + 1]
    place = np.arange(1, length + 1)
    scored = (place >= prompt) & (place < len(ids))
    return padded[:-1], np.where(scored, padded[1:], IGNORE)


def fitting(examples: Sequence[Example], tokenizer: Tokenizer, end: int, length: int) -> list[tuple[list[int], int]]:
    """The examples that fit into a row, as pairs of `to_ids`. Raises InputError where none does."""
    rows = [to_ids(example, tokenizer, end) for example in examples]
    fitting_rows = [row for row in rows if len(row[0]) <= length + 1]
    if not fitting_rows:
        shortest = min(len(ids) for ids, _ in rows)
        raise InputError("No example fits into the context.", f"the shortest has {shortest} tokens, {length} fit", "")
    return fitting_rows


def demonstrations(rows: Sequence[tuple[list[int], int]], end: int) -> Source:
    """Batches of examples drawn at random."""

    def draw(rng: np.random.Generator, count: int, length: int, done: float) -> Batch:
        chosen = [to_row(*rows[i], length, end) for i in rng.integers(0, len(rows), size=count)]
        ids, targets = zip(*chosen, strict=True)
        return Batch(np.stack(ids), np.stack(targets))

    return draw


def every_demonstration(rows: Sequence[tuple[list[int], int]], end: int) -> HeldOut:
    """All examples once, in their order."""

    def every(count: int, length: int):
        for at in range(0, len(rows), count):
            ids, targets = zip(*(to_row(*row, length, end) for row in rows[at : at + count]), strict=True)
            yield Batch(np.stack(ids), np.stack(targets))

    return every
