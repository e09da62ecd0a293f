"""Labeled examples for a probe: built-in sets, and lines that a person types.

| line | meaning |
|---|---|
| `label<TAB>text`, or `label: text` | a label of the whole text |
| `The [noun:dog] ran to the [noun:park].` | labels of the tokens in brackets; the other tokens are "other" |
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from model.api import LanguageModel
from model.errors import InputError, say
from model.public import MOST_SEED, public, unchecked, whole
from model.text.held_out import bundled_text

READS = ("last", "mean")  # tokens whose vector stands for a text: the last one, or the mean of all
MOST_EXAMPLES, MOST_CLASSES, MOST_TOKENS = 240, 6, 160
OTHER = "other"
_LINE = re.compile(r"([^\t:\[\]]{1,40})(?:\t|:[ \t]+)(.*\S.*)")
_MARK = re.compile(r"\[(?:([^\[\]:]{1,40}):)?([^\[\]]+)\]")


@dataclass(frozen=True)
class Example:
    """One labeled text, or one labeled token of a text."""

    text: str
    label: int  # index into the classes
    group: int  # examples of one group are never divided between training and test
    position: int | None = None  # position of the token; None: the label is of the text
    span: tuple[int, int] = (0, 0)  # first byte of the token and the byte after it


@dataclass(frozen=True)
class Labeled:
    """Examples with the names of their classes. At least two examples of each class, in two or more groups."""

    classes: tuple[str, ...]
    examples: tuple[Example, ...]

    @property
    def of_tokens(self) -> bool:
        """True if the labels are of tokens, False if of texts."""
        return self.examples[0].position is not None

    def labels(self) -> np.ndarray:
        """Return the class of every example. int64 [N]"""
        return np.array([each.label for each in self.examples])

    def groups(self) -> np.ndarray:
        """Return the group of every example. int64 [N]"""
        return np.array([each.group for each in self.examples])


_NOUNS = (
    "dog", "cat", "bird", "boy", "girl", "king", "bear", "friend", "goat", "duck", "frog", "cow", "pig", "horse",
    "rabbit", "lion", "bug", "car", "boat", "doll",
)  # fmt: skip
_PLACES = ("park", "garden", "house", "forest")
_NAMES = ("Tom", "Lily", "Ben", "Mia")
_GLAD = (
    "got a new toy", "won the race", "ate a big cake", "found a lost puppy", "played with a friend", "saw a rainbow",
    "got a big hug", "went to a party", "had a nice birthday", "opened a shiny gift", "danced and laughed",
    "got a kitten",
)  # fmt: skip
_SAD = (
    "broke a new toy", "lost the race", "dropped a big cake", "lost a small puppy", "had a fight with a friend",
    "saw a dead bird", "fell and got hurt", "missed a party", "had a bad dream", "lost a shiny gift",
    "cried and screamed", "lost a kitten",
)  # fmt: skip
TEXT_SETS = ("number", "feeling")  # the label is of a text, read at its last token, which is the same in both classes
TOKEN_SETS = ("quoted", "said")
SETS = (*TEXT_SETS, *TOKEN_SETS)


@public(source=unchecked, seed=whole(0, MOST_SEED))
def labeled(lm: LanguageModel, source: str, seed: int = 0) -> Labeled:
    """Build a set of labeled examples: one of SETS, or lines as described above.

    number: a plural or singular subject before "in the park" (held out by noun). feeling: a glad or sad event before
    "and felt" (by event). quoted: tokens inside and outside of quotation marks. said: tokens that occurred earlier in
    their text, and those that did not; the last two in paragraphs of the bundled chapter. At most MOST_EXAMPLES are
    kept, as evenly over the classes and texts as possible. Raises InputError for lines that cannot be read, for fewer
    than two or too many classes, and for a class in only one text.
    """
    if not isinstance(source, str) or not source.strip():
        raise InputError(
            "There are no labeled examples.", "", "Write a label, a tab or colon, and a text in each line."
        )
    if source == "number":
        nouns = enumerate(_NOUNS)
        made = [
            Example(f"The {noun}{'' if label else 's'} in the {place}", label, at)
            for at, noun in nouns
            for place in _PLACES
            for label in (0, 1)
        ]
        return _checked(("plural", "singular"), made, seed)
    if source == "feeling":
        events = [(event, label) for pair in zip(_GLAD, _SAD, strict=True) for label, event in enumerate(pair)]
        made = [
            Example(f"{name} {event} and felt", label, at)
            for at, (event, label) in enumerate(events)
            for name in _NAMES
        ]
        return _checked(("glad", "sad"), made, seed)
    if source in TOKEN_SETS:
        return _of_chapter(lm, source, seed)
    return typed(lm, source, seed)


@public(seed=whole(0, MOST_SEED))
def typed(lm: LanguageModel, text: str, seed: int = 0) -> Labeled:
    """Read examples from lines with a label and a text, or from lines with marked tokens. Raises as `labeled`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [bool(_MARK.search(line)) for line in lines]
    if all(marked):
        spans = [_unmarked(line) for line in lines]
        classes = _classes([name for _, found in spans for name, _, _ in found] + [OTHER])
        made = [each for at, (plain, found) in enumerate(spans) for each in _tokens(lm, plain, found, classes, at)]
        return _checked(classes, made, seed)
    if any(marked):
        line = lines[marked.index(False)]
        raise InputError("A line has no word in brackets.", line[:40], "Mark words in every line, or in no line.")
    matches = [_LINE.fullmatch(line) for line in lines]
    if None in matches:
        line = lines[matches.index(None)]
        raise InputError("A line has no label.", line[:40], "Write a label, a tab or colon, and a text.")
    rows = [(match[1].strip(), match[2].strip()) for match in matches if match]
    classes, at = _classes([name for name, _ in rows]), {each: n for n, (_, each) in enumerate(rows)}
    return _checked(classes, [Example(each, classes.index(name), at[each]) for name, each in rows], seed)


