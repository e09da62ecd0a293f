"""The views of position vectors and of rotating pairs without a browser."""

import base64
import dataclasses
import json
import re

import numpy as np
import pytest

from model.api import LanguageModel
from model.design.positions import (
    Similarity,
    contributions,
    decay_bound,
    frequencies,
    head_qk,
    kernel,
    pair_of,
    shift_bound,
    shift_errors,
    similarity,
    spectrum,
    vectors,
    wavelengths,
)
from model.gpt.config import RopeScaling
from model.gpt.transformer import Block, Transformer
from tests.support.helpers import VARIANTS, assert_close, byte_tokenizer, serving, tiny_model
from viz.page.pipeline import Asked, payloads, scene_of
from viz.views.design.position_vectors import view as position_vectors
from viz.views.design.position_vectors.figures import (
    MOST_CELLS,
    MOST_POINTS,
    Line,
    Waves,
    alternates,
    colour_end,
    columns_of,
    distances_of,
    pairs_of,
    rows_of,
    similarity_figure,
    waves_figure,
)
from viz.views.design.rope.figures import (
    MOST_SHIFT,
    SHOWN,
    bars_figure,
    numbers,
    shifts,
    slow_sum,
    strongest,
    tiny,
)
from viz.words import LANGUAGES, section, words

PROMPT = "abcabd ab"
FIGURES = ("posvec_matrix", "posvec_alike", "posvec_pairs", "posvec_waves")
ROPE_PARTS = ("rope_pairs", "rope_bars", "rope_distance", "rope_shift", "rope_facts")
SCALED = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=64)


def playground_of(tokenizer, variant="gpt2", changes=None):
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300, **(changes or {})})
    return serving(LanguageModel("tiny", "Tiny", model, tokenizer))


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


@pytest.fixture(scope="module")
def learned(tokenizer):
    return playground_of(tokenizer, "gpt2")


def question(view, form=None, prompt=PROMPT, language="en", **selection):
    sent = {"design_view": {"view": view}} | ({"posvec_form": form} if form else {})
    return Asked("tiny", prompt, selection or None, sent, {}, language, "design")


def drawn(playground, view, form=None, **changes):
    parts = payloads(playground, question(view, form, **changes))[0]
    json.dumps(parts, allow_nan=False)
    return {name: part for name, part in parts.items() if name.startswith(view)}


def traces(payload):
    return json.loads(payload["figure"])["data"]


def array(value):
    """An array as Plotly's JSON carries it."""
    if isinstance(value, dict):
        found = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
        return found.reshape([int(n) for n in str(value["shape"]).split(",")]) if "shape" in value else found
    return np.array(value)


# --- position vectors ---


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("scheme", ["own", "learned", "sinusoidal", "rope", "none"])
def test_every_scheme_of_every_model(wired, scheme, language):
    playground, lm = wired
    parts = drawn(playground, "posvec", {"scheme": scheme, "length": "64"}, language=language)
    assert not [name for name, part in parts.items() if "problem" in part]
    shown = lm.config.positions if scheme == "own" else scheme
    absent = shown == "none" or (shown == "learned" and lm.config.positions != "learned")
    assert ("empty" in parts["posvec_matrix"]) == ("empty" in parts["posvec_pairs"]) == absent
    assert not re.search(
        r"\{\w*\}",
        json.dumps(
            [
                {k: v for k, v in p.items() if k not in ("figure", "python", "words")}
                for p in parts.values()
                if "controls" not in p
            ]
        ),
    )
    for name in FIGURES:
        if "empty" in parts[name]:
            continue
        own = shown == lm.config.positions
        told = parts[name]["source"]
        if language == "en":
            assert ("weights" in told) == (shown == "learned" and own)
            assert ("derived" in told) != ("weights" in told)
            if shown == "rope":
                assert ("has no RoPE" in told) != own
    if not absent:
        config = lm.config
        found = array(traces(parts["posvec_matrix"])[0]["z"])
        assert_close(found, vectors(lm.model, shown, range(64)), 1e-6)
        assert found.shape == (64, config.d_model if shown != "rope" else 2 * len(frequencies(config, "rope")))


def test_the_form_names_the_models_own_scheme(wired):
    playground, lm = wired
    scheme, length = drawn(playground, "posvec")["posvec_form"]["controls"]
    assert scheme["value"] == "own" and len(scheme["options"]) == 4
    assert lm.config.positions not in [key for key, _ in scheme["options"]]
    assert [key for key, _ in length["options"]] == ["64", "256", "all"] and length["value"] == "256"


