"""Supervised fine-tuning: instruction, input and output from JSON lines, with the loss on the output only."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from model.errors import InputError
from model.strict_json import parse
from model.text.tokenizer import Tokenizer
from model.training.data import END_OF_TEXT, Batch, HeldOut, Source, end_of_text
from model.training.tasks import IGNORE

_KEYS = {"instruction", "input", "output"}


@dataclass(frozen=True)
class Example:
    """One demonstration; `input` may be empty."""

    instruction: str
    input: str
    output: str


def read_examples(path: Path) -> list[Example]:
    """Read the examples of a .jsonl file. Raises InputError if the file cannot be read or a line is invalid; the error
    names the line.
    """
    try:
        if Path(path).exists() and not Path(path).is_file():  # reading a device file may never end
            raise OSError("it is not a file")
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        got = f"{Path(path).name}: {error}"[:120]
        raise InputError("The examples cannot be read.", got, "Give a UTF-8 file of JSON lines.") from error
    return parse_examples(text, Path(path).name)


def parse_examples(text: str, name: str = "") -> list[Example]:
    """Parse examples from JSON lines. Raises InputError for an invalid line, which it names, or if there are no
    examples.
    """
    lines = text.split("\n")  # not splitlines: JSON strings may contain U+2028
    examples = [_example(line, number) for number, line in enumerate(lines, start=1) if line.strip()]
    if not examples:
        raise InputError("The file has no examples.", name, "Put one JSON object on each line.")
    return examples


def to_lines(examples: Sequence[Example]) -> str:
    """Format examples as the JSON lines that `parse_examples` reads; an empty input is omitted."""
    rows = [{key: value for key, value in asdict(each).items() if value} for each in examples]
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def _example(line: str, number: int) -> Example:
    hint = 'Each line is an object with "instruction", "output" and, optionally, "input".'
    try:
        values = parse(line)
    except ValueError as error:
        raise InputError("A line of the file is not JSON.", f"line {number}: {error}"[:80], hint) from None
    fits = isinstance(values, dict) and set(values) <= _KEYS and all(isinstance(v, str) for v in values.values())
    if not fits or not values.get("instruction") or not values.get("output"):
        raise InputError("A line of the file is not an example.", f"line {number}: {line[:60]}", hint)
    return Example(values["instruction"], values.get("input", ""), values["output"])


def split(examples: Sequence[Example], share: float = 0.1, seed: int = 0) -> tuple[list[Example], list[Example]]:
    """Split examples at random into (training, held-out) examples, both in the original order; at least one is held
    out.

    Raises InputError for a single example.
    """
    if len(examples) < 2:
        raise InputError("A single example cannot be split.", "", "Give at least two examples.")
    count = max(1, round(share * len(examples)))
    chosen = set(np.random.default_rng([seed, 3]).permutation(len(examples))[:count].tolist())
    learned = [each for i, each in enumerate(examples) if i not in chosen]
    return learned, [examples[i] for i in sorted(chosen)]


# --- the template ----------------------------------------------------------------------------------

TEMPLATE = "Instruction: {instruction}\n[[Input: {input}\n]]Answer:"
MOST_TEMPLATE = 1000  # maximum characters of a template
_OPTIONAL = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
_PLACE = re.compile(r"\{(\w+)\}")


def check_template(template: str) -> None:
    """Raise InputError for an invalid template.

    A template must contain {instruction} and may contain {input}; text between [[ and ]] is omitted if the input is
    empty.
    """
    hint = "Put instruction and input in braces; put text that is used only with an input in double brackets."
    if len(template) > MOST_TEMPLATE:
        raise InputError("The template is too long.", f"{len(template)} characters", hint)
    names = _PLACE.findall(template)
    if unknown := sorted({*names} - {"instruction", "input"}):
        raise InputError("The template has an unknown placeholder.", f"{{{unknown[0][:40]}}}", hint)
    if "instruction" not in _PLACE.findall(_OPTIONAL.sub("", template)):
        raise InputError("The template has no placeholder for the instruction.", template[:60], hint)
    required = _OPTIONAL.sub("", template)
    if "[[" in required or "]]" in required or any("[[" in part for part in _OPTIONAL.findall(template)):
        raise InputError("The brackets of the template do not match.", template[:60], hint)


def prompt_text(example: Example, template: str = TEMPLATE) -> str:
    """Fill the template with an example. Placeholders in the example's own text are left unchanged."""
    values = {"instruction": example.instruction, "input": example.input}
    shown = _OPTIONAL.sub(r"\1" if example.input else "", template)
    return _PLACE.sub(lambda place: values[place[1]], shown)


