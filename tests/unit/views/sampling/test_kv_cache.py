"""The view of the KV cache without a browser: its bytes, and a measurement that is a job of the plain model."""

import json
import re

import numpy as np
import pytest

from model.api import LanguageModel
from model.generation.cache_costs import MeasuredCosts, Times, TokenTimes, cache_bytes
from model.gpt.cache import KVCache
from model.gpt.transformer import Transformer
from tests.support.models.helpers import VARIANTS, byte_tokenizer, serving, tiny_model
from viz.numbers import factor, milliseconds, number, size
from viz.page.parts import packed
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.view import Seen
from viz.views.sampling.kv_cache import view as kv_cache
from viz.views.sampling.kv_cache.figures import Growth, Timed, bytes_figure, times_figure
from viz.views.sampling.kv_cache.view import VIEW, CacheSizes
from viz.words import LANGUAGES, Words, section, words
from viz.work.playground import Options

PROMPT = "abcabd ab"
TIMED = ("kv_cache_times", "kv_cache_table", "kv_cache_prefill")
EDIT = {"kind": "zero", "layer": 1, "head": 2}


def playground_of(tokenizer, variant="gpt2", max_tokens=40):
    model = tiny_model({**VARIANTS[variant], "vocab_size": 256, "n_ctx": 300})
    return serving(LanguageModel("tiny", "Tiny", model, tokenizer), Options(model="tiny", max_tokens=max_tokens))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(tokenizer):
    return playground_of(tokenizer)


def question(values=None, prompt=PROMPT, language="en", **selection):
    sent = {"sampling_view": {"view": "kv_cache"}} | (values or {})
    return PageRequest("tiny", prompt, selection or None, sent, {}, language, tab="sampling")


def drawn(playground, values=None, **changes):
    parts = payloads(playground, question(values, **changes))[0]
    packed(parts)  # as it is sent
    return parts


def measured(playground, values=None, **changes):
    """The payloads once the measurement is done."""
    list(background.perform(playground, job(scene_of(playground, question(values, **changes))), "en"))
    return drawn(playground, values, **changes)


def test_times_can_be_measured_again(playground):
    first = measured(playground)
    assert first["kv_cache_job"]["state"] == "done" and first["kv_cache_job"]["again"] == "Measure again"
    second = measured(playground)
    for name in TIMED:
        assert second[name]["run"] != first[name]["run"]  # drawn anew
    key = job(scene_of(playground, question())).key
    again = playground.results.peek(key)
    assert drawn(playground)["kv_cache_times"] == second["kv_cache_times"]
    assert playground.results.peek(key) is again


def job(scene):
    """What the button starts."""
    return panels.job_of(VIEW, "times", scene, panels.settings_of(VIEW, scene, {}))


def data(payload):
    """The traces of a figure as the page gets them."""
    return json.loads(payload["figure"].to_json())["data"]


def seen(scene, part, result):
    """What a part of the view draws a result from."""
    said, settings = Words(scene.words, "kv_cache"), panels.settings_of(VIEW, scene, {})
    return Seen("kv_cache", part, result, {}, {}, {}, settings, said, panels.facts_of(scene))


# --- bytes ---


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("batch", kv_cache.BATCHES)
def test_the_formula_is_what_the_tensors_say(tokenizer, variant, batch):
    playground = playground_of(tokenizer, variant)
    payload = drawn(playground, {"kv_cache_form": {"batch": str(batch)}})["kv_cache_formula"]
    config = playground.opened("tiny").config
    made = KVCache.empty(config, batch, len(PROMPT))
    assert (
        np.prod([int(each["value"].replace(",", "")) for each in payload["factors"]]) == made.k.nbytes + made.v.nbytes
    )
    assert payload["result"] == f"{made.k.nbytes + made.v.nbytes:,} bytes"
    assert payload["same"] and " × ".join(f"{n:,}" for n in made.k.shape) in payload["real"]
    assert payload["result"].split()[0] in payload["real"]
    assert [each["letter"] for each in payload["factors"]] == ["", "L", "B", "G", "S", "E", ""]


def test_the_sizes_are_values_of_the_prompt_and_the_batch(playground):
    scene = scene_of(playground, question())
    config = scene.model.config
    result = panels.measured(VIEW, "main", scene, panels.settings_of(VIEW, scene, {}).but(batch="8")).value
    made = KVCache.empty(config, 8, len(PROMPT))
    assert result == CacheSizes(
        8,
        len(PROMPT),
        cache_bytes(config, 8, len(PROMPT)),
        cache_bytes(config, 8, 1),
        cache_bytes(config, 8, 300),
        cache_bytes(config, 8, 300, config.n_head),
        tuple(made.k.shape),
        made.k.nbytes + made.v.nbytes,
    )


