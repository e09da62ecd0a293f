"""Sentences that name a calculation: a share, a price, a perplexity, the parameters of a layer, memory."""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal

from model.by_hand.claims import functions as f
from model.by_hand.claims.arrays import CONTEXT, UnfitError
from model.by_hand.claims.page import Page
from model.by_hand.claims.parser import parse_start
from model.by_hand.claims.records import Leaf, fits

_N = (
    r"[$¥~]?(?<![\d.,])\d[\d,]{0,20}(?:\.\d{1,20})?(?:[eE][+-]?\d{1,2})?"
    r"(?: ?(?:%|[kKMBTG]i?B?\b|万亿|百万|千|万|亿|thousand|million|billion|trillion))?"
)
_BYTES = {"fp32": 4, "float32": 4, "fp16": 2, "float16": 2, "bf16": 2, "bfloat16": 2, "int8": 1, "fp8": 1}
_DTYPE = "|".join(_BYTES)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<([abpru])N>", lambda name: f"(?P<{name[1]}>{_N})", text), re.I)


# {kind: (patterns with the numbers by name, value of the number r, formula)}
_Sentence = tuple[tuple[re.Pattern[str], ...], Callable[[dict[str, Decimal]], list[tuple[Decimal, str]]]]


def _share(n: dict[str, Decimal]) -> list[tuple[Decimal, str]]:
    return [(CONTEXT.divide(n["a"], n["b"]), "{a} / {b}")] if n["b"] else []


def _price(n: dict[str, Decimal]) -> list[tuple[Decimal, str]]:
    return [(CONTEXT.divide(n["a"] * n["p"], n["u"]), "{a} / {u} × {p}")] if n["u"] else []


def _perplexity(n: dict[str, Decimal]) -> list[tuple[Decimal, str]]:
    return [(f.exp(n["a"]), "exp({a})"), (CONTEXT.power(2, n["a"]), "2^{a}")]


def _linear(n: dict[str, Decimal]) -> list[tuple[Decimal, str]]:
    weights = n["a"] * n["b"]
    return [(weights, "{a} × {b}"), (weights + n["b"], "{a} × {b} + {b}")]


def _attention(n: dict[str, Decimal]) -> list[tuple[Decimal, str]]:
    return [(4 * n["a"] ** 2, "4 × {a}²"), (4 * n["a"] ** 2 + 4 * n["a"], "4 × {a}² + 4 × {a}")]


def _mlp(n: dict[str, Decimal]) -> list[tuple[Decimal, str]]:
    return [(8 * n["a"] ** 2, "8 × {a}²"), (8 * n["a"] ** 2 + 5 * n["a"], "8 × {a}² + 5 × {a}")]


def _decay(n: dict[str, Decimal]) -> list[tuple[Decimal, str]]:
    return [(CONTEXT.power(n["a"], n["b"]), "{a}^{b}")]


_SENTENCES: dict[str, _Sentence] = {
    "share": (
        (
            _pattern(
                r"<aN>\s*(?:of|out of)\s*(?:the |all )?<bN>[^.\n;%\d]{0,24}?"
                r"(?:is|are|=|makes?|:|,|or|≈)[^.\n;%\d]{0,12}?<rN>(?<=%)"
            ),
            _pattern(r"<bN>\s*(?:个|次|层)?[^\s.\n;%\d，。]{0,4}?(?:里|中|中的)\s*(?:有)?\s*<aN>[^.\n;%\d]{0,8}?(?:占|是|即|=|≈)[^.\n;%\d]{0,6}?<rN>(?<=%)"),
            _pattern(r"<aN>[^.\n;%\d]{0,6}?占\s*<bN>\s*的[^.\n;%\d]{0,4}?<rN>(?<=%)"),
        ),
        _share,
    ),
    "price": (
        (
            _pattern(
                r"<aN>\s*(?:\w+ )?(?:tokens?|词元)(?:(?!token)[^.\n;\d]){0,60}?<pN>\s*(?:USD|dollars?|美元|元)?\s*"
                r"(?:per|/|每)\s*<uN>(?:\s*(?:tokens?|词元))?[^.\n;\d]{0,30}?"
                r"(?:=|costs?|is|:|共|需|要|花|≈|→)[^.\n;\d]{0,12}?<rN>"
            ),
            _pattern(r"<aN>\s*(?:个)?(?:词元|tokens?)[^.\n;\d]{0,12}?每\s*<uN>\s*(?:个)?(?:词元|tokens?)?[^.\n;\d]{0,8}?<pN>[^.\n;\d]{0,16}?(?:=|共|需|要|花|为|是)[^.\n;\d]{0,8}?<rN>"),
        ),
        _price,
    ),
    "perplexity": (
        (
            _pattern(r"(?:loss|cross-entropy|损失|交叉熵)[^.\n;\d]{0,20}?<aN>[^.\n;\d]{0,40}?(?:perplexity|ppl|困惑度)[^.\n;\d]{0,16}?<rN>"),
            _pattern(r"(?:perplexity|ppl|困惑度)[^.\n;\d]{0,16}?<rN>[^.\n;\d]{0,40}?(?:loss|cross-entropy|损失|交叉熵)[^.\n;\d]{0,20}?<aN>"),
        ),
        _perplexity,
    ),
    "linear": (
        (_pattern(r"Linear\(\s*(?:in_features\s*=\s*)?<aN>\s*,\s*(?:out_features\s*=\s*)?<bN>[^)\n]{0,30}\)[^.\n;\d]{0,40}?<rN>\s*(?:params|parameters|weights|个?参数|个?权重)"),),
        _linear,
    ),
    "attention_size": (
        (_pattern(r"(?:attention|注意力)[^.\n;\d]{0,30}?(?:d|d_model|width|宽度?)\s*(?:=|of|为|是)\s*<aN>[^.\n;\d]{0,30}?<rN>\s*(?:params|parameters|weights|个?参数|个?权重)"),),
        _attention,
    ),
    "mlp_size": (
        (_pattern(r"(?:mlp|ffn|feed-forward|前馈)[^.\n;\d]{0,30}?(?:d|d_model|width|宽度?)\s*(?:=|of|为|是)\s*<aN>[^.\n;\d]{0,30}?<rN>\s*(?:params|parameters|weights|个?参数|个?权重)"),),
        _mlp,
    ),
    "decay": (
        (_pattern(
                r"<aN>\s*(?:per layer|at each layer|in every layer)[^.\n;\d]{0,30}?<bN>\s*layers[^.\n;\d]{0,30}?"
                r"(?:leave|is|=|≈|:|about|gives?)[^.\n;\d]{0,12}?<rN>"
            ),
         _pattern(r"每层[^.\n;\d]{0,8}?<aN>[^.\n;\d]{0,10}?<bN>\s*层[^.\n;\d]{0,16}?(?:剩|为|是|=|≈)[^.\n;\d]{0,6}?<rN>"),),
        _decay,
    ),
}  # fmt: skip
_MEMORY = re.compile(
    rf"(?P<a>\d+(?:\.\d+)? ?(?:B|M|billion|million|亿|万))[^.\n;\d]{{0,24}}?(?:params|parameters|weights|参数|权重)"
    rf"[^.\n;\d]{{0,24}}?(?P<t>{_DTYPE})[^.\n;]{{0,30}}?(?P<r>\d+(?:\.\d+)? ?[MGT]i?B)\b",
    re.I,
)
_UNIFORM = re.compile(
    r"(?:vocabulary|vocab|词表)[^.\n;\d]{0,30}?(?P<a>\d[\d,]*)[^.\n;\d]{0,40}?(?:uniform|guess|均匀|随机)[^\n;\d]{0,40}?"
    r"(?P<r>\d+\.\d+)",
    re.I,
)
_SINE = re.compile(r"\bPE\(\s*(?:pos\s*=\s*)?(\d{1,5})\s*\)\s*[=≈]\s*")
_LONGEST_LINE = 3000


