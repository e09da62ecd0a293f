"""What the figures of attention show, read from the figure and from the JSON that is sent."""

import base64
import json
import re
import zlib

import numpy as np
import pandas as pd
import pytest

from tests.support.models.helpers import tokens_of
from viz.charts.heatmap import (
    MAX_CELLS,
    MAX_TICKS,
    Look,
    Panel,
    PatternWords,
    Window,
    combined,
    overview,
    pattern_figure,
    pool,
)
from viz.theme import CURVES, RAMPS, SIGNED_RAMPS, colorscale, place, ramp_at, scales

WORDS = PatternWords("query", "key", "weight", "largest of {n} × {n}")
PIECES = ("<b>", " the", "\n", "\u202e", "")


def causal(T: int, seed: int = 0) -> np.ndarray:
    """A random pattern: rows sum to 1, zeros above the diagonal. float32 [T, T]"""
    weights = np.tril(np.random.default_rng(seed).random((T, T)) ** 4)
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)


def masked(pattern: np.ndarray) -> np.ndarray:
    """The pattern with NaN above the diagonal, as measures give it."""
    return np.where(np.tri(len(pattern), dtype=bool), pattern, np.nan).astype(np.float32)


def drawn(T: int, window: Window | None = None, pattern: np.ndarray | None = None):
    z = masked(causal(T) if pattern is None else pattern)
    return pattern_figure([Panel("a head", z)], tokens_of(range(T)), WORDS, window or Window.whole(T))


# --- one head ---


def test_z_holds_the_exact_weights_and_masked_cells_are_blank():
    z, pattern = drawn(5).data[0].z, causal(5)
    assert z.dtype == np.float32
    for query in range(5):
        for key in range(5):
            if key > query:
                assert np.isnan(z[query, key])
            else:
                assert z[query, key] == pattern[query, key]


def test_a_weight_of_zero_is_not_blank():
    pattern = np.eye(3, dtype=np.float32)
    assert drawn(3, pattern=pattern).data[0].z[2, 0] == 0


def test_the_pattern_is_left_alone():
    z = masked(causal(300))
    kept = z.copy()
    pattern_figure([Panel("", z)], tokens_of(range(300)), WORDS, Window.whole(300))
    assert np.array_equal(z, kept, equal_nan=True)


def test_the_json_that_is_sent_carries_the_same_bytes():
    figure = drawn(7)
    sent = json.loads(figure.to_json())["data"][0]["z"]
    assert sent["dtype"] == "f4" and sent["shape"] == "7, 7"
    z = np.frombuffer(base64.b64decode(sent["bdata"]), np.float32).reshape(7, 7)
    assert np.array_equal(z, figure.data[0].z, equal_nan=True)


def test_axes_name_every_token_once_and_queries_run_down():
    figure = pattern_figure([Panel("", masked(causal(5)))], tokens_of(range(5), PIECES), WORDS, Window.whole(5))
    names = ("0 &lt;b&gt;", "1 ·the", "2 ↵", "3 &lt;U+202E&gt;", "4 ∅")
    assert figure.data[0].x == names and figure.data[0].y == names
    for axis, title in ((figure.layout.xaxis, "key"), (figure.layout.yaxis, "query")):
        assert axis.type == "category"
        assert axis.tickvals == names
        assert axis.ticktext == ("&lt;b&gt;", "·the", "↵", "&lt;U+202E&gt;", "∅")
        assert axis.title.text == title
    assert figure.layout.yaxis.autorange == "reversed"


@pytest.mark.parametrize("T", [1, 31, 32, 33, 256, 600])
def test_there_are_never_too_many_ticks(T: int):
    axis = drawn(T).layout.xaxis
    assert 1 <= len(axis.tickvals) == len(axis.ticktext) <= MAX_TICKS
    assert set(axis.tickvals) <= set(drawn(T).data[0].x)


def test_hover_says_query_key_and_weight_escaped():
    hostile = PatternWords("<i>q</i>", "k&", "w<", "largest")
    template = (
        pattern_figure([Panel("<b>", causal(3))], tokens_of(range(3)), hostile, Window.whole(3)).data[0].hovertemplate
    )
    assert template == ("&lt;i&gt;q&lt;/i&gt;: %{y}<br>k&amp;: %{x}<br>w&lt;: %{z:.6f}<extra>&lt;b&gt;</extra>")
    assert drawn(3).data[0].hovertemplate == "query: %{y}<br>key: %{x}<br>weight: %{z:.6f}<extra>a head</extra>"
    assert drawn(3).data[0].hoverongaps is False


def test_the_colors_mean_the_same_in_every_figure():
    for T, window in ((2, None), (600, None), (10, Window(6, 10, 1, 5))):  # the last has no weight of 1
        axis = drawn(T, window).layout.coloraxis
        assert (axis.cmin, axis.cmax) == (0, 1)
    meta = drawn(2).layout.meta
    assert set(meta["scales"]) == {"light", "dark"}
    assert meta["block"] == 1 and meta["window"] == [0, 2, 0, 2]