@pytest.mark.parametrize(
    ("n_ctx", "offered"),
    [
        (40, ("all",)),
        (64, ("all",)),
        (256, ("all", "64")),
        (300, ("256", "all", "64")),
        (8192, ("256", "all", "64", "1024")),
    ],
)
def test_ranges_fit_the_context(n_ctx, offered):
    assert position_vectors.lengths_of(dataclasses.replace(tiny_model().config, n_ctx=n_ctx)) == offered


@pytest.mark.parametrize("sent", [None, [], {"scheme": "alibi", "length": "9999"}, {"scheme": 3, "length": 64}])
def test_what_is_not_offered_is_the_default(learned, sent):
    assert drawn(learned, "posvec", sent) == drawn(learned, "posvec")


def test_the_learned_curve_and_its_band(learned):
    lm = learned.opened("tiny")
    found = similarity(vectors(lm.model, "learned", range(64)))
    low, high, mean = traces(drawn(learned, "posvec", {"length": "64"})["posvec_alike"])[-3:]
    for trace, expected in ((low, found.low), (high, found.high), (mean, found.mean)):
        assert_close(array(trace["y"]), expected[:48], 1e-6)


def test_even_and_odd_distances_are_told_apart(learned):
    scene = scene_of(learned, question("posvec"))
    shown = position_vectors.shown_of(scene, {})
    mean = np.array([1.0, 0.1, 0.5] + [0.1, 0.5] * 20)
    found = Similarity(np.arange(len(mean)), mean, mean - 0.1, mean + 0.1)
    even, odd = position_vectors.learned_lines(shown, found)
    assert set(even.x % 2) == {0} and set(odd.x % 2) == {1} and set(odd.y) == {0.1} and set(even.y) == {1.0, 0.5}
    assert even.colour != odd.colour and "even" in even.name and "odd" in odd.name
    smooth = np.linspace(1, 0, 40)
    assert len(position_vectors.learned_lines(shown, Similarity(np.arange(40), smooth, smooth, smooth))) == 1
    assert not alternates(np.array([1.0, 0, 1])) and alternates(mean[1:])


@pytest.mark.parametrize("scheme", ["sinusoidal", "rope"])
def test_formulas_are_drawn_as_they_are(llama, scheme):
    config, parts = llama.opened("tiny").config, drawn(llama, "posvec", {"scheme": scheme, "length": "all"})
    theta = frequencies(config, scheme)
    line = [trace for trace in traces(parts["posvec_alike"]) if trace["line"]["width"] == 2.5]
    assert_close(array(line[0]["y"]), kernel(theta, range(300)), 1e-12)
    bound = [trace for trace in traces(parts["posvec_alike"]) if trace.get("yaxis") == "y2"]
    assert len(bound) == (scheme == "rope")
    for trace in bound:
        assert_close(array(trace["y"]), decay_bound(theta, range(300)), 1e-12)
    waves = [trace for trace in traces(parts["posvec_waves"]) if trace["line"]["width"] == 1.5 and "marker" in trace]
    assert_close(array(waves[0]["y"]), wavelengths(theta), 1e-9)
    slow = wavelengths(theta) > 300
    assert [symbol == "circle-open" for symbol in waves[0]["marker"]["symbol"]] == slow.tolist()
    facts = str(parts["posvec_facts"]["items"])
    assert f"{slow.sum()} of {len(theta)} pairs" in facts
    assert ("theta" in facts.lower()) == (scheme == "rope")


def test_scaling_is_said_and_drawn(tokenizer):
    playground = playground_of(tokenizer, "llama", {"rope_scaling": SCALED, "d_head": 16})
    parts = drawn(playground, "posvec")
    assert "factor 8" in parts["posvec_waves"]["note"] and "factor 8" in parts["posvec_waves"]["source"]
    assert "factor 8" in str(parts["posvec_facts"]["items"])
    names = [trace["name"] for trace in traces(parts["posvec_waves"])]
    assert "RoPE before scaling" in names
    config = playground.opened("tiny").config
    plain = wavelengths(frequencies(dataclasses.replace(config, rope_scaling=None), "rope"))
    assert_close(array(traces(parts["posvec_waves"])[names.index("RoPE before scaling")]["y"]), plain, 1e-9)


def test_the_spectrum_of_a_learned_table(learned):
    lm = learned.opened("tiny")
    parts = drawn(learned, "posvec")
    found = spectrum(vectors(lm.model, "learned", range(300)))
    (trace,) = traces(parts["posvec_waves"])
    assert_close(array(trace["y"]), found.share, 1e-9)
    facts = dict(parts["posvec_facts"]["items"])
    assert facts["Learned numbers"] == "300 positions × 48 dimensions = 14,400."
    assert len(facts) == 4


