"""The view "What would give your number?": the usual slips of a calculation, tried on a result that the reader got."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from model.by_hand.claims.arrays import Array
from model.by_hand.slips.explain import CALCULATIONS, LONGEST, Explained
from model.by_hand.slips.explain import explain_number as explained
from model.errors import InputError
from model.text.surrogates import whole
from viz.numbers import typed as written
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.scene import Scene
from viz.seam.view import Asking, Payload, Seen, View
from viz.words import translate
from viz.work.playground import Playground

DIGITS = 5


@dataclass(frozen=True)
class Typed:
    """The chosen calculation, its inputs and the reader's result, as typed."""

    calculation: str
    inputs: tuple[tuple[str, str], ...]
    result: str


def read(sent: object, scene: Scene) -> Typed:
    """Parse what a page sent; what is missing or malformed takes its usual value."""
    values = sent if isinstance(sent, Mapping) else {}
    name = values.get("calculation")
    name = name if isinstance(name, str) and name in CALCULATIONS else next(iter(CALCULATIONS))
    given = values.get("inputs")
    own = given if isinstance(given, Mapping) else {}
    of = CALCULATIONS[name]
    inputs = tuple((key, _text(own.get(key), field.usual)) for key, field in of.fields.items())
    return Typed(name, inputs, _text(values.get("result"), of.typed))


def _text(sent: object, usual: str) -> str:
    return whole(sent[:LONGEST]) if isinstance(sent, str) else usual


def draw(seen: Seen) -> Payload:
    """Build the payload of the form, the slips that give the result, and the right way."""
    typed: Typed = seen.settings.desk
    words = seen.words
    labels, fields, slips = words.within("calculations"), words.within("fields"), words.within("slips")
    payload: Payload = {
        "calculation": typed.calculation,
        "calculations": [[name, labels[name]] for name in CALCULATIONS],
        "fields": [
            {
                "name": name,
                "label": fields[name],
                "text": text,
                "usual": CALCULATIONS[typed.calculation].fields[name].usual,
            }
            for name, text in typed.inputs
        ],
        "result": typed.result,
        "words": seen.here.plain(),
        "title": seen.here["title"].format(name=labels[typed.calculation]),
        "file": "slips",
        "source": seen.here["source"],
    }
    try:
        told = explained(typed.calculation, dict(typed.inputs), typed.result)
    except InputError as error:
        language = seen.facts.language
        return {
            **payload,
            "problem_here": [translate(error.what, language), str(error.got), translate(error.hint, language)],
        }
    return {
        **payload,
        "right": told.right,
        "tried": told.tried,
        "found": [[slips[each.name], each.formula, shown(each.value)] for each in told.found],
        "steps": [[each.formula, shown(each.value)] for each in told.steps],
    }


def shown(value: Array) -> str:
    """Format a number, a list or a matrix on one line, or a line per row."""
    if isinstance(value, tuple) and isinstance(value[0], tuple):
        return "\n".join(shown(row) for row in value)
    if isinstance(value, tuple):
        return "[" + ", ".join(written(each, DIGITS) for each in value) + "]"
    return written(value, DIGITS)


def explain_number(
    playground: Playground,
    calculation: Annotated[str, OneOf(tuple(CALCULATIONS))] = "softmax",
    inputs: list[dict] = (),
    result: str = "",
) -> dict:
    """Name the usual slips that give a result, and compute the right one.

    Args:
        calculation: The calculation.
        inputs: Inputs such as {"name": "z", "text": "1, 2, 3"}. Missing ones take the values of the example.
        result: The number or list that somebody got. Empty: that of the example.

    Returns:
        right: whether the result is right; slips: name, formula and value of each slip that gives it; steps: formula
        and value of each line of the right calculation; tried: number of slips tried.
    """
    texts = {str(each.get("name")): str(each.get("text")) for each in inputs}
    told: Explained = explained(calculation, texts, result or CALCULATIONS[calculation].typed)
    return {
        "right": told.right,
        "slips": [{"name": each.name, "formula": each.formula, "value": _plain(each.value)} for each in told.found],
        "steps": [{"formula": each.formula, "value": _plain(each.value)} for each in told.steps],
        "tried": told.tried,
    }


def _plain(value: Array) -> float | list:
    return [_plain(each) for each in value] if isinstance(value, tuple) else float(value)


VIEW = View(
    "hand_slips",
    needs=(),
    layout=("desk",),
    parts={"desk": Asking("handslips", read, draw, settings=("desk",))},
    api=(Endpoint(explain_number, reads="server", kind="computed"),),
)
