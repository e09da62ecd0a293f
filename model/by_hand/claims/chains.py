"""Equations of a page: an expression, a sign of equality, and the number, list or matrix that it should give."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from model.by_hand.claims.arrays import Array, UnfitError, shape
from model.by_hand.claims.functions import Reading
from model.by_hand.claims.page import Listed, Page, Stated, leaf_list
from model.by_hand.claims.parser import Expression, parse, parse_start
from model.by_hand.claims.records import Leaf, fits
from model.by_hand.claims.tokens import Token

_MOST_STARTS = 24  # beginnings of an expression that are tried before a sign of equality
_OTHER_READINGS = {
    "log": (Reading(log="log2"), Reading(log="log10")),
    "gelu": (Reading(gelu="tanh"), Reading(gelu="sigmoid")),
    "sample": (Reading(sample=True),),
    "binary": (Reading(binary=True),),
}
_CURRENCIES = ("$", "¥", "€", "￥")
_SLASHES = re.compile(r"[\d.]+(?:/[\d.]+){2,}")
_SECTION = re.compile(r"#{1,3} ")
_ASSUMED = re.compile(r"(?:假设|设为|例如|比如|assum\w*|suppose|say|e\.g\.)\D{0,12}?(\d[\d,.]*)", re.IGNORECASE)
_PRINT = re.compile(r"\s*(?:>>>\s*)?print\((?:f?[\"'][^\"'{]*\{)?([A-Za-z_]\w*)[^#]*\)\s*#\s*")
_FLOPS = re.compile(r"\s*\S{0,3}\s*(?:FLOPs?|FLOPS|次浮点)", re.IGNORECASE)


@dataclass
class Names:
    """The values of names at a place of the page.

    `computed` are the values of formulas, waiting for the page to state them: the value, the formula and the line.
    """

    known: dict[str, Array] = field(default_factory=dict)
    computed: dict[str, tuple[Array, str, int]] = field(default_factory=dict)

    def forget(self, name: str) -> None:
        """Drop a name that got a value that cannot be followed."""
        self.known.pop(name, None)
        self.computed.pop(name, None)


def check_equations(page: Page) -> None:
    """Check all equations of a page in order, and collect its lists and named numbers."""
    names = Names()
    done = 0
    for statement in _statements(page.tokens):
        line = statement[0].line
        for n in range(done, line + 1):
            if _SECTION.match(page.line_text(n)) and not _in_code(page, n):
                names = Names()
            _printed(page, names, n)
        done = max(done, line + 1)
        if page.is_full:
            return
        _statement(page, names, statement)
        _lists_of(page, statement)
    for n in range(done, len(page.starts)):
        _printed(page, names, n)


def _in_code(page: Page, line: int) -> bool:
    return page.blocks[line] > 0 and sum(page.line_text(n).lstrip().startswith("```") for n in range(line)) % 2 == 1


def _statements(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Split the tokens at line ends, bars, semicolons and comments; a line that begins with = goes on with the last.

    An arrow parts them unless it follows a call or a list: n = 4 → n² = 16 are two equations.
    """
    current: list[Token] = []
    for n, token in enumerate(tokens):
        parts = token.text == "→" and token.kind == "rel" and bool(current) and current[-1].kind != "close"
        if not parts and (token.kind not in {"end", "bar", "hash"} or (token.inside and token.text != "\n")):
            current.append(token)
            continue
        after = next((each for each in tokens[n + 1 : n + 8] if each.text not in {"\n", "#"} or each.text == ";"), None)
        goes_on = after is not None and after.kind == "rel" and after.text != "→" and after.line - token.line <= 1
        if current and not goes_on:
            yield current
            current = []
    if current:
        yield current


def _statement(page: Page, names: Names, statement: list[Token]) -> None:
    """Check the equations of a statement from left to right."""
    signs = [n for n, token in enumerate(statement) if token.kind == "rel"]
    base: tuple[Expression, str, list[Token]] | None = None
    value: Array | None = None
    last: Leaf | None = None
    for k, sign in enumerate(signs):
        before = statement[signs[k - 1] + 1 if k else 0 : sign]
        after = statement[sign + 1 : signs[k + 1] if k + 1 < len(signs) else len(statement)]
        if k == 0 or not _whole(before, names):
            base = _suffix(page, names, statement, signs[k - 1] + 1 if k else 0, sign)
            base = _defined(page, names, before, base, statement[sign])
        found = _prefix(after, names)
        if not found:
            base, value = None, None
            continue
        right, tokens = found
        if base and (statement[sign].text != "→" or base[0].leaves is None):
            _compare(page, names, base, right, statement[sign].text != "=")
        literal = right.leaves is not None
        if not literal:
            page.use(right.used)
        if not literal or base is None:
            formula = page.source(tokens[0].start, tokens[-1].end)
            base = (right, formula, tokens)
        value, last = right.value, right.leaves if isinstance(right.leaves, Leaf) else last
    if signs and statement[signs[0]].text != "→":
        _remember(page, names, statement, signs, value, last)