def _classes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the different names in the order of their first occurrence. Raises InputError for too few or too many."""
    classes = tuple(dict.fromkeys(names))
    if not 2 <= len(classes) <= MOST_CLASSES:
        hint = say("Give 2 to {} different labels.", MOST_CLASSES)
        raise InputError("A probe needs several classes.", ", ".join(classes)[:60], hint)
    return classes


def _unmarked(line: str) -> tuple[str, list[tuple[str, int, int]]]:
    """Remove the brackets of a line. Returns the text and (label, first byte, last byte + 1) of each marked part."""
    text, found, end = "", [], 0
    for match in _MARK.finditer(line):
        text += line[end : match.start()]
        start = len(text.encode())
        text += match[2]
        found.append(((match[1] or "marked").strip(), start, len(text.encode())))
        end = match.end()
    return text + line[end:], found


def _tokens(
    lm: LanguageModel, text: str, found: Sequence[tuple[str, int, int]], classes: Sequence[str], group: int
) -> list[Example]:
    """Build an example of every token: of the part in which its last byte is."""
    made = []
    for position, (start, end) in enumerate(lm.encode(text).spans[:MOST_TOKENS].tolist()):
        name = next((label for label, low, high in found if low < end <= high), OTHER)
        made.append(Example(text, classes.index(name), group, position, (start, end)))
    return made


def _of_chapter(lm: LanguageModel, name: str, seed: int) -> Labeled:
    """Build a set over the tokens of the bundled chapter's paragraphs."""
    made = []
    for group, text in enumerate(each.strip() for each in bundled_text().split("\n") if each.strip()):
        tokens = lm.encode(text)
        pieces, ids = tokens.pieces[:MOST_TOKENS], tokens.ids[:MOST_TOKENS].tolist()
        states = inside_quotes(pieces) if name == "quoted" else [number in ids[:at] for at, number in enumerate(ids)]
        if {False, True} <= set(states):
            spans = [(start, end) for start, end in tokens.spans.tolist()]
            kept = [(at, yes) for at, yes in enumerate(states) if yes is not None]
            made += [Example(text, int(not yes), group, at, spans[at]) for at, yes in kept]
    return _checked(("inside", "outside") if name == "quoted" else ("said before", "new"), made, seed)


def inside_quotes(pieces: Sequence[str]) -> list[bool | None]:
    """Return whether each token is inside of straight double quotation marks; None for tokens with a mark. [T]"""
    open_, found = False, []
    for piece in pieces:
        marks = piece.count('"')
        found.append(None if marks else open_)
        open_ ^= marks % 2 == 1
    return found


def _checked(classes: tuple[str, ...], examples: Sequence[Example], seed: int) -> Labeled:
    """Return at most MOST_EXAMPLES examples, evenly over classes and groups. Raises InputError for too few groups."""
    for label, name in enumerate(classes):
        if len({each.group for each in examples if each.label == label}) < 2:
            hint = "Give at least two texts of each class, so that one can be held out."
            raise InputError("A class occurs in only one text.", name, hint)
    order = np.random.default_rng(seed).permutation(len(examples)).tolist()
    seen: Counter[tuple[int, int]] = Counter()
    ranked = []
    for at in order:  # the first example of each class and group, then the second of each, and so on
        key = (examples[at].group, examples[at].label)
        ranked.append((seen[key], len(ranked), at))
        seen[key] += 1
    by_class = [[at for _, _, at in sorted(ranked) if examples[at].label == label] for label in range(len(classes))]
    kept = sorted(at for each in by_class for at in each[: MOST_EXAMPLES // len(classes)])
    return Labeled(classes, tuple(examples[at] for at in kept))
