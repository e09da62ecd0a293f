"""Two runs beside each other: their tokens aligned, and the difference of their maps, heads and predictions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from model.records import Tokens
from viz.charts.heatmap import Look, Panel, PatternWords, Window, pattern_figure
from viz.labels import axis_name, plotly_text, tick_text, visible
from viz.theme import frame, scales

_BOARD = 120, 26, 300, 620  # height in pixels: of the axes, of a row, least, most
_MAP = 430  # height of a map of tokens
_TICKS = 32  # labels an axis


@dataclass(frozen=True)
class Step:
    """One place of the alignment: a token of A, of B, or of both."""

    kind: Literal["same", "replaced", "only_a", "only_b"]
    a: int | None
    b: int | None


@dataclass(frozen=True)
class Alignment:
    """Two token lists laid side by side, in order, every token of either exactly once."""

    steps: tuple[Step, ...]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Positions (in A, in B) that correspond: equal tokens, and tokens of which one took the other's place."""
        return [(step.a, step.b) for step in self.steps if step.a is not None and step.b is not None]

    def count(self, kind: str) -> int:
        """How many steps are of a kind."""
        return sum(step.kind == kind for step in self.steps)


def align(a: Sequence, b: Sequence) -> Alignment:
    """The alignment that keeps the most tokens: a longest common subsequence of what `a` and `b` hold, by ==.

    Between kept tokens, as many tokens of A as of B count as replaced one by one; otherwise they have no counterpart.
    O(len(a) len(b)). Source: Wagner & Fischer 1974.
    """
    start, end = _common(a, b), 0
    if start < min(len(a), len(b)):
        end = _common(a[start:][::-1], b[start:][::-1])
    middle = _longest(a[start : len(a) - end], b[start : len(b) - end])
    kept = [(n, n) for n in range(start)] + [(start + i, start + j) for i, j in middle]
    kept += [(len(a) - n, len(b) - n) for n in range(end, 0, -1)]
    steps: list[Step] = []
    i = j = 0
    for to_i, to_j in [*kept, (len(a), len(b))]:
        steps += _between(range(i, to_i), range(j, to_j))
        if (to_i, to_j) != (len(a), len(b)):
            steps.append(Step("same", to_i, to_j))
        i, j = to_i + 1, to_j + 1
    return Alignment(tuple(steps))


def _common(a: Sequence, b: Sequence) -> int:
    """How many tokens two lists begin with alike."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _between(a: range, b: range) -> list[Step]:
    """Steps for tokens of which none is kept."""
    if len(a) == len(b):
        return [Step("replaced", i, j) for i, j in zip(a, b, strict=True)]
    return [Step("only_a", i, None) for i in a] + [Step("only_b", None, j) for j in b]


def _longest(a: Sequence, b: Sequence) -> list[tuple[int, int]]:
    """Positions of a longest common subsequence."""
    codes = {token: n for n, token in enumerate(dict.fromkeys([*a, *b]))}
    x, y = (np.array([codes[token] for token in tokens], np.int64) for tokens in (a, b))
    length = np.zeros((len(x) + 1, len(y) + 1), np.int32)  # of the first i and j tokens
    for i in range(len(x)):
        grown = np.maximum(length[i, 1:], length[i, :-1] + (y == x[i]))
        length[i + 1, 1:] = np.maximum.accumulate(grown)
    found, i, j = [], len(x), len(y)
    while i and j:
        if x[i - 1] == y[j - 1]:
            i, j = i - 1, j - 1
            found.append((i, j))
        elif length[i - 1, j] >= length[i, j - 1]:
            i -= 1
        else:
            j -= 1
    return found[::-1]


def alignment_payload(alignment: Alignment, a: Tokens, b: Tokens) -> list[list]:
    """Steps for the page: [kind, position in A, its text, position in B, its text], None where there is no token."""
    return [
        [
            step.kind,
            step.a,
            None if step.a is None else visible(a.pieces[step.a]),
            step.b,
            None if step.b is None else visible(b.pieces[step.b]),
        ]
        for step in alignment.steps
    ]


def difference(a: np.ndarray, b: np.ndarray, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """A minus B where query and key both have a counterpart, NaN elsewhere and where either is. float32 [Ta, Ta]

    Cell (pairs[m].a, pairs[n].a) is a[pairs[m].a, pairs[n].a] - b[pairs[m].b, pairs[n].b]. a [Ta, Ta], b [Tb, Tb]
    """
    found = np.full(a.shape, np.nan, np.float32)
    if pairs:
        i, j = np.array(pairs).T
        found[np.ix_(i, i)] = a[np.ix_(i, i)] - b[np.ix_(j, j)]
    return found


def gaps(a: np.ndarray, b: np.ndarray, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """Each head's mean |A - B| over the aligned cells whose key is not later than the query. float32 [H]

    NaN without any pair. Equals nanmean(|difference|) on maps that are NaN above the diagonal. a [H, Ta, Ta]
    """
    if not pairs:
        return np.full(len(a), np.nan, np.float32)
    i, j = np.array(pairs).T
    apart = np.abs(a[:, i[:, None], i] - b[:, j[:, None], j])
    return np.tril(apart).sum((1, 2)) / np.float32(len(i) * (len(i) + 1) / 2)


def all_gaps(layers: Iterable[tuple[np.ndarray, np.ndarray]], pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    """`gaps` of each layer's patterns of A and of B. float32 [L, H]"""
    return np.stack([gaps(a, b, pairs) for a, b in layers])


