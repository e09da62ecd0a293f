"""What the figures of this tab share: hovers that fill in a sentence, and names of tokens."""

import math
from collections.abc import Mapping, Sequence

from viz.labels import plotly_text, quoted

HOVERTEXT = "%{hovertext}<extra></extra>"  # the template of a series whose points have texts of their own


def token_texts(pieces: Sequence[str]) -> list[str]:
    """Every token's text for Plotly, without its position."""
    return [plotly_text(quoted(piece)) for piece in pieces]


def filled(template: str, values: Mapping[str, object]) -> str:
    """A sentence for Plotly, its values escaped already; line breaks as Plotly writes them."""
    return plotly_text(template).replace("\n", "<br>").format(**values)


def percent(share: float) -> str:
    """A probability as views that do not declare themselves yet write it; others use viz.numbers."""
    points = 100 * share
    return f"{points:.{'1f' if points >= 10 else '2f' if points >= 1 else '2g'}} %"


def brief(value: float | None) -> str:
    """A number in about four digits, for the same views; "–" where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
