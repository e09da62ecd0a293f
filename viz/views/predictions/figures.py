"""Helpers of this tab's figures: hovers that fill in a sentence, and names of tokens."""

from collections.abc import Mapping, Sequence

from viz.labels import plotly_text, quoted

HOVERTEXT = "%{hovertext}<extra></extra>"  # the template of a series whose points have texts of their own


def token_texts(pieces: Sequence[str]) -> list[str]:
    """Return every token's text for Plotly, without its position."""
    return [plotly_text(quoted(piece)) for piece in pieces]


def filled(template: str, values: Mapping[str, object]) -> str:
    """Return a sentence for Plotly, its values escaped already; line breaks as Plotly writes them."""
    return plotly_text(template).replace("\n", "<br>").format(**values)
