"""Data of the prompt colored by surprisal, and a figure of surprisal by position."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import GRAY, ORANGE, axis, figure, token_axis
from viz.charts.lines import MARKED, bars, line, token_data
from viz.charts.ramp import blind
from viz.labels import plotly_text, visible
from viz.numbers import bits, percent, whole
from viz.theme import scales
from viz.views.predictions.figures import HOVERTEXT, fill_template, token_texts

COLORS = ("surprisal", "rank", "entropy")  # quantities that can color the text


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of tokens 1 .. T - 1, each predicted at the previous position. Each array is float64 [T - 1]."""

    bits: np.ndarray  # surprisal in bits
    rank: np.ndarray
    share: np.ndarray  # probability
    entropy: np.ndarray  # entropy in bits of the prediction of the token


def scored(log_share: np.ndarray, rank: np.ndarray, entropy: np.ndarray) -> Scored:
    """Build the scores from natural log probabilities [T - 1], ranks [T - 1] and entropies in nats [T]."""
    ln2 = math.log(2)  # nats per bit
    return Scored(-log_share / ln2 + 0.0, rank.astype(np.float64), np.exp(log_share), entropy[:-1] / ln2)


def places(result: Scored, by: str, V: int) -> list[float | None]:
    """Map each token of the prompt to the color ramp, 0 to 1; None for the first token, which has no score. [T]"""
    values = {"surprisal": result.bits, "rank": np.log2(result.rank), "entropy": result.entropy}[by]
    return [None, *np.clip(values / blind(V), 0, 1).round(4).tolist()]


def text_rows(result: Scored, pieces: Sequence[str]) -> dict:
    """Build the prompt's tokens with their scores, for the page and for a file; the first token has no scores."""
    tokens, ranks = [visible(piece) for piece in pieces], result.rank.astype(int).tolist()
    exact = zip(result.bits.round(3).tolist(), ranks, result.entropy.round(3).tolist(), strict=True)
    numbers = [("", "", ""), *exact]
    return {
        "tokens": tokens,
        "breaks": breaks(pieces),
        "values": {
            "bits": ["", *map(bits, result.bits.tolist())],
            "rank": ["", *map(whole, ranks)],
            "share": ["", *map(percent, result.share.tolist())],
        },
        "names": ["position", "token", "bits", "rank", "entropy"],
        "lines": [[at, token, *numbers[at]] for at, token in enumerate(tokens)],
    }


def breaks(pieces: Sequence[str]) -> list[list[int]]:
    """List the line breaks to show after tokens, as [position, number of line breaks]."""
    return [[i, min(piece.count("\n"), 2)] for i, piece in enumerate(pieces) if "\n" in piece]


def bits_figure(result: Scored, pieces: Sequence[str], V: int, words: Mapping[str, str]) -> go.Figure:
    """Draw the surprisal of tokens 1 .. T - 1 as bars, and the entropy of the prediction of each as a line.

    Keys of `words`: `surprisal`, `entropy`, `axis_token`, `axis_bits`, and `hover`, a template with {token},
    {position},
    {bits}, {rank}, {share}.
    """
    T = len(pieces)
    at, names, picks = range(1, T), token_texts(pieces)[1:], {"customdata": token_data(T)[1:]}
    numbers = zip(at, names, result.bits.tolist(), result.rank.tolist(), result.share.tolist(), strict=True)
    hovers = [
        fill_template(
            words["hover"],
            {"token": name, "position": n, "bits": bits(value), "rank": whole(rank), "share": percent(share)},
        )
        for n, name, value, rank, share in numbers
    ]
    few = T <= MARKED
    marker = {
        "color": result.bits.tolist(),
        "coloraxis": "coloraxis",
        "line": {"color": GRAY, "width": 0.5 if few else 0},
    }
    style = {"hovertext": hovers, "hovertemplate": HOVERTEXT, "showlegend": False, "marker": marker}
    traces = [
        bars(words["surprisal"], at, result.bits, GRAY, hover="", text=names, more=picks | style),
        line(
            words["entropy"],
            at,
            result.entropy,
            ORANGE,
            hover="%{y:.3g}",
            text=names,
            width=2 if few else 1,
            more=picks,
        ),
    ]
    colors = scales("size", "linear")
    bar = {"thickness": 10, "outlinewidth": 0, "title": {"text": plotly_text(words["surprisal"]), "side": "right"}}
    more = {
        "coloraxis": {"cmin": 0, "cmax": blind(V), "colorbar": bar},
        "bargap": 0.25 if few else 0,
        "hovermode": "x",
        "showlegend": True,
    }
    y, meta = axis(words["axis_bits"], {"rangemode": "tozero"}), {"scales": colors, "places": True}
    return figure(traces, token_axis(words["axis_token"], pieces), y, height=320, narrow=300, meta=meta, more=more)
