"""Figures of attention: one head's map, and the maps of all heads as thumbnails."""

import base64
import functools
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from model.records import Tokens
from viz.labels import axis_name, plotly_text, span_text, tick_text
from viz.theme import RAMPS, frame_layout, scales

MAX_CELLS = 256  # maximum number of cells per side; beyond that, neighbors are pooled until the user zooms in
BLANK = 255  # code of a masked cell (future token)
MOST_CODES = 1_200_000  # maximum number of codes in the images of all heads together, to keep them below a megabyte
MAX_TICKS = 32  # maximum number of labels per axis; laying out labels, not cells, is what makes an attention map slow


@dataclass(frozen=True)
class Window:
    """The visible part of an attention map: query rows q0 .. q1 - 1 and key columns k0 .. k1 - 1."""

    q0: int
    q1: int
    k0: int
    k1: int

    @staticmethod
    def whole(T: int) -> "Window":
        """Return the window of the complete map."""
        return Window(0, T, 0, T)

    @staticmethod
    def of(value: object, T: int) -> "Window":
        """Return the requested window, or the complete map unless the request is four valid positions."""
        if not (isinstance(value, list | tuple) and len(value) == 4 and all(isinstance(v, int) for v in value)):
            return Window.whole(T)
        q0, q1, k0, k1 = (min(max(v, 0), T) for v in value)
        return Window(q0, q1, k0, k1) if q1 - q0 >= 2 and k1 - k0 >= 2 else Window.whole(T)


@dataclass(frozen=True)
class PatternWords:
    """The words on the figure of an attention map, in the user's language."""

    query: str
    key: str
    weight: str  # name of the cells' values
    largest: str  # name of the values of pooled cells


@dataclass(frozen=True, eq=False)
class Panel:
    """One attention map of the figure."""

    name: str
    z: np.ndarray  # [T, S], NaN for empty cells


@dataclass(frozen=True)
class Look:
    """The mapping from numbers to colors that the panels of a figure share."""

    kind: str = "share"  # color range: "share" from 0 to 1, "size" from 0 to the maximum, "signed" symmetric around 0
    curve: str = "sqrt"  # one of viz.theme.CURVES


