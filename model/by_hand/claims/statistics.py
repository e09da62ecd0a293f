"""Statistics of a list that the page shows: its mean, standard deviation, variance, smallest and largest number."""

import re
from collections.abc import Callable
from decimal import Decimal

from model.by_hand.claims import functions as f
from model.by_hand.claims.arrays import CONTEXT, Array, UnfitError, cells, is_list, is_matrix, transpose
from model.by_hand.claims.page import Listed, Page, leaf_list
from model.by_hand.claims.parser import parse_start
from model.by_hand.claims.records import Leaf, fits

_FURTHEST = 14  # lines between a list and its statistics
_ANCHORED = 10  # lines between a statistic that fits and others of the same list
_NAMES: dict[str, tuple[str, tuple[Callable[[Array], Decimal], ...]]] = {
    "std": (r"std(?:\.dev\.?)?|standard deviation|标准差|σ", (f.std, lambda x: f.std(x, 1))),
    "variance": (r"var(?:iance)?|方差|σ\^?2|σ²", (f.variance, lambda x: f.variance(x, 1))),
    "mean": (r"mean|average|avg|平均值?|均值|μ", (f.mean,)),
    "rms": (r"rms|root mean square|均方根", (f.rms,)),
    "min": (r"min(?:imum)?|smallest|最小值?", (lambda x: min(cells(x)),)),
    "max": (r"max(?:imum)?|largest|最大值?", (lambda x: max(cells(x)),)),
    "range": (r"range|范围|极差", (lambda x: CONTEXT.subtract(max(cells(x)), min(cells(x))),)),
    "sum": (r"sum|total|总和|之和", (f.total,)),
}
_SAID = re.compile(
    "|".join(rf"(?P<{key}>(?<![A-Za-z_]){words}(?![A-Za-z_]))" for key, (words, _) in _NAMES.items()), re.I
)
_THEN = re.compile(r"\s*(?:\((?:x|[A-Za-z_]\w*)\)|of the list)?\s*(?:(?:[=:≈~是为]\s*)+|(?:is )?(?=-?\d))")
_OF = re.compile(r"\s*(?:of|von|:)?\s*(?=\[)")


def check_statistics(page: Page) -> None:
    """Check the statistics that stand near a list."""
    anchors: list[tuple[Listed, int]] = []
    for line in range(len(page.starts)):
        found = list(_of_line(page, line))
        for name, leaves in found:
            for one in _candidates(page, line, leaves[0].start):
                if _value(name, one.value, leaves) is not None:
                    anchors.append((one, line))
                    break
        for name, leaves in found:
            _check(page, name, leaves, line, anchors)


def _of_line(page: Page, line: int):
    """Return the statistics of a line: their names and the numbers behind them."""
    text, start = page.line_text(line), page.starts[line]
    if len(text) > 2000:
        return
    for match in _SAID.finditer(text):
        at = start + match.end()
        of = _OF.match(page.plain, at)
        one = next((each for each in page.lists if of and each.start == of.end()), None)
        leaves = _number_after(page, line, one.end if one else at, match[0])
        if one and len(leaves) == 1 and is_list(one.value) and leaves[0].start not in page.claims:
            name = str(match.lastgroup)
            values = _value(name, one.value, leaves) or [(_NAMES[name][1][0](one.value), one.value)]
            _record(page, name, leaves, values, one)
        elif leaves:
            yield str(match.lastgroup), leaves


def _number_after(page: Page, line: int, at: int, name: str) -> list[Leaf]:
    """Return the number or list at the end of the equation that begins at a place."""
    sign = _THEN.match(page.plain, at)
    if not sign:
        return []
    stated = [each for each in page.stated if each.line == line and at < each.leaf.start and each.name == name]
    tokens = [each for each in page.by_line.get(line, []) if each.start >= sign.end()]
    try:
        found, _ = parse_start(tokens, {})
    except UnfitError:
        return [stated[-1].leaf] if stated else []
    if found.leaves is None:
        return [stated[-1].leaf] if stated else []
    leaves = leaf_list(found.leaves)
    return leaves if len(leaves) < 64 else []


def _candidates(page: Page, line: int, place: int) -> list[Listed]:
    """Return the lists that a statistic may belong to, the nearest first."""
    near = [each for each in page.lists if each.end < place and line - each.line <= _FURTHEST]
    return [each for each in reversed(near) if each.block == page.blocks[line] and len(each.value) > 1][:3]


def _value(name: str, x: Array, leaves: list[Leaf]) -> list[tuple[Decimal, Array]] | None:
    """Return the right values and their lists if the stated numbers fit a list, or rows or columns of a matrix."""
    for form in _NAMES[name][1]:
        for part in _parts(x, len(leaves)):
            try:
                values = [form(each) for each in part]
            except (ArithmeticError, UnfitError, ValueError):
                continue
            if len(values) == len(leaves) and all(fits(leaf, v) for leaf, v in zip(leaves, values, strict=True)):
                return list(zip(values, part, strict=True))
    return None


def _parts(x: Array, n: int) -> list[list[Array]]:
    if is_list(x):
        return [[x]]
    if not is_matrix(x):
        return []
    rows, columns = list(x), list(transpose(x))
    return [rows, columns] if n > 1 else [[row] for row in rows]


def _check(page: Page, name: str, leaves: list[Leaf], line: int, anchors: list[tuple[Listed, int]]) -> None:
    """Record the verdict: right where a near list fits, wrong only next to another statistic of the same list."""
    if any(leaf.start in page.claims for leaf in leaves):
        return
    for one in _candidates(page, line, leaves[0].start):
        values = _value(name, one.value, leaves)
        if values is not None:
            _record(page, name, leaves, values, one)
            return
    beside = [each for each in _candidates(page, line, leaves[0].start) if each.line == line]
    for one, at in [*reversed(anchors), *((each, line) for each in beside if len(beside) == 1)]:
        if line - at <= _ANCHORED and one.block == page.blocks[line] and is_list(one.value) and len(leaves) == 1:
            near = _candidates(page, line, leaves[0].start)
            if near and near[0] is one:
                _record(page, name, leaves, [(_NAMES[name][1][0](one.value), one.value)], one)
            return


def _record(page: Page, name: str, leaves: list[Leaf], values: list[tuple[Decimal, Array]], one: Listed) -> None:
    page.use(leaf_list(one.leaves))
    for leaf, (value, of) in zip(leaves, values, strict=True):
        said = ", ".join(f"{each:f}" for each in list(cells(of))[:12]) + (", …" if len(of) > 12 else "")
        page.claim("statistic", leaf, value, f"{name}([{said}])")
