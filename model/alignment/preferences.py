"""Pairs of texts with a preferred one: chosen by a person, or by rules between two texts that the model wrote."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from model.alignment.rewards import Rule, score
from model.api import LanguageModel
from model.arguments import shown
from model.errors import InputError, say
from model.generation.generate import MOST_SEED, MOST_TOKENS
from model.generation.strategies import Strategy
from model.predictions.samples import MOST_SEEDS, Many, take_samples
from model.progress import Progress, silent
from model.public import above, between, nonempty, public, whole
from model.sampling.pipeline import Step
from model.strict_json import parse

BY = ("person", "rule")
MOST_PAIRS = 5000
LONGEST = 8000  # maximum characters of a prompt or a text
MOST_PROMPTS = 100
_KEYS = {"prompt", "chosen", "rejected", "by"}

# Default prompts: beginnings of stories.
PROMPTS = (
    "Once upon a time",
    "The little girl",
    "One day, Tom and his mom",
    "There was a big dog named Max. He",
    "Lily went to the park with her friend.",
    "In the garden there was a small bird.",
    "The king looked out of the window and",
    "It was a cold night in the forest.",
    "Ben found a box under the tree.",
    "The old man walked slowly to the sea.",
    "Mia and Sam wanted to bake a cake.",
    "A little fish lived in the river.",
)


@dataclass(frozen=True)
class Pair:
    """Two texts that continue one prompt. Raises InputError unless the two texts differ."""

    prompt: str
    chosen: str  # without the prompt
    rejected: str
    by: str = "person"  # of BY

    def __post_init__(self) -> None:
        hint = "A pair has a prompt and two different texts."
        for value in (self.prompt, self.chosen, self.rejected):
            if not isinstance(value, str) or len(value) > LONGEST:
                got = f"{len(value)} characters" if isinstance(value, str) else shown(value)
                raise InputError("This is not a pair of texts.", got, hint)
        if self.chosen == self.rejected or not self.prompt:
            raise InputError("This is not a pair of texts.", shown(self.prompt), hint)
        if self.by not in BY:
            raise InputError("No chooser has this name.", shown(self.by), say("Choose one of: {}.", ", ".join(BY)))


@public(
    pairs=whole(1, MOST_PAIRS),
    new_tokens=whole(1, MOST_TOKENS),
    temperature=between(0.05, 5),
    seed=whole(0, MOST_SEED // MOST_SEEDS - 1),
)
@dataclass(frozen=True)
class PairSettings:
    """Settings for writing the two texts of each pair. Raises InputError for a number out of range."""

    pairs: int = 20  # number of pairs of each prompt, ties included
    new_tokens: int = 40
    temperature: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Made:
    """Pairs chosen by a rule, and the number of ties."""

    pairs: tuple[Pair, ...]
    ties: int


@dataclass(frozen=True)
class Split:
    """Pairs to learn from, and held-out pairs."""

    train: tuple[Pair, ...]
    held_out: tuple[Pair, ...]
    by: Literal["prompt", "pair"]  # "prompt" if no prompt is in both parts


# --- lines of JSON -----------------------------------------------------------------------------------


@public()
def read_pairs(text: str) -> tuple[Pair, ...]:
    """Parse the pairs of JSON lines: {"prompt", "chosen", "rejected"} and, if known, "by": "person" or "rule".

    Raises InputError naming the first invalid line, for an empty text, and for more than MOST_PAIRS.
    """
    lines = [(at, line) for at, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not 1 <= len(lines) <= MOST_PAIRS:
        raise InputError(
            "The number of pairs is out of range.", str(len(lines)), say("From 1 to {} lines.", MOST_PAIRS)
        )
    return tuple(_pair(line, at) for at, line in lines)


def write_pairs(pairs: Iterable[Pair]) -> str:
    """Return the JSON lines that `read_pairs` reads as these pairs."""
    return "".join(json.dumps(asdict(pair), ensure_ascii=False) + "\n" for pair in pairs)


def _pair(line: str, number: int) -> Pair:
    hint = 'Each line is an object with "prompt", "chosen" and "rejected", two different texts.'
    try:
        values = parse(line)
    except ValueError as error:
        raise InputError("A line of the pairs is not JSON.", f"line {number}: {error}"[:80], hint) from None
    fits = isinstance(values, dict) and set(values) <= _KEYS and _KEYS - {"by"} <= set(values)
    try:
        if fits:
            return Pair(**values)
    except InputError:
        pass
    raise InputError("A line of the pairs is not a pair.", f"line {number}: {line[:60]}", hint)


# --- texts to choose from ----------------------------------------------------------------------------


def write_texts(
    lm: LanguageModel, prompt: str, count: int, ask: PairSettings, progress: Progress = silent
) -> tuple[str, ...]:
    """Return `count` texts of the model that continue a prompt, without it; deterministic for a seed.

    Sampled from the model's own distribution at a temperature, in batches with a cache. Raises InputError as
    LanguageModel.generate does.
    """
    warp = () if ask.temperature == 1 else (Step("temperature", (("temperature", ask.temperature),)),)
    many = Many(count, ask.new_tokens, ask.seed)
    return tuple(sample.text for sample in take_samples(lm, prompt, [Strategy(warp)], many, progress)[0])


@public(prompts=nonempty, rules=nonempty)
def pairs_by_rule(
    lm: LanguageModel, prompts: Sequence[str], rules: Sequence[Rule], ask: PairSettings, progress: Progress = silent
) -> Made:
    """Return `ask.pairs` pairs of texts for each prompt, ordered by `score`; pairs with equal scores are ties and left
    out.

    `progress` counts texts. Raises InputError for an empty list, too many prompts or pairs, and as `write_texts`.
    """
    prompts = tuple(dict.fromkeys(prompts))
    if not 1 <= len(prompts) <= MOST_PROMPTS or len(prompts) * ask.pairs > MOST_PAIRS:
        got = f"{len(prompts)} prompts, {ask.pairs} pairs of each"
        raise InputError("This number of pairs cannot be created.", got, say("At most {}.", MOST_PAIRS))
    kept: list[Pair] = []
    count, ties = 2 * ask.pairs, 0
    for number, prompt in enumerate(prompts):

        def report(done: int, total: int | None, what: str, before: int = number * count) -> None:
            progress(before + count * done // (total or 1), len(prompts) * count, what)

        texts = write_texts(lm, prompt, count, ask, report)
        chosen = [chosen_by(rules, prompt, one, other) for one, other in zip(texts[::2], texts[1::2], strict=True)]
        kept += [pair for pair in chosen if pair]
        ties += chosen.count(None)
    return Made(tuple(kept), ties)


def chosen_by(rules: Sequence[Rule], prompt: str, one: str, other: str) -> Pair | None:
    """Return the pair in the order that the rules prefer; None if the texts have equal scores."""
    first, second = score(rules, (one, other))
    if one == other or first == second:
        return None
    return Pair(prompt, one, other, "rule") if first > second else Pair(prompt, other, one, "rule")


# --- pairs together ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Agreement:
    """Agreement between rules and the choices in existing pairs."""

    same: int
    other: int
    ties: int  # the rules cannot tell

    @property
    def share(self) -> float:
        """The fraction of agreement among the pairs without a tie; NaN if there are none."""
        decided = self.same + self.other
        return self.same / decided if decided else float("nan")


def agreement(pairs: Sequence[Pair], rules: Sequence[Rule]) -> Agreement:
    """Count in how many pairs the rules choose the same text."""
    better = score(rules, [pair.chosen for pair in pairs]) - score(rules, [pair.rejected for pair in pairs])
    return Agreement(int((better > 0).sum()), int((better < 0).sum()), int((better == 0).sum()))


@public(share=above(0, 0.999), seed=whole(0, MOST_SEED))
def split(pairs: Sequence[Pair], share: float = 0.25, seed: int = 0) -> Split:
    """Hold out complete prompts, about `share` of the pairs; for a single prompt, pairs.

    Both parts have at least one pair. The prompts are ordered by a hash with the seed, so that an additional pair moves
    no other. Raises InputError for fewer than two pairs.
    """
    if len(pairs) < 2:
        raise InputError("There are too few pairs to learn from.", str(len(pairs)), "Choose a few more.")
    prompts = {pair.prompt for pair in pairs}
    by: Literal["prompt", "pair"] = "prompt" if len(prompts) > 1 else "pair"

    def group(pair: Pair) -> str:
        return pair.prompt if by == "prompt" else f"{pair.chosen}\0{pair.rejected}"

    order = sorted(
        {group(pair) for pair in pairs},
        key=lambda name: hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "replace")).digest(),
    )
    held: set[str] = set()
    wanted = share * len(pairs)
    for name in order[:-1]:
        held.add(name)
        if sum(group(pair) in held for pair in pairs) >= wanted:
            break
    apart = [[pair for pair in pairs if (group(pair) in held) == which] for which in (False, True)]
    return Split(tuple(apart[0]), tuple(apart[1]), by)
