"""The value of an expression in a page: numbers, lists, matrices, operators, functions and known names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from model.by_hand.claims.arrays import (
    Array,
    UnfitError,
    add,
    divide,
    is_list,
    is_matrix,
    matmul,
    multiply,
    power,
    shape,
    subtract,
    transpose,
)
from model.by_hand.claims.functions import NAMES, UNSURE, Reading, call, exp, minus, sqrt
from model.by_hand.claims.records import Leaf
from model.by_hand.claims.tokens import Token
from model.by_hand.numbers import pi

_DEEPEST = 24  # brackets in brackets
_MOST = 1500  # tokens of an expression
_HOMES = ("np.", "numpy.", "torch.", "F.", "math.", "nn.", "tf.", "jnp.", "nn.functional.", "torch.nn.functional.")
_UNITS = {
    "bytes", "byte", "字节", "tokens", "token", "params", "parameters", "参数", "个", "维", "头", "层", "分",
    "nats", "bits", "gb", "dollars", "usd",
}  # fmt: skip
_POWERS = {"²": 2, "³": 3, "⁴": 4}


@dataclass(frozen=True)
class Expression:
    """A value with its origin: the places of its numbers, the terms of a sum, and the names it used.

    `leaves` has the shape of the value for a literal, and is None for anything that had to be calculated.
    """

    value: Array
    leaves: Any = None
    terms: tuple["Expression", ...] = ()
    unsure: frozenset[str] = frozenset()
    used: tuple[Leaf, ...] = ()
    named: bool = False  # a single known name


@dataclass
class Parser:
    """Reads tokens from left to right."""

    tokens: Sequence[Token]
    known: Mapping[str, Array]
    reading: Reading = field(default_factory=Reading)
    at: int = 0
    deep: int = 0

    def sees(self, kind: str, *texts: str) -> bool:
        """Return whether the next token is of a kind, and one of the texts."""
        if self.at >= len(self.tokens):
            return False
        token = self.tokens[self.at]
        return token.kind == kind and (not texts or token.text in texts)

    def take(self) -> Token:
        """Return the next token and go on."""
        if self.at >= len(self.tokens):
            raise UnfitError
        self.at += 1
        return self.tokens[self.at - 1]

    def sum(self) -> Expression:
        """Read a sum of products."""
        terms = [self.product()]
        value = terms[0]
        while self.sees("op", "+", "-"):
            sign = self.take().text
            right = self.product()
            value = _made(add if sign == "+" else subtract, value, right)
            terms.append(right if sign == "+" else _made(lambda a, b: minus(a), right, right))
        return value if len(terms) == 1 else _with(value, tuple(terms))

    def product(self) -> Expression:
        """Read a product of powers, such as 2 × 3, Q · K or 4d²."""
        value = self.signed()
        while True:
            if self.sees("op", "*", "×", "·", "/", "@", "⊙"):
                sign = self.take().text
                value = _made(_OPERATIONS[sign], value, self.signed())
            elif self.sees("name") and self.tokens[self.at - 1].kind == "num" and self._known():
                value = _made(multiply, value, self.signed())  # 4d²
            elif self.sees("open", "matrix") and isinstance(value.value, tuple):
                value = _made(matmul, value, self.signed())
            else:
                return value

    def _known(self) -> bool:
        token = self.tokens[self.at]
        return token.start == self.tokens[self.at - 1].end and token.text in self.known

    def signed(self) -> Expression:
        """Read a number with its sign, or a power."""
        if self.sees("op", "-", "+"):
            sign, place = self.take(), self.at
            value = self.signed()
            if sign.text == "+":
                return value
            leaf = value.leaves
            if isinstance(leaf, Leaf) and self.at == place + 1:
                leaf = Leaf(-leaf.value, leaf.unit, sign.start, leaf.end, leaf.binary)
                return Expression(leaf.value, leaf, (), value.unsure, (leaf,))
            return Expression(minus(value.value), None, (), value.unsure, value.used)
        return self.powered()

    def powered(self) -> Expression:
        """Read a value with the exponents, transpositions and units behind it."""
        value = self.atom()
        while True:
            if self.sees("op", "²", "³", "⁴"):
                exponent = Expression(Decimal(_POWERS[self.take().text]))
                value = _made(power, value, exponent)
            elif self.sees("op", "ᵀ"):
                self.take()
                value = _made(lambda a, b: transpose(a), value, value)
            elif self.sees("op", "^"):
                self.take()
                if self.sees("name", "T") and isinstance(value.value, tuple):
                    self.take()
                    value = _made(lambda a, b: transpose(a), value, value)
                else:
                    value = _made(power, value, self.signed())
            elif self.at < len(self.tokens) and self.tokens[self.at].text.lower() in _UNITS:
                self.take()
            else:
                return value

    def atom(self) -> Expression:
        """Read a number, a name, a call, a list or a bracket."""
        token = self.take()
        if token.kind == "num" and token.leaf:
            value = token.leaf.value
            if token.leaf.binary and self.reading.binary:
                value = _binary(value)
            unsure = frozenset({"binary"}) if token.leaf.binary else frozenset()
            return Expression(value, token.leaf, (), unsure, (token.leaf,))
        if token.kind == "op" and token.text == "√":
            return _made(lambda a, b: _root(a), inside := self.powered_atom(), inside)
        if token.kind == "op" and token.text == "∞":
            return Expression(Decimal("Infinity"), Leaf(Decimal("Infinity"), Decimal(0), token.start, token.end))
        if token.kind == "open":
            return self.bracket(token)
        if token.kind in {"name", "word"}:
            return self.name(token)
        raise UnfitError

    def powered_atom(self) -> Expression:
        """Read what stands under a root sign."""
        return self.atom()

    def bracket(self, token: Token) -> Expression:
        """Read a bracket: a list, a matrix, or an expression in parentheses."""
        self.deep += 1
        if self.deep > _DEEPEST or token.partner < 0:
            raise UnfitError
        rows: list[list[Expression]] = [[]]
        while not self.sees("close"):
            rows[-1].append(self.sum())
            if self.sees("row"):
                self.take()
                rows.append([])
            elif self.sees("comma"):
                self.take()
            elif not (self.sees("close") or (token.text != "(" and (self.sees("num") or self.sees("op", "-")))):
                raise UnfitError
        closed = self.take()
        self.deep -= 1
        if token.text == "matrix":
            parts = [_joined(row) for row in rows if row]
            return parts[0] if len(parts) == 1 else _joined(parts)
        items = rows[0]
        if not items or closed.partner < 0:
            raise UnfitError
        if token.text != "[" and len(items) == 1:
            inner = items[0]
            return (
                inner if inner.leaves is None else Expression(inner.value, inner.leaves, (), inner.unsure, inner.used)
            )
        return _joined(items)

    def name(self, token: Token) -> Expression:
        """Read a known name, a constant, or a call."""
        text = next((token.text.removeprefix(home) for home in _HOMES[::-1] if token.text.startswith(home)), token.text)
        calls = self.sees("open", "(", "{") or (text.lower() == "softmax" and self.sees("open", "["))
        adjacent = calls and (text.lower() in NAMES)
        if adjacent and text not in self.known:
            return self.calling(text.lower(), [])
        if "." in text and text not in self.known:
            return self.method(text)
        if text in self.known:
            value = self.known[text]
            return Expression(value, named=True)
        if text == "e" and self.sees("op", "^"):
            self.take()
            return _made(lambda a, b: _each_exp(a), inside := self.signed_atom(), inside)
        if text in {"inf", "Inf", "infinity"}:
            return Expression(Decimal("Infinity"), Leaf(Decimal("Infinity"), Decimal(0), token.start, token.end))
        if text in {"π", "pi"}:
            return Expression(pi())
        if text.lower() in {"sqrt", "log", "ln", "exp", "log2", "log10"} and not self.sees("open"):
            inside = self.atom()
            return self.apply(text.lower(), [inside], {})
        raise UnfitError

    def signed_atom(self) -> Expression:
        """Read an exponent: −3, 2.5, or a bracket."""
        if self.sees("op", "-"):
            self.take()
            inner = self.atom()
            return Expression(minus(inner.value), None, (), inner.unsure, inner.used)
        return self.atom()

    def method(self, text: str) -> Expression:
        """Read x.T, x.mean() and the like."""
        first, _, rest = text.rpartition(".")
        if first not in self.known:
            raise UnfitError
        owner = Expression(self.known[first], named=True)
        if rest == "T":
            return _made(lambda a, b: transpose(a), owner, owner)
        if rest.lower() not in NAMES or not self.sees("open", "("):
            raise UnfitError
        return self.calling(rest.lower(), [owner])

    def calling(self, name: str, given: list[Expression]) -> Expression:
        """Read the arguments of a call and apply the function."""
        groups = 2 if name == "frac" else 1
        named: dict[str, Array] = {}
        for _ in range(groups):
            opened = self.take()
            if opened.kind != "open" or opened.partner < 0:
                raise UnfitError
            if opened.text == "[":
                given.append(self.bracket(opened))
                continue
            self.deep += 1
            if self.deep > _DEEPEST:
                raise UnfitError
            while not self.sees("close"):
                if self.sees("name") and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1].kind == "given":
                    key = self.take().text
                    self.take()
                    named[key] = self._argument(key)
                else:
                    given.append(self.sum())
                if self.sees("comma"):
                    self.take()
                elif not self.sees("close"):
                    raise UnfitError
            self.take()
            self.deep -= 1
        return self.apply(name, given, named)

    def _argument(self, key: str) -> Array:
        if self.sees("name", "True", "False", "None"):
            return Decimal(int(self.take().text == "True"))
        return self.sum().value

    def apply(self, name: str, given: list[Expression], named: Mapping[str, Array]) -> Expression:
        """Apply a function to expressions."""
        value = call(name, [each.value for each in given], named, self.reading)
        unsure = frozenset().union(*(each.unsure for each in given), {UNSURE[name]} if name in UNSURE else set())
        if name in {"array", "tensor", "floattensor"} and len(given) == 1:
            return Expression(given[0].value, given[0].leaves, (), unsure, given[0].used)
        return Expression(value, None, (), unsure, tuple(leaf for each in given for leaf in each.used))


def parse(tokens: Sequence[Token], known: Mapping[str, Array], reading: Reading | None = None) -> Expression:
    """Read all tokens as an expression. Raises UnfitError if they are not one."""
    expression, at = parse_start(tokens, known, reading)
    if at != len(tokens):
        raise UnfitError
    return expression


def parse_start(
    tokens: Sequence[Token], known: Mapping[str, Array], reading: Reading | None = None
) -> tuple[Expression, int]:
    """Read the longest expression at the start; return it and the number of its tokens."""
    parser = Parser(tokens[:_MOST], known, reading or Reading())
    try:
        expression = parser.sum()
        shape(expression.value)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise UnfitError from error
    return expression, parser.at


def _made(function: Any, a: Expression, b: Expression) -> Expression:
    return Expression(function(a.value, b.value), None, (), a.unsure | b.unsure, (*a.used, *b.used)[:400])


def _with(value: Expression, terms: tuple[Expression, ...]) -> Expression:
    return Expression(value.value, None, terms, value.unsure, value.used)


def _joined(items: Sequence[Expression]) -> Expression:
    leaves = tuple(each.leaves for each in items)
    unsure = frozenset().union(*(each.unsure for each in items))
    used = tuple(leaf for each in items for leaf in each.used)
    literal = None not in leaves
    return Expression(tuple(each.value for each in items), leaves if literal else None, (), unsure, used)


def _each_exp(x: Array) -> Array:
    return tuple(map(_each_exp, x)) if isinstance(x, tuple) else exp(x)


def _root(x: Array) -> Array:
    return tuple(map(_root, x)) if isinstance(x, tuple) else sqrt(x)


def _binary(value: Decimal) -> Decimal:
    """Return a number of GB as 2³⁰ bytes, and so on."""
    step = next((n for n in (12, 9, 6, 3) if value >= Decimal(10) ** n), 0)
    return value / Decimal(10) ** step * Decimal(2) ** (step // 3 * 10)


def _times(a: Array, b: Array) -> Array:
    """Multiply: matrices as matrices, everything else cell by cell."""
    return matmul(a, b) if is_matrix(a) or is_matrix(b) else multiply(a, b)


def _dot(a: Array, b: Array) -> Array:
    return matmul(a, b) if is_list(a) or is_matrix(a) else multiply(a, b)


_OPERATIONS = {"*": multiply, "×": _times, "·": _dot, "/": divide, "@": matmul, "⊙": multiply}