def pool(z: np.ndarray, block: int) -> np.ndarray:
    """Pool each block x block square to its value of largest magnitude, or NaN if all are NaN. [q, k] -> [ceil(q/b),
    ceil(k/b)]
    """
    if block == 1:
        return z
    q, k = (-(-n // block) * block for n in z.shape)
    padded = np.full((q, k), np.nan, np.float32)
    padded[: z.shape[0], : z.shape[1]] = z
    parts = [padded[i::block, j::block] for i in range(block) for j in range(block)]
    if not (z < 0).any():
        return functools.reduce(np.fmax, parts)
    high, low = functools.reduce(np.fmax, parts), functools.reduce(np.fmin, parts)
    return np.where(high >= -low, high, low)


def pooling(window: Window, panels: int) -> int:
    """Return the side length of the squares of cells to pool into one, for `panels` panels that show a window."""
    longest = max(window.q1 - window.q0, window.k1 - window.k0)
    return -(-longest * min(panels, 2) // MAX_CELLS)


def pattern_figure(
    panels: Sequence[Panel],
    tokens: Tokens,
    words: PatternWords,
    window: Window,
    look: Look = Look(),
    *,
    keys: Tokens | None = None,
    meta: Mapping[str, object] = MappingProxyType({}),
    revision: str = "",
    spans: Sequence[tuple[int, int]] = (),
) -> go.Figure:
    """Draw maps side by side on one color scale: queries down, keys across, blank where NaN, exact values on hover.
    `keys` are the key tokens if they are not the same `tokens`.

    A window of more than MAX_CELLS cells per side, over all panels together, is pooled to its values of largest
    magnitude. `layout.meta` gives the factor, and the page requests a smaller window when the user zooms in. `meta` is
    further data for the page. The user's zoom persists between figures of the same `revision`. `spans`: the
    positions that each of `tokens` stands for, if they are words.
    """
    columns = min(len(panels), 2)
    parts = [panel.z[window.q0 : window.q1, window.k0 : window.k1].astype(np.float32) for panel in panels]
    block = pooling(window, len(panels))
    drawn = [pool(part, block) for part in parts]
    top = 1.0 if look.kind == "share" else max((_largest(z) for z in drawn), default=0) or 1.0
    y, y_ticks, y_text = _axis(tokens, window.q0, window.q1, block, MAX_TICKS // columns, spans)
    x, x_ticks, x_text = _axis(keys or tokens, window.k0, window.k1, block, MAX_TICKS // columns, spans)
    value = words.weight if block == 1 else f"{words.weight} ({words.largest.format(n=block)})"
    heats = []
    for n, (panel, z) in enumerate(zip(panels, drawn, strict=True)):
        template = (
            f"{plotly_text(words.query)}: %{{y}}<br>{plotly_text(words.key)}: %{{x}}"
            f"<br>{plotly_text(value)}: %{{z:.6f}}<extra>{plotly_text(panel.name)}</extra>"
        )
        gap = 1 if max(z.shape) * columns <= 40 else 0
        tail = str(n + 1) if n else ""
        heats.append(
            {
                "type": "heatmap",
                "z": z,
                "x": x,
                "y": y,
                "name": plotly_text(panel.name),
                "coloraxis": "coloraxis",
                "xaxis": f"x{tail}",
                "yaxis": f"y{tail}",
                "hoverongaps": False,
                "xgap": gap,
                "ygap": gap,
                "hovertemplate": template,
            }
        )
    place = [window.q0, window.q1, window.k0, window.k1]
    meta = {"block": block, "window": place, "scales": scales(look.kind, look.curve)} | dict(meta)
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickvals": _bar_ticks(look, top), "tickformat": ".3~g"}
    bar["title"] = {"text": plotly_text(words.weight), "side": "right"}
    low = -top if look.kind == "signed" else 0
    looks = _axis_look(x_ticks, x_text), _axis_look(y_ticks, y_text) | (_SQUARE if len(x) == len(y) else {})
    if len(panels) > 1:
        meta["stacked"] = _axes(panels, words, *looks, columns=1)  # layout for a narrow page
    common = frame_layout(meta)
    common |= {
        "margin": common["margin"] | {"b": _room_below(x_text)},
        "uirevision": f"{revision} {place}" if revision else None,
        "coloraxis": {"cmin": low, "cmax": top, "colorbar": bar},
        "showlegend": False,
    }
    # Plain dictionaries, validated once, because Plotly's own updates take longer than computing the numbers.
    return go.Figure(heats, common | _axes(panels, words, *looks, columns=columns))


_SQUARE = {"scaleanchor": "x", "constraintoward": "top"}


def _axes(panels: Sequence[Panel], words: PatternWords, x: dict, y: dict, columns: int) -> dict:
    """Build one pair of axes per panel, `columns` panels per row, that zoom together; only outer axes have titles."""
    x, y = x | {"tickangle": -60}, y | {"autorange": "reversed"}
    if len(panels) == 1:
        x |= {"automargin": False}  # Plotly would not shrink the square map by it when it draws again
        return {"xaxis": x | {"title": _title(words.key)}, "yaxis": y | {"title": _title(words.query)}}
    rows = -(-len(panels) // columns)
    gap = (0.3 if columns == 1 else 0.25) / rows  # room for the labels of the key tokens
    height, layout, names = (1 - gap * (rows - 1)) / rows, {}, []
    for n, panel in enumerate(panels):
        row, left, tail = n // columns, n % columns == 0, str(n + 1) if n else ""
        across = [0, 1] if columns == 1 else [0, 0.48] if left else [0.52, 1]
        top, below = 1 - row * (height + gap), n + columns >= len(panels)
        layout[f"xaxis{tail}"] = (
            x
            | ({"matches": "x"} if n else {})
            | {
                "domain": across,
                "anchor": f"y{tail}",
                "title": _title(words.key if below else ""),
            }
        )
        layout[f"yaxis{tail}"] = (
            y
            | ({"matches": "y"} if n else {})
            | {
                "domain": [max(0.0, top - height), top],
                "anchor": f"x{tail}",
                "showticklabels": left,
                "title": _title(words.query if left else ""),
            }
            | ({"scaleanchor": f"x{tail}"} if "scaleanchor" in y else {})
        )
        names.append(
            {
                "text": plotly_text(panel.name),
                "x": sum(across) / 2,
                "y": top,
                "xref": "paper",
                "yref": "paper",
                "xanchor": "center",
                "yanchor": "bottom",
                "yshift": 4,
                "showarrow": False,
                "font": {"size": 12},
            }
        )
    margin = {"l": 8, "r": 8, "t": 30, "b": 8}  # room for the names of the panels
    return layout | {"annotations": names, "margin": margin}


def _room_below(labels: Sequence[str]) -> int:
    """Return the margin in pixels that labels of keys at 60 degrees and the title below them need."""
    longest = max(sum(12 if unicodedata.east_asian_width(c) in "FW" else 7 for c in text) for text in labels)
    return round(0.87 * longest) + 44


def _largest(z: np.ndarray) -> float:
    """Compute the largest absolute value in the figure."""
    return float(np.nanmax(np.abs(z))) if np.isfinite(z).any() else 0.0


def _bar_ticks(look: Look, top: float) -> list[float]:
    """Choose the values at which the color bar has labels."""
    if look.kind == "signed":
        return [-top, -top / 2, 0, top / 2, top]
    shares = {"sqrt": [0, 0.05, 0.25, 0.5, 1], "linear": [0, 0.25, 0.5, 0.75, 1], "log": [0, 0.1, 0.25, 0.5, 1]}
    return [share * top for share in shares[look.curve]]


def combined(matrices: Sequence[np.ndarray], how: str) -> np.ndarray:
    """Combine several matrices cell by cell by "mean" or "max"; NaN if any value is NaN. float32 [T, T] each"""
    stacked = functools.reduce(np.maximum if how == "max" else np.add, matrices)
    return stacked if how == "max" else stacked / np.float32(len(matrices))


def _title(text: str) -> dict:
    return {"text": plotly_text(text), "standoff": 8}


def _axis_look(ticks: list[str], texts: list[str]) -> dict:
    """Build a category axis with labels on some of its tokens."""
    return {
        "type": "category",
        "tickmode": "array",
        "tickvals": ticks,
        "ticktext": texts,
        "automargin": True,
        "showgrid": False,
        "zeroline": False,
        "constrain": "domain",
    }


def _axis(
    tokens: Tokens, start: int, end: int, block: int, limit: int, spans: Sequence[tuple[int, int]]
) -> tuple[list[str], list[str], list[str]]:
    """Return the category names of a window's tokens or blocks of tokens, those that have a tick, and the tick
    labels.
    """
    starts = range(start, end, block)
    ends = [min(i + block, end) for i in starts]
    if spans:
        places = [span_text(spans[i][0], spans[j - 1][1]) for i, j in zip(starts, ends, strict=True)]
    else:
        places = [span_text(i, j) for i, j in zip(starts, ends, strict=True)]
    if block == 1:
        names = [axis_name(place, tokens.pieces[i]) for place, i in zip(places, starts, strict=True)]
    else:
        names = [f"{place} {tick_text(tokens.pieces[i])}…" for place, i in zip(places, starts, strict=True)]
    step = -(-len(names) // limit)
    shown = range(0, len(names), step)
    return names, [names[n] for n in shown], [tick_text(tokens.pieces[starts[n]]) for n in shown]


def overview(thumbnails: np.ndarray, metrics: pd.DataFrame, group_size: int) -> dict:
    """Encode every head's thumbnail for the page's grid as one image: codes 0 .. 254 on the ramp, 255 blank.

    thumbnails uint8 [L, H, t, t]. The codes are square roots of max-pooled weights, deflated and base64-encoded.
    """
    L, H, t, _ = thumbnails.shape
    while L * H * t * t > MOST_CODES:
        thumbnails = _halved(thumbnails)
        t = thumbnails.shape[-1]
    packed = zlib.compress(np.ascontiguousarray(thumbnails).tobytes(), 1)
    values = metrics.to_numpy(dtype=float).tolist()
    return {
        "layers": L,
        "heads": H,
        "side": t,
        "group": group_size,
        "codes": base64.b64encode(packed).decode(),
        "ramps": {name: list(stops) for name, stops in RAMPS.items()},
        "metrics": [[None if v != v else round(v, 9) for v in row] for row in values],
    }


def _halved(codes: np.ndarray) -> np.ndarray:
    """Reduce the side of the images by half; each cell is the maximum of its four, ignoring blank ones. [L, H, t, t]
    uint8
    """
    L, H, t, _ = codes.shape
    even = np.full((L, H, t + t % 2, t + t % 2), BLANK, np.uint8)
    even[..., :t, :t] = codes
    parts = [even[..., i::2, j::2] for i in range(2) for j in range(2)]
    largest = functools.reduce(np.maximum, [np.where(part == BLANK, 0, part) for part in parts])
    blank = functools.reduce(np.logical_and, [part == BLANK for part in parts])
    return np.where(blank, np.uint8(BLANK), largest)