@pytest.mark.parametrize("variant", ["gpt2", "llama", "mqa"])
def test_the_figure_shows_shared_heads_and_weights(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    model = playground.opened("tiny")
    config, traces = model.config, data(drawn(playground)["kv_cache_bytes"])
    H, G = config.n_head, config.n_kv_head
    assert len(traces) == (3 if G == H else 4)  # with the dot of this prompt
    unit = 1000.0
    full = cache_bytes(config, 1, 300)
    assert traces[0]["x"][-1] == 300 and traces[0]["y"][-1] == pytest.approx(full / unit, rel=1e-5)
    assert traces[-2]["y"][0] == traces[-2]["y"][-1] == pytest.approx(model.nbytes / unit, rel=1e-5)
    assert traces[-1]["x"] == [9] and traces[-1]["y"] == pytest.approx([full / unit * 9 / 300], rel=1e-5)
    facts = str(drawn(playground)["kv_cache_formula"]["items"])
    if G < H:
        assert traces[1]["y"][-1] == pytest.approx(full / unit * H / G, rel=1e-5)
        assert f"{H // G} times" in facts
    else:
        assert "its own keys and values" in facts


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (46_080, "46.1 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (94_371_840, "94.4 MB"),
        (3_019_898_880, "3.02 GB"),
    ],
)
def test_sizes_as_they_are_read(nbytes, text):
    assert size(nbytes) == text


@pytest.mark.parametrize(("ms", "text"), [(0.5, "0.50"), (7.1, "7.10"), (42.26, "42.3"), (1234.5, "1,234")])
def test_times_as_they_are_read(ms, text):
    assert milliseconds(ms / 1000) == text


def test_a_full_cache_may_be_larger_than_the_weights(playground):
    facts = str(drawn(playground, {"kv_cache_form": {"batch": "32"}})["kv_cache_formula"]["items"])
    assert "times the weights" in facts
    assert "% of the weights" in str(drawn(playground)["kv_cache_formula"]["items"]) or "times the weights" in facts


@pytest.mark.parametrize("sent", [None, [], {"batch": 8}, {"batch": "1e9"}, {"batch": None}])
def test_a_batch_that_is_not_offered_is_one(playground, sent):
    factors = drawn(playground, {"kv_cache_form": sent})["kv_cache_formula"]["factors"]
    assert factors[2]["value"] == "1"


def test_no_room_is_said(playground, monkeypatch):
    monkeypatch.setattr(kv_cache, "tensor_bytes", lambda *_: None)
    payload = drawn(playground)["kv_cache_formula"]
    assert not payload["same"] and "not enough memory" in payload["real"]


# --- times ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_measured_before_the_button(playground, language, monkeypatch):
    monkeypatch.setattr(kv_cache, "measure", lambda *_: pytest.fail("measured by itself"))
    parts = drawn(playground, language=language)
    assert parts["kv_cache_job"]["state"] == "idle" and "14" in parts["kv_cache_job"]["text"]
    assert all(set(parts[name]) == {"empty"} for name in TIMED)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_measurement_is_shown(tokenizer, variant):
    parts = measured(playground_of(tokenizer, variant))
    assert parts["kv_cache_job"]["state"] == "done"
    table = parts["kv_cache_table"]
    assert [row[0] for row in table["rows"]] == ["16", "32"] and table["same"]
    assert all(row[5] == "yes" for row in table["rows"])
    without, with_ = data(parts["kv_cache_times"])
    assert without["x"] == with_["x"] == [16, 32] and min(without["y"] + with_["y"]) > 0
    assert "measured here" in parts["kv_cache_times"]["source"]
    assert "OMP_WAIT_POLICY: PASSIVE" in parts["kv_cache_times"]["source"]
    assert "longest context is 40 tokens" in parts["kv_cache_times"]["note"]
    assert "9 prompt tokens" in parts["kv_cache_prefill"]["items"][0][1]
    assert not [text for item in parts["kv_cache_prefill"]["items"] for text in item if "{" in text]


def test_one_token_and_another_language(playground):
    parts = measured(playground, prompt="a", language="zh")
    assert len(parts["kv_cache_prefill"]["items"]) == 2
    assert "{" not in parts["kv_cache_times"]["note"] + parts["kv_cache_times"]["source"]


def test_a_measurement_is_of_its_prompt(playground):
    measured(playground)
    assert all("empty" in drawn(playground, prompt="other")[name] for name in TIMED)
    assert all("empty" not in drawn(playground, {"kv_cache_form": {"batch": "8"}})[name] for name in TIMED)


