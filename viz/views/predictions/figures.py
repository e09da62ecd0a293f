"""Helpers for the figures of this tab: hover texts from templates, and token names."""

from collections.abc import Mapping, Sequence

from viz.labels import plotly_text, quoted

HOVERTEXT = "%{hovertext}<extra></extra>"  # template of a series with one hover text per point


def token_texts(pieces: Sequence[str]) -> list[str]:
    """Format the tokens for Plotly, without their positions."""
    return [plotly_text(quoted(piece)) for piece in pieces]


def fill_template(template: str, values: Mapping[str, object]) -> str:
    """Fill a template for Plotly, with line breaks as <br>. `values` must already be escaped."""
    return plotly_text(template).replace("\n", "<br>").format(**values)
