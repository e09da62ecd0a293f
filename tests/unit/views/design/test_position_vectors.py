"""The view of position vectors without a browser."""

import dataclasses

import numpy as np
import pytest

from model.design.positions import (
    Similarity,
    decay_bound,
    frequencies,
    kernel,
    similarity,
    spectrum,
    vectors,
    wavelengths,
)
from model.gpt.rope_scaling import RopeScaling
from tests.support.models.helpers import VARIANTS, assert_close, byte_tokenizer, tiny_model
from tests.support.views.views import array, measured, no_holes, playground_of, run_lines, traces
from tests.support.views.views import drawn as drawn_in
from viz.numbers import whole
from viz.views.design.position_vectors.figures import SchemeLine, Waves, alternates, similarity_figure, waves_figure
from viz.views.design.position_vectors.measure import (
    MOST_CELLS,
    MOST_POINTS,
    color_end,
    columns_of,
    distances_of,
    first_length,
    lengths_of,
    pairs_of,
    rows_of,
)
from viz.views.design.position_vectors.view import VIEW, learned_lines
from viz.words import LANGUAGES, Words, words

FIGURES = ("matrix", "alike", "pairs", "waves")
SCALED = RopeScaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_n_ctx=64)
SAID = Words(words("en"), "position_vectors")


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


def drawn(playground, form=None, **changes):
    return drawn_in(playground, "design", "position_vectors", form, **changes)


@pytest.mark.long
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("scheme", ["own", "learned", "sinusoidal", "rope", "none"])
def test_every_scheme_of_every_model(wired, scheme, language):
    playground, lm = wired
    parts = drawn(playground, {"scheme": scheme, "length": "64"}, language=language)
    assert not [name for name, part in parts.items() if "problem" in part]
    shown = lm.config.positions if scheme == "own" else scheme
    absent = shown == "none" or (shown == "learned" and lm.config.positions != "learned")
    assert ("empty" in parts["matrix"]) == ("empty" in parts["pairs"]) == absent
    no_holes(parts)
    for name in FIGURES:
        if "empty" in parts[name]:
            continue
        own = shown == lm.config.positions
        source = parts[name]["source"]
        if language == "en":
            assert ("weights" in source) == (shown == "learned" and own)
            assert ("derived" in source) != ("weights" in source)
            if shown == "rope":
                assert ("has no RoPE" in source) != own
    if not absent:
        config = lm.config
        found = array(traces(parts["matrix"])[0]["z"])
        assert_close(found, vectors(lm.model, shown, range(64)), 1e-6)
        assert found.shape == (64, config.d_model if shown != "rope" else 2 * len(frequencies(config, "rope")))


def test_the_form_names_the_models_own_scheme(wired):
    playground, lm = wired
    scheme, length = drawn(playground)["form"]["controls"]
    assert scheme["value"] == "own" and len(scheme["options"]) == 4
    assert scheme["options"][0][1] == f"this model's own: {SAID[f'settings.scheme_{lm.config.positions}']}"
    assert lm.config.positions not in [key for key, _ in scheme["options"]]
    assert length["options"] == [["64", "the first 64"], ["256", "the first 256"], ["all", "the whole context, 300"]]
    assert length["value"] == "256"


@pytest.mark.parametrize(
    ("n_ctx", "offered", "first"),
    [
        (40, ("all",), "all"),
        (64, ("all",), "all"),
        (256, ("64", "all"), "all"),
        (300, ("64", "256", "all"), "256"),
        (8192, ("64", "256", "1024", "all"), "256"),
    ],
)
def test_ranges_fit_the_context(n_ctx, offered, first):
    config = dataclasses.replace(tiny_model().config, n_ctx=n_ctx)
    assert lengths_of(config) == offered
    assert first_length(config) == first


@pytest.mark.parametrize("sent", [None, [], {"scheme": "alibi", "length": "9999"}, {"scheme": 3, "length": 64}])
def test_what_is_not_offered_is_the_default(learned, sent):
    assert drawn(learned, sent) == drawn(learned)


def test_the_learned_curve_and_its_band(learned):
    lm = learned.opened("tiny")
    expected = similarity(vectors(lm.model, "learned", range(64)))
    result = measured(learned, "design", VIEW, form={"length": "64"})
    assert_close(result.similarity.mean, expected.mean, 0)
    low, high, mean = traces(drawn(learned, {"length": "64"})["alike"])[-3:]
    for trace, values in ((low, expected.low), (high, expected.high), (mean, expected.mean)):
        assert_close(array(trace["y"]), values[:48], 1e-5)
    assert high["fill"] == "tonexty" and "90" in high["name"]


def test_even_and_odd_distances_are_told_apart():
    mean = np.array([1.0, 0.1, 0.5] + [0.1, 0.5] * 20)
    found = Similarity(np.arange(len(mean)), mean, mean - 0.1, mean + 0.1)
    even, odd = learned_lines(SAID, found)
    assert set(even.x % 2) == {0} and set(odd.x % 2) == {1} and set(odd.y) == {0.1} and set(even.y) == {1.0, 0.5}
    assert even.color != odd.color and "even" in even.name and "odd" in odd.name
    smooth = np.linspace(1, 0, 40)
    assert len(learned_lines(SAID, Similarity(np.arange(40), smooth, smooth, smooth))) == 1
    assert not alternates(np.array([1.0, 0, 1])) and alternates(mean[1:])


