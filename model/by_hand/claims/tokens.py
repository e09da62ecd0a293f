"""The tokens of a page: numbers with their units, names, operators and brackets, each with its place in the text."""

import re
from dataclasses import dataclass, replace
from decimal import Decimal

from model.by_hand.claims.records import Leaf

# Characters that mean the same as one of ASCII; each is replaced by one character, so that places stay.
_SAME = str.maketrans(
    "，；：（）［］【】｛｝＝＋－÷∙⋅•∗／％＾～。、−–—⁄＄｜＜＞０１２３４５６７８９．\u00a0\u3000",
    ",;:()[][]{}=+-/···*/%^~;,---/$|<>0123456789.  ",
)
_SCALES = {
    "k": 3, "K": 3, "M": 6, "B": 9, "G": 9, "T": 12, "千": 3, "万": 4, "百万": 6, "亿": 8, "万亿": 12,
    "thousand": 3, "million": 6, "billion": 9, "trillion": 12,
}  # fmt: skip
_BYTES = {"KB": 3, "MB": 6, "GB": 9, "TB": 12}
_BINARY = {"KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}
_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d{1,60})?(?:\.\d{1,60})?(?:[eE][+-]?\d{1,2}(?![\w.]))?")
_PLAIN = re.compile(r"\d{1,60}(?:\.\d{1,60})?(?:[eE][+-]?\d{1,2}(?![\w.]))?")
_WORD_UNIT = re.compile(r" ?(万亿|百万|千|万|亿|thousand\b|million\b|billion\b|trillion\b)|([kKMBGT])(?![A-Za-z_])")
_BYTE_UNIT = re.compile(r" ?([KMGT]i?B)\b")
_PERCENT = re.compile(r" ?\\?%")
_NAME = re.compile(r"[A-Za-z_Α-Ωα-ω][A-Za-z0-9_Α-Ωα-ω₀-₉]*(?:\.[A-Za-z_]\w*)*")
_LATEX = re.compile(r"\\(?:begin\{[a-z]*matrix\*?\}|end\{[a-z]*matrix\*?\}|[A-Za-z]+|\\|[^\sA-Za-z])")
_WORD = re.compile(r"(?:(?![²³⁴ᵀ])[^\W\d_ -~])+")
_LATEX_SIGNS = {
    "times": ("op", "×"), "cdot": ("op", "·"), "div": ("op", "/"), "approx": ("rel", "≈"), "to": ("rel", "→"),
    "rightarrow": ("rel", "→"), "sqrt": ("op", "√"), "frac": ("name", "frac"), "exp": ("name", "exp"),
    "ln": ("name", "ln"), "log": ("name", "log"), "sin": ("name", "sin"), "cos": ("name", "cos"),
    "tanh": ("name", "tanh"), "max": ("name", "max"), "min": ("name", "min"), "infty": ("name", "inf"),
    "top": ("name", "T"), "odot": ("op", "⊙"), "sigma": ("name", "σ"), "mu": ("name", "μ"), "dots": ("dots", "…"),
    "ldots": ("dots", "…"), "cdots": ("dots", "…"), "lbrack": ("open", "["), "rbrack": ("close", "]"),
}  # fmt: skip
_SKIPPED = {"left", "right", "text", "mathrm", "operatorname", "mathbf", "quad", "qquad", "big", "Big", "displaystyle"}
_OPERATORS = {"+", "-", "*", "×", "·", "/", "^", "√", "@", "⊙", "²", "³", "⁴", "ᵀ", "∞"}
_BREAK = re.compile(r"\n(?:[ \t>]*\n|[ \t]*```)")  # a blank line, or the border of a code block
_POWER = re.compile(r"\*\* ?-?[A-Za-z0-9_(.]")
_PAIRS = {"(": ")", "[": "]", "{": "}"}
_LONGEST_BRACKET = 6000  # characters between a bracket and its partner