def test_a_table_of_one_position(tokenizer):
    playground = playground_of(tokenizer, "gpt2", {"n_ctx": 1})
    parts = drawn(playground, "posvec", prompt="a")
    assert not [name for name, part in parts.items() if "problem" in part]


def test_large_tables_are_thinned():
    assert rows_of(256, 256) == list(range(256)) and rows_of(300, 1) == list(range(300))
    assert len(rows_of(8192, 64)) * 64 <= MOST_CELLS and rows_of(8192, 64)[1] % 2 == 1
    assert pairs_of(256) == list(range(256)) and pairs_of(512)[1] == 3
    assert len(columns_of(4096)) * 64 <= MOST_CELLS and columns_of(768) == list(range(768))
    far = distances_of(131_072)
    assert len(far) <= MOST_POINTS and far[-1] == 131_071 and (np.diff(far) > 0).all()
    assert distances_of(5).tolist() == [0, 1, 2, 3, 4]
    assert colour_end(np.zeros((2, 2))) == 1.0
    outlier = np.full((100, 100), 0.1)
    outlier[0, 0] = 50
    assert colour_end(outlier) == pytest.approx(0.1)


# --- rotating pairs ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_pairs_of_every_model(wired, language):
    playground, lm = wired
    parts = drawn(playground, "rope", language=language, heads=[[1, 2]], pair=[7, 3])
    assert set(parts) >= set(ROPE_PARTS) and not [name for name in ROPE_PARTS if "problem" in parts[name]]
    own = lm.config.positions == "rope"
    circles = parts["rope_pairs"]
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
        (told,) = re.findall(r"within ([\d.e−]+?)(?:\).*|\.)$", parts["rope_bars"]["note"])
        assert float(told.replace("−", "-")) < 1e-4
    before, _, running, total = traces(parts["rope_bars"])
    assert array(before["y"]).sum() == pytest.approx(contributions(pair, [0]).sum(), abs=1e-6)
    assert array(total["y"])[0] == pytest.approx(score, abs=1e-5) == array(running["y"])[-1]
    if language == "en":
        for name in ROPE_PARTS:
            told = parts[name].get("source") or parts[name]["about"]
            assert ("derived: this model has no RoPE" in told) != own
    texts = [{k: v for k, v in parts[n].items() if k not in ("figure", "python", "words")} for n in ROPE_PARTS]
    assert not re.search(r"\{\w*\}", json.dumps(texts))


def test_dimensions_that_do_not_turn_have_a_bar(tokenizer):
    playground = playground_of(tokenizer, "neox")
    parts = drawn(playground, "rope")
    assert parts["rope_pairs"]["rest"] != 0 and len(parts["rope_pairs"]["q"]) == 3
    assert traces(parts["rope_bars"])[0]["text"][-1] == "dimensions 6 to 11, not turned"


def test_the_pair_is_what_is_picked(llama):
    for selection, expected in (
        ({"tokens": [2, 6]}, (6, 2)),
        ({"tokens": [6, 2]}, (6, 2)),
        ({"pair": [8, 8], "tokens": [1]}, (8, 8)),
        ({"tokens": [0]}, (0, 0)),
    ):
        circles = drawn(llama, "rope", **selection)["rope_pairs"]
        assert (circles["query"], circles["key"]) == expected
    circles = drawn(llama, "rope")["rope_pairs"]
    pattern = llama.opened("tiny").trace(PROMPT).pattern(*scene_of(llama, question("rope")).head)
    assert circles["query"] == 8 and circles["key"] == pattern[8, 1:8].argmax() + 1


def test_the_curve_and_the_shift_are_the_models_functions(llama):
    lm = llama.opened("tiny")
    parts = drawn(llama, "rope", heads=[[2, 1]], pair=[8, 1])
    pair = pair_of(lm.config, head_qk(lm.trace(PROMPT), 2, 1), 8, 1)
    score, _, here = traces(parts["rope_distance"])
    assert_close(array(score["y"]), contributions(pair, range(256)).sum(1), 1e-9)
    assert here["x"] == [7] and here["y"] == pytest.approx([pair.score], abs=1e-4)
    drawn_bound, drawn_errors = traces(parts["rope_shift"])[:2]
    assert_close(array(drawn_bound["y"]), shift_bound(pair, shifts(), "float32"), 1e-9)
    errors = shift_errors(pair, shifts(), "float32")
    assert_close(array(drawn_errors["y"]), errors[errors > 0], 0)
    facts = dict(parts["rope_facts"]["items"])["Shifted, the score stays"]
    assert tiny(float(errors.max())) in facts and f"{MOST_SHIFT:,}" in facts


