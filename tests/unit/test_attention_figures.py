"""What the figures of attention show, read from the figure and from the JSON that is sent."""

import base64
import json
import re
import zlib

import numpy as np
import pandas as pd
import pytest

from tests.helpers import tokens_of
from viz.attention import MAX_CELLS, MAX_TICKS, PatternWords, Window, overview, pattern_figure, pool, token_chips
from viz.theme import RAMPS, colorscale, ramp_at

WORDS = PatternWords("query", "key", "weight", "largest of {n} × {n}")
PIECES = ("<b>", " the", "\n", "\u202e", "")


def causal(T: int, seed: int = 0) -> np.ndarray:
    """A random pattern: rows sum to 1, zeros above the diagonal. float32 [T, T]"""
    weights = np.tril(np.random.default_rng(seed).random((T, T)) ** 4)
    return (weights / weights.sum(1, keepdims=True)).astype(np.float32)


def drawn(T: int, window: Window | None = None, pattern: np.ndarray | None = None):
    return pattern_figure(
        causal(T) if pattern is None else pattern, tokens_of(range(T)), WORDS, window or Window.whole(T)
    )


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
    pattern = causal(300)
    kept = pattern.copy()
    drawn(300, pattern=pattern)
    assert np.array_equal(pattern, kept)


def test_the_json_that_is_sent_carries_the_same_bytes():
    figure = drawn(7)
    sent = json.loads(figure.to_json())["data"][0]["z"]
    assert sent["dtype"] == "f4" and sent["shape"] == "7, 7"
    z = np.frombuffer(base64.b64decode(sent["bdata"]), np.float32).reshape(7, 7)
    assert np.array_equal(z, figure.data[0].z, equal_nan=True)


def test_axes_name_every_token_once_and_queries_run_down():
    figure = pattern_figure(causal(5), tokens_of(range(5), PIECES), WORDS, Window.whole(5))
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
    template = pattern_figure(causal(3), tokens_of(range(3)), hostile, Window.whole(3)).data[0].hovertemplate
    assert template == (
        "&lt;i&gt;q&lt;/i&gt;: %{y}<br>k&amp;: %{x}<br>w&lt;: %{z:.6f}<extra></extra>"
    )  # fmt: skip
    assert drawn(3).data[0].hovertemplate == "query: %{y}<br>key: %{x}<br>weight: %{z:.6f}<extra></extra>"
    assert drawn(3).data[0].hoverongaps is False


def test_the_colours_mean_the_same_in_every_figure():
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
        None, "0123", 7, {}, [], [1, 2, 3], [0, 5, 0, 5, 0], [0, "5", 0, 5], [0.0, 5, 0, 5], [None] * 4,
        [float("nan"), 5, 0, 5], [5, 0, 0, 5], [3, 4, 0, 5], [3, 3, 0, 5], [20, 30, 0, 5], [-9, -3, 0, 5],
        [[0, 5], 0, 5, 1], {"q0": 0, "q1": 5, "k0": 0, "k1": 5}, [0, 5, 4, 5], True, b"\x00\x05\x00\x05",
    ],
    ids=repr,
)  # fmt: skip
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
    assert payload["metrics"][8] == [1.1429, 7.0]
    turned = overview(thumbnails.transpose(0, 1, 3, 2), metrics, 1)["codes"]  # not contiguous
    assert zlib.decompress(base64.b64decode(turned)) == thumbnails.transpose(0, 1, 3, 2).tobytes()


def test_chips_carry_plain_text():
    chips = token_chips(tokens_of([3, 1, 4, 1, 5], PIECES))
    assert [chip["text"] for chip in chips] == ["<b>", "·the", "↵", "<U+202E>", "∅"]
    assert [chip["id"] for chip in chips] == [3, 1, 4, 1, 5]
    assert [chip["bytes"] for chip in chips] == ["3c 62 3e", "20 74 68 65", "0a", "e2 80 ae", ""]
    assert [chip["span"] for chip in chips] == [[0, 3], [3, 7], [7, 8], [8, 11], [11, 11]]
    assert json.loads(json.dumps(chips)) == chips


# --- colours ---


@pytest.mark.parametrize("name", RAMPS)
def test_a_ramp_runs_one_way_in_lightness(name: str):
    stops = RAMPS[name]

    def lightness(colour: str) -> float:
        r, g, b = (int(part) for part in re.findall(r"\d+", colour))
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    values = [lightness(ramp_at(stops, i / 50)) for i in range(51)]
    steps = np.diff(values)
    assert (steps < 0).all() if name == "light" else (steps > 0).all()


def test_ramp_and_scale_by_hand():
    stops = ("#000000", "#64c8ff", "#ffffff")
    assert ramp_at(stops, 0.25) == "rgb(50,100,128)"
    assert (ramp_at(stops, -1), ramp_at(stops, 0.5), ramp_at(stops, 2)) == (
        "rgb(0,0,0)", "rgb(100,200,255)", "rgb(255,255,255)",
    )  # fmt: skip
    scale = colorscale(stops, n=5)
    assert [place for place, _ in scale] == [0, 0.25, 0.5, 0.75, 1]
    assert scale[1][1] == ramp_at(stops, 0.5), "a weight of 1/4 has the colour of its square root"
