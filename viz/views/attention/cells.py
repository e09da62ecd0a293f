"""One cell of the main head, as several views of the tab look at it: a token, and one that it attends to."""

from model.records import Tokens
from viz.labels import shorten, visible
from viz.seam.scene import Scene

SHORT = 24  # characters of a token's text in a sentence


def cell_of(scene: Scene) -> tuple[int, int]:
    """Return the cell to explain: the one that was clicked, else what the picked tokens say, else a strong one of the
    head.

    Two tokens are a pair, the later one looking; one token looks at what it reads most, itself and the first aside.
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
    """Return a token in a sentence: its text and where it stands."""
    return f"{shorten(visible(tokens.pieces[position]), SHORT)} ({position})"
