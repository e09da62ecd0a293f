"""The check of a page: every number that can be recomputed is compared with the right one."""

from collections.abc import Callable
from dataclasses import dataclass

from model.by_hand.claims.chains import check_equations
from model.by_hand.claims.lists import check_lists
from model.by_hand.claims.page import Page, page_of
from model.by_hand.claims.records import Claim
from model.by_hand.claims.sentences import check_sentences
from model.by_hand.claims.shares import check_shares
from model.by_hand.claims.statistics import check_statistics
from model.errors import InputError, say
from model.public import check_kind

LONGEST = 200_000  # characters

CHECKS: tuple[Callable[[Page], None], ...] = (
    check_equations,
    check_lists,
    check_statistics,
    check_sentences,
    check_shares,
)


@dataclass(frozen=True)
class Checked:
    """The checked numbers of a page in reading order, and how many others it has.

    `inputs` counts the numbers that went into a calculation, `left` those that were not recomputed.
    """

    claims: tuple[Claim, ...]
    inputs: int
    left: int

    def count(self, verdict: str) -> int:
        """Return how many numbers have a verdict."""
        return sum(each.verdict == verdict for each in self.claims)


def check_tutorial(text: str) -> Checked:
    """Recompute the numbers of a page of plain text, Markdown or LaTeX, in English or Chinese.

    Raises InputError for a page of more than 200,000 characters.
    """
    check_kind("text", text, str)
    if len(text) > LONGEST:
        raise InputError("This page is too long to check.", f"{len(text):,}", say("Paste at most {}.", f"{LONGEST:,}"))
    page = page_of(text)
    for check in CHECKS:
        check(page)
    claims = tuple(sorted(page.claims.values(), key=lambda each: each.start))
    numbers = {token.start for token in page.tokens if token.kind == "num"}
    signed = {each.start for each in claims} | {each.end for each in claims}
    ends = {token.end for token in page.tokens if token.kind == "num" and token.end in signed}
    checked = {
        token.start for token in page.tokens if token.kind == "num" and (token.start in signed or token.end in ends)
    }
    inputs = (page.inputs & numbers) - checked
    return Checked(claims, len(inputs), len(numbers - checked - inputs))
