"""The colors and the layout of all figures: sequential and signed ramps for light and dark pages, suitable for color-
blind readers.
"""

import functools

import numpy as np
import plotly.graph_objects as go

# ColorBrewer YlGnBu (Cynthia Brewer), 9 classes; reversed on a dark page, so that zero stays inconspicuous.
RAMP = ("#ffffd9", "#edf8b1", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#253494", "#081d58")
RAMPS = {"light": RAMP, "dark": RAMP[::-1]}
# ColorBrewer PuOr, for signed values: orange below 0, purple above; on a dark page the middle is dark.
SIGNED = ("#b35806", "#e08214", "#fdb863", "#fee0b6", "#f7f7f7", "#d8daeb", "#b2abd2", "#8073ac", "#542788")
SIGNED_DARK = ("#fdb863", "#e08214", "#b35806", "#6b3a10", "#20242e", "#4a3f78", "#7468b4", "#a79fd6", "#d8daeb")
SIGNED_RAMPS = {"light": SIGNED, "dark": SIGNED_DARK}
# Okabe & Ito 2008, one hue per head, distinguishable with any color vision on light and dark pages.
HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#9a8b00", "#7a7a7a")
CURVES = ("sqrt", "linear", "log")  # mappings from a value to a position on a ramp
FLOOR = 1e-4  # lower end of a logarithmic ramp, as a fraction of the maximum


def _channels(color: str) -> tuple[int, int, int]:
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))


def ramp_at(stops: tuple[str, ...], share: float) -> str:
    """Compute the color at a fraction of the ramp, interpolated linearly between stops."""
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    mixed = (
        round(a + (b - a) * (place - low))
        for a, b in zip(_channels(stops[low]), _channels(stops[low + 1]), strict=True)
    )
    return "rgb({},{},{})".format(*mixed)


def place(share: np.ndarray | float, curve: str) -> np.ndarray | float:
    """Map a fraction of the maximum to its position on the ramp; "sqrt" makes small values visible, "log" very small
    ones.
    """
    if curve == "log":
        return np.clip(1 + np.log10(np.maximum(share, FLOOR)) / -np.log10(FLOOR), 0, 1)
    return np.sqrt(share) if curve == "sqrt" else share


def colorscale(stops: tuple[str, ...], curve: str = "sqrt") -> list[list]:
    """Build a Plotly color scale from 0 to 1 in which a fraction has the ramp's color at `place(share, curve)`."""
    shares = np.linspace(0, 1, 33) if curve != "log" else np.concatenate([[0], np.geomspace(FLOOR, 1, 32)])
    return [[float(share), ramp_at(stops, float(place(share, curve)))] for share in shares]


def written(scale: list[list]) -> str:
    """Encode a color scale as a string, "0 rgb(1,2,3);1 rgb(4,5,6)", because Plotly repeatedly copies a figure's
    lists.
    """
    return ";".join(f"{share:.12g} {color}" for share, color in scale)


def scale_of(text: str) -> list[list]:
    """Decode a color scale from a string."""
    return [[float(share), color] for share, color in (stop.split(" ") for stop in text.split(";"))]


@functools.cache
def scales(kind: str, curve: str) -> dict[str, list[list]]:
    """Build the color scales for the light and the dark page. `kind` is "share", "size" or "signed"; signed scales are
    linear.
    """
    if kind == "signed":
        return {name: colorscale(stops, "linear") for name, stops in SIGNED_RAMPS.items()}
    return {name: colorscale(stops, curve) for name, stops in RAMPS.items()}


def frame_layout(meta: dict) -> dict:
    """Build the layout shared by all figures; static/parts/figure/figure_look.js adapts text colors and scales to the
    page's theme.

    `meta["scales"]`, {"light": color scale, "dark": color scale}, replaces `layout.coloraxis` there.
    """
    if "scales" in meta:
        meta = meta | {"scales": {theme: written(scale) for theme, scale in meta["scales"].items()}}
    return {
        "template": {},  # Plotly's default template would be copied into every figure
        "autotypenumbers": "strict",  # keeps numeric tokens as category names
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "ui-sans-serif, system-ui, sans-serif", "size": 12},
        "hoverlabel": {"font": {"family": "ui-monospace, Menlo, Consolas, monospace", "size": 12}, "align": "left"},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "dragmode": "zoom",
        "meta": meta,
    }


def frame(figure: go.Figure, *, meta: dict) -> go.Figure:
    """Apply the shared layout to a figure and return it."""
    figure.layout.template = {}  # an update would keep the existing template
    return figure.update_layout(frame_layout(meta))
