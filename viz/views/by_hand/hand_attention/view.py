"""Attention by hand: projections, heads, scores, mask, softmax, and weighted values of user-defined vectors."""

from typing import Annotated

from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.settings import Checkbox, Choice
from viz.views.by_hand.desk import KIND, STABLE, answer, desk_view
from viz.work.playground import Playground


def by_hand_attention(
    playground: Playground,
    tables: list[dict] = (),
    example: str = "",
    heads: Annotated[int, Within(1, 4)] = 1,
    causal: bool = True,
    scaled: bool = True,
    stable: bool = True,
    kind: Annotated[str, OneOf(KIND.options)] = "exact",
) -> dict:
    """Compute attention on the given numbers, showing every step, in exact fractions or with fifty digits.

    Args:
        tables: Replacements for the example's tables, each {"name": "Q", "rows": [[1, 0], [0, 1]]}; numbers or strings
            such as "1/3".
        example: The example, which determines the tables: Q, K, V, or X with W_Q, W_K, W_V. Empty: the first one.
        heads: Number of heads that the columns are split into.
        causal: Whether a token attends only to itself and earlier tokens.
        scaled: Whether scores are divided by the square root of the head dimension d.
        stable: Whether the largest score of a row is subtracted before the exponential.
        kind: Floating-point format of the softmax.

    Returns:
        given, steps: every input and computed matrix, each with numbers and exact (as strings); numpy: lines of code
        that compute the same numbers.
    """
    options = {"heads": heads, "causal": causal, "scaled": scaled, "stable": stable, "kind": kind}
    return answer("attention", example, tables, options)


VIEW = desk_view(
    "attention",
    (Choice("heads", ("1", "2", "3", "4")), Checkbox("causal", True), Checkbox("scaled", True), STABLE, KIND),
    Endpoint(by_hand_attention, reads="server", kind="computed"),
)