def test_edits_are_left_out_and_it_is_said(playground):
    idle = drawn(playground, edits=[EDIT])
    assert "edits do not apply" in idle["kv_cache_job"]["text"]
    assert "edits" not in drawn(playground)["kv_cache_job"]["text"]
    parts = measured(playground, edits=[EDIT])
    assert "without your edits" in parts["kv_cache_times"]["source"]
    assert all("empty" not in drawn(playground)[name] for name in TIMED)  # the same measurement
    assert "edits" not in drawn(playground)["kv_cache_times"]["source"]


def test_a_measurement_can_be_cancelled(playground, monkeypatch):
    scene = scene_of(playground, question())
    steps = background.perform(playground, job(scene), "en")
    next(steps)
    steps.close()
    with playground.computing:  # free again
        pass


def test_what_was_too_slow_is_said(playground):
    scene = scene_of(playground, question())
    fast, slow = Times((0.01, 0.02, 0.03)), Times((0.5,))
    rows = (TokenTimes(16, fast, slow, 2e-5, True), TokenTimes(32, fast))
    found = MeasuredCosts(rows, 9, slow, fast, 2, "")
    payload = kv_cache.times(seen(scene, "times", found))
    assert "Without the cache, 32 tokens" in payload["note"] and "not set" in payload["source"]
    table = kv_cache.table(seen(scene, "table", found))
    assert table["rows"] == [
        ["16", "20.0", "500", factor(25.0), number(2e-5, 2), "yes"],
        ["32", "20.0", "–", "–", "–", "–"],
    ]
    without, with_ = data(payload)
    assert without["x"] == [16] and with_["x"] == [16, 32]
    assert with_["error_y"]["array"] == pytest.approx([5, 5])


def test_ways_that_differ_are_not_called_the_same(playground):
    scene, fast = scene_of(playground, question()), Times((0.01,))
    found = MeasuredCosts((TokenTimes(16, fast, fast, 0.5, False),), 9, fast, fast, 2, "PASSIVE")
    table = kv_cache.table(seen(scene, "table", found))
    assert not table["same"] and table["rows"][0][-1] == "no" and number(0.5, 2) in table["check"]


def test_figures_escape_what_plotly_would_read():
    said = section(words("en"), "kv_cache.bytes")
    figure = bytes_figure([Growth("<b>x</b>", 1000)], 10, 3, said)
    assert "<b>" not in figure.to_json()
    said = section(words("en"), "kv_cache.times")
    assert "<b>" not in times_figure([Timed("<b>", "#000", [16], [(1.0, 1.0, 1.0)])], said).to_json()


# --- no model is run for bytes, and one at a time for times ---


def test_no_model_runs_for_bytes(playground, monkeypatch):
    drawn(playground)
    monkeypatch.setattr(Transformer, "trunk", lambda *given, **named: pytest.fail("the model was run"))
    for batch in kv_cache.BATCHES:
        drawn(playground, {"kv_cache_form": {"batch": str(batch)}})


def test_the_model_is_held_while_it_runs_and_only_then(playground, monkeypatch):
    scene, held, trunk = scene_of(playground, question()), [], Transformer.trunk

    def spy(*given, **named):
        held.append(playground.computing.locked())
        return trunk(*given, **named)

    monkeypatch.setattr(Transformer, "trunk", spy)
    list(background.perform(playground, job(scene), "en"))
    assert len(held) > 20 and all(held)
    assert not playground.computing.locked()


# --- Python ---


def run_lines(text, model):
    """The values of the last lines, which are expressions."""
    lines, space = text.replace("load_model('tiny')", "lm").splitlines(), {"lm": model}
    made = next(n for n, line in enumerate(lines) if line.startswith("run = "))
    exec("\n".join(lines[: made + 1]), space)
    return [eval(re.sub(r"\s+#.*$", "", line), space) for line in lines[made + 1 :]]


def test_the_python_lines_give_the_same_bytes(tokenizer):
    playground = playground_of(tokenizer, "llama")
    payload, model = drawn(playground, {"kv_cache_form": {"batch": "8"}})["kv_cache_bytes"], playground.opened("tiny")
    grown, every, weights = run_lines(payload["python"], model)
    traces = data(payload)
    assert traces[0]["text"][-1] == size(grown[300]) and traces[1]["text"][-1] == size(every)
    assert weights == model.nbytes and grown[9] == cache_bytes(model.config, 8, 9)


def test_the_python_lines_measure(playground):
    (found,) = run_lines(measured(playground)["kv_cache_times"]["python"], playground.opened("tiny"))
    assert isinstance(found, MeasuredCosts) and [row.length for row in found.rows] == [16, 32]