def test_an_error_beyond_the_bound_is_not_called_rounding(llama, monkeypatch):
    monkeypatch.setattr("viz.views.design.rope.view.shift_errors", lambda pair, by, name: np.ones(len(by)))
    facts = dict(drawn(llama, "rope", prompt="ab ab ab")["rope_facts"]["items"])
    assert "more than rounding explains" in facts["Shifted, the score stays"]


def test_another_pair_runs_no_model(llama, monkeypatch):
    drawn(llama, "rope", heads=[[0, 0]], pair=[8, 1])
    monkeypatch.setattr(Block, "forward", lambda *given: pytest.fail("a block was run"))
    monkeypatch.setattr(Transformer, "trunk", lambda *given, **named: pytest.fail("the model was run"))
    for pair in ([8, 2], [5, 5]):
        drawn(llama, "rope", heads=[[0, 0]], pair=pair)
    for scheme in ("own", "sinusoidal", "rope"):
        drawn(llama, "posvec", {"scheme": scheme})


def test_an_edited_run_and_one_that_left_float32(llama):
    edit = {"kind": "scale", "layer": 0, "head": 1, "factor": 3.0}
    plain = drawn(llama, "rope", heads=[[1, 0]], pair=[7, 2])
    edited = drawn(llama, "rope", heads=[[1, 0]], pair=[7, 2], edits=[edit])
    assert plain["rope_pairs"]["q"] != edited["rope_pairs"]["q"]
    assert "edit" in edited["rope_bars"]["source"] and "edit" not in plain["rope_bars"]["source"]


def test_shifts_and_the_strongest_pairs():
    found = shifts()
    assert found[:256] == list(range(1, 257)) and found[-1] == MOST_SHIFT and len(set(found)) == len(found)
    q = np.arange(20.0)
    assert strongest(q, np.ones(20)) == list(range(4, 20)) and len(strongest(q, q)) == SHOWN
    parts = np.array([[1.0, 2.0, 4.0]])
    assert slow_sum(parts, np.array([1.0, 0.001]), 100).tolist() == [6.0]  # the second pair, and what is not turned
    assert (tiny(1.84e-5), tiny(0.0), tiny(12.0)) == ("1.8e−5", "0", "1.2e+1")
    assert numbers(np.array([1 / 3])) == [0.333333333]


def test_figures_escape_what_plotly_would_read():
    said = section(words("en"), "posvec")
    x = np.arange(3.0)
    assert "<b>" not in similarity_figure([Line("<b>", "rope", x, x, (x, x))], None, said)
    assert "<b>" not in waves_figure([Waves("<b>", "rope", x + 1)], 2, said)
    assert "<b>" not in bars_figure(x, x, ["<b>"] * 3, section(words("en"), "rope"))


# --- Python ---


def run_lines(text, model):
    """The value of the last line, which is an expression."""
    lines, space = text.replace("load_model('tiny')", "lm").splitlines(), {"lm": model}
    exec("\n".join(lines[:-1]), space)
    return eval(re.sub(r"\s+#.*$", "", lines[-1]), space)


@pytest.mark.parametrize("scheme", ["own", "sinusoidal", "rope", "none", "learned"])
@pytest.mark.parametrize("variant", ["gpt2", "llama"])
def test_the_python_lines_of_vectors(tokenizer, variant, scheme):
    playground = playground_of(tokenizer, variant)
    model, parts = playground.opened("tiny"), drawn(playground, "posvec", {"scheme": scheme, "length": "64"})
    for name in FIGURES:
        if "empty" not in parts[name]:
            assert run_lines(parts[name]["python"], model) is not None
    if "empty" not in parts["posvec_matrix"]:
        assert_close(
            array(traces(parts["posvec_matrix"])[0]["z"]), run_lines(parts["posvec_matrix"]["python"], model), 0
        )
        assert_close(
            array(traces(parts["posvec_pairs"])[0]["z"]), run_lines(parts["posvec_pairs"]["python"], model), 1e-6
        )


@pytest.mark.parametrize("variant", ["gpt2", "llama"])
def test_the_python_lines_of_pairs(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    model, parts = playground.opened("tiny"), drawn(playground, "rope")
    before, after, score, own = run_lines(parts["rope_bars"]["python"], model)
    assert_close(array(traces(parts["rope_bars"])[1]["y"]), after[:-1], 1e-9)
    assert own == pytest.approx(score if variant == "llama" else before.sum(), abs=1e-4)
    assert_close(
        array(traces(parts["rope_distance"])[0]["y"]), run_lines(parts["rope_distance"]["python"], model), 1e-9
    )
    assert len(run_lines(parts["rope_shift"]["python"], model)) == 21
    assert run_lines(parts["rope_pairs"]["python"], model).sum() == pytest.approx(score)