def answer_text(example: Example, template: str = TEMPLATE) -> str:
    """Return the answer as it follows the prompt: after a space, unless the template ends with whitespace."""
    return example.output if template[-1:].isspace() else f" {example.output}"


def prompt_ids(example: Example, tokenizer: Tokenizer, template: str = TEMPLATE) -> list[int]:
    """Tokenize the prompt, after a beginning-of-text token if the vocabulary requires one."""
    return tokenizer.prompt_ids(prompt_text(example, template))


def to_ids(example: Example, tokenizer: Tokenizer, end: int | None, template: str = TEMPLATE) -> tuple[list[int], int]:
    """Return the ids of the prompt, the answer and, if given, the `end` token, and the length of the prompt."""
    prompt, ends = prompt_ids(example, tokenizer, template), [] if end is None else [end]
    return [*prompt, *tokenizer.encode_ids(answer_text(example, template)), *ends], len(prompt)


def end_of(tokenizer: Tokenizer) -> int:
    """Return the id of the vocabulary's end-of-text token, which ends an answer. Raises InputError for a vocabulary
    without one.
    """
    return end_of_text(tokenizer) if tokenizer.end_id is None else tokenizer.end_id


def has_end(tokenizer: Tokenizer) -> bool:
    """Return whether a vocabulary has a token that ends an answer; without one, a model cannot be fine-tuned."""
    return tokenizer.end_id is not None or END_OF_TEXT in tokenizer.special


# --- rows ------------------------------------------------------------------------------------------


def to_row(ids: Sequence[int], prompt: int, length: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one row of `length` tokens, padded with `end`, and its targets, which are IGNORE on the prompt and the
    padding.

    The first target is the first token of the answer, predicted at the last token of the prompt.
    """
    padded = np.full(length + 1, end, dtype=np.int64)
    padded[: len(ids)] = ids[: length + 1]
    place = np.arange(1, length + 1)
    scored = (place >= prompt) & (place < len(ids))
    return padded[:-1], np.where(scored, padded[1:], IGNORE)


def fitting(
    examples: Sequence[Example], tokenizer: Tokenizer, end: int, length: int, template: str = TEMPLATE
) -> list[tuple[list[int], int]]:
    """Return (ids, prompt length), as from `to_ids`, of each example that fits into a row. Raises InputError if none
    fits.
    """
    rows = [to_ids(example, tokenizer, end, template) for example in examples]
    fitting_rows = [row for row in rows if len(row[0]) <= length + 1]
    if not fitting_rows:
        shortest = min(len(ids) for ids, _ in rows)
        raise InputError("No example fits into the context.", f"the shortest has {shortest} tokens, {length} fit", "")
    return fitting_rows


def demonstrations(rows: Sequence[tuple[list[int], int]], end: int) -> Source:
    """Return a source of batches of randomly drawn examples."""

    def draw(rng: np.random.Generator, count: int, length: int, done: float) -> Batch:
        chosen = [to_row(*rows[i], length, end) for i in rng.integers(0, len(rows), size=count)]
        ids, targets = zip(*chosen, strict=True)
        return Batch(np.stack(ids), np.stack(targets))

    return draw


def every_demonstration(rows: Sequence[tuple[list[int], int]], end: int) -> HeldOut:
    """Return a source of batches with each example once, in order."""

    def every(count: int, length: int):
        for at in range(0, len(rows), count):
            ids, targets = zip(*(to_row(*row, length, end) for row in rows[at : at + count]), strict=True)
            yield Batch(np.stack(ids), np.stack(targets))

    return every