def test_600_tokens_are_pooled_in_blocks_of_three():
    figure, pattern = drawn(600), causal(600)
    z = figure.data[0].z
    assert z.shape == (200, 200) and max(z.shape) <= MAX_CELLS
    assert figure.layout.meta["block"] == 3
    for query, key in ((0, 0), (5, 5), (199, 0), (199, 199), (100, 37)):
        assert z[query, key] == pattern[3 * query : 3 * query + 3, 3 * key : 3 * key + 3].max()
    assert np.array_equal(np.isnan(z), np.triu(np.ones((200, 200), bool), 1))
    assert figure.data[0].x[:2] == ("0–2 t0…", "3–5 t3…")
    assert figure.data[0].x[-1] == "597–599 t597…"
    assert len(set(figure.data[0].x)) == 200
    assert "weight (largest of 3 × 3): %{z:.6f}" in figure.data[0].hovertemplate


def test_a_window_shows_its_part_in_full():
    figure, pattern = drawn(600, Window(100, 140, 90, 120)), causal(600)
    z = figure.data[0].z
    assert z.shape == (40, 30)
    assert figure.layout.meta["block"] == 1 and figure.layout.meta["window"] == [100, 140, 90, 120]
    assert z[39, 0] == pattern[139, 90] and np.isnan(z[0, 29]) and z[10, 20] == pattern[110, 110]
    assert (figure.data[0].y[0], figure.data[0].x[0]) == ("100 t100", "90 t90")


def test_pooling_keeps_a_blank_only_where_all_is_blank():
    nan = np.nan
    z = np.array([[1, nan, nan], [2, 3, nan], [4, 0, 5]], np.float32)
    assert np.array_equal(pool(z, 2), [[3, nan], [4, 5]], equal_nan=True)
    assert np.array_equal(pool(z, 3), [[5]])
    assert pool(z, 1) is z


# --- windows asked for by a browser ---


@pytest.mark.parametrize(
    "value",
    [
        None,
        "0123",
        7,
        {},
        [],
        [1, 2, 3],
        [0, 5, 0, 5, 0],
        [0, "5", 0, 5],
        [0.0, 5, 0, 5],
        [None] * 4,
        [float("nan"), 5, 0, 5],
        [5, 0, 0, 5],
        [3, 4, 0, 5],
        [3, 3, 0, 5],
        [20, 30, 0, 5],
        [-9, -3, 0, 5],
        [[0, 5], 0, 5, 1],
        {"q0": 0, "q1": 5, "k0": 0, "k1": 5},
        [0, 5, 4, 5],
        True,
        b"\x00\x05\x00\x05",
    ],
    ids=repr,
)
def test_a_window_that_makes_no_sense_is_all_of_it(value: object):
    assert Window.of(value, 10) == Window(0, 10, 0, 10)


@pytest.mark.parametrize(
    ("value", "window"),
    [
        ([2, 6, 0, 5], (2, 6, 0, 5)),
        ((2, 6, 0, 5), (2, 6, 0, 5)),
        ([-5, 6, -1, 99], (0, 6, 0, 10)),
        ([8, 10**30, -(10**30), 2], (8, 10, 0, 2)),
    ],
)
def test_a_window_is_cut_to_the_prompt(value: object, window: tuple):
    assert Window.of(value, 10) == Window(*window)


# --- all heads ---


def test_overview_codes_decode_to_the_thumbnails():
    thumbnails = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 5), dtype=np.uint8)
    metrics = pd.DataFrame({"a": np.arange(12) / 7, "b": [np.nan, *range(11)]})
    payload = json.loads(json.dumps(overview(thumbnails, metrics, 2), allow_nan=False))
    raw = zlib.decompress(base64.b64decode(payload["codes"]))
    assert np.array_equal(np.frombuffer(raw, np.uint8).reshape(3, 4, 5, 5), thumbnails)
    assert [payload[key] for key in ("layers", "heads", "side", "group")] == [3, 4, 5, 2]
    assert len(payload["metrics"]) == 12
    assert payload["metrics"][0] == [0.0, None]
    assert payload["metrics"][8] == [1.142857143, 7.0]
    turned = overview(thumbnails.transpose(0, 1, 3, 2), metrics, 1)["codes"]  # not contiguous
    assert zlib.decompress(base64.b64decode(turned)) == thumbnails.transpose(0, 1, 3, 2).tobytes()


# --- colors ---


@pytest.mark.parametrize("name", RAMPS)
def test_a_ramp_runs_one_way_in_lightness(name: str):
    stops = RAMPS[name]

    def lightness(color: str) -> float:
        r, g, b = (int(part) for part in re.findall(r"\d+", color))
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    values = [lightness(ramp_at(stops, i / 50)) for i in range(51)]
    steps = np.diff(values)
    assert (steps < 0).all() if name == "light" else (steps > 0).all()


