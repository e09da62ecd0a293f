"""The selected cell of the main head, a query token and a key token, shared by several views of the tab."""

from model.records import Tokens
from viz.labels import shorten, visible
from viz.seam.scene import Scene

SHORT = 24  # maximum number of characters of a token in a sentence


def cell_of(scene: Scene) -> tuple[int, int]:
    """Return the query and key of the cell to explain: those of the clicked cell, or those of the selected tokens.

    If several tokens are selected, the last is the query and the first is the key. A single token (by default, the last
    token of the prompt) is the query; its key is the one with the largest weight, except for itself and the first
    token.
    """
    picked = scene.picked
    if picked.pair:
        return picked.pair
    if len(picked.tokens) > 1:
        return max(picked.tokens), min(picked.tokens)
    query = picked.tokens[0] if picked.tokens else len(scene.tokens) - 1
    between = scene.trace.pattern(*scene.head)[query, 1:query]
    return query, int(between.argmax()) + 1 if len(between) else 0


def named(tokens: Tokens, position: int) -> str:
    """Format a token for a sentence: its string and position."""
    return f"{shorten(visible(tokens.pieces[position]), SHORT)} ({position})"
