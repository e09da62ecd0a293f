"""Logits by hand: temperature, softmax, top-k, top-p, loss, and the probability of a text as a product."""

from typing import Annotated

from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.views.by_hand.desk import KIND, STABLE, answer, desk_view
from viz.work.playground import Playground


def by_hand_logits(
    playground: Playground,
    tables: list[dict] = (),
    example: str = "",
    stable: bool = True,
    kind: Annotated[str, OneOf(KIND.options)] = "exact",
) -> dict:
    """Compute probabilities, cutoffs and loss from logits; or the probability of a text from those of its tokens.

    Args:
        tables: Replacements for the example's z, T, k, p, target, or shares, k, p, or P, each {"name": "z",
            "rows": [[2, 1, 0.5]]}.
        example: The example to start from; only the example text has the table P. Empty: the first one.
        stable: Whether the largest logit is subtracted before the exponential.
        kind: Floating-point format of the softmax.

    Returns:
        given, steps: every input and computed matrix, each with numbers and exact (as strings); numpy: lines of code
        that compute the same numbers.
    """
    return answer("logits", example, tables, {"stable": stable, "kind": kind})


VIEW = desk_view("logits", (STABLE, KIND), Endpoint(by_hand_logits, reads="server", kind="computed"))
