"""Prompt sets on a model: pairs that have the same number of tokens, and the pairs left out, each with its reason."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.api import LanguageModel
from model.arguments import shown
from model.errors import InputError, say
from model.gpt.mixers.needs import need_next
from model.public import MOST_SEED, public, whole
from model.sets.templates import BUILT_IN, MOST_PAIRS, Pair, Template, draw, is_lines, parse_lines, parse_templates

SETS = tuple(BUILT_IN)
LEAST_PAIRS = 1
HELD_OUT = 4  # where pairs are few, every fourth is kept for calibration
REASONS = ("length", "same", "long_answer", "same_answer", "too_long", "empty")
_CJK = "\u2e80"  # scripts from here on are written without spaces


@dataclass(frozen=True)
class AlignedPair:
    """A pair as tokens: both prompts have the same number, and target and distractor are one token each."""

    pair: Pair
    clean: tuple[int, ...]  # ids
    corrupt: tuple[int, ...]
    target: int
    distractor: int

    @property
    def differing(self) -> tuple[int, ...]:
        """The positions at which the two prompts differ."""
        return tuple(t for t, (a, b) in enumerate(zip(self.clean, self.corrupt, strict=True)) if a != b)


@dataclass(frozen=True)
class LeftOut:
    """A pair that cannot be used."""

    pair: Pair
    reason: str  # one of REASONS
    got: str  # what the reason is about, such as the two lengths


@dataclass(frozen=True)
class AlignedSet:
    """A prompt set on one model."""

    pairs: tuple[AlignedPair, ...]
    left_out: tuple[LeftOut, ...]
    calibration: tuple[AlignedPair, ...]  # pairs that are not scored
    unused: int = 0  # given pairs beyond those asked for, which were not looked at


@public(n=whole(LEAST_PAIRS, MOST_PAIRS), calibration=whole(0, MOST_PAIRS), seed=whole(0, MOST_SEED))
def prompt_set(
    lm: LanguageModel,
    source: str | Sequence[Pair] | Sequence[Template],
    n: int = 32,
    *,
    calibration: int = 16,
    seed: int = 0,
    first_token: bool = False,
) -> AlignedSet:
    """Build a prompt set on a model: up to `n` scored pairs and up to `calibration` others.

    `source` is a key of BUILT_IN, a text (templates, CSV or JSON lines: model.sets.templates), templates, or pairs. Of
    given pairs, in the order of a shuffle by `seed`, a quarter at most is kept for calibration; of templates that give
    fewer than `n` pairs, too.

    A pair is left out if the two prompts differ in their number of tokens, are equal or too long, or if an answer is
    several tokens, unless `first_token` takes the first. An answer that begins with a letter follows a space. Raises
    InputError for a text that cannot be read and for a model without a next token.
    """
    need_next(lm.config)
    made: Sequence[Pair]
    unused = 0
    templates = _templates(source)
    if templates is not None:
        made = draw(templates, n + calibration, seed)
        spare = min(calibration, max(len(made) - n, len(made) // HELD_OUT))
    else:
        given = parse_lines(source) if isinstance(source, str) else _pairs(source)
        order = np.random.default_rng(seed).permutation(len(given))
        spare = min(calibration, len(given) // HELD_OUT)
        made = [given[at] for at in order[: n + spare]]
        unused = len(given) - len(made)
    tried = [align(lm, pair, first_token=first_token) for pair in made]
    scored, others = tried[: len(tried) - spare], tried[len(tried) - spare :]
    return AlignedSet(
        tuple(each for each in scored if isinstance(each, AlignedPair)),
        tuple(each for each in tried if isinstance(each, LeftOut)),
        tuple(each for each in others if isinstance(each, AlignedPair)),
        unused,
    )


def _templates(source: str | Sequence[Pair] | Sequence[Template]) -> Sequence[Template] | None:
    """Return the templates of a source; None if it has pairs."""
    if isinstance(source, str):
        if source in BUILT_IN:
            return BUILT_IN[source]
        if source.isidentifier():
            raise InputError("No prompt set has this name.", shown(source), say("Choose one of: {}.", ", ".join(SETS)))
        return None if is_lines(source) else parse_templates(source)
    templates = [each for each in source if isinstance(each, Template)]
    return templates if len(templates) == len(source) and templates else None


def _pairs(source: Sequence[Pair] | Sequence[Template]) -> list[Pair]:
    """Return the pairs of a source. Raises InputError for anything else."""
    pairs = [each for each in source if isinstance(each, Pair)]
    if len(pairs) < len(source) or not pairs:
        raise InputError("An argument has the wrong type.", "source", say("Expected: {}.", "Sequence[Pair]"))
    return pairs


def align(lm: LanguageModel, pair: Pair, *, first_token: bool = False) -> AlignedPair | LeftOut:
    """Tokenize a pair, or say why it cannot be used."""
    clean, corrupt = (tuple(lm.encode(text).ids.tolist()) for text in (pair.clean, pair.corrupt))
    if not clean or not corrupt:
        return LeftOut(pair, "empty", "")
    if len(clean) != len(corrupt):
        return LeftOut(pair, "length", f"{len(clean)}, {len(corrupt)}")
    if clean == corrupt:
        return LeftOut(pair, "same", "")
    if len(clean) >= lm.config.n_ctx:
        return LeftOut(pair, "too_long", f"{len(clean)}")
    answers = [_answer(lm, pair.clean, clean, text) for text in (pair.target, pair.distractor)]
    for ids, text in zip(answers, (pair.target, pair.distractor), strict=True):
        if not ids or (len(ids) > 1 and not first_token):
            return LeftOut(pair, "long_answer", text.strip())
    target, distractor = (ids[0] for ids in answers)
    if target == distractor:
        return LeftOut(pair, "same_answer", "")
    return AlignedPair(pair, clean, corrupt, target, distractor)


def _answer(lm: LanguageModel, prompt: str, ids: tuple[int, ...], text: str) -> list[int]:
    """Return the tokens of an answer after a prompt; empty if the answer changes the prompt's own tokens."""
    follows = not prompt[-1:].isspace() and text[:1].isalpha() and text[:1] < _CJK
    whole_text = lm.tokenizer.encode_ids(prompt + (" " if follows else "") + text)
    alone = lm.tokenizer.encode_ids(prompt)
    return whole_text[len(alone) :] if whole_text[: len(alone)] == alone else []
