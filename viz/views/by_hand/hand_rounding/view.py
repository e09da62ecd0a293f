"""Quantization by hand: scale, zero point, integers, and the quantization error."""

from typing import Annotated

from model.by_hand.calculations.rounding import SCHEMES
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.settings import Choice
from viz.views.by_hand.desk import answer, desk_view
from viz.work.playground import Playground

SCHEME = Choice("scheme", SCHEMES)


def by_hand_rounding(
    playground: Playground,
    tables: list[dict] = (),
    example: str = "",
    scheme: Annotated[str, OneOf(SCHEMES)] = "symmetric",
) -> dict:
    """Quantize the given numbers to integers with few bits and dequantize them, in exact fractions.

    Args:
        tables: Replacements for the example's x and bits, each {"name": "x", "rows": [[0.1, -0.7]]}.
        example: The example to start from. Empty: the first one.
        scheme: symmetric around 0, affine with a zero point, wrapped (a cast to an integer type), or float16.

    Returns:
        given, steps: every input and computed matrix, each with numbers and exact (as strings); numpy: lines of code
        that compute the same numbers.
    """
    return answer("rounding", example, tables, {"scheme": scheme})


VIEW = desk_view("rounding", (SCHEME,), Endpoint(by_hand_rounding, reads="server", kind="computed"))
