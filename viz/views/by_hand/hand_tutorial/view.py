"""Check a tutorial: every number of a pasted page that can be recomputed, marked right, rounded loosely or wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from model.by_hand.claims.check import LONGEST, Checked
from model.by_hand.claims.check import check_tutorial as checked
from model.by_hand.claims.records import Claim
from model.text.surrogates import whole
from viz.numbers import typed as written
from viz.seam.programs.endpoint import Endpoint
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Asking, Measure, Payload, Seen, View
from viz.work.playground import Playground

DIGITS = 5  # of a right value
_MOST_INTEGER = Decimal(10) ** 15
_VERDICTS = ("wrong", "loose", "right")


@dataclass(frozen=True)
class Pasted:
    """What a page sent: a text, None for the example, or that it keeps the answer that it has."""

    text: str | None = None
    kept: bool = False
    cut: bool = False


@dataclass(frozen=True)
class Judged:
    """The checked numbers of a page; None for the example, whose text depends on the language."""

    checked: Checked | None


def read(sent: object, scene: Scene) -> Pasted:
    """Parse what a page sent; a longer text is cut."""
    values = sent if isinstance(sent, Mapping) else {}
    if values.get("kept") is True:
        return Pasted(kept=True)
    text = values.get("text")
    if not isinstance(text, str) or not text.strip():
        return Pasted()
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return Pasted(whole(text[:LONGEST]), cut=len(text) > LONGEST)


def measure(scene: Scene, chosen: Settings) -> Judged:
    """Check the pasted text."""
    return Judged(checked(chosen.page.text) if chosen.page.text is not None else None)


def draw(seen: Seen) -> Payload:
    """Build the payload of the marked page, its summary and the list of places."""
    pasted: Pasted = seen.settings.page
    words = seen.here
    payload: Payload = {"words": words.plain(), "kinds": seen.words.within("kinds").plain(), "most": LONGEST}
    if pasted.kept:
        return {**payload, "same": True}
    text = words["example"] if pasted.text is None else pasted.text
    found = seen.result.checked or checked(text)
    return {
        **payload,
        "title": words["title"],
        "example": pasted.text is None,
        "cut": pasted.cut,
        "pieces": _pieces(text, found.claims),
        "claims": [_claim(text, each) for each in found.claims],
        "counts": {name: found.count(name) for name in _VERDICTS} | {"inputs": found.inputs, "left": found.left},
        "file": "checked-page",
        "source": words["source"],
    }


def _pieces(text: str, claims: tuple[Claim, ...]) -> list[list]:
    """Split a text into [text, index of its claim or −1]."""
    pieces: list[list] = []
    at = 0
    for n, each in enumerate(claims):
        if each.start < at:
            continue
        pieces += [[text[at : each.start], -1]] if each.start > at else []
        pieces.append([text[each.start : each.end], n])
        at = each.end
    return [*pieces, [text[at:], -1]] if at < len(text) else pieces


def _claim(text: str, each: Claim) -> dict:
    return {
        "verdict": each.verdict,
        "kind": each.kind,
        "stated": each.stated,
        "right": right_text(each),
        "formula": each.formula,
        "note": each.note,
        "line": text.count("\n", 0, each.start) + 1,
    }


def right_text(each: Claim) -> str:
    """Format the right value as the page states its number: a percentage, or a number with separators."""
    value = each.right
    if each.stated.rstrip().endswith(("%", "％")):
        percent = value * 100
        whole_percent = percent.is_finite() and percent == percent.to_integral_value()
        return f"{percent:.0f}%" if whole_percent else f"{written(percent, DIGITS)}%"
    if value.is_finite() and value == value.to_integral_value() and Decimal(10_000) <= abs(value) < _MOST_INTEGER:
        return f"{int(value):,}"
    return written(value, DIGITS)


def check_tutorial(playground: Playground, text: str) -> dict:
    """Recompute the numbers of a page and say which are right, rounded loosely or wrong.

    Args:
        text: The page, as plain text, Markdown or LaTeX, in English or Chinese; at most 200,000 characters.

    Returns:
        counts: right, loose, wrong, inputs (numbers that went into a calculation) and left (not recomputed); claims:
        start, end, line, kind, verdict, stated, right and formula of each checked number.
    """
    found = checked(text)
    return {
        "counts": {name: found.count(name) for name in _VERDICTS} | {"inputs": found.inputs, "left": found.left},
        "claims": [
            {
                "start": each.start,
                "end": each.end,
                "line": text.count("\n", 0, each.start) + 1,
                "kind": each.kind,
                "verdict": each.verdict,
                "stated": each.stated,
                "right": float(each.right),
                "formula": each.formula,
            }
            for each in found.claims
        ],
    }


VIEW = View(
    "hand_tutorial",
    needs=(),
    measures=(Measure("main", measure, (), ("page",), locks=False),),
    layout=("page",),
    parts={"page": Asking("handtutorial", read, draw, of="main", settings=("page",))},
    api=(Endpoint(check_tutorial, reads="server", kind="computed"),),
)
