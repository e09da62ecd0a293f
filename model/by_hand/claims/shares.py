"""Parts and totals: rows above a total, and amounts with their percentages."""

import re
from collections.abc import Iterator
from decimal import Decimal

from model.by_hand.claims.arrays import CONTEXT
from model.by_hand.claims.page import Page
from model.by_hand.claims.records import Leaf, fits

_TOTAL = re.compile(r"^[^\d:]{0,28}?(?:总计|合计|小计|共计|总和|(?:sub)?total\b)", re.I)  # before any number of its row
_ROW = re.compile(r"^\s*(?:[-*•]\s|\d+[.)]\s|\||[^:\d]{1,30}:\s*[~≈]?\d[\d.,]*\s*[kKMB万亿]?\s*\(\d[\d.]*%\))")
_WHOLE = (Decimal("0.98"), Decimal("1.02"))


def check_shares(page: Page) -> None:
    """Check the totals and percentages of lists and tables."""
    for rows in _groups(page):
        table = page.line_text(rows[0]).lstrip().startswith("|")
        columns = [_columns(page, line) if table else [_last(page, line)] for line in rows]
        width = max((len(each) for each in columns), default=0)
        for column in range(2 if table else 0, width):  # the first cell of a table is a label
            _totals(page, rows, [each[column] if column < len(each) else None for each in columns])
        _percentages(page, rows)


def _groups(page: Page) -> Iterator[list[int]]:
    """Return the lines of each list and each table."""
    current: list[int] = []
    for line in range(len(page.starts)):
        text = page.line_text(line)
        if _ROW.match(text) and len(text) < 500:
            current.append(line)
        elif current:
            yield current
            current = []
    if current:
        yield current


def _numbers(page: Page, line: int, start: int = 0, end: int = 10**9) -> list[Leaf]:
    first = page.starts[line]
    return [
        each.leaf
        for each in page.by_line.get(line, [])
        if each.leaf and first + start <= each.start and each.end <= first + end
    ]


def _last(page: Page, line: int) -> Leaf | None:
    """Return the result of a row of a list: its last number that is no percentage."""
    found = [leaf for leaf in _numbers(page, line) if not page.plain[leaf.start : leaf.end].endswith("%")]
    after = page.plain[found[-1].end : found[-1].end + 1] if found else ""
    return found[-1] if found and not after.isalpha() else None


def _columns(page: Page, line: int) -> list[Leaf | None]:
    """Return the number of each cell of a table's row, None for a cell without exactly one."""
    found: list[Leaf | None] = []
    place = 0
    for cell in page.line_text(line).split("|"):
        inside = _numbers(page, line, place, place + len(cell))
        words = re.sub(r"[^A-Za-z\u4e00-\u9fff]", "", cell)
        found.append(inside[0] if len(inside) == 1 and len(words) <= 8 else None)
        place += len(cell) + 1
    return found


def _totals(page: Page, rows: list[int], column: list[Leaf | None]) -> None:
    """Check the rows called totals against the rows above, from the last total on."""
    parts: list[Leaf] = []
    whole = True
    for line, leaf in zip(rows, column, strict=True):
        if not _TOTAL.search(page.line_text(line)):
            whole = whole and (leaf is not None or not parts)
            parts += [leaf] if leaf else []
            continue
        if leaf and len(parts) >= 2 and whole and leaf.start not in page.claims:
            right = sum((each.value for each in parts), Decimal(0))
            slack = sum((each.unit for each in parts), leaf.unit) / 2
            if abs(right - leaf.value) <= slack:
                right = leaf.value if fits(leaf, right) is False else right
            page.claim("total", leaf, right, " + ".join(page.text[each.start : each.end] for each in parts))
            page.use(parts)
        parts, whole = [], True


def _percentages(page: Page, rows: list[int]) -> None:
    """Check amounts with their percentages, if these sum to 100%: each must be its amount's share of the sum."""
    found = []
    for line in rows:
        numbers = _numbers(page, line)
        shares = [leaf for leaf in numbers if page.plain[leaf.start : leaf.end].endswith("%")]
        amount = _amount(page, line, shares)
        if len(shares) == 1 and amount:
            found.append((amount, shares[0]))
    if (
        len(found) < 2
        or len(found) != len(rows)
        or not _WHOLE[0] <= sum(share.value for _, share in found) <= _WHOLE[1]
    ):
        return
    total = sum((amount.value for amount, _ in found), Decimal(0))
    if not total:
        return
    said = " + ".join(page.text[amount.start : amount.end] for amount, _ in found)
    for amount, share in found:
        page.use([amount])
        right = CONTEXT.divide(amount.value, total)
        page.claim("share", share, right, f"{page.text[amount.start : amount.end]} / ({said})")


def _amount(page: Page, line: int, shares: list[Leaf]) -> Leaf | None:
    before = [leaf for leaf in _numbers(page, line) if shares and leaf.end <= shares[0].start]
    return before[-1] if before and before[-1] is not shares[0] else None
