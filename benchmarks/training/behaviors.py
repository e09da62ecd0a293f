"""What a story model can do, each behavior over made-up cases with Wilson's 95 % interval.

    python benchmarks/training/behaviors.py [MODEL ...] [--cases 200] [--seed 0]

MODEL is a bundled model's name or a folder; several stand side by side on the same cases. A case counts where the
likeliest next token is the expected one, or, for "he or she", where the fitting pronoun is likelier than the other.
"""

import argparse
import itertools
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from model.api import load_model
from model.shares import wilson

GIRLS = ("Lily", "Sue", "Anna", "Mia", "Lucy", "Jane", "Amy", "Sara")
BOYS = ("Tom", "Tim", "Ben", "Sam", "Jack", "Max", "Bob", "Leo")
ADJECTIVES = ("red", "big", "little", "blue", "green", "old", "new", "shiny", "soft", "funny")
NOUNS = ("ball", "car", "hat", "box", "book", "doll", "boat", "kite", "cake", "toy")
PLACES = ("park", "garden", "forest", "beach", "house", "farm")


@dataclass(frozen=True)
class Case:
    """A text, and its next token: any of `wanted`: likelier than `against`, or than all tokens where none are given."""

    text: str
    wanted: tuple[str, ...]
    against: tuple[str, ...] = ()


def _name(rng: random.Random) -> str:
    return rng.choice(GIRLS + BOYS)


def _two(rng: random.Random) -> tuple[str, str]:
    first, second = rng.sample(GIRLS + BOYS, 2)
    return first, second


def name_again(rng: random.Random) -> Case:
    """A name that was said is said again where the next sentence begins with it."""
    name, adjective, noun = _name(rng), rng.choice(ADJECTIVES), rng.choice(NOUNS)
    begun = f"Once upon a time, there was a child named {name}. {name} had a {adjective} {noun}."
    return Case(f"{begun} Every day, {name} played with the {noun}. One day,", (f" {name}",))


def other_of_two(rng: random.Random) -> Case:
    """Who is given something is not who gives it."""
    (first, second), noun, place = _two(rng), rng.choice(NOUNS), rng.choice(PLACES)
    begun = f"{first} and {second} went to the {place}. They played with a {noun}."
    return Case(f"{begun} {first} gave the {noun} to", (f" {second}",))


def noun_again(rng: random.Random) -> Case:
    """The noun returns with its adjective."""
    name, adjective, noun, place = _name(rng), rng.choice(ADJECTIVES), rng.choice(NOUNS), rng.choice(PLACES)
    begun = f"{name} had a {adjective} {noun}. {name} took it to the {place}. Everybody liked the"
    return Case(f"{begun} {adjective}", (f" {noun}",))


def he_or_she(rng: random.Random) -> Case:
    """The pronoun fits the name."""
    girl = rng.random() < 0.5
    name, noun, place = rng.choice(GIRLS if girl else BOYS), rng.choice(NOUNS), rng.choice(PLACES)
    fits, other = (" She", " He") if girl else (" He", " She")
    return Case(f"{name} went to the {place} with a {noun}.", (fits,), (other,))


def quotation_closes(rng: random.Random) -> Case:
    """What was said ends with a quotation mark."""
    (first, second), noun = _two(rng), rng.choice(NOUNS)
    said = rng.choice((f"Do you want to play with my {noun}", f"I like your {noun}", f"Thank you for the {noun}"))
    return Case(f'{first} saw {second} and said, "{said}', ('."', '!"', '?"', ',"', '"'))


def bracket_closes(rng: random.Random) -> Case:
    """A remark in brackets ends with a bracket."""
    name, adjective, noun = _name(rng), rng.choice(ADJECTIVES), rng.choice(NOUNS)
    return Case(f"{name} found a {noun} (it was a very {adjective} {noun}", (")", ").", "),"))


def story_ends(rng: random.Random) -> Case:
    """After a last sentence comes the end of the text."""
    (first, second), noun = _two(rng), rng.choice(NOUNS)
    begun = f"{first} lost a {noun}. {second} helped to look for it. They found it under the bed, and they were happy."
    last = rng.choice(("They were best friends forever.", "And they lived happily ever after.", "The end."))
    return Case(f"{begun}\n\n{first} and {second} played together all day. {last}", ("<|endoftext|>",))


BEHAVIOURS: dict[str, Callable[[random.Random], Case]] = {
    "a name is said again": name_again,
    "the other of two people": other_of_two,
    "a noun returns with its adjective": noun_again,
    "he or she fits the name": he_or_she,
    "a quotation closes": quotation_closes,
    "a bracket closes": bracket_closes,
    "a story ends": story_ends,
}


def cases(make: Callable[[random.Random], Case], count: int, seed: int) -> Iterator[Case]:
    """Cases that differ, as far as there are so many; each behavior has the same ones at every call."""
    rng, seen = random.Random(seed), set()
    for _ in range(50 * count):
        case = make(rng)
        if case not in seen:
            seen.add(case)
            yield case
        if len(seen) == count:
            return


def last_logits(lm, texts: Sequence[str]) -> torch.Tensor:
    """The logits after each text, in one batch: a causal model does not see what pads a row at its end. [n, V]"""
    rows = [torch.tensor(lm.tokenizer.encode_ids(text)) for text in texts]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    x = lm.model.trunk(padded)[torch.arange(len(rows)), [len(row) - 1 for row in rows]]
    return lm.model.logits(x)


def holds(lm, case: Case, logits: torch.Tensor) -> bool:
    """Whether the model, whose logits after the case's text are given [V], goes on as it should."""
    first = lambda text: _first(lm, case.text, text)  # noqa: E731
    wanted = {first(text) for text in case.wanted}
    if case.against:
        return max(logits[i] for i in wanted) > max(logits[first(text)] for text in case.against)
    return int(logits.argmax()) in wanted


def _first(lm, text: str, continuation: str) -> int:
    """The first token that `continuation` adds to the text."""
    if continuation == "<|endoftext|>":
        return lm.tokenizer.eos_id
    return lm.tokenizer.encode_ids(text + continuation)[len(lm.tokenizer.encode_ids(text))]


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["tinygpt"])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    models = {name: load_model(name, offline=True) for name in options.models}
    print("| % of the cases | cases |" + "".join(f" {Path(name).name} |" for name in models))
    print("|---|---|" + "---|" * len(models))
    for behavior, make in BEHAVIOURS.items():
        made, cells = list(cases(make, options.cases, options.seed)), []
        for lm in models.values():
            rows = last_logits(lm, [case.text for case in made])
            share = sum(map(holds, itertools.repeat(lm), made, rows)) / len(made)
            low, high = wilson(share, len(made))
            cells.append(f" {100 * share:.0f} ({100 * low:.0f} to {100 * high:.0f}) |")
        print(f"| {behavior} | {len(made)} |" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
