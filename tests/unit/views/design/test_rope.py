"""The view of rotating pairs without a browser."""

import re

import numpy as np
import pytest

from model.design.positions import contributions, head_qk, pair_of, shift_bound, shift_errors
from model.gpt.transformer import Block, Transformer
from tests.support.models.helpers import VARIANTS, assert_close, byte_tokenizer
from tests.support.views.views import PROMPT, array, measured, no_holes, opened, playground_of, run_lines, traces
from tests.support.views.views import drawn as drawn_in
from viz.numbers import whole
from viz.views.design.rope.figures import bars_figure
from viz.views.design.rope.measure import MOST_SHIFT, SHOWN, shifts, slow_sum, strongest
from viz.views.design.rope.view import VIEW, small
from viz.words import LANGUAGES, Words, words

PARTS = ("pairs", "bars", "distance", "shift", "facts")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture(scope="module", params=list(VARIANTS))
def wired(request, tokenizer):
    """A server with a shaken byte model of every wiring."""
    playground = playground_of(tokenizer, request.param)
    return playground, playground.opened("tiny")


@pytest.fixture(scope="module")
def llama(tokenizer):
    return playground_of(tokenizer, "llama")


def drawn(playground, **changes):
    return drawn_in(playground, "design", "rope", **changes)


@pytest.mark.parametrize("language", LANGUAGES)
def test_pairs_of_every_model(wired, language):
    playground, lm = wired
    parts = drawn(playground, language=language, heads=[[1, 2]], pair=[7, 3])
    assert set(parts) >= set(PARTS) and not [name for name in PARTS if "problem" in parts[name]]
    own = lm.config.positions == "rope"
    circles = parts["pairs"]
    assert circles["derived"] != own and (circles["query"], circles["key"]) == (7, 3)
    trace = lm.trace(PROMPT)
    pair = pair_of(lm.config, head_qk(trace, 1, 2), 7, 3)
    # As the page adds it up.
    q, k = (np.array(circles[name]) for name in "qk")
    angle = np.array(circles["q_angle"]) - circles["k_angle"] + 4 * np.array(circles["theta"])
    score = (q * k * np.cos(angle)).sum() / circles["root"] + circles["rest"]
    assert score == pytest.approx(contributions(pair, [4]).sum(), abs=1e-5)
    if own:
        assert score == pytest.approx(trace.scores(1, 2)[7, 3], abs=1e-4)
    if language == "en":  # the model's own score, without RoPE the one before turning
        gap = measured(playground, "design", VIEW, "pair", heads=[[1, 2]], pair=[7, 3]).gap
        assert gap < 1e-4 and re.search(rf"within {small(gap)}(\)|\.$)", parts["bars"]["note"])
    before, _, running, total = traces(parts["bars"])
    assert array(before["y"]).sum() == pytest.approx(contributions(pair, [0]).sum(), abs=1e-4)
    assert array(total["y"])[0] == pytest.approx(score, abs=1e-5) == array(running["y"])[-1]
    if language == "en":
        for name in PARTS:
            source = parts[name]["about" if name == "facts" else "source"]
            assert ("derived: this model has no RoPE" in source) != own
    no_holes(parts)


def test_dimensions_that_do_not_turn_have_a_bar(tokenizer):
    playground = playground_of(tokenizer, "neox")
    parts = drawn(playground)
    assert parts["pairs"]["rest"] != 0 and len(parts["pairs"]["q"]) == 3
    assert traces(parts["bars"])[0]["text"][-1] == "dimensions 6 to 11, not rotated"


def test_the_pair_is_what_is_picked(llama):
    for selection, expected in (
        ({"tokens": [2, 6]}, (6, 2)),
        ({"tokens": [6, 2]}, (6, 2)),
        ({"pair": [8, 8], "tokens": [1]}, (8, 8)),
        ({"tokens": [0]}, (0, 0)),
    ):
        circles = drawn(llama, **selection)["pairs"]
        assert (circles["query"], circles["key"]) == expected
    circles = drawn(llama)["pairs"]
    pattern = llama.opened("tiny").trace(PROMPT).pattern(*opened(llama, "design", "rope").head)
    assert circles["query"] == 8 and circles["key"] == pattern[8, 1:8].argmax() + 1