def check_sentences(page: Page) -> None:
    """Check the sentences that name a calculation."""
    for line in range(len(page.starts)):
        text, start = page.line_text(line), page.starts[line]
        if len(text) > _LONGEST_LINE or not any(sign.isdigit() for sign in text):
            continue
        for kind, (patterns, value) in _SENTENCES.items():
            for pattern in patterns:
                for match in pattern.finditer(text):
                    _judge(page, kind, match, start, value)
        for match in _MEMORY.finditer(text):
            size = Decimal(_BYTES[match["t"].lower()])
            _judge(page, "memory", match, start, lambda n, size=size: _memory(n, size))
        for match in _UNIFORM.finditer(text):
            _judge(page, "uniform", match, start, lambda n: [(f.ln(n["a"]), "ln {a}")])
        _sinusoids(page, text, start)


def _memory(n: dict[str, Decimal], size: Decimal) -> list[tuple[Decimal, str]]:
    total = n["a"] * size
    return [(total, f"{{a}} × {size}"), (total * Decimal(10**9) / Decimal(2**30), f"{{a}} × {size} / 2^30")]


def _judge(page: Page, kind: str, match: re.Match[str], start: int, value) -> None:
    """Compare the number called r with the first value that fits, else with the first."""
    leaves = {
        name: _leaf(page, start + match.start(name), start + match.end(name))
        for name in match.groupdict()
        if name != "t"
    }
    if any(leaf is None for leaf in leaves.values()):
        return
    found = {name: leaf for name, leaf in leaves.items() if leaf}
    stated = found["r"]
    if stated.start in page.claims or any(abs(leaf.value) > 10**15 for leaf in found.values()):
        return
    options = value({name: leaf.value for name, leaf in found.items()})
    best = next((each for each in options if fits(stated, each[0])), options[0] if options else None)
    if best:
        said = {name: page.text[leaf.start : leaf.end] for name, leaf in found.items()}
        page.claim(kind, stated, best[0], best[1].format(**said))
        page.use([leaf for name, leaf in found.items() if name != "r"])


def _leaf(page: Page, start: int, end: int) -> Leaf | None:
    return next((token.leaf for token in page.tokens_from(start) if token.leaf and token.start < end), None)


def _sinusoids(page: Page, text: str, start: int) -> None:
    """Check a sinusoidal position vector: sine and cosine in pairs, with base 10,000."""
    for match in _SINE.finditer(text):
        tokens = list(_following(page, start + match.end()))
        try:
            found, _ = parse_start(tokens, {})
        except UnfitError:
            continue
        if not isinstance(found.leaves, tuple) or len(found.leaves) % 2 or len(found.leaves) > 64:
            continue
        width, place = len(found.leaves), Decimal(match[1])
        for n, leaf in enumerate(found.leaves):
            if isinstance(leaf, Leaf):
                angle = CONTEXT.divide(place, CONTEXT.power(10_000, CONTEXT.divide(Decimal(n - n % 2), width)))
                right = (f.cos if n % 2 else f.sin)(angle)
                page.claim(
                    "position", leaf, right, f"{'cos' if n % 2 else 'sin'}({match[1]} / 10000^({n - n % 2}/{width}))"
                )


def _following(page: Page, start: int) -> Iterator:
    for token in page.tokens_from(start):
        if token.kind == "end":
            return
        yield token