@dataclass(frozen=True)
class Token:
    """A part of the text: num, name, word, op, rel, given, open, close, comma, colon, bar, row, end, hash, dots."""

    kind: str
    text: str
    start: int
    end: int
    leaf: Leaf | None = None
    partner: int = -1  # index of the other bracket
    line: int = 0
    inside: bool = False  # between two brackets


def plain(text: str) -> str:
    """Replace full-width and other signs by those of ASCII, character by character."""
    return text.translate(_SAME)


def tokens_of(text: str) -> list[Token]:
    """Split a page, already `plain`, into tokens. Line ends between brackets are left out."""
    found: list[Token] = []
    at, line, brackets = 0, 0, [""]
    while at < len(text):
        token = _next(text, at, line, brackets[-1] == "[")
        if token.kind == "open":
            brackets.append(token.text[0])
        elif (token.kind == "close" and len(brackets) > 1) or text.startswith("\n\n", at):
            brackets = brackets[:-1] if token.kind == "close" else [""]
        if token.kind == "end" and token.text == "\n":
            line += 1
        if token.kind != "space":
            found.append(token)
        at = token.end
    return _paired(found, text)


def _next(text: str, at: int, line: int, listed: bool) -> Token:
    """Return the token that begins at a place; `listed`: directly inside [ ], where commas separate numbers."""
    sign = text[at]

    def token(kind: str, end: int, said: str = "") -> Token:
        return Token(kind, said or text[at:end], at, end, None, -1, line)

    if sign == "\n":
        return token("end", at + 1, "\n")
    if sign.isspace() or sign in "`$~'":
        return token("space", at + 1)
    if sign.isascii() and (sign.isdigit() or (sign == "." and text[at + 1 : at + 2].isdigit())):
        return _number(text, at, line, listed)
    if sign == "\\":
        return _latex(text, at, token)
    if name := _NAME.match(text, at):
        return token("name", name.end())
    if word := _WORD.match(text, at):
        return token("word", word.end())
    return _sign(text, at, token)


def _sign(text: str, at: int, token) -> Token:
    """Return the token of a sign."""
    sign, two, before = text[at], text[at : at + 2], text[at - 1 : at] or "\n"
    new_line = not text[text.rfind("\n", 0, at) + 1 : at].strip(" #>|\t")
    if sign == "=" and text.startswith("===", at):
        return token("end", at + len(re.match(r"=+", text[at:])[0]), ";")  # type: ignore[index]
    if two in {"==", "≈=", "~="}:
        return token("rel", at + 2, "=")
    if two in {"->", "=>"} or sign in "→⇒⟶➜↦►":
        return token("rel", at + (2 if two in {"->", "=>"} else 1), "→")
    if sign in "=≈≃≅≐":
        return token("rel", at + 1, "=" if sign == "=" else "≈")
    if two == "**":
        spaced = before == " " and text[at + 2 : at + 3] == " "
        last = text[at - 2 : at - 1] if spaced else before
        power = last.isascii() and (last.isalnum() or last in "_)]") and _POWER.match(text, at)
        return token("op", at + 2, "^") if power else token("space", at + 2)
    if two == "//":
        return token("op", at + 2, "/")
    if sign in "-*+·" and new_line and re.match(r".\s", text[at:]):
        return token("space", at + 1)  # a bullet
    if two in {"..", "…"} or sign == "…":
        return token("dots", at + len(re.match(r"\.*…*", text[at:])[0]) or at + 1)  # type: ignore[index]
    if sign in _OPERATORS:
        return token("op", at + 1)
    if sign in "([{":
        return token("open", at + 1)
    if sign in ")]}":
        return token("close", at + 1)
    kinds = {",": "comma", ":": "colon", "|": "bar", ";": "end", "#": "hash", "&": "comma"}
    return token(kinds.get(sign, "junk"), at + 1)