def defined(z: np.ndarray) -> bool:
    """Whether there is any number in it."""
    return bool(np.isfinite(z).any())


def nearest(numbers: np.ndarray, others: np.ndarray) -> tuple[int, int]:
    """Which head of `others` [L, H, n] is closest to `numbers` [n]: mean absolute difference of what is finite."""
    apart = np.abs(others - numbers)
    known = np.isfinite(apart)
    mean = np.where(known, apart, 0).sum(-1) / np.maximum(known.sum(-1), 1)
    mean[~known.any(-1)] = np.inf
    layer, head = np.unravel_index(mean.argmin(), mean.shape)
    return int(layer), int(head)


def by_position(a: Sequence, b: Sequence) -> Alignment:
    """Two lists of one length, place by place."""
    pairs = enumerate(zip(a, b, strict=True))
    return Alignment(tuple(Step("same" if x == y else "replaced", i, i) for i, (x, y) in pairs))


def merged(a: Tokens, b: Tokens, alignment: Alignment) -> Tokens:
    """A's tokens, a replaced one named with what stands in its place in B."""
    pieces = list(a.pieces)
    for step in alignment.steps:
        if step.kind == "replaced":
            pieces[step.a] = f"{visible(a.pieces[step.a])} / {visible(b.pieces[step.b])}"
    return Tokens(a.ids, tuple(pieces), a.raw, a.spans)


# --- figures ---


def map_figure(z: np.ndarray, tokens: Tokens, words: PatternWords, kind: str, top: float) -> go.Figure:
    """One map of tokens x tokens on a scale that ends at `top`, so that two of them can be compared. z [T, T]

    `kind` as in viz.charts.heatmap.Look.
    """
    figure = pattern_figure([Panel(words.weight, z)], tokens, words, Window.whole(len(tokens)), Look(kind))
    signed = kind == "signed"
    shares = [-1, 0, 1] if signed else [0, 0.05, 0.25, 0.5, 1]
    axis = figure.layout.coloraxis
    axis.update(cmin=-top if signed else 0, cmax=top)
    axis.colorbar.update(tickvals=[share * top for share in shares], tickformat=".2~g")
    meta = {**figure.layout.meta, "whole": True, "height": _MAP, "narrow": 344}
    return figure.update_layout(meta=meta)


def largest(*maps: np.ndarray) -> float:
    """The largest absolute value of all, 1 where there is none but 0: the end of a colour scale that they share."""
    sizes = [float(np.nanmax(np.abs(z))) for z in maps if np.isfinite(z).any()]
    return max(sizes, default=0.0) or 1.0


@dataclass(frozen=True)
class HeadWords:
    """The words on a map of all heads, in the reader's language."""

    layer: str
    head: str
    value: str  # what the difference is of
    difference: str