def _defined(page: Page, names: Names, before: list[Token], base, sign: Token):
    """Return the value that a name got from an earlier formula, for a list or matrix that is stated now."""
    if not before or before[-1].text not in names.computed or sign.text == "→" or len(before) > 4:
        return base if base and not base[0].named else None
    value, formula, _ = names.computed[before[-1].text]
    return (Expression(value, named=True), formula, before) if isinstance(value, tuple) else None


def _whole(tokens: list[Token], names: Names) -> bool:
    try:
        parse(tokens, names.known)
    except UnfitError:
        return False
    return True


def _suffix(page: Page, names: Names, statement: list[Token], start: int, stop: int):
    """Return the longest expression that ends before a sign of equality, with its text."""
    tried = 0
    for n in range(start, stop):
        if not _may_start(statement, n, start):
            continue
        tokens = statement[n:stop]
        try:
            expression = parse(tokens, names.known)
        except UnfitError:
            tried += 1
            if tried > _MOST_STARTS:
                return None
            continue
        if expression.leaves is None and not expression.named:
            page.use(expression.used)
        return expression, page.source(tokens[0].start, tokens[-1].end), tokens
    return None


def _may_start(statement: list[Token], n: int, start: int) -> bool:
    """Return whether an expression may begin here: not behind an operator, nor inside a call."""
    if n == 0 or (n == start and statement[n - 1].kind == "rel"):
        return True
    before, token = statement[n - 1], statement[n]
    if before.kind == "open":
        return n < 2 or statement[n - 2].kind not in {"name"} or statement[n - 2].end != before.start
    if before.kind == "name" and before.end == token.start:
        return False
    if before.kind == "junk":  # a full stop or a tag, but no sign of a formula
        return before.text == ">" or unicodedata.category(before.text[0]) not in {"Sm", "Sk"}
    if token.text in {"+", "-", "×", "*", "/", "·"} and before.kind in {"word", "name"}:
        return False  # a difference with something unknown
    return before.kind in {"comma", "word", "name", "colon", "close", "rel", "num"} and not (
        before.kind in {"num", "close"} and token.kind in {"op", "num", "open"}
    )


def _prefix(tokens: list[Token], names: Names) -> tuple[Expression, list[Token]] | None:
    """Return the longest expression at the start of the tokens; None if it goes on with something unknown."""
    if tokens and tokens[0].kind == "colon":
        tokens = tokens[1:]
    while tokens and tokens[0].text in {"约", "大约", "about", "roughly"}:
        tokens = tokens[1:]
    try:
        expression, length = parse_start(tokens, names.known)
    except UnfitError:
        return None
    after = tokens[length] if length < len(tokens) else None
    if after and (after.kind in {"op", "dots"} or _calls(tokens[length - 1], after)):
        return None
    behind = tokens[length + 1] if after and after.kind == "comma" and length + 1 < len(tokens) else None
    if behind and (behind.kind == "dots" or (behind.kind == "num" and behind.start == tokens[length - 1].end + 1)):
        return None
    return expression, tokens[:length]


def _calls(before: Token, after: Token) -> bool:
    """Return whether two tokens are joined, as in f(x) or 3x."""
    joined = after.start == before.end
    return joined and (after.kind == "name" or (after.kind == "open" and before.kind == "name"))


def _compare(page: Page, names: Names, base, right: Expression, about: bool) -> None:
    """Compare what stands on the two sides of a sign of equality."""
    left, formula, tokens = base
    if left.leaves is not None:  # a number again, with fewer digits
        a, b = left.leaves, right.leaves
        if about and isinstance(a, Leaf) and isinstance(b, Leaf) and b.unit > a.unit and a.value:
            page.claim("rounding", b, a.value, formula, True)
        return
    if right.leaves is None:
        _compare_terms(page, left, right)
        return
    if shape(left.value) != shape(right.value):
        return
    leaves = leaf_list(right.leaves)
    value = _reading(tokens, names, left, leaves, right)
    kind = "list" if len(leaves) > 1 else "equation"
    if kind == "equation" and _FLOPS.match(page.plain[leaves[0].end :][:16]) and _dimensions(left, tokens):
        page.claim("flops", leaves[0], 2 * left.value, f"2 × {formula}", False, "two_operations")
        return
    if kind == "equation" and _other_measure(page, leaves[0], formula):
        return
    percent = kind == "equation" and page.plain[leaves[0].start : leaves[0].end].endswith("%")
    if percent and fits(leaves[0], value / 100):
        value = value / 100
    page.claim_all(kind, right.leaves, value, formula, about)


def _other_measure(page: Page, leaf: Leaf, formula: str) -> bool:
    """Return whether a formula cannot give the number: a price without one, or numbers parted by slashes."""
    price = page.plain[max(0, leaf.start - 2) : leaf.start].rstrip()[-1:] in _CURRENCIES and not any(
        sign in formula for sign in _CURRENCIES
    )
    return (price and "price" not in formula.lower()) or bool(_SLASHES.fullmatch(formula))