def _latex(text: str, at: int, token) -> Token:
    found = _LATEX.match(text, at)
    if not found:
        return token("junk", at + 1)
    word = found[0][1:]
    if word.startswith("begin{"):
        return token("open", found.end(), "matrix")
    if word.startswith("end{"):
        return token("close", found.end(), "matrix")
    if word == "\\":
        return token("row", found.end())
    if word in _LATEX_SIGNS:
        kind, said = _LATEX_SIGNS[word]
        return token(kind, found.end(), said)
    return token("space" if word in _SKIPPED or not word.isalpha() else "junk", found.end())


def _number(text: str, at: int, line: int, listed: bool) -> Token:
    """Read a number with its scale, unit of bytes or percent sign."""
    found = (_PLAIN if listed else _NUMBER).match(text, at) or _NUMBER.match(text, at)
    end = found.end() if found and found.end() > at else at + 1
    digits = text[at:end].replace(",", "")
    number = Decimal(digits) if digits not in {"", "."} else Decimal(0)
    exponent = int(number.as_tuple().exponent)
    scale, binary = Decimal(1), False
    if unit := _BYTE_UNIT.match(text, end):
        scale, binary = (
            (Decimal(2) ** _BINARY[unit[1]], False) if unit[1] in _BINARY else (Decimal(10) ** _BYTES[unit[1]], True)
        )
    elif unit := _WORD_UNIT.match(text, end):
        scale = Decimal(10) ** _SCALES[unit[1] or unit[2]]
    elif unit := _PERCENT.match(text, end):
        scale = Decimal("0.01")
    stop = unit.end() if unit else end
    return Token(
        "num", text[at:stop], at, stop, Leaf(number * scale, scale.scaleb(exponent), at, stop, binary), -1, line
    )


def _paired(found: list[Token], text: str) -> list[Token]:
    """Join brackets that belong together, drop line ends and comments between them; the others become junk."""
    partner = _partners(found, text)
    closing = set(partner.values())
    kept: list[Token] = []
    places: dict[int, int] = {}
    depth, comment = 0, False
    for n, token in enumerate(found):
        if token.kind == "end" and token.text == "\n":
            comment = False
            if depth:
                continue
        depth -= n in closing
        comment = comment or (depth > 0 and token.kind == "hash")
        if comment:
            continue
        lone = token.kind in {"open", "close"} and n not in partner and n not in closing
        places[n] = len(kept)
        kept.append(replace(token, kind="junk") if lone else replace(token, inside=depth > 0))
        depth += n in partner
    for n, m in partner.items():
        kept[places[n]] = replace(kept[places[n]], partner=places[m])
        kept[places[m]] = replace(kept[places[m]], partner=places[n])
    return _with_named_arguments(kept)


def _partners(found: list[Token], text: str) -> dict[int, int]:
    """Return {index of an opening bracket: index of the closing one}; brackets in comments of a list do not count."""
    partner: dict[int, int] = {}
    stack: list[int] = []
    comment = False
    for n, token in enumerate(found):
        if token.kind == "end" and token.text == "\n":
            comment = False
            if _BREAK.match(text, token.start):
                stack.clear()
        comment = comment or (token.kind == "hash" and bool(stack))
        if comment:
            continue
        if token.kind == "open":
            stack.append(n)
        elif token.kind == "close" and stack:
            first = found[stack[-1]]
            if _PAIRS.get(first.text, first.text) == token.text and token.start - first.start < _LONGEST_BRACKET:
                partner[stack.pop()] = n
    return partner


def _with_named_arguments(kept: list[Token]) -> list[Token]:
    """Tell softmax(x, T=2) from an equation: the sign between a parameter and its value becomes `given`."""
    owners: list[bool] = []
    for n, token in enumerate(kept):
        if token.partner > n:
            owners.append(token.text == "(" and n > 0 and kept[n - 1].kind == "name" and kept[n - 1].end == token.start)
        elif 0 <= token.partner < n and owners:
            owners.pop()
        elif token.kind == "rel" and token.text == "=" and owners and owners[-1] and n > 1:
            before = kept[n - 2]
            if kept[n - 1].kind == "name" and (before.kind == "comma" or before.text == "("):
                kept[n] = replace(token, kind="given")
    return kept
