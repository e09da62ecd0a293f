"""Two lists of a page with a function named between them, such as scores, an arrow "softmax", and weights."""

import re
from collections.abc import Callable
from decimal import Decimal

from model.by_hand.claims import functions as f
from model.by_hand.claims.arrays import CONTEXT, Array, UnfitError, cells, divide, each, is_list, shape
from model.by_hand.claims.page import Listed, Page, leaf_list
from model.by_hand.claims.records import Leaf, fits
from model.by_hand.claims.tokens import tokens_of

_FURTHEST = 240  # characters between two lists
_NEAREST = 24  # earlier lists that a list is compared with
_GELUS = tuple(f.GELUS.values())
# {function: (the words that name it, its forms)}; a list fits if it fits one of the forms
_STEPS: dict[str, tuple[re.Pattern[str], tuple[Callable[[Array], Array], ...]]] = {
    "softmax": (re.compile(r"softmax", re.I), (f.softmax,)),
    "exp": (re.compile(r"e\^x|\bexp\b|exponentia|指数", re.I), (lambda x: each(f.exp, x),)),
    "share": (
        re.compile(r"除以总?和|除以它们的和|divide(?:d)? (?:each )?by (?:the|their) (?:sum|total)", re.I),
        (f.share,),
    ),
    "relu": (re.compile(r"\brelu\b", re.I), (lambda x: each(f.relu, x),)),
    "gelu": (re.compile(r"\bgelu", re.I), tuple(lambda x, g=g: each(g, x) for g in _GELUS)),
    "sigmoid": (re.compile(r"\bsigmoid\b", re.I), (lambda x: each(f.sigmoid, x),)),
    "tanh": (re.compile(r"\btanh\b", re.I), (lambda x: each(f.tanh, x),)),
    "silu": (re.compile(r"\b(?:silu|swish)\b", re.I), (lambda x: each(f.silu, x),)),
    "rmsnorm": (re.compile(r"rms ?norm", re.I), (f.rms_norm,)),
    "layernorm": (
        re.compile(r"layer ?norm|standardi[sz]|z-score|标准化|层归一化", re.I),
        (f.layer_norm, lambda x: _sample(x)),
    ),
}
_SHOWN = {
    "relu": "ReLU",
    "gelu": "GELU",
    "silu": "SiLU",
    "layernorm": "LayerNorm",
    "rmsnorm": "RMSNorm",
    "share": "x / Σx: ",
}
_CELLWISE = {"exp", "relu", "gelu", "sigmoid", "tanh", "silu"}
_DEFINED = re.compile(r"(?i)\b(relu|gelu|sigmoid|tanh|silu|swish)\s*\(x\)\s*[=≈].*")
_OF = re.compile(r"(softmax|relu|gelu|sigmoid|tanh|silu|layer ?norm|rms ?norm) (?:of|on|over|for)\s*$", re.I)
_INPUT = re.compile(r"input|输入|\bx\b", re.I)
_MIXED = re.compile(
    r"\w\(\s*[-−]?\d|=\s*[A-Za-z_]\w*\(|@|\bV\b|matmul|W[_₀-₉\d]|multipl|相乘|乘以|加权|\bwrong\b|错误", re.I
)
_TEMPERATURE = re.compile(r"(?:\bT|temperature|温度|τ)\s*[=:为是]?\s*(\d+(?:\.\d+)?)", re.I)
_PROBABILITY = re.compile(r"prob|概率|distribution|分布", re.I)
_BARE = re.compile(
    r"^[\s>*#\-]*([^:=\[\](){}|]{1,24}):\s*(-?\d+(?:\.\d+)?(?:,\s*-?\d+(?:\.\d+)?){2,})(?=\s*(?:\(|$|，))"
)


def check_lists(page: Page) -> None:
    """Check the lists that follow from an earlier list by a named function."""
    lists = sorted([*page.lists, *_bare_lists(page)], key=lambda one: one.start)
    page.lists[:] = lists
    for n, one in enumerate(lists):
        if not is_list(one.value) or len(one.value) < 2 or _has_verdict(page, one):
            continue
        before = lists[n - 1] if n else None
        if any(leaf.start in page.inputs for leaf in leaf_list(one.leaves)):
            continue
        if not (_tempered(page, lists, n) or _labelled(page, lists, n)) and before:
            _stepped(page, before, one)
    for one in lists:
        _sums_to_one(page, one)


def _sample(x: Array) -> Array:
    return divide(tuple(CONTEXT.subtract(one, f.mean(x)) for one in x), f.std(x, 1))


def _has_verdict(page: Page, one: Listed) -> bool:
    return any(leaf.start in page.claims for leaf in leaf_list(one.leaves))


def _bare_lists(page: Page) -> list[Listed]:
    """Return the lists without brackets that stand behind a label and a colon, such as "marks: 30, 40, 35"."""
    found = []
    for n, start in enumerate(page.starts):
        match = _BARE.match(page.line_text(n))
        if not match:
            continue
        leaves = tuple(_leaves(match[2], start + match.start(2)))
        values = tuple(leaf.value for leaf in leaves)
        found.append(
            Listed(
                values,
                leaves,
                start + match.start(2),
                start + match.end(2),
                n,
                match[0][: match.start(2)],
                page.blocks[n],
            )
        )
    return found


def _leaves(text: str, at: int) -> list[Leaf]:
    """Return the numbers of a list without brackets."""
    leaves, minus = [], -1
    for token in tokens_of(text.replace(",", ";")):
        if token.leaf:
            leaf = token.leaf
            sign = -1 if minus == leaf.start - 1 and minus >= 0 else 1
            leaves.append(Leaf(sign * leaf.value, leaf.unit, at + leaf.start - (sign < 0), at + leaf.end))
        minus = token.start if token.text == "-" else -1
    return leaves


