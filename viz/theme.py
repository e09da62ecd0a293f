"""One colour language: a sequential, colour-blind safe ramp for weights, light and dark, and the figures' frame."""

import plotly.graph_objects as go

# ColorBrewer YlGnBu (Cynthia Brewer), 9 classes; read backwards on a dark page, so that zero is always quiet.
RAMP = ("#ffffd9", "#edf8b1", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#253494", "#081d58")
RAMPS = {"light": RAMP, "dark": RAMP[::-1]}


def _channels(colour: str) -> tuple[int, int, int]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def ramp_at(stops: tuple[str, ...], share: float) -> str:
    """The colour at a share of the ramp, linear between stops."""
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    mixed = (
        round(a + (b - a) * (place - low))
        for a, b in zip(_channels(stops[low]), _channels(stops[low + 1]), strict=True)
    )
    return "rgb({},{},{})".format(*mixed)


def colorscale(stops: tuple[str, ...], power: float = 0.5, n: int = 33) -> list[list]:
    """A Plotly colour scale in which value v has the ramp's colour at v ** power; 0.5 lifts small weights."""
    return [[i / (n - 1), ramp_at(stops, (i / (n - 1)) ** power)] for i in range(n)]


def frame(figure: go.Figure, *, meta: dict) -> go.Figure:
    """The look shared by all figures; text colours follow the page, see static/plot.js."""
    figure.update_layout(
        template=None,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "ui-sans-serif, system-ui, sans-serif", "size": 12},
        hoverlabel={"font": {"family": "ui-monospace, Menlo, Consolas, monospace", "size": 12}, "align": "left"},
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        dragmode="zoom",
        meta=meta,
    )
    return figure
