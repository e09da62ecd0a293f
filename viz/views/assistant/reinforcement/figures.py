"""Figures of reinforcement learning: training curves, reward vs. KL, shifted token probabilities, changed heads."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.charts.axes import (
    BLUE,
    GRAY,
    GREEN,
    LEGEND,
    ORANGE,
    PINK,
    RED,
    axis,
    figure,
    row_axis,
    token_axis,
    token_names,
)
from viz.charts.layer_head_map import HeadWords, head_figure
from viz.charts.lines import band, grid, line
from viz.labels import plotly_text, tick_text, visible
from viz.numbers import percent, signed
from viz.theme import HUES, scales

ROW, NARROW_ROW = 210, 200  # heights in pixels of a row of panels, on a wide and on a narrow page
NARROW_PLACES = 8  # positions visible in the token map on a phone; dragging its axis shows the others
LEAST_MOVED = 0.01  # the color scale of moved heads reaches at least this distance
ROWS = 8  # maximum number of tokens per position in the token map
COLORS = {
    "reward": BLUE,
    "kl": ORANGE,
    "entropy": GREEN,
    "perplexity": RED,
    "clip_fraction": PINK,
    "value_error": HUES[5],
    "length": GRAY,
    "distinct_2": BLUE,
    "gradient_norm": ORANGE,
    "coefficient": GREEN,
    "accuracy": PINK,
}


def curves_figure(
    steps: Sequence[int], curves: Mapping[str, Sequence[float]], spread: Sequence[float], words: Mapping[str, str]
) -> go.Figure:
    """Draw one panel per quantity as a function of the number of updates.

    curves: name -> [S], one value per step; those without a finite value are skipped. spread [S]: standard deviation of
    the reward, drawn as a band. `words`: "step" and the names of the curves.
    """
    shown = {name: each for name, each in curves.items() if any(map(math.isfinite, each))}
    panels, across, up = {}, {}, {}
    columns = 4 if len(shown) <= 8 else 5
    for name, each in shown.items():
        hover = f"{plotly_text(words['step'])}: %{{x}}<br>{plotly_text(words[name])}: %{{y:.4g}}"
        traces = [line(words[name], steps, each, COLORS[name], hover=hover, width=2.5, more={"showlegend": False})]
        if name == "reward":
            low, high = ([a + sign * b for a, b in zip(each, spread, strict=True)] for sign in (-1, 1))
            traces = [*band(words[name], steps, low, high, COLORS[name]), *traces]
        panels[name] = traces
        ticks = {"rangemode": "tozero", "tickformat": "d", "dtick": max(1, -(-max(steps) // 5))}
        across[name] = axis(words["step"] if len(panels) > len(shown) - columns else "", ticks)
        many = name == "perplexity" and max(filter(math.isfinite, each)) > 100
        up[name] = axis(words[name], {"type": "log", "nticks": 5} if many else {"nticks": 5})
    height, narrow = ROW * -(-len(shown) // columns), NARROW_ROW * -(-len(shown) // 2)
    return grid(panels, across, up, height=height, narrow=narrow, legend=LEGEND, columns=(columns, 2))


@dataclass(frozen=True)
class Path:
    """One run in the reward-KL trade-off: its mean KL and reward after each number of updates."""

    name: str
    kl: tuple[float, ...]  # nats per text
    reward: tuple[float, ...]
    method: str  # determines the color
    current: bool = False


METHOD_COLORS = {"reinforce": BLUE, "ppo": ORANGE, "grpo": GREEN, "dpo": PINK, "best_of_n": GRAY}


def tradeoff_figure(paths: Sequence[Path], words: Mapping[str, str]) -> go.Figure:
    """Draw reward as a function of KL, one line per run, with a large last point. `words`: "kl", "reward", "step"."""
    hover = (
        f"{plotly_text(words['kl'])}: %{{x:.3g}}<br>{plotly_text(words['reward'])}: %{{y:.3g}}"
        f"<br>{plotly_text(words['step'])}: %{{text}}"
    )
    traces = []
    for path in paths:
        n = len(path.kl)
        marker = {"size": [5] * (n - 1) + [11], "line": {"width": 0}}
        style = {"mode": "lines+markers", "marker": marker, "opacity": 1 if path.current else 0.6}
        color = METHOD_COLORS[path.method]
        dash = "dot" if path.method == "best_of_n" else "solid"
        names = [str(step) for step in range(n)]
        traces.append(line(path.name, path.kl, path.reward, color, hover=hover, text=names, dash=dash, more=style))
    across = axis(words["kl"], {"rangemode": "tozero"})
    return figure(traces, across, axis(words["reward"]), height=380, narrow=420, more={"showlegend": True})


def tokens_figure(
    pieces: Sequence[str], top: Sequence[Sequence[str]], before: np.ndarray, after: np.ndarray, words: Mapping[str, str]
) -> go.Figure:
    """Draw the most likely next tokens at each position, colored by ln(p / q): warm if training raised the probability.

    `pieces` [T] of the probe; `top` [T][K]: strings of the tokens, sorted by the larger of their two probabilities;
    `before` and `after` [T, K]: ln q and ln p. The first ROWS of each position are drawn. `words`: "token", "next",
    "before", "after", "ratio".
    """
    T, K = before.shape
    K = min(K, ROWS)
    ratio = (after - before)[:, :K].T.astype(np.float32)  # [K, T]
    names = [str(rank + 1) for rank in range(K)]
    texts = [[tick_text(top[t][k]) for t in range(T)] for k in range(K)]
    hovers = [
        [
            f"{plotly_text(words['next'])}: {plotly_text(visible(top[t][k]))}"
            f"<br>{plotly_text(words['before'])}: {percent(math.exp(before[t, k]))}"
            f"<br>{plotly_text(words['after'])}: {percent(math.exp(after[t, k]))}"
            f"<br>{plotly_text(words['ratio'])}: {signed(float(after[t, k] - before[t, k]))}"
            for t in range(T)
        ]
        for k in range(K)
    ]
    largest = max(float(np.abs(ratio).max(initial=0)), 0.1)
    heat = go.Heatmap(
        z=ratio,
        x=token_names(pieces),
        y=names,
        coloraxis="coloraxis",
        text=texts,
        texttemplate="%{text}" if T <= 24 else "",
        textfont={"size": 9},
        customdata=hovers,
        xgap=1,
        ygap=1,
        hovertemplate=f"{plotly_text(words['token'])} %{{x}}<br>%{{customdata}}<extra></extra>",
    )
    bar = {"thickness": 10, "len": 1, "outlinewidth": 0, "tickformat": "+.2~g"}
    bar["title"] = {"text": plotly_text(words["ratio"]), "side": "right"}
    labels = {"type": "category", "tickvals": token_names(pieces), "ticktext": [tick_text(piece) for piece in pieces]}
    wide, few = (
        token_axis(words["token"], pieces, {**labels, "range": [-0.5, shown - 0.5]}, limit=T)
        for shown in (T, min(T, NARROW_PLACES))
    )
    return figure(
        [heat],
        wide,
        row_axis(names, names),
        height=360,
        narrow=360,
        meta={"scales": scales("signed", "linear"), "stacked": {"xaxis": few}},
        more={"coloraxis": {"cmin": -largest, "cmax": largest, "colorbar": bar}},
    )


def heads_figure(moved: np.ndarray, words: HeadWords) -> go.Figure:
    """Draw the distance, 0 to 1, between each head's attention weights and the reference model's. moved [L, H]

    A click selects the head.
    """
    return head_figure(moved, words, f"{plotly_text(words.value)}: %{{z:.4f}}", signed=False, least=LEAST_MOVED)
