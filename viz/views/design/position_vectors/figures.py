"""Pictures of how positions are written: the vectors, how alike they are by distance, and how slowly pairs turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.labels import plotly_text
from viz.theme import HUES, frame_layout, scales

MOST_CELLS = 140_000  # of a heat map
MOST_ROWS = 512
MOST_PAIRS = 256  # positions of the map of all pairs
MOST_POINTS = 2048  # of a curve by distance
_CROWDED = 64  # pairs beyond which their marks run into a line
COLOURS = {"learned": HUES[2], "sinusoidal": HUES[4], "rope": HUES[0], "unscaled": HUES[7]}
SECOND = HUES[3]
_GREY = "rgba(128,134,150,0.9)"
_LEGEND = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}


@dataclass(frozen=True, eq=False)
class Line:
    """One scheme on a picture of several. `scheme` is a key of COLOURS."""

    name: str
    scheme: str
    x: np.ndarray
    y: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | None = None  # where the middle 80 % lie
    bold: bool = True  # else there to compare with
    pale: bool = False  # the second one of its scheme

    @property
    def colour(self) -> str:
        """Its own one, or a second one of the scheme."""
        return SECOND if self.pale else COLOURS[self.scheme]


def rows_of(length: int, width: int) -> list[int]:
    """The positions that a heat map shows: all of them, or every k-th where there is no room."""
    return _every(length, max(1, min(MOST_ROWS, MOST_CELLS // max(width, 1))))


def columns_of(width: int) -> list[int]:
    """The dimensions that a heat map shows."""
    return list(range(0, width, -(-width // (MOST_CELLS // 64))))


def pairs_of(length: int) -> list[int]:
    """The positions that the map of all pairs shows."""
    return _every(length, MOST_PAIRS)


def _every(length: int, room: int) -> list[int]:
    """Every k-th position. k is odd: tables are found that treat even and odd positions apart."""
    step = -(-length // room)
    return list(range(0, length, step + (step % 2 == 0)))


def alternates(values: np.ndarray) -> bool:
    """Whether a curve goes up and down at nearly every step: then even and odd distances are two curves."""
    steps = np.sign(np.diff(values))
    return len(steps) > 8 and float((steps[1:] != steps[:-1]).mean()) > 0.9


def distances_of(length: int) -> np.ndarray:
    """Distances 0 .. length - 1: every one of the first, and then in growing steps."""
    if length <= MOST_POINTS:
        return np.arange(length)
    half = MOST_POINTS // 2
    return np.unique(np.concatenate([np.arange(half), np.geomspace(half, length - 1, half).round().astype(int)]))


def colour_end(table: np.ndarray) -> float:
    """Where the colours of a map of vectors end: what all but 0.5 % of the values stay within."""
    return float(np.quantile(np.abs(table), 0.995)) or float(np.abs(table).max()) or 1.0


def _axis(title: str, more: Mapping[str, object] | None = None) -> dict:
    title = {"text": plotly_text(title), "standoff": 8}
    return {"title": title, "automargin": True, "zeroline": False} | dict(more or {})


def _heat(z: np.ndarray, x: Sequence[int], y: Sequence[int], hover: str) -> go.Heatmap:
    return go.Heatmap(
        z=z.astype(np.float32),
        x=np.array(x),
        y=np.array(y),
        coloraxis="coloraxis",
        hovertemplate=f"{hover}<extra></extra>",
    )


def _colours(top: float) -> dict:
    return {"cmin": -top, "cmax": top, "colorbar": {"thickness": 10, "len": 1, "y": 0.5, "tickformat": ".2~g"}}


def matrix_figure(
    table: np.ndarray, positions: Sequence[int], dimensions: Sequence[int], said: Mapping[str, str]
) -> str:
    """Positions down, dimensions across, signed; JSON. `said`: "position", "dimension", "value"."""
    names = {key: plotly_text(said[key]) for key in ("position", "dimension", "value")}
    hover = "{position} %{{y}}, {dimension} %{{x}}<br>{value}: %{{z:.4f}}".format(**names)
    layout = frame_layout({"scales": scales("signed", "linear"), "height": 420, "narrow": 380}) | {
        "xaxis": _axis(said["dimension"]),
        "yaxis": _axis(said["position"], {"autorange": "reversed"}),
        "coloraxis": _colours(colour_end(table)),
    }
    return go.Figure([_heat(table, dimensions, positions, hover)], layout).to_json()


def pairs_figure(found: np.ndarray, positions: Sequence[int], said: Mapping[str, str]) -> str:
    """The cosine of every two positions; JSON. `said`: "position", "other", "cosine"."""
    names = {key: plotly_text(said[key]) for key in ("position", "other", "cosine")}
    hover = "{position} %{{y}}, {other} %{{x}}<br>{cosine}: %{{z:.3f}}".format(**names)
    layout = frame_layout({"scales": scales("signed", "linear"), "height": 420, "narrow": 380}) | {
        "xaxis": _axis(said["other"]),
        "yaxis": _axis(said["position"], {"autorange": "reversed"}),
        "coloraxis": _colours(1.0),
    }
    return go.Figure([_heat(found, positions, positions, hover)], layout).to_json()


def similarity_figure(lines: Sequence[Line], bound: Line | None, said: Mapping[str, str]) -> str:
    """Cosine against distance, one line a scheme, and below it the bound where there is one; JSON.

    `said`: "distance", "cosine", "bound", "band".
    """
    traces = []
    for line in lines:
        colour, label = line.colour, plotly_text(line.name)
        if line.band:
            traces += _band(line, f"{label}: {plotly_text(said['band'])}")
        traces.append(
            go.Scatter(
                x=line.x,
                y=line.y,
                name=label,
                mode="lines",
                line={"color": colour, "width": 2.5 if line.bold else 1.2, "dash": "solid" if line.bold else "dot"},
                hovertemplate=f"{label}<br>d = %{{x:,}}: %{{y:.3f}}<extra></extra>",
            )
        )
    high = 460 if bound else 420
    layout = frame_layout({"height": high, "narrow": high - 40}) | {
        "xaxis": _axis(said["distance"], {"tickformat": ",", "rangemode": "tozero"}),
        "yaxis": _axis(said["cosine"], {"zeroline": True, "zerolinecolor": "rgba(128,128,128,0.5)"}),
        "legend": _LEGEND,
    }
    if bound:
        label = plotly_text(bound.name)
        traces.append(
            go.Scatter(
                x=bound.x,
                y=bound.y,
                name=label,
                mode="lines",
                yaxis="y2",
                showlegend=False,
                line={"color": COLOURS[bound.scheme], "width": 1.8},
                hovertemplate=f"{label}<br>d = %{{x:,}}: %{{y:.3f}}<extra></extra>",
            )
        )
        layout["xaxis"] |= {"anchor": "y2"}
        layout["yaxis"] |= {"domain": [0.38, 1]}
        layout["yaxis2"] = _axis(said["bound"], {"domain": [0, 0.28], "rangemode": "tozero"})
    return go.Figure(traces, layout).to_json()


def _band(line: Line, name: str) -> list[go.Scatter]:
    """Its lower and upper edge, filled between."""
    low, high = line.band
    edge = {"color": line.colour, "width": 0}
    given = {"x": line.x, "mode": "lines", "line": edge, "showlegend": False}
    hover = f"{name}<br>d = %{{x:,}}: %{{y:.3f}}<extra></extra>"
    fill = "rgba({},{},{},0.2)".format(*(int(line.colour[i : i + 2], 16) for i in (1, 3, 5)))
    return [
        go.Scatter(given | {"y": low, "name": f"{name} 10 %", "hovertemplate": hover}),
        go.Scatter(
            given | {"y": high, "name": f"{name} 90 %", "hovertemplate": hover, "fill": "tonexty", "fillcolor": fill}
        ),
    ]


@dataclass(frozen=True, eq=False)
class Waves:
    """The wavelengths of one scheme's pairs."""

    name: str
    scheme: str
    wavelength: np.ndarray  # [n]
    bold: bool = True