def test_ramp_and_scale_by_hand():
    stops = ("#000000", "#64c8ff", "#ffffff")
    assert ramp_at(stops, 0.25) == "rgb(50,100,128)"
    assert (ramp_at(stops, -1), ramp_at(stops, 0.5), ramp_at(stops, 2)) == (
        "rgb(0,0,0)",
        "rgb(100,200,255)",
        "rgb(255,255,255)",
    )
    assert place(0.25, "sqrt") == 0.5 and place(0.25, "linear") == 0.25
    assert place(0.01, "log") == pytest.approx(0.5)  # halfway between 1/10,000 and 1 in decades
    assert (place(0.0, "log"), place(1e-6, "log"), place(1.0, "log")) == (0, 0, 1)
    scale = dict(map(tuple, colorscale(stops)))
    assert scale[0.25] == ramp_at(stops, 0.5), "a weight of 1/4 has the color of its square root"
    assert dict(map(tuple, colorscale(stops, "linear")))[0.25] == ramp_at(stops, 0.25)
    for curve in CURVES:
        places = [share for share, _ in colorscale(stops, curve)]
        assert places[0] == 0 and places[-1] == 1 and places == sorted(set(places))


def test_the_middle_of_a_signed_ramp_is_its_quiet_stop():
    for name, ends in scales("signed", "log").items():
        quiet = ramp_at(SIGNED_RAMPS[name], 0.5)
        assert [color for place, color in ends if place == 0.5] == [quiet]
        assert ends[0][1] != ends[-1][1]


# --- several panels, other measures ---


def panels(n: int, T: int = 6):
    return [Panel(f"<{i}>", masked(causal(T, seed=i))) for i in range(n)]


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_panels_share_one_scale_and_zoom_together(n: int):
    figure = pattern_figure(panels(n), tokens_of(range(6)), WORDS, Window.whole(6))
    assert len(figure.data) == n
    for i, trace in enumerate(figure.data):
        assert np.array_equal(trace.z, masked(causal(6, seed=i)), equal_nan=True)
        assert trace.coloraxis == "coloraxis"
        assert trace.hovertemplate.endswith(f"<extra>&lt;{i}&gt;</extra>")
    if n > 1:
        assert [axis.matches for axis in figure.select_xaxes()] == [None] + ["x"] * (n - 1)
        assert [axis.matches for axis in figure.select_yaxes()] == [None] + ["y"] * (n - 1)
        assert [trace.yaxis for trace in figure.data] == ["y", *(f"y{i + 1}" for i in range(1, n))]
        assert [note.text for note in figure.layout.annotations] == [f"&lt;{i}&gt;" for i in range(n)]


def test_signed_numbers_lie_around_zero_and_are_pooled_by_size():
    z = masked(causal(5)) * 4
    z[3, 1] = -7.5
    figure = pattern_figure([Panel("", z)], tokens_of(range(5)), WORDS, Window.whole(5), Look("signed"))
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (-7.5, 7.5)
    assert pool(z, 2)[1, 0] == -7.5


def test_sizes_reach_from_zero_to_the_largest():
    z = masked(causal(5)) * 3
    figure = pattern_figure([Panel("", z)], tokens_of(range(5)), WORDS, Window.whole(5), Look("size", "linear"))
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (0, pytest.approx(np.nanmax(z)))


def test_nothing_to_show_is_drawn_as_nothing():
    z = np.full((3, 3), np.nan, np.float32)
    for kind in ("share", "size", "signed"):
        figure = pattern_figure([Panel("", z)], tokens_of(range(3)), WORDS, Window.whole(3), Look(kind))
        assert np.isnan(figure.data[0].z).all() and figure.layout.coloraxis.cmax == 1


def test_heads_are_combined_cell_by_cell():
    a, b = (masked(causal(4, seed=i)) for i in range(2))
    kept = a.copy()
    assert np.array_equal(combined([a, b], "max"), np.maximum(a, b), equal_nan=True)
    assert np.array_equal(combined([a, b], "mean"), (a + b) / 2, equal_nan=True)
    assert np.array_equal(a, kept, equal_nan=True) and combined([a], "mean").dtype == np.float32


def test_many_heads_are_sent_smaller_so_that_they_stay_within_a_megabyte():
    thumbnails = np.random.default_rng(0).integers(0, 255, (30, 32, 64, 64), dtype=np.uint8)
    thumbnails[..., np.triu(np.ones((64, 64), bool), 1)] = 255
    metrics = pd.DataFrame({"a": np.zeros(960)})
    payload = overview(thumbnails, metrics, 4)
    assert payload["side"] == 32
    raw = np.frombuffer(zlib.decompress(base64.b64decode(payload["codes"])), np.uint8).reshape(30, 32, 32, 32)
    assert raw[3, 4, 7, 2] == thumbnails[3, 4, 14:16, 4:6].max()
    assert np.array_equal(raw[0, 0] == 255, np.triu(np.ones((32, 32), bool), 1))
    assert raw[3, 4, 7, 7] == max(thumbnails[3, 4, 14, 14], thumbnails[3, 4, 15, 14], thumbnails[3, 4, 15, 15])
    assert len(json.dumps(payload)) < 1_000_000