def _stepped(page: Page, before: Listed, one: Listed) -> None:
    """Check a list against the list before it, if the words between name one function."""
    if before.block != one.block or one.start - before.end > _FURTHEST or not is_list(before.value):
        return
    if len(before.value) != len(one.value) or _INPUT.search(one.label) or _OF.search(one.label):
        return
    between = page.plain[before.end : one.start]
    if (of := _OF.search(before.label)) and before.line == one.line:
        between = of[1] + between
    if between.lstrip(" ])").startswith(("#", "(")):  # a remark on the list before
        between = between[between.find("\n") + 1 :]
    defined = _DEFINED.search(between)
    words = between if not defined else between[: defined.start()] + defined[1] + between[defined.end() :]
    named = [key for key, (pattern, _) in _STEPS.items() if pattern.search(words)]
    if not named:  # the definition in front of "input:" and "output:"
        named = _defined_before(page, before)
    if "share" in named and "exp" in named:
        named.remove("exp")
    if len(named) != 1 or _MIXED.search(words) or not _looks_like(named[0], one.value):
        return
    temperature = _TEMPERATURE.search(words) if named[0] == "softmax" else None
    value = divide(before.value, Decimal(temperature[1])) if temperature and Decimal(temperature[1]) else before.value
    _compare(page, named[0], value, before, one, temperature[1] if temperature else "")


def _looks_like(name: str, x: Array) -> bool:
    """Return whether a list may be meant as the output of a function, wrong or right."""
    if name in {"softmax", "share"}:
        return all(0 <= p <= 1 for p in x) and abs(f.total(x) - 1) < Decimal("0.2")
    return name not in {"exp", "relu", "sigmoid"} or all(y >= 0 for y in x)


def _defined_before(page: Page, one: Listed) -> list[str]:
    """Return the function whose definition stands just above a list, with nothing but a label between."""
    above = [page.line_text(n).strip() for n in range(max(0, one.line - 2), one.line)]
    last = next((line for line in reversed(above) if line), "")
    found = _DEFINED.search(last)
    return [found[1].lower().replace("swish", "silu")] if found else []


def _compare(page: Page, name: str, x: Array, before: Listed, one: Listed, temperature: str = "") -> bool:
    """Record the verdicts on a list that should be a function of another one."""
    values = []
    for form in _STEPS[name][1]:
        try:
            values.append(form(x))
        except (UnfitError, ArithmeticError):
            continue
    leaves = leaf_list(one.leaves)
    right = next((v for v in values if all(fits(leaf, y) for leaf, y in zip(leaves, v, strict=True))), None)
    if not values:
        return False
    page.use(leaf_list(before.leaves))
    if name in _CELLWISE:
        for leaf, given, value in zip(leaves, leaf_list(before.leaves), right or values[0], strict=True):
            page.claim("step", leaf, value, f"{_SHOWN.get(name, name)}({page.text[given.start : given.end]})")
        return True
    said = page.source(before.start, before.end)
    divided = f" / {temperature}" if temperature else ""
    page.claim_all("step", one.leaves, right or values[0], f"{_SHOWN.get(name, name)}({said}{divided})")
    return True


def _tempered(page: Page, lists: list[Listed], n: int) -> bool:
    """Check a list on a line with "T = 0.5" against the softmax of the last list without a temperature."""
    one = lists[n]
    found = _TEMPERATURE.search(one.label)
    if not found or not Decimal(found[1]):
        return False
    for before in reversed(lists[max(0, n - _NEAREST) : n]):
        if before.block != one.block or one.line - before.line > 8:
            return False
        if _TEMPERATURE.search(before.label) or not is_list(before.value):
            continue
        if shape(before.value) != shape(one.value):
            return False
        if not (all(0 <= p <= 1 for p in one.value) and abs(sum(one.value) - 1) < Decimal("0.06")):
            return False
        return _compare(page, "softmax", divide(before.value, Decimal(found[1])), before, one, found[1])
    return False


def _labelled(page: Page, lists: list[Listed], n: int) -> bool:
    """Check a list called standardized against the earlier list with the same label."""
    one = lists[n]
    head = one.label.partition(":")[0].strip(" #>*-\t")
    above = page.line_text(one.line) + page.line_text(max(0, one.line - 1)) + page.line_text(max(0, one.line - 2))
    if not head or len(one.value) < 3 or len(head) > 24 or not _STEPS["layernorm"][0].search(above):
        return False
    for before in reversed(lists[max(0, n - _NEAREST) : n]):
        if one.line - before.line > 30:
            return False
        same = before.label.partition(":")[0].strip(" #>*-\t") == head
        if same and is_list(before.value) and len(before.value) == len(one.value):
            return _compare(page, "layernorm", before.value, before, one)
    return False


def _sums_to_one(page: Page, one: Listed) -> None:
    """Check that a list called probabilities sums to 1."""
    if not is_list(one.value) or len(one.value) < 3 or _has_verdict(page, one):
        return
    if not _PROBABILITY.search(one.label) or not all(0 <= p <= 1 for p in cells(one.value)):
        return
    leaves = leaf_list(one.leaves)
    unit = sum((leaf.unit for leaf in leaves), Decimal(0))
    whole = Leaf(sum(one.value), unit, leaves[0].start, leaves[-1].end)
    page.claim("sum", whole, Decimal(1), " + ".join(page.text[leaf.start : leaf.end] for leaf in leaves[:12]))
    page.use(leaves[1:])