def waves_figure(waves: Sequence[Waves], context: int, said: Mapping[str, str]) -> str:
    """Wavelength on a logarithmic axis against the pair's place; open where a pair turns less than once; JSON.

    `said`: "pair_share", "wavelength", "pair", "positions", "context", "turns".
    """
    traces = []
    for each in waves:
        n, label, colour = len(each.wavelength), plotly_text(each.name), COLOURS[each.scheme]
        hovers = [
            f"{label}<br>{plotly_text(said['pair'].format(i=i, n=n))}<br>{length:,.4g} {plotly_text(said['positions'])}"
            f"<br>{plotly_text(said['turns'].format(turns=f'{context / length:.3g}', context=f'{context:,}'))}"
            for i, length in enumerate(each.wavelength.tolist())
        ]
        symbols = ["circle-open" if length > context else "circle" for length in each.wavelength]
        traces.append(
            go.Scatter(
                x=np.arange(n) / n,
                y=each.wavelength,
                name=label,
                mode="lines" if n > _CROWDED and not each.bold else "lines+markers",
                line={"color": colour, "width": 1.5 if each.bold else 0.8, "dash": "solid" if each.bold else "dot"},
                marker={"size": 4 if n > _CROWDED or not each.bold else 7, "color": colour, "symbol": symbols},
                hovertext=hovers,
                hovertemplate="%{hovertext}<extra></extra>",
            )
        )
    traces.append(_context_line(context, said["context"]))
    layout = frame_layout({"height": 420, "narrow": 380}) | {
        "xaxis": _axis(said["pair_share"], {"range": [-0.02, 1.02]}),
        "yaxis": _axis(said["wavelength"], {"type": "log", "dtick": 1, "tickformat": ","}),
        "legend": _LEGEND,
    }
    return go.Figure(traces, layout).to_json()


def _context_line(context: int, name: str) -> go.Scatter:
    label = plotly_text(name.format(n=f"{context:,}"))
    return go.Scatter(
        x=[0, 1],
        y=[context, context],
        name=label,
        mode="lines",
        line={"color": _GREY, "width": 1.5, "dash": "dash"},
        hovertemplate=f"{label}<extra></extra>",
    )


def spectrum_figure(wavelength: np.ndarray, share: np.ndarray, said: Mapping[str, str]) -> str:
    """Share of the variance over positions by wavelength, both axes logarithmic; JSON.

    `said`: "wavelength", "share", "positions".
    """
    hover = f"%{{x:,.4g}} {plotly_text(said['positions'])}: %{{y:.2%}}<extra></extra>"
    colour = COLOURS["learned"]
    trace = go.Scatter(
        x=wavelength,
        y=share,
        name=plotly_text(said["share"]),
        mode="lines+markers",
        showlegend=False,
        line={"color": colour, "width": 1.2},
        marker={"size": 5, "color": colour},
        hovertemplate=hover,
    )
    layout = frame_layout({"height": 420, "narrow": 380}) | {
        "xaxis": _axis(said["wavelength"], {"type": "log", "tickformat": ",", "dtick": "D2"}),
        "yaxis": _axis(said["share"], {"type": "log", "tickformat": ".3~%", "dtick": "D2"}),
    }
    return go.Figure([trace], layout).to_json()
