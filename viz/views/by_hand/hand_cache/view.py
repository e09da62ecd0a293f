"""The KV cache by hand: keys and values token by token, and online softmax block by block."""

from viz.seam.programs.endpoint import Endpoint
from viz.views.by_hand.desk import answer, desk_view
from viz.work.playground import Playground


def by_hand_cache(playground: Playground, tables: list[dict] = (), example: str = "") -> dict:
    """Compute causal attention token by token with a KV cache, and all at once; or online softmax, block by block.

    Args:
        tables: Replacements for the example's Q, K, V, or s, v, block, each {"name": "s", "rows": [[1, 3, 2]]}.
        example: cat_sat_on or online. Empty: cat_sat_on.

    Returns:
        given, steps: every input and computed matrix, each with numbers and exact (as strings); numpy: lines of code
        that compute the same numbers.
    """
    return answer("cache", example, tables, {})


VIEW = desk_view("cache", (), Endpoint(by_hand_cache, reads="server", kind="computed"))
