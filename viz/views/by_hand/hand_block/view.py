"""A whole transformer layer by hand: norm, attention, residual, norm, MLP, residual."""

from typing import Annotated

from model.by_hand.calculations.block import NORMS, PLACEMENTS
from model.by_hand.calculations.mlp import ACTIVATIONS
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.settings import Choice
from viz.views.by_hand.desk import answer, desk_view
from viz.work.playground import Playground


def by_hand_block(
    playground: Playground,
    tables: list[dict] = (),
    example: str = "",
    placement: Annotated[str, OneOf(PLACEMENTS)] = "pre",
    norms: Annotated[str, OneOf(NORMS)] = "layer",
    activation: Annotated[str, OneOf(ACTIVATIONS)] = "gelu",
) -> dict:
    """Compute a whole transformer layer on the given vectors, showing every step; or only y = X + f.

    Args:
        tables: Replacements for the example's tables, each {"name": "X", "rows": [[1, 2, 3, 4]]}.
        example: The example: typed (the outputs of attention and MLP are given), one_token, three_tokens or sum (y = X
            + f). Empty: typed.
        placement: The norms before attention and MLP (pre), or after the sums (post).
        norms: LayerNorm or RMSNorm.
        activation: Activation function of the MLP.

    Returns:
        given, steps: every input and computed matrix, each with numbers and exact (as strings); numpy: lines of code
        that compute the same numbers.
    """
    return answer("block", example, tables, {"placement": placement, "norms": norms, "activation": activation})


VIEW = desk_view(
    "block",
    (Choice("placement", PLACEMENTS), Choice("norms", NORMS), Choice("activation", ACTIVATIONS)),
    Endpoint(by_hand_block, reads="server", kind="computed"),
)