def heads_figure(z: np.ndarray, both: tuple[np.ndarray, np.ndarray] | None, words: HeadWords) -> go.Figure:
    """A number for each head, layers across and heads down: A minus B of `both`, else a size from 0 up. [L, H] each

    NaN cells are blank. A click on a cell selects the head.
    """
    L, H = z.shape
    place = f"{plotly_text(words.layer)} %{{x}}, {plotly_text(words.head)} %{{y}}<br>"
    if both:
        values = f"{plotly_text(words.value)}<br>A: %{{customdata[0]:.5f}}<br>B: %{{customdata[1]:.5f}}<br>"
        values += f"{plotly_text(words.difference)}: %{{z:+.5f}}"
    else:
        values = f"{plotly_text(words.difference)}: %{{z:.5f}}"
    heat = go.Heatmap(
        z=z.T.astype(np.float32),
        x=list(range(L)),
        y=list(range(H)),
        coloraxis="coloraxis",
        xgap=1,
        ygap=1,
        customdata=np.stack([part.T for part in both], -1).round(6).tolist() if both else None,
        hoverongaps=False,
        hovertemplate=f"{place}{values}<extra></extra>",
    )
    fixed, each, least, most = _BOARD
    height, found = min(max(fixed + each * H, least), most), scales("signed" if both else "size", "sqrt")
    figure = frame(go.Figure(heat), meta={"scales": found, "heads": True, "height": _MAP, "narrow": height})
    figure.update_xaxes(**_numbers(words.layer, L))
    figure.update_yaxes(**_numbers(words.head, H), autorange="reversed")
    top = largest(z)
    return figure.update_layout(coloraxis=_scale(found["light"], -top if both else 0, top, words.difference))


def patch_figure(shares: np.ndarray, effects: np.ndarray, tokens: Tokens, words: HeadWords) -> go.Figure:
    """The share of the gap that each patched vector closes: tokens across, layers up, signed around 0. [L, T] each

    `words.value` names the raw effect and `words.head` the token. A click on a cell selects the token.
    """
    L, T = shares.shape
    names = [axis_name(t, piece) for t, piece in enumerate(tokens.pieces)]
    shown = range(0, T, -(-T // _TICKS))
    heat = go.Heatmap(
        z=shares.astype(np.float32),
        x=names,
        y=list(range(L)),
        coloraxis="coloraxis",
        hoverongaps=False,
        xgap=int(T <= 40),
        ygap=int(T <= 40),
        customdata=[[{"tokens": [t], "raw": round(float(value), 5)} for t, value in enumerate(row)] for row in effects],
        hovertemplate=f"{plotly_text(words.layer)} %{{y}}<br>{plotly_text(words.head)}: %{{x}}<br>"
        f"{plotly_text(words.difference)}: %{{z:.4f}}<br>{plotly_text(words.value)}: %{{customdata.raw:+.4f}}"
        "<extra></extra>",
    )
    fixed, each, least, most = 150, 20, 320, 700
    height, found = min(max(fixed + each * L, least), most), scales("signed", "linear")
    figure = frame(go.Figure(heat), meta={"scales": found, "height": height, "narrow": height})
    figure.update_xaxes(
        type="category",
        tickmode="array",
        tickvals=[names[t] for t in shown],
        tickangle=-60,
        automargin=True,
        ticktext=[tick_text(tokens.pieces[t]) for t in shown],
        showgrid=False,
        zeroline=False,
        title={"text": plotly_text(words.head), "standoff": 8},
    )
    figure.update_yaxes(**_numbers(words.layer, L))
    top = largest(shares)
    return figure.update_layout(coloraxis=_scale(found["light"], -top, top, words.difference))


def _numbers(title: str, count: int) -> dict:
    """An axis of whole numbers from 0 up, a label on at most 16 of them."""
    return {
        "tickmode": "array",
        "tickvals": list(range(0, count, -(-count // 16))),
        "automargin": True,
        "title": {"text": plotly_text(title), "standoff": 8},
        "showgrid": False,
        "zeroline": False,
    }


def _scale(colours: list, low: float, top: float, title: str) -> dict:
    """A colour axis with its bar."""
    bar = {
        "thickness": 10,
        "len": 1,
        "outlinewidth": 0,
        "tickformat": ".2~g",
        "title": {"text": plotly_text(title), "side": "right"},
    }
    return {"colorscale": colours, "cmin": low, "cmax": top, "colorbar": bar}


# --- what is predicted ---


def shares_of(logits: np.ndarray) -> np.ndarray:
    """Softmax in float64. [V]"""
    x = np.exp(logits.astype(np.float64) - logits.max())
    return x / x.sum()


def likely(shares: np.ndarray, most: int) -> list[int]:
    """Ids of the largest probabilities, the largest first. [V]"""
    return np.argsort(-shares, kind="stable")[:most].tolist()


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """KL(p || q) in nats; 0 where both are the same. Source: Kullback & Leibler 1951. [V] each"""
    held = p > 0
    with np.errstate(divide="ignore"):
        return max(float((p[held] * (np.log(p[held]) - np.log(q[held]))).sum()), 0.0)
