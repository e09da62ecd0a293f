"""The state at a place of the page: names with their values, lists in order, and the checked numbers."""

import itertools
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from model.by_hand.claims.arrays import Array, cells
from model.by_hand.claims.records import Claim, Leaf, verdict
from model.by_hand.claims.tokens import Token, plain, tokens_of

_LONGEST_FORMULA = 160
_MOST_CLAIMS = 5000  # the other numbers of a page count as not recomputed


@dataclass(frozen=True)
class Listed:
    """A list or matrix of numbers as the page shows it."""

    value: Array
    leaves: Any
    start: int
    end: int
    line: int
    label: str  # the words before it on its line
    block: int


@dataclass(frozen=True)
class Stated:
    """A single number behind a name and a sign of equality, such as std = 1.12."""

    name: str
    leaf: Leaf
    line: int


@dataclass
class Page:
    """The text and everything found in it so far."""

    text: str
    plain: str = ""
    tokens: list[Token] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)  # of the lines
    blocks: list[int] = field(default_factory=list)  # of each line
    claims: dict[int, Claim] = field(default_factory=dict)  # by their start
    inputs: set[int] = field(default_factory=set)  # starts of numbers that went into a calculation
    lists: list[Listed] = field(default_factory=list)
    stated: list[Stated] = field(default_factory=list)

    by_line: dict[int, list[Token]] = field(default_factory=dict)

    def tokens_from(self, place: int) -> Iterator[Token]:
        """Return the tokens that begin at a place or behind it, in order."""
        first = bisect_left(self.tokens, place, key=lambda token: token.start)
        return itertools.islice(self.tokens, first, first + 400)

    def line_text(self, line: int) -> str:
        """Return a line, in plain signs."""
        end = self.starts[line + 1] - 1 if line + 1 < len(self.starts) else len(self.plain)
        return self.plain[self.starts[line] : end]

    def source(self, start: int, end: int) -> str:
        """Return a part of the text on one line, shortened."""
        said = " ".join(self.text[start:end].replace("`", "").split())
        return said if len(said) <= _LONGEST_FORMULA else said[: _LONGEST_FORMULA - 1] + "…"

    @property
    def is_full(self) -> bool:
        """True if no more numbers are checked."""
        return len(self.claims) >= _MOST_CLAIMS

    def claim(self, kind: str, leaf: Leaf, right: Decimal, formula: str, about: bool = False, note: str = "") -> None:
        """Record the verdict on a number, unless it has one."""
        if (
            self.is_full
            or right.is_nan()
            or leaf.value.is_infinite() != right.is_infinite()
            or leaf.start in self.claims
        ):
            return  # float32 overflows where these numbers do not
        said = verdict(leaf, right, about)
        self.claims[leaf.start] = Claim(
            leaf.start, leaf.end, kind, said, self.text[leaf.start : leaf.end], right, formula, note
        )

    def claim_all(self, kind: str, leaves: Any, right: Array, formula: str, about: bool = False) -> None:
        """Record the verdicts on all numbers of a list or matrix."""
        for leaf, value in zip(leaf_list(leaves), cells(right), strict=True):
            self.claim(kind, leaf, value, formula, about)

    def use(self, leaves: Sequence[Leaf]) -> None:
        """Record numbers as inputs of a calculation."""
        self.inputs.update(leaf.start for leaf in leaves)


def leaf_list(leaves: Any) -> list[Leaf]:
    """Return the leaves of a literal in reading order."""
    return [one for each in leaves for one in leaf_list(each)] if isinstance(leaves, tuple) else [leaves]


def page_of(text: str) -> Page:
    """Read a page: its tokens, its lines, and the blocks between headings."""
    flat = plain(text)
    starts = [0, *(n + 1 for n, sign in enumerate(flat) if sign == "\n")]
    page = Page(text, flat, tokens_of(flat), starts)
    for token in page.tokens:
        page.by_line.setdefault(token.line, []).append(token)
    block, fenced = 0, False
    for n in range(len(starts)):
        line = page.line_text(n).lstrip()
        if line.startswith("```"):
            fenced = not fenced
            block += 1
        elif not fenced and line.startswith("#"):
            block += 1
        page.blocks.append(block)
    return page