def _dimensions(left: Expression, tokens: list[Token]) -> bool:
    """Return whether an expression is a product of two widths, without the factor 2."""
    return len(left.used) == 2 and all(leaf.value >= 16 for leaf in left.used) and len(tokens) == 3


def _reading(tokens: list[Token], names: Names, left: Expression, leaves: list[Leaf], right: Expression) -> Array:
    """Return the value in the reading that fits best: the first in which all numbers are right, else the usual one."""
    values = [left.value]
    for key in left.unsure | right.unsure:
        for reading in _OTHER_READINGS[key]:
            try:
                other = parse(tokens, names.known, reading).value
            except UnfitError:
                continue
            if key == "binary":
                other = left.value / _binary_step(leaves[0]) if isinstance(left.value, Decimal) else other
            values.append(other)
    for value in values:
        if all(fits(leaf, one) for leaf, one in zip(leaves, _flat(value), strict=True)):
            return value
    return values[0]


def _binary_step(leaf: Leaf) -> Decimal:
    step = next((n for n in (12, 9, 6, 3) if leaf.value >= Decimal(10) ** n), 0)
    return Decimal(2) ** (step // 3 * 10) / Decimal(10) ** step


def _flat(value: Array) -> list[Decimal]:
    return [one for each in value for one in _flat(each)] if isinstance(value, tuple) else [value]


def _compare_terms(page: Page, left: Expression, right: Expression) -> None:
    """Compare two sums term by term, such as 0.3 × 0.9 + 0.9 × 0.7 = 0.27 + 0.63."""
    if len(left.terms) != len(right.terms) or len(left.terms) < 2:
        return
    pairs = list(zip(left.terms, right.terms, strict=True))
    if any(term.leaves is None or shape(term.value) != shape(of.value) for of, term in pairs):
        return
    for of, term in pairs:
        if of.leaves is None and not of.named:
            page.claim_all("term", term.leaves, of.value, _said(page, of))


def _said(page: Page, term: Expression) -> str:
    if not term.used:
        return "…"
    end = max(leaf.end for leaf in term.used)
    return page.source(min(leaf.start for leaf in term.used), end + (page.plain[end : end + 1] in {")", "]"}))


def _remember(page: Page, names: Names, statement: list[Token], signs: list[int], value: Array | None, last) -> None:
    """Keep the value of the name on the left."""
    first = statement[: signs[0]]
    if not first or statement[0].inside or first[-1].kind not in {"name", "word"}:
        return
    name = first[-1].text
    if isinstance(last, Leaf):
        page.stated.append(Stated(name, last, statement[0].line))
    if len(first) > 1 and first[-2].kind not in {"word", "name", "colon"}:
        return
    final = statement[signs[-1] + 1 :]
    found = _prefix(final, names)
    if value is None or found is None:
        names.forget(name)
        note = _ASSUMED.search(page.line_text(statement[-1].line).partition("#")[2])
        if note and (number := note[1].replace(",", "").rstrip(".")).replace(".", "", 1).isdigit():
            names.known[name] = Decimal(number)
        return
    names.known[name] = value
    if found[0].leaves is None and not found[0].named:
        formula = page.source(final[0].start, final[-1].end)
        names.computed[name] = (value, formula, statement[-1].line)
        _commented(page, names, name, statement[-1].line)
    else:
        names.computed.pop(name, None)


def _commented(page: Page, names: Names, name: str, line: int) -> None:
    """Compare a computed value with the number or list in the comment behind it."""
    at = page.line_text(line).find("#")
    if at >= 0:
        _stated_after(page, names, name, page.starts[line] + at + 1, line)


def _printed(page: Page, names: Names, line: int) -> None:
    """Compare a printed value with the comment behind it."""
    found = _PRINT.match(page.line_text(line))
    if found and found[1] in names.computed:
        _stated_after(page, names, found[1], page.starts[line] + found.end(), line)


def _stated_after(page: Page, names: Names, name: str, place: int, line: int) -> None:
    tokens = [each for each in page.by_line.get(line, []) if each.start >= place and each.kind != "end"]
    value, formula, _ = names.computed[name]
    try:
        right, length = parse_start(tokens, {})
    except UnfitError:
        return
    alone = length == len(tokens)
    if right.leaves is None or shape(right.value) != shape(value) or not (alone or isinstance(value, tuple)):
        return
    page.claim_all("printed", right.leaves, value, f"{name} = {formula}")


def _lists_of(page: Page, statement: list[Token]) -> None:
    """Collect the outermost lists of numbers in a statement."""
    n = 0
    while n < len(statement):
        token = statement[n]
        if token.kind != "open" or token.text == "(" or token.partner < 0:
            n += 1
            continue
        try:
            found, length = parse_start(statement[n:], {})
        except UnfitError:
            n += 1
            continue
        if found.leaves is not None and isinstance(found.leaves, tuple):
            end = statement[n + length - 1].end
            start = page.starts[token.line]
            label = page.plain[start : token.start]
            page.lists.append(
                Listed(found.value, found.leaves, token.start, end, token.line, label, page.blocks[token.line])
            )
        n += length
