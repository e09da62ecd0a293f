"""A linear layer, an MLP and the residual stream by hand."""

from typing import Annotated

from model.by_hand.calculations.mlp import ACTIVATIONS
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.settings import Checkbox, Choice
from viz.views.by_hand.desk import answer, desk_view
from viz.work.playground import Playground


def by_hand_mlp(
    playground: Playground,
    tables: list[dict] = (),
    example: str = "",
    activation: Annotated[str, OneOf(ACTIVATIONS)] = "gelu",
    residual: bool = True,
) -> dict:
    """Compute a linear layer or an MLP on the given numbers, showing every step.

    Args:
        tables: Replacements for the example's x, W, b, W_1, b_1, W_2, b_2, W_G, each {"name": "x", "rows": [[1, 2]]}.
        example: The example: linear, mlp, swiglu (gated, always with SiLU) or curve. Empty: linear.
        activation: Activation function of an MLP without a gate.
        residual: Whether x is added to the output of the MLP.

    Returns:
        given, steps: every input and computed matrix, each with numbers and exact (as strings); numpy: lines of code
        that compute the same numbers.
    """
    return answer("mlp", example, tables, {"activation": activation, "residual": residual})


VIEW = desk_view(
    "mlp",
    (Choice("activation", ACTIVATIONS), Checkbox("residual", True)),
    Endpoint(by_hand_mlp, reads="server", kind="computed"),
)
