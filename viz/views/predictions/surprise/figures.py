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
    """Scores of tokens 1 .. T - 1, each predicted at the previous position or, where it is masked, from all others.

    Each array is float64 [T - 1], NaN for a token that is not scored.
    """

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
    ramp = np.clip(values / blind(V), 0, 1).round(4).tolist()
    return [None, *(None if math.isnan(each) else each for each in ramp)]


def text_rows(result: Scored, pieces: Sequence[str]) -> dict:
    """Build the prompt's tokens with their scores, for the page and for a file; a token that is not scored has none."""
    tokens, none, rows = [visible(piece) for piece in pieces], ("", "", ""), [("", "", "")]
    numbers, shown = (
        [none],
        zip(result.bits.tolist(), result.rank.tolist(), result.entropy.tolist(), result.share.tolist(), strict=True),
    )
    for value, rank, entropy, share in shown:
        known = not math.isnan(value)
        numbers.append((round(value, 3), int(rank), round(entropy, 3)) if known else none)
        rows.append((bits(value), whole(int(rank)), percent(share)) if known else none)
    columns = dict(zip(("bits", "rank", "share"), map(list, zip(*rows, strict=True)), strict=True))
    return {
        "tokens": tokens,
        "breaks": breaks(pieces),
        "values": columns,
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
    T, known = len(pieces), np.flatnonzero(np.isfinite(result.bits))  # the tokens that are scored
    result = Scored(*(each[known] for each in (result.bits, result.rank, result.share, result.entropy)))
    at, texts, data = (known + 1).tolist(), token_texts(pieces), token_data(T)
    names, picks = [texts[n] for n in at], {"customdata": [data[n] for n in at]}
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
