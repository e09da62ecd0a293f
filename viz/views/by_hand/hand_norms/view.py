"""Norms by hand: LayerNorm, RMSNorm and BatchNorm of vectors entered by the user."""

from typing import Annotated

from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.settings import Choice
from viz.views.by_hand.desk import answer, desk_view
from viz.work.playground import Playground

NORM = Choice("norm", ("layer", "rms", "batch", "all"))


def by_hand_norms(
    playground: Playground,
    tables: list[dict] = (),
    example: str = "",
    norm: Annotated[str, OneOf(NORM.options)] = "layer",
) -> dict:
    """Compute LayerNorm, RMSNorm or BatchNorm of the given vectors, showing every step, with the population variance.

    Args:
        tables: Replacements for the example's X, gamma, beta, eps, each {"name": "X", "rows": [[1, 2, 3, 4]]}.
        example: The example to start from. Empty: the first one.
        norm: The norm, or all three.

    Returns:
        given, steps: every input and computed matrix, each with numbers and exact (as strings); numpy: lines of code
        that compute the same numbers.
    """
    return answer("norms", example, tables, {"norm": norm})


VIEW = desk_view("norms", (NORM,), Endpoint(by_hand_norms, reads="server", kind="computed"))
