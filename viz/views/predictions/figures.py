"""Helpers for this tab's figures: hover texts made from templates, and token names."""

from collections.abc import Mapping, Sequence

from viz.labels import plotly_text, quoted

HOVERTEXT = "%{hovertext}<extra></extra>"  # template of a series with one hover text per point


def token_texts(pieces: Sequence[str]) -> list[str]:
    """Format each token for Plotly, without its position."""
    return [plotly_text(quoted(piece)) for piece in pieces]


def fill_template(template: str, values: Mapping[str, object]) -> str:
    """Fill a template for Plotly and turn its line breaks into <br>. `values` are escaped already."""
    return plotly_text(template).replace("\n", "<br>").format(**values)
