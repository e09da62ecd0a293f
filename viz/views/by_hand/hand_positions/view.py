"""Position encodings by hand: sinusoids with the linear map between two positions, and RoPE in both layouts."""

from viz.seam.programs.endpoint import Endpoint
from viz.views.by_hand.desk import answer, desk_view
from viz.work.playground import Playground


def by_hand_positions(playground: Playground, tables: list[dict] = (), example: str = "") -> dict:
    """Compute sinusoidal encodings and the linear map from PE(p) to PE(p + k); or RoPE of a vector in both layouts.

    Args:
        tables: Replacements for the example's N, d, base, p, k, or x, m, base; N, heads, head; or N, learned, far, each
            {"name": "x", "rows": [[1, 2, 3, 4]]}.
        example: sinusoids, eight_wide, rope, rope_million, alibi or t5. Empty: sinusoids.

    Returns:
        given, steps: every input and computed matrix, each with numbers and exact (as strings); numpy: lines of code
        that compute the same numbers.
    """
    return answer("positions", example, tables, {})


VIEW = desk_view("positions", (), Endpoint(by_hand_positions, reads="server", kind="computed"))