@pytest.mark.parametrize("scheme", ["sinusoidal", "rope"])
def test_formulas_are_drawn_as_they_are(llama, scheme):
    form = {"scheme": scheme, "length": "all"}
    config, parts = llama.opened("tiny").config, drawn(llama, form)
    theta = frequencies(config, scheme)
    result = measured(llama, "design", VIEW, form=form)
    (formula,) = (each for each in result.formulas if each.scheme == scheme)
    assert_close(formula.kernel, kernel(theta, range(300)), 1e-12)
    line = [trace for trace in traces(parts["alike"]) if trace["line"]["width"] == 2.5]
    assert_close(array(line[0]["y"]), formula.kernel, 1e-6)
    bound = [trace for trace in traces(parts["alike"]) if trace.get("yaxis") == "y2"]
    assert len(bound) == (scheme == "rope")
    for trace in bound:
        assert_close(formula.bound, decay_bound(theta, range(300)), 1e-12)
        assert_close(array(trace["y"]), formula.bound, 1e-4)
    waves = [trace for trace in traces(parts["waves"]) if trace["line"]["width"] == 1.5 and "hovertext" in trace]
    assert_close(formula.wavelengths, wavelengths(theta), 0)
    assert array(waves[0]["y"]) == pytest.approx(wavelengths(theta), rel=1e-5)
    slow = wavelengths(theta) > 300
    assert [symbol == "circle-open" for symbol in waves[0]["marker"]["symbol"]] == slow.tolist()
    facts = str(parts["facts"]["items"])
    assert f"{slow.sum()} of {len(theta)} pairs" in facts
    assert ("Base θ" in facts) == (scheme == "rope")


def test_scaling_is_said_and_drawn(tokenizer):
    playground = playground_of(tokenizer, "llama", {"rope_scaling": SCALED, "d_head": 16})
    parts = drawn(playground)
    assert "factor 8" in parts["waves"]["note"] and "factor 8" in parts["waves"]["source"]
    assert "factor 8" in str(parts["facts"]["items"])
    names = [trace["name"] for trace in traces(parts["waves"])]
    assert "RoPE before scaling" in names
    config = playground.opened("tiny").config
    plain = wavelengths(frequencies(dataclasses.replace(config, rope_scaling=None), "rope"))
    assert_close(measured(playground, "design", VIEW).unscaled, plain, 0)
    assert array(traces(parts["waves"])[names.index("RoPE before scaling")]["y"]) == pytest.approx(plain, rel=1e-5)


def test_the_spectrum_of_a_learned_table(learned):
    lm = learned.opened("tiny")
    parts = drawn(learned)
    expected = spectrum(vectors(lm.model, "learned", range(300)))
    assert_close(measured(learned, "design", VIEW, "table").spectrum.share, expected.share, 0)
    (trace,) = traces(parts["waves"])
    assert_close(array(trace["y"]), expected.share, 1e-6)
    facts = dict(parts["facts"]["items"])
    assert facts["Learned parameters"] == f"300 positions × 48 dimensions = {whole(14_400)}."
    assert len(facts) == 4


def test_a_table_of_one_position(tokenizer):
    playground = playground_of(tokenizer, "gpt2", {"n_ctx": 1})
    parts = drawn(playground, prompt="a")
    assert not [name for name, part in parts.items() if "problem" in part]


def test_large_tables_are_thinned():
    assert rows_of(256, 256) == list(range(256)) and rows_of(300, 1) == list(range(300))
    assert len(rows_of(8192, 64)) * 64 <= MOST_CELLS and rows_of(8192, 64)[1] % 2 == 1
    assert pairs_of(256) == list(range(256)) and pairs_of(512)[1] == 3
    assert len(columns_of(4096)) * 64 <= MOST_CELLS and columns_of(768) == list(range(768))
    far = distances_of(131_072)
    assert len(far) <= MOST_POINTS and far[-1] == 131_071 and (np.diff(far) > 0).all()
    assert distances_of(5).tolist() == [0, 1, 2, 3, 4]
    assert color_end(np.zeros((2, 2))) == 1.0
    outlier = np.full((100, 100), 0.1)
    outlier[0, 0] = 50
    assert color_end(outlier) == pytest.approx(0.1)


def test_figures_escape_what_plotly_would_read():
    x = np.arange(3.0)
    alike = similarity_figure([SchemeLine("<b>", "rope", x, x, (x, x))], None, SAID.within("alike"))
    waves = waves_figure([Waves("<b>", "rope", x + 1)], 2, SAID.within("waves"))
    assert "<b>" not in alike.to_json() + waves.to_json()


@pytest.mark.parametrize("scheme", ["own", "sinusoidal", "rope", "none", "learned"])
@pytest.mark.parametrize("variant", ["gpt2", "llama"])
def test_the_python_lines(tokenizer, variant, scheme):
    playground = playground_of(tokenizer, variant)
    model, parts = playground.opened("tiny"), drawn(playground, {"scheme": scheme, "length": "64"})
    values = {name: run_lines(parts[name]["python"], model)[1][-1] for name in FIGURES if "empty" not in parts[name]}
    assert not [name for name, value in values.items() if value is None]
    for name, tolerance in (("matrix", 0), ("pairs", 1e-6)):
        if name in values:
            assert_close(array(traces(parts[name])[0]["z"]), values[name], tolerance)