def test_the_curve_and_the_shift_are_the_models_functions(llama):
    lm = llama.opened("tiny")
    parts = drawn(llama, heads=[[2, 1]], pair=[8, 1])
    pair = pair_of(lm.config, head_qk(lm.trace(PROMPT), 2, 1), 8, 1)
    result = measured(llama, "design", VIEW, "pair", heads=[[2, 1]], pair=[8, 1])
    assert_close(result.by_distance, contributions(pair, range(256)).sum(1), 0)
    score, _, here = traces(parts["distance"])
    assert_close(array(score["y"]), result.by_distance, 1e-5)
    assert here["x"] == [7] and here["y"] == pytest.approx([pair.score], abs=1e-4)
    single = result.shifted[0]
    assert_close(single.bound, shift_bound(pair, shifts(), "float32"), 0)
    assert_close(single.errors, shift_errors(pair, shifts(), "float32"), 0)
    drawn_bound, drawn_errors = traces(parts["shift"])[:2]
    assert array(drawn_bound["y"]) == pytest.approx(single.bound, rel=1e-5)
    assert array(drawn_errors["y"]) == pytest.approx(single.errors[single.errors > 0], rel=1e-5)
    facts = dict(parts["facts"]["items"])["A shift keeps the score"]
    assert small(float(single.errors.max())) in facts and whole(MOST_SHIFT) in facts


def test_an_error_beyond_the_bound_is_not_called_rounding(llama, monkeypatch):
    monkeypatch.setattr("viz.views.design.rope.measure.shift_errors", lambda pair, by, name: np.ones(len(by)))
    facts = dict(drawn(llama, prompt="ab ab ab")["facts"]["items"])
    assert "more than rounding can explain" in facts["A shift keeps the score"]


def test_another_pair_runs_no_model(llama, monkeypatch):
    drawn(llama, heads=[[0, 0]], pair=[8, 1])
    monkeypatch.setattr(Block, "forward", lambda *given: pytest.fail("a block was run"))
    monkeypatch.setattr(Transformer, "trunk", lambda *given, **named: pytest.fail("the model was run"))
    for pair in ([8, 2], [5, 5]):
        drawn(llama, heads=[[0, 0]], pair=pair)
    for scheme in ("own", "sinusoidal", "rope"):
        drawn_in(llama, "design", "position_vectors", {"scheme": scheme})


def test_an_edited_run_and_one_that_left_float32(llama):
    edit = {"kind": "scale", "layer": 0, "head": 1, "factor": 3.0}
    plain = drawn(llama, heads=[[1, 0]], pair=[7, 2])
    edited = drawn(llama, heads=[[1, 0]], pair=[7, 2], edits=[edit])
    assert plain["pairs"]["q"] != edited["pairs"]["q"]
    assert "edit" in edited["bars"]["source"] and "edit" not in plain["bars"]["source"]


def test_what_left_float32_is_said(tokenizer, monkeypatch):
    def far(*given):
        found = head_qk(*given)
        found.q[7] = np.inf
        return found

    monkeypatch.setattr("viz.views.design.rope.measure.head_qk", far)
    playground = playground_of(tokenizer, "llama")
    parts = drawn(playground, language="zh", pair=[7, 2])
    assert all(
        "float32" in parts[name]["problem"]["text"] and "编辑" in parts[name]["problem"]["text"] for name in PARTS
    )
    assert "problem" not in drawn(playground, pair=[6, 2])["bars"]


def test_shifts_and_the_strongest_pairs():
    found = shifts()
    assert found[:256] == list(range(1, 257)) and found[-1] == MOST_SHIFT and len(set(found)) == len(found)
    q = np.arange(20.0)
    assert strongest(q, np.ones(20)) == list(range(4, 20)) and len(strongest(q, q)) == SHOWN
    parts = np.array([[1.0, 2.0, 4.0]])
    assert slow_sum(parts, np.array([1.0, 0.001]), 100).tolist() == [6.0]  # the second pair, and what is not rotated
    assert (small(1.84e-5), small(0.0), small(12.0)) == ("1.8 × 10⁻⁵", "0", "12")


def test_names_escape_what_plotly_would_read():
    x = np.arange(3.0)
    assert "<b>" not in bars_figure(x, x, ["<b>"] * 3, Words(words("en"), "rope").within("bars")).to_json()


@pytest.mark.parametrize("variant", ["gpt2", "llama"])
def test_the_python_lines(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    model, parts = playground.opened("tiny"), drawn(playground)
    values = {name: run_lines(parts[name]["python"], model)[1] for name in PARTS if name != "facts"}
    before, after, score, own = values["bars"][-1]
    drawn_ = array(traces(parts["bars"])[1]["y"])
    assert_close(drawn_, after[:-1], 1e-6 + 5e-6 * np.abs(drawn_))  # a figure carries six digits
    assert own == pytest.approx(score if variant == "llama" else before.sum(), abs=1e-4)
    assert_close(array(traces(parts["distance"])[0]["y"]), values["distance"][-1], 1e-5)
    assert len(values["shift"]) == 4 and all(len(each) == 21 for each in values["shift"])
    assert values["pairs"][-1].sum() == pytest.approx(score)
